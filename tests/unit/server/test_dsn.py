"""No password leaves by way of a text."""

from __future__ import annotations

import pytest

from perdure_engine.server import dsn

SECRET = "s3cret-word"


@pytest.mark.parametrize(
    "text",
    [
        f"postgresql://perdure:{SECRET}@db.internal/perdure",
        f"postgresql://perdure@db.internal/perdure?password={SECRET}",
        f"host=db.internal password={SECRET} user=perdure",
        f"host=db.internal password = '{SECRET} with \\' blanks'",
        f"host=db.internal sslpassword={SECRET}",
    ],
)
def test_a_dsn_is_shown_without_its_secrets(text: str) -> None:
    assert dsn.has_secret(text)
    for shown in (dsn.redacted(text), dsn.scrubbed(f"cannot connect to {text}: refused")):
        assert SECRET not in shown
        assert dsn.HIDDEN in shown
        assert "db.internal" in shown


def test_a_dsn_without_secrets_is_shown_whole() -> None:
    text = "postgresql://perdure@db.internal:26257/perdure"

    assert not dsn.has_secret(text)
    assert dsn.redacted(text) == "user=perdure dbname=perdure host=db.internal port=26257"


def test_what_libpq_cannot_read_is_not_shown_at_all() -> None:
    text = f"pasword={SECRET}"

    assert not dsn.is_readable(text)
    assert dsn.redacted(text) == dsn.HIDDEN


@pytest.mark.parametrize(
    "text",
    [
        "FATAL: password authentication failed for user perdure",
        "see https://docs.example.org/passwords?x=a@b",
        "workflow order:1@shop",
    ],
)
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert dsn.scrubbed(text) == text

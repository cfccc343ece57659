"""The names by which an HTTP server may be reached (B46)."""

import pytest

from perdure_engine.server.addresses import allowed_hosts

LOOPBACK = {"localhost", "127.0.0.1", "[::1]"}


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_a_server_on_loopback_answers_to_loopback_unless_told_otherwise(host: str) -> None:
    assert allowed_hosts("", host) == LOOPBACK
    assert allowed_hosts("*", host) == set()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.5", "engine.example"])
def test_a_server_for_others_answers_to_any_name_unless_told_otherwise(host: str) -> None:
    assert allowed_hosts("", host) == set()
    assert allowed_hosts("api.example, ::1 ,[::2]", host) == {"api.example", "[::1]", "[::2]"}

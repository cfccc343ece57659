"""Every SQLSTATE class that a database may answer with, and what the writer is told."""

from __future__ import annotations

import struct

import psycopg
import pytest

from perdure_engine.ports.store import (
    BatchRefused,
    Conflict,
    FenceLost,
    GuardFailed,
    OutcomeUnknown,
    ReadTooLong,
    StoreError,
    StoreUnavailable,
)
from perdure_engine.store.sql import errors, shard_fence


class Answered(psycopg.Error):
    def __init__(self, state: str | None, message: str = "no") -> None:
        super().__init__(message)
        self.sqlstate = state


def bad_text() -> UnicodeEncodeError:
    with pytest.raises(UnicodeEncodeError) as raised:
        "\ud800".encode()
    return raised.value


@pytest.mark.parametrize(
    ("error", "wanted"),
    [
        (Answered("40001"), Conflict),
        (Answered("40P01"), Conflict),
        (Answered("22P02", f'invalid: "{shard_fence.LOST_MARK}; held: 1"'), FenceLost),
        (Answered("22P02", "invalid input syntax for type json"), BatchRefused),
        (Answered("22012"), GuardFailed),
        *(
            (Answered(state), BatchRefused)
            for state in ("21000", "22001", "22021", "23505", "23514", "42P01", "53200", "54000")
        ),
        *(
            (Answered(state), OutcomeUnknown)
            for state in ("40003", "40000", "57014", "57P01", "08006", "25006", "58030", "XX000")
        ),
        (Answered(None, "server closed the connection unexpectedly"), OutcomeUnknown),
        (OSError("reset"), OutcomeUnknown),
        (TimeoutError(), OutcomeUnknown),
        (struct.error("int too large"), BatchRefused),
        (bad_text(), BatchRefused),
    ],
)
def test_what_a_failed_write_means(error: BaseException, wanted: type[StoreError]) -> None:
    assert isinstance(error, errors.FAILURES)
    assert type(errors.write_error(error)) is wanted


def test_b23_a_read_that_was_given_up_is_not_a_database_that_is_away() -> None:
    assert type(errors.read_error(Answered("57014"))) is ReadTooLong
    assert type(errors.read_error(Answered("57P01"))) is StoreUnavailable


def test_a_refusal_names_its_state_and_no_values() -> None:
    error = Answered("23505", "duplicate key\nDETAIL:  Key (workflow_id)=(secret) exists.")

    refused = errors.write_error(error)

    assert isinstance(refused, BatchRefused)
    assert refused.sqlstate == "23505"
    assert str(refused) == "23505: duplicate key"

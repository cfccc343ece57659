"""What went wrong at the database, in the words of ports.store (design §3, "When the database does
not answer"; cockroachdb.md §2.1). SQLSTATE decides, never a text; the one exception is a token of
our own.

For a statement in autocommit that may write:

    40001, 40P01                    Conflict
    22P02 with our token            FenceLost
    22012                           GuardFailed
    other 21, 22, 23, 42, 53, 54    BatchRefused
    everything else                 OutcomeUnknown

psycopg reports a connection lost before and after the effect by the same error.
"""

from __future__ import annotations

import struct

import psycopg

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
from perdure_engine.store.sql.shard_fence import LOST_MARK

SERIALIZATION_FAILURE = "40001"
DEADLOCK_DETECTED = "40P01"
INVALID_TEXT = "22P02"
DIVISION_BY_ZERO = "22012"
NUMERIC_OUT_OF_RANGE = "22003"
UNTRANSLATABLE_CHARACTER = "22021"
QUERY_CANCELED = "57014"

_CONFLICTS = frozenset({SERIALIZATION_FAILURE, DEADLOCK_DETECTED})
# 21 is a key twice in one upsert: as certain as the others, and asking again would never end.
_DEFINITE_CLASSES = frozenset({"21", "22", "23", "42", "53", "54"})

FAILURES = (psycopg.Error, OSError, TimeoutError, UnicodeEncodeError, struct.error)
"""What a session may raise; the functions below translate these and nothing else."""


class ConfigError(Exception):
    """The database is not one that Perdure may run on. The operator has to change it."""


def write_error(error: BaseException) -> StoreError:
    """Translate a failure of a statement that was handed to the driver."""
    if isinstance(error, UnicodeEncodeError):
        return BatchRefused(UNTRANSLATABLE_CHARACTER, str(error))
    if isinstance(error, struct.error):  # a number that its column cannot hold
        return BatchRefused(NUMERIC_OUT_OF_RANGE, str(error))
    state = sqlstate(error)
    if state in _CONFLICTS:
        return Conflict(_words(error))
    if state == INVALID_TEXT and LOST_MARK in str(error):
        return FenceLost(_words(error))
    if state == DIVISION_BY_ZERO:
        return GuardFailed("a row is not as the owner's memory has it")
    if state is not None and state[:2] in _DEFINITE_CLASSES:
        return BatchRefused(state, _first_line(error))
    return OutcomeUnknown(_words(error))


def read_error(error: BaseException) -> StoreUnavailable:
    if sqlstate(error) == QUERY_CANCELED:
        return ReadTooLong(_words(error))
    return StoreUnavailable(_words(error))


def is_conflict(error: BaseException) -> bool:
    return sqlstate(error) in _CONFLICTS


def sqlstate(error: BaseException) -> str | None:
    return error.sqlstate if isinstance(error, psycopg.Error) else None


def _words(error: BaseException) -> str:
    return f"{sqlstate(error) or type(error).__name__}: {_first_line(error)}"


def _first_line(error: BaseException) -> str:
    """Values of rows may stand in later lines (DETAIL), and must not reach a log."""
    return str(error).split("\n", 1)[0]

"""The world outside of Perdure: a file in which each attempt and each effect is a line.

It does what every careful receiver of effects does: it knows each by its idempotency key, and one
that it knows already it does not do again. Lines are synced before anybody is told.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path

import msgspec


class Kind(StrEnum):
    ATTEMPT = "attempt"
    EFFECT = "effect"


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    kind: Kind
    step: str
    key: str
    attempt: int


class Ledger:
    def __init__(self, path: Path) -> None:
        self._path = path

    def record_attempt(self, step: str, key: str, attempt: int) -> None:
        with self._locked() as descriptor:
            _append(descriptor, Entry(kind=Kind.ATTEMPT, step=step, key=key, attempt=attempt))

    def record_effect(self, step: str, key: str, attempt: int) -> bool:
        """False: the effect of that key is there already, and nothing was done."""
        with self._locked() as descriptor:
            if any(one.kind is Kind.EFFECT and one.key == key for one in self.entries()):
                return False
            _append(descriptor, Entry(kind=Kind.EFFECT, step=step, key=key, attempt=attempt))
            return True

    def entries(self) -> list[Entry]:
        """In the order in which they were written."""
        if not self._path.exists():
            return []
        lines = self._path.read_bytes().splitlines()
        return [msgspec.json.decode(line, type=Entry) for line in lines]

    @contextmanager
    def _locked(self) -> Generator[int]:
        """One process at a time; the kernel unlocks for one that is killed."""
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield descriptor
        finally:
            os.close(descriptor)


def _append(descriptor: int, entry: Entry) -> None:
    os.write(descriptor, msgspec.json.encode(entry) + b"\n")
    os.fsync(descriptor)

"""The fault-injecting connection: psycopg's errors at the moments at which they really come.

    faults = Faults()
    store = SqlStore(config, wrap=faults.wrap)
    faults.plan(Fault.LOST_AFTER, where=is_batch)

From then on the next batch is saved, and its answer is lost. Everything above the session is the
engine's own code. Faults that need a real server (a rollback at commit, a statement still running)
use the real one below.
"""

from __future__ import annotations

import asyncio
import enum
from collections import deque
from collections.abc import Callable, Sequence
from typing import LiteralString, NamedTuple

import psycopg

from perdure_engine.store.sql.connection import Row, Session, Statement

Where = Callable[[str], bool]


class Fault(enum.Enum):
    CONFLICT = enum.auto()  # 40001 at the statement
    CONFLICT_AT_COMMIT = enum.auto()  # it ran, and 40001 came when it was to commit
    DEADLOCK = enum.auto()  # 40P01
    LOST_BEFORE = enum.auto()  # the connection broke before the server saw the statement
    LOST_AFTER = enum.auto()  # it is done, and the answer never came
    UNKNOWN_BEFORE = enum.auto()  # 40003 on a live connection; not done
    UNKNOWN_AFTER = enum.auto()  # 40003 on a live connection; done
    CANCELLED = enum.auto()  # 57014; not done
    SHUTDOWN_BEFORE = enum.auto()  # 57P01; not done
    SHUTDOWN_AFTER = enum.auto()  # 57P01; done
    SLOW = enum.auto()  # done, and the answer waits for `Faults.release`
    NEVER_SENT = enum.auto()  # as SLOW, but the server sees it only after the release
    OUT_OF_MEMORY = enum.auto()  # 53200, definite


_STATES: dict[Fault, str] = {
    Fault.CONFLICT: "40001",
    Fault.CONFLICT_AT_COMMIT: "40001",
    Fault.DEADLOCK: "40P01",
    Fault.UNKNOWN_BEFORE: "40003",
    Fault.UNKNOWN_AFTER: "40003",
    Fault.CANCELLED: "57014",
    Fault.SHUTDOWN_BEFORE: "57P01",
    Fault.SHUTDOWN_AFTER: "57P01",
    Fault.OUT_OF_MEMORY: "53200",
}
_DONE = frozenset({Fault.LOST_AFTER, Fault.UNKNOWN_AFTER, Fault.SHUTDOWN_AFTER, Fault.SLOW})
_BREAKS = frozenset(
    {Fault.LOST_BEFORE, Fault.LOST_AFTER, Fault.SHUTDOWN_BEFORE, Fault.SHUTDOWN_AFTER}
)


def any_statement(text: str) -> bool:
    return True


def is_batch(text: str) -> bool:
    return text.startswith("with f as") and ("w_executions" in text or "w_job_runs" in text)


def is_sweep(text: str) -> bool:
    return text.startswith("with f as") and "d_tasks" in text


def is_bump(text: str) -> bool:
    return text.startswith("with b as")


def is_read(text: str) -> bool:
    return text.startswith(("select", "begin"))


class Planned(NamedTuple):
    fault: Fault
    where: Where
    skip: int  # matching statements to let pass first


class Faults:
    """Plans failures and hands out the sessions that meet them.

    `choose`, when given, is asked for each statement that no plan is for: random faults from the
    caller's own seed.
    """

    def __init__(self, choose: Callable[[str], Fault | None] | None = None) -> None:
        self.release = asyncio.Event()
        self.waiting = asyncio.Event()  # set when a SLOW or NEVER_SENT statement has begun to wait
        self.met: list[Fault] = []
        self.sent: list[str] = []  # the texts, in order; of statements sent together the first
        self.opened = 0
        self._choose = choose
        self._planned: deque[Planned] = deque()

    def plan(self, fault: Fault, where: Where = any_statement, skip: int = 0) -> None:
        """Let one statement fail: the next that matches, after `skip` more that do. In order."""
        self._planned.append(Planned(fault, where, skip))

    def wrap(self, session: Session) -> Session:
        self.opened += 1
        return FaultySession(session, self)

    def next_for(self, text: str) -> Fault | None:
        self.sent.append(text)
        fault = self._due(text)
        if fault is not None:
            self.met.append(fault)
        return fault

    def _due(self, text: str) -> Fault | None:
        if not self._planned or not self._planned[0].where(text):
            return None if self._planned or self._choose is None else self._choose(text)
        planned = self._planned.popleft()
        if planned.skip:
            self._planned.appendleft(planned._replace(skip=planned.skip - 1))
            return None
        return planned.fault


class FaultySession:
    """A Session that fails as planned."""

    def __init__(self, inner: Session, faults: Faults) -> None:
        self._inner = inner
        self._faults = faults

    @property
    def usable(self) -> bool:
        return self._inner.usable

    def parameter_status(self, name: str) -> str | None:
        return self._inner.parameter_status(name)

    def discard(self) -> None:
        self._inner.discard()

    async def fetch(
        self, text: LiteralString, values: Sequence[object] = (), *, prepare: bool = True
    ) -> list[Row]:
        fault = self._faults.next_for(text)
        if fault is None:
            return await self._inner.fetch(text, values, prepare=prepare)
        if fault is Fault.CONFLICT_AT_COMMIT:
            await self._inner.fetch("begin")
            await self._inner.fetch(text, values, prepare=prepare)
            await self._inner.fetch("rollback")
        if fault is Fault.NEVER_SENT:
            await self._wait()
            return await self._inner.fetch(text, values, prepare=prepare)
        rows = await self._inner.fetch(text, values, prepare=prepare) if fault in _DONE else []
        if fault is Fault.SLOW:
            await self._wait()
            return rows
        raise self._error(fault)

    async def fetch_together(self, statements: Sequence[Statement]) -> list[list[Row]]:
        fault = self._faults.next_for(statements[0][0])
        if fault in (Fault.SLOW, Fault.NEVER_SENT):
            await self._wait()
        elif fault is not None:
            raise self._error(fault)
        return await self._inner.fetch_together(statements)

    async def _wait(self) -> None:
        self._faults.waiting.set()
        try:
            await self._faults.release.wait()
        except asyncio.CancelledError:
            self._inner.discard()  # as the real session does with a statement under way
            raise

    def _error(self, fault: Fault) -> psycopg.Error:
        if fault in _BREAKS:
            self._inner.discard()
        state = _STATES.get(fault)
        if state is None:
            return psycopg.OperationalError("server closed the connection unexpectedly")
        return psycopg.errors.lookup(state)(f"injected: {fault.name}")

"""The ledger of the torture tests: a file outside of the engine in which every attempt leaves a line, and the functions
that write it. They are activities, and so what jobs run."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from perdure import activity
from perdure.errors import ApplicationError

HUNG_S = 60.0
STEP_S = 0.3
CLIMBS_FROM, CLIMBED_TO = ":from", ":to"
"""What the keys of lines end with that are about an attempt's progress, which is their number."""


class Effect(NamedTuple):
    """One line: an attempt began to run, or its code has ended (`over`)."""

    key: str  # the idempotency key: the same for every attempt
    number: int
    attempt: int
    pid: int
    at_s: float  # by the wall clock, which is also the database's on this machine
    over: bool = False


class Effects:
    """An append-only file. A line is one write, which outlives a kill -9 of its writer."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._written = self._synced = 0
        self._turn = asyncio.Lock()

    # ---- for workflows: an effect has happened when its line is synced; one sync may carry many

    @activity.defn(name="record")
    async def record(self, number: int) -> int:
        await self._append(number)
        return number

    @activity.defn(name="work")
    async def work(self, number: int, seconds: float) -> int:
        """Has its effect at the beginning: an attempt that is lost was one all the same."""
        await self._append(number)
        await asyncio.sleep(seconds)
        return number

    # ---- for jobs: beginning and end are told, because it matters what runs at the same time

    @activity.defn(name="note")
    async def note(self, number: int) -> int:
        with self._running(number):
            return number

    @activity.defn(name="toil")
    async def toil(self, number: int, seconds: float) -> int:
        with self._running(number):
            await asyncio.sleep(seconds)
            return number

    @activity.defn(name="stumble")
    async def stumble(self, number: int, fails: int) -> int:
        """Its first attempts fail."""
        with self._running(number):
            if activity.info().attempt <= fails:
                raise ApplicationError("stumbled")
            return number

    @activity.defn(name="hang")
    async def hang(self, number: int) -> int:
        """Its first attempt does not come to an end in time."""
        with self._running(number):
            if activity.info().attempt == 1:
                await asyncio.sleep(HUNG_S)
            return number

    @activity.defn(name="climb")
    async def climb(self, number: int, steps: int) -> int:
        """Goes on from where the last attempt was saved, and tells from where, and what has been saved."""
        with self._running(number):
            info = activity.info()
            step = int(info.heartbeat_details[0]) if info.heartbeat_details else 0
            self._write(step, of=CLIMBS_FROM)
            while step < steps:
                await asyncio.sleep(STEP_S)
                step += 1
                await activity.checkpoint(step)
                self._write(step, of=CLIMBED_TO)
            return number

    @activity.defn(name="called_back")
    async def called_back(self, summary: dict[str, Any]) -> dict[str, Any]:
        """Of a batch."""
        with self._running(summary["total"]):
            return summary

    @contextmanager
    def _running(self, number: int) -> Iterator[None]:
        self._write(number)
        try:
            yield
        finally:
            self._write(number, over=True)

    async def _append(self, number: int) -> None:
        self._write(number)
        self._written += 1
        mine = self._written
        async with self._turn:
            if self._synced < mine:
                up_to = self._written
                await asyncio.to_thread(os.fdatasync, self._descriptor)
                self._synced = up_to

    def _write(self, number: int, *, over: bool = False, of: str = "") -> None:
        info = activity.info()
        key, attempt = f"{info.idempotency_key}{of}", info.attempt
        effect = Effect(key, number, attempt, os.getpid(), time.time(), over)
        os.write(self._descriptor, f"{json.dumps(effect)}\n".encode())


def read_ledger(path: Path) -> list[Effect]:
    """All lines, in the order in which they were written."""
    if not path.exists():
        return []
    return [Effect(*json.loads(line)) for line in path.read_text("ascii").splitlines()]


def read_effects(path: Path) -> list[Effect]:
    """The beginnings, in the order in which they happened."""
    return [line for line in read_ledger(path) if not line.over]

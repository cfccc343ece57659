"""Who waits for many activities at once, and when that is worth waking the code.

Each wait says what it waits for; all of them together are the wake rules that go with a completed
workflow task. They change nothing of what the code sees, only how often it is woken, so replay does
not know of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any

from perdure._replay.activity_handle import ActivityHandle
from perdure._replay.messages import WakeRule


class FanOutWait:
    """While it is entered, nobody need look before one of the numbers is reached or all have ended.

    0: that number alone is not waited for.
    """

    __slots__ = ("_completed", "_ended", "_failed", "_fan_outs", "_handles")

    def __init__(
        self,
        fan_outs: FanOuts,
        handles: Collection[asyncio.Future[Any]],
        *,
        ended: int,
        completed: int,
        failed: int,
    ) -> None:
        self._fan_outs = fan_outs
        self._handles = handles
        self._ended = ended
        self._completed = completed
        self._failed = failed

    def __enter__(self) -> None:
        self._fan_outs.waits.append(self)

    def __exit__(self, *_: object) -> None:
        self._fan_outs.waits.remove(self)

    def rule(self) -> WakeRule | None:
        """None: it is over, or does not wait for activities that the engine knows."""
        ids = [
            handle.activity_id
            for handle in self._handles
            if isinstance(handle, ActivityHandle) and not handle.done()
        ]
        if len(ids) != len(self._handles):
            return None  # one has ended this moment: the code is about to look; or is none
        return WakeRule(
            activity_ids=ids, ended=self._ended, completed=self._completed, failed=self._failed
        )


class FanOuts:
    __slots__ = ("waits",)

    def __init__(self) -> None:
        self.waits: list[FanOutWait] = []

    def wait(
        self,
        handles: Collection[asyncio.Future[Any]],
        *,
        ended: int,
        completed: int,
        failed: int,
    ) -> FanOutWait:
        return FanOutWait(self, handles, ended=ended, completed=completed, failed=failed)

    def rules(self) -> tuple[WakeRule, ...]:
        """As things stand when the code has run as far as it can."""
        if not self.waits:
            return ()
        rules: list[WakeRule] = []
        named: set[str] = set()
        for wait in self.waits:
            rule = wait.rule()
            # Whoever else waits for one of these must hear of each: then none is kept back.
            if rule is not None and named.isdisjoint(rule.activity_ids):
                named.update(rule.activity_ids)
                rules.append(rule)
        return tuple(rules)

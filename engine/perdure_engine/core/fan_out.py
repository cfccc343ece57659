"""Activities whose outcomes need not wake the workflow one by one.

A workflow that runs a thousand activities beside each other would be woken a thousand times, each
time to find that it still has to wait. So a completed workflow task may say when it wants to be
woken: each rule names pending activities, and how many of them must have ended (or completed, or
failed) before somebody need look. The rules stand in WorkflowTaskCompleted, so that they are saved
and every rebuild of the run counts the same; the next WorkflowTaskCompleted replaces them. Whatever
is not an outcome of a named activity wakes the workflow as ever, and it then sees all that happened.
"""

from __future__ import annotations

import msgspec


class WakeRule(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Numbers are counted from the workflow task on; 0: that alone never wakes. When all have ended, it wakes."""

    activity_ids: list[str]
    ended: int = 0
    completed: int = 0
    failed: int = 0  # also timed out or canceled


class Counting(msgspec.Struct, array_like=True, gc=False):
    """How far a rule is from being met."""

    running: int
    ended: int
    completed: int
    failed: int


class FanOut(msgspec.Struct, array_like=True, gc=False):
    """The rules in force, and what has been counted. Part of the fold."""

    rules: list[Counting]
    rule_of: dict[str, int]  # by activity id: an index in `rules`; an outcome takes its id out
    is_met: bool = False  # of any rule

    @classmethod
    def of(cls, rules: tuple[WakeRule, ...]) -> FanOut:
        return cls(
            [Counting(len(r.activity_ids), r.ended, r.completed, r.failed) for r in rules],
            {activity_id: n for n, rule in enumerate(rules) for activity_id in rule.activity_ids},
        )

    def names(self, activity_id: str) -> bool:
        return activity_id in self.rule_of

    def count(self, activity_id: str, *, completed: bool) -> None:
        """An activity has ended."""
        index = self.rule_of.pop(activity_id, None)
        if index is None:
            return
        rule = self.rules[index]
        rule.running -= 1
        rule.ended -= 1
        if completed:
            rule.completed -= 1
            met = rule.completed == 0
        else:
            rule.failed -= 1
            met = rule.failed == 0
        if met or rule.ended == 0 or rule.running == 0:
            self.is_met = True

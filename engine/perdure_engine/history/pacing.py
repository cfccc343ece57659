"""How often the run of a workflow id may be replaced by a start that terminates it (B57).

Each replacement is two runs' worth of writes in one shard, and the one before did nothing. A bucket
for each id that is replaced at all, in the owner's memory: approximate by one burst after a take-over.
"""

from __future__ import annotations

import msgspec

from perdure_engine.core.errors import Code, Rejected

BURST = 100
PER_S = 10.0


class Pace(msgspec.Struct, eq=False):
    """`left` at the time `at_s`, by the process's monotonic clock."""

    left: float
    at_s: float


def paced(pace: Pace | None, workflow_id: str, now_s: float) -> Pace:
    """The bucket after one replacement more. Raises RESOURCE_EXHAUSTED when it is empty."""
    if pace is None:
        pace = Pace(BURST, now_s)
    left = min(BURST, pace.left + (now_s - pace.at_s) * PER_S)
    if left < 1:
        raise Rejected(
            Code.RESOURCE_EXHAUSTED,
            "REPLACED_TOO_OFTEN",
            f"the run of workflow {workflow_id!r} is replaced more than {PER_S:.0f} times a second",
            field="id_conflict_policy",
            retry_after_ms=int((1 - left) / PER_S * 1000) + 1,
        )
    pace.left, pace.at_s = left - 1, now_s
    return pace

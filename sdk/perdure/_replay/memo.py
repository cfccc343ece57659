"""The memo as the code has changed it. The engine merges the same changes for people and lists."""

from __future__ import annotations

from collections.abc import Mapping

from perdure._replay.messages import ModifyProperties
from perdure._replay.run import WorkflowRun
from perdure.converter import Payload


def memo_of(run: WorkflowRun) -> Mapping[str, Payload]:
    if run.memo is not None:
        return run.memo
    assert run.started is not None
    return run.started.memo


def upsert_memo(run: WorkflowRun, upserted: dict[str, Payload | None]) -> None:
    """None takes a name away."""
    run.check_may_act()
    memo = dict(memo_of(run))
    for name, payload in upserted.items():
        if payload is None:
            memo.pop(name, None)
        else:
            memo[name] = payload
    run.memo = memo
    run.info = None  # it names the memo
    run.ledger.add(ModifyProperties(upserted_memo=upserted), None)

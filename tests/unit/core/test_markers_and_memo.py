"""What workflow code says about itself: markers, its memo, summaries, and that it is not done yet."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.core.scenario import (
    COMPLETE,
    Scenario,
    Then,
    activity,
    application,
    continue_as_new,
    done,
    signal,
    start,
    timer,
)

from perdure_api.v1 import common_pb2
from perdure_engine.core import commands as cmd
from perdure_engine.core import events as ev
from perdure_engine.core import memo
from perdure_engine.core.describe import run_info
from perdure_engine.core.events import WorkflowTaskFailedCause
from perdure_engine.core.status import Status

TASK = ["3 WorkflowTaskStarted", "4 WorkflowTaskCompleted"]


def encoded(**values: bytes | None) -> bytes:
    """A Memo as the wire has it; None is an empty Payload."""
    message = common_pb2.Memo()
    for name, data in values.items():
        payload = message.fields[name]
        if data is not None:
            payload.encoding, payload.data = "json/plain", data
    return message.SerializeToString()


def decoded(data: bytes) -> dict[str, bytes]:
    return {name: one.data for name, one in common_pb2.Memo.FromString(data).fields.items()}


# ---- markers


def test_a_marker_is_kept_as_it_came_and_between_its_neighbours() -> None:
    run = Scenario(start())
    failure = application("no stock")
    marker = cmd.RecordMarker("local_activity", b"details", b"header", failure)

    assert run.turn(timer("t"), marker, activity("a")) == Then(
        events=[*TASK, "5 TimerStarted", "6 MarkerRecorded", "7 ActivityTaskScheduled"],
        tasks=["activity 7 ready 1", "workflow gone"],
        timers=["USER 5 +60s"],
    )
    recorded = run.last(ev.MarkerRecorded)
    assert recorded == ev.MarkerRecorded(
        6, run.now_us, "local_activity", b"details", 4, b"header", failure
    )


def test_a_marker_alone_makes_no_task() -> None:
    run = Scenario(start())

    then = run.turn(cmd.RecordMarker("patch", b"", b"", None))

    assert then == Then(events=[*TASK, "5 MarkerRecorded"], tasks=["workflow gone"])


# ---- the next task at once


def test_a_worker_that_is_not_done_gets_the_next_task_at_once() -> None:
    run = Scenario(start())
    marker = cmd.RecordMarker("local_activity", b"", b"", None)

    then = run.when(done(run.hand_out(), marker, cached=True, force_new_task=True))

    assert then == Then(
        events=[*TASK, "5 MarkerRecorded", "6 WorkflowTaskScheduled"],
        tasks=["workflow ready 1", "workflow gone"],
    )
    assert run.state.sticky_worker_id


def test_what_waited_is_numbered_before_the_forced_task_and_makes_no_second_one() -> None:
    run = Scenario(start())
    token = run.hand_out()
    run.when(signal())

    then = run.when(done(token, force_new_task=True))

    assert then.events == [*TASK, "5 WorkflowExecutionSignaled", "6 WorkflowTaskScheduled"]


def test_invariant_3_a_run_that_has_ended_is_not_forced_on() -> None:
    """Nothing follows the terminal event, whatever the worker asks for besides."""
    run = Scenario(start())

    then = run.when(done(run.hand_out(), COMPLETE, force_new_task=True))

    assert then.events == [*TASK, "5 WorkflowExecutionCompleted"]
    assert run.state.folded.status is Status.COMPLETED
    assert then.tasks == ["workflow gone"]


# ---- the memo


def test_an_upsert_changes_adds_and_takes_away() -> None:
    run = Scenario(start(memo=encoded(stage=b"1", owner=b"2", note=b"3")))

    then = run.turn(cmd.ModifyProperties(encoded(stage=b"9", note=None, new=b"4", never=None)))

    assert then.events == [*TASK, "5 WorkflowPropertiesModified"]
    expected = {"stage": b"9", "owner": b"2", "new": b"4"}
    assert decoded(run_info(run.state).memo) == expected
    run.reload()
    assert decoded(run_info(run.state).memo) == expected


def test_an_upsert_is_shown_in_lists_in_the_same_commit() -> None:
    run = Scenario(start())
    run.turn(cmd.ModifyProperties(encoded(stage=b"1")))

    [row] = run.saved.visibility.values()
    assert decoded(row.memo) == {"stage": b"1"}


def test_upserts_that_make_the_memo_too_large_together_fail_the_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("perdure_engine.core.decide.check_commands.MEMO_BYTES_MAX", 100)
    run = Scenario(start())

    then = run.turn(
        cmd.ModifyProperties(encoded(a=b"x" * 40)), cmd.ModifyProperties(encoded(b=b"x" * 40))
    )

    assert then.events == ["3 WorkflowTaskStarted", "4 WorkflowTaskFailed"]
    failed = run.last(ev.WorkflowTaskFailed)
    assert failed.cause is WorkflowTaskFailedCause.BAD_COMMAND
    assert failed.failure is not None
    assert "command 1 (ModifyProperties): the memo would have" in failed.failure.message
    assert run.state.folded.memo is None


def test_a_start_memo_that_is_none_cannot_be_changed_and_says_so() -> None:
    run = Scenario(start(memo=b"not a memo"))
    run.turn(cmd.ModifyProperties(encoded(a=b"1")))

    failed = run.last(ev.WorkflowTaskFailed)
    assert failed.failure is not None
    assert "the memo cannot be changed" in failed.failure.message


def test_the_next_run_of_a_chain_begins_with_the_memo_as_it_is() -> None:
    run = Scenario(start(memo=encoded(stage=b"1", owner=b"2")))
    run.turn(cmd.ModifyProperties(encoded(stage=b"9")), continue_as_new())

    assert decoded(run.next.started.memo) == {"stage": b"9", "owner": b"2"}


names = st.text(max_size=200)
memos = st.dictionaries(names, st.binary(max_size=300), max_size=5)


@given(memos, st.dictionaries(names, st.none() | st.binary(max_size=300), max_size=5))
def test_a_merge_is_that_of_dictionaries(
    before: dict[str, bytes], upserted: dict[str, bytes | None]
) -> None:
    expected = before | {name: data for name, data in upserted.items() if data is not None}
    for name, data in upserted.items():
        if data is None:
            expected.pop(name, None)

    assert decoded(memo.merged(encoded(**before), encoded(**upserted))) == expected


@pytest.mark.parametrize(
    "data",
    [
        b"x",
        b"\x0a",
        b"\x0a\x05ab",
        b"\x12\x00",
        b"\x0a\xff\xff\xff\xff\xff\xff",
        b"\x0a\x02\x1a\x00",
        b"\x0a\x03\x0a\x01\xff",
    ],
)
def test_what_is_no_memo(data: bytes) -> None:
    with pytest.raises(memo.MalformedMemo):
        memo.check(data)


# ---- summaries


def test_summaries_stand_in_the_events() -> None:
    run = Scenario(start())
    run.turn(activity("a", summary=b"charge the card"), cmd.StartTimer("t", 1_000, b"remind"))

    assert run.last(ev.ActivityTaskScheduled).summary == b"charge the card"
    assert run.last(ev.TimerStarted).summary == b"remind"

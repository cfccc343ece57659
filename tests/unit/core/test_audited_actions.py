"""Every operator's action leaves one entry in the draft that carries it, and a repeat leaves none."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.unit.core import scenario
from tests.unit.core.scenario import (
    NAMESPACE,
    START_US,
    WORKFLOW_ID,
    Scenario,
    activity,
    cancel,
    done,
    request_id,
    signal,
    start,
    terminate,
)
from tests.unit.core.test_activity_operations import pause, reset, unpause, update

from perdure_engine.core import commands as cmd
from perdure_engine.core import intents
from perdure_engine.core.audit import Entry
from perdure_engine.core.decide.signal_workflow import SAGA_SIGNAL
from perdure_engine.core.versions import Behavior, Versioning


def delete() -> intents.DeleteWorkflow:
    return intents.DeleteWorkflow(
        namespace_id=NAMESPACE,
        workflow_id=WORKFLOW_ID,
        run_id=b"",
        request_id=request_id(251),
        body_hash=b"delete",
        identity="op@host",
    )


def entries(run: Scenario, intent: intents.Intent) -> list[Entry]:
    run.decide(intent)
    assert run.draft is not None
    found = run.draft.audit or []
    run.commit()
    return found


def given() -> Scenario:
    run = Scenario(start())
    run.turn(activity("a"))
    return run


OPERATIONS: list[tuple[intents.Intent, dict[str, Any]]] = [
    (
        terminate(identity="op@host"),
        {
            "action": "workflow.terminate",
            "reason": "stop",
            "before": "RUNNING",
            "after": "TERMINATED",
            "request_id": request_id(250),
        },
    ),
    (
        cancel(identity="op@host"),
        {
            "action": "workflow.cancel",
            "reason": "no longer wanted",
            "before": "RUNNING",
            "after": "CANCEL_REQUESTED",
            "request_id": request_id(200),
        },
    ),
    (
        delete(),
        {
            "action": "workflow.terminate",
            "reason": "deleted",
            "before": "RUNNING",
            "after": "TERMINATED",
            "request_id": request_id(251),
        },
    ),
    (
        pause(),
        {
            "action": "activity.pause",
            "reason": "provider is down",
            "subject": "a",
            "before": "READY attempt 1",
            "after": "PAUSED attempt 1",
        },
    ),
    (
        reset(identity="op@host", reason="fixed"),
        {
            "action": "activity.reset",
            "reason": "fixed",
            "subject": "a",
            "request_id": request_id(160),
            "before": "READY attempt 1",
            "after": "READY attempt 1",
        },
    ),
    (
        signal(signal_name=SAGA_SIGNAL, identity="op@host"),
        {"action": "saga.word", "request_id": request_id(100)},
    ),
]


@pytest.mark.parametrize(
    ("intent", "said"),
    OPERATIONS,
    ids=[said["action"] + str(n) for n, (_, said) in enumerate(OPERATIONS)],
)
def test_an_action_is_written_down_once(intent: intents.Intent, said: dict[str, Any]) -> None:
    """reliability §5 point 10: who, what, target, why, request id; the repeat changes nothing and says nothing."""
    run = given()
    (found,) = entries(run, intent)
    expected = Entry(
        time_us=START_US,
        namespace_id=NAMESPACE,
        workflow_id=WORKFLOW_ID,
        run_id=run.state.run_id,
        identity="op@host",
        **said,
    )
    assert found == expected
    assert entries(run, intent) == []


def test_unpausing_says_so_and_what_is_not_paused_is_no_action() -> None:
    run = given()
    assert entries(run, unpause()) == []
    run.when(pause())
    (found,) = entries(run, unpause(identity="op@host", reason="it is up again"))
    assert (found.action, found.reason) == ("activity.unpause", "it is up again")
    assert (found.before, found.after) == ("PAUSED attempt 1", "READY attempt 1")


def test_changed_options_are_written_down_before_and_after() -> None:
    run = given()
    (found,) = entries(run, update(heartbeat_timeout_ms=5_000))
    assert (found.action, found.subject) == ("activity.update_options", "a")
    assert '"heartbeat_timeout_ms":5000' in found.after
    assert '"heartbeat_timeout_ms":5000' not in found.before


def test_all_of_a_type_are_an_entry_each() -> None:
    run = Scenario(start())
    run.turn(activity("a"), activity("b"))
    found = entries(run, pause("", activity_type="charge"))
    assert [one.subject for one in found] == ["a", "b"]


def test_a_refused_action_leaves_nothing() -> None:
    run = given()
    run.when(terminate())
    assert entries(run, cancel()) == []


def test_what_is_no_operators_action_leaves_nothing() -> None:
    run = given()
    assert entries(run, signal()) == []
    assert entries(run, done(run.hand_out())) == []


@pytest.mark.parametrize("ask", [cancel, terminate, signal])
def test_what_another_run_asks_is_no_operators_action(ask: Any) -> None:
    """A parent that closes, an external cancel: programs' doing. No caller can pretend to be one."""
    named = {"signal_name": SAGA_SIGNAL} if ask is signal else {}
    message = ask(body_hash=request_id(7), **named)
    assert entries(given(), msgspec.structs.replace(message, request_id=request_id(7))) == []
    assert len(entries(given(), msgspec.structs.replace(message, body_hash=b"8 bytes."))) == 1


def test_a_compensation_is_written_down_with_its_marker() -> None:
    """B8: every compensation in the audit log, in the same batch as what it says in the history."""
    run = given()
    run.when(signal())
    note = cmd.CompensationNote("refund", "completed", "")
    marker = cmd.RecordMarker("compensation", b"", b"", None, note)
    (found,) = entries(run, done(run.hand_out(), marker))
    assert (found.action, found.subject, found.after) == (
        "saga.compensation",
        "refund",
        "completed",
    )
    assert found.run_id == run.state.run_id


def test_holding_a_run_back_and_letting_it_go_are_actions() -> None:
    run = given()
    (held,) = entries(run, scenario.pause(identity="op@host", reason="provider is down"))
    assert (held.action, held.before, held.after) == ("workflow.pause", "RUNNING", "PAUSED")
    assert (held.identity, held.reason) == ("op@host", "provider is down")
    assert entries(run, scenario.pause(identity="op@host", reason="provider is down")) == []
    (freed,) = entries(run, scenario.unpause(identity="op@host"))
    assert (freed.action, freed.before, freed.after) == ("workflow.unpause", "PAUSED", "RUNNING")


def test_another_version_for_a_run_is_an_action() -> None:
    run = given()
    wanted = Versioning(Behavior.PINNED, "shop", "2")
    who = {"identity": "op@host", "reason": "2 has the fix"}
    (found,) = entries(run, scenario.options(230, wanted, **who))
    assert (found.action, found.before) == ("workflow.update_options", "no override")
    assert (found.identity, found.reason, found.after) == (*who.values(), "PINNED shop.2")
    assert entries(run, scenario.options(230, wanted, **who)) == []
    (found,) = entries(run, scenario.options(231, None))
    assert (found.before, found.after) == ("PINNED shop.2", "no override")

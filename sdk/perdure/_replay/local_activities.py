"""The local activities of a run: what the worker is to do, and what became of it.

The order in which outcomes are told to the code is the order of their markers, one at a time, the code going on as
far as it can in between. So the markers stand in the history exactly where a replay must tell them again.
"""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from perdure._failure_info import CanceledInfo, FailureInfo
from perdure._failures import failure_to_exception
from perdure._replay.activity_handle import ActivityHandle
from perdure._replay.callsite import call_site
from perdure._replay.cancelled import end_cancelled
from perdure._replay.ledger import Ledger
from perdure._replay.loop import BOUNDARY, DeterministicLoop
from perdure._replay.machines.activity import ActivityCancellationType
from perdure._replay.machines.local_activity import (
    WITH_THE_WORKER,
    LocalActivityMachine,
    LocalActivityMove,
    LocalActivityState,
)
from perdure._replay.markers import local_marker
from perdure._replay.messages import LocalActivityOutcome, LocalActivityTask, LocalWork
from perdure.converter import PayloadConverter
from perdure.errors import ActivityError


class Runner(Protocol):
    """What local activities need of their run."""

    loop: DeterministicLoop
    ledger: Ledger
    converter: PayloadConverter

    @property
    def is_evicted(self) -> bool: ...

    def check_may_act(self) -> None: ...


class LocalActivities:
    """Nothing of it is used by a run without local activities; `WorkflowRun.local` is None then."""

    __slots__ = ("_cancels", "_early", "_machines", "_run")

    def __init__(self, run: Runner) -> None:
        self._run = run
        self._machines: dict[str, LocalActivityMachine] = {}  # the open ones, by activity id
        self._cancels: list[str] = []  # to be told to the worker
        self._early: list[LocalActivityOutcome] = []  # came while no workflow task was under way

    # --- the code's side --------------------------------------------------------------------------

    def start(
        self,
        task: LocalActivityTask,
        result_hint: Any,
        cancellation: ActivityCancellationType,
        order: int,
    ) -> ActivityHandle[Any]:
        """Raises ValueError when one with that id is open."""
        self._run.check_may_act()
        if task.activity_id in self._machines:
            raise ValueError(f"a local activity with the id {task.activity_id!r} is open")
        site = call_site(BOUNDARY)
        machine = LocalActivityMachine(task, result_hint, cancellation, self, site)
        handle: ActivityHandle[Any] = ActivityHandle(self._run.loop, machine, order)
        machine.handle = handle
        self._machines[task.activity_id] = machine
        return handle

    def cancel(self, machine: LocalActivityMachine) -> None:
        run = self._run
        if run.is_evicted:
            machine.handle.give_up()
            return
        run.check_may_act()
        state = machine.state
        if state is LocalActivityState.CANCELING:
            return  # asked before: what it comes to is waited for
        waits = machine.cancellation is ActivityCancellationType.WAIT_CANCELLATION_COMPLETED
        if waits and state is not LocalActivityState.BACKING_OFF:
            machine.move(LocalActivityMove.CANCEL)
            self._cancels.append(machine.task.activity_id)
            return
        machine.move(LocalActivityMove.DROP)
        del self._machines[machine.task.activity_id]
        if machine.timer is not None:
            machine.timer.cancel()
        elif state is LocalActivityState.RUNNING and _is_told(machine):
            self._cancels.append(machine.task.activity_id)
        end_cancelled(machine)

    # --- the worker's side ------------------------------------------------------------------------

    @property
    def waits(self) -> bool:
        """Does the worker have, or should it have, one of them?"""
        return any(machine.state in WITH_THE_WORKER for machine in self._machines.values())

    @property
    def is_quiet(self) -> bool:
        """Has the worker nothing of it, to do or to tell? Asked between two workflow tasks, when all that it is to stop
        has been told."""
        return not (self._early or self.waits)

    def work(self, *, waits: bool) -> LocalWork:
        """What the worker is to begin and to stop, each told once."""
        start: list[LocalActivityTask] = []
        if waits:
            for machine in self._machines.values():
                if machine.state is LocalActivityState.REQUESTED:
                    machine.move(LocalActivityMove.GIVEN)
                    start.append(machine.task)
        cancel, self._cancels = self._cancels, []
        return LocalWork(start=start, cancel=cancel, waits=waits)

    def keep(self, outcome: LocalActivityOutcome) -> None:
        self._early.append(outcome)

    def take_early(self) -> list[LocalActivityOutcome]:
        early, self._early = self._early, []
        return early

    def resolve(self, outcome: LocalActivityOutcome) -> bool:
        """Writes the marker and tells the code. False: nobody waits for it.

        Raises PayloadDecodeError for a result that is not what the code expects.
        """
        run = self._run
        machine = self._machines.get(outcome.activity_id)
        if machine is None or machine.state not in WITH_THE_WORKER:
            return False
        marker = local_marker(outcome, machine.task.activity_type)
        run.ledger.add_for(marker, machine, machine.site)
        if outcome.backoff_ms and machine.state is not LocalActivityState.CANCELING:
            machine.move(LocalActivityMove.BACKOFF)
            machine.timer = run.loop.call_later(
                outcome.backoff_ms / 1000, self._try_again, machine, outcome.attempt + 1
            )
            return True
        if outcome.activity_id in self._cancels:
            self._cancels.remove(outcome.activity_id)
        machine.move(LocalActivityMove.RESOLVED)
        del self._machines[outcome.activity_id]
        self._tell(machine, outcome)
        return True

    def _try_again(self, machine: LocalActivityMachine, attempt: int) -> None:
        machine.timer = None
        machine.move(LocalActivityMove.RETRY)
        machine.task = _attempt(machine.task, attempt)

    def _tell(self, machine: LocalActivityMachine, outcome: LocalActivityOutcome) -> None:
        converter = self._run.converter
        failure = outcome.failure
        if failure is None:
            value = None
            if outcome.result:
                value = converter.from_payload(outcome.result[0], machine.result_hint)
            machine.handle.set_result(value)
        elif isinstance(failure.info, CanceledInfo):
            end_cancelled(machine, converter.from_payloads(failure.info.details))
        else:
            machine.handle.set_exception(_error_of(machine, failure, outcome, converter))


def _attempt(task: LocalActivityTask, attempt: int) -> LocalActivityTask:
    return msgspec.structs.replace(task, attempt=attempt)


def _is_told(machine: LocalActivityMachine) -> bool:
    return machine.cancellation is not ActivityCancellationType.ABANDON


def _error_of(
    machine: LocalActivityMachine,
    failure: FailureInfo,
    outcome: LocalActivityOutcome,
    converter: PayloadConverter,
) -> ActivityError:
    error = ActivityError(
        "Activity task failed",
        scheduled_event_id=0,
        started_event_id=0,
        identity="",
        activity_type=machine.activity_type,
        activity_id=machine.activity_id,
        retry_state=outcome.retry_state,
    )
    error.__cause__ = failure_to_exception(failure, converter)
    return error

"""One run: its state, and what its code can ask for.

`WorkflowInstance` feeds it events: `apply` what happened, `record` what became of its commands.
The functions of `perdure.workflow` come in by `current_run`. Everything that would change the run
passes `check_may_act`, which is how queries and wait conditions are kept from it, and how code that
is being evicted is stopped.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextvars import Context
from typing import Any, cast

from perdure._definitions import (
    NO_VERSIONS,
    DynamicWorkflowConfig,
    HandlerDefinition,
    WorkflowDefinition,
    find_handler,
)
from perdure._failures import exception_to_failure
from perdure._interceptors.workflow import (
    ExecuteWorkflowInput,
    WorkflowInboundInterceptor,
    WorkflowOutboundInterceptor,
)
from perdure._replay.activity_handle import ActivityHandle
from perdure._replay.callsite import waiting_at
from perdure._replay.cancelled import end_cancelled
from perdure._replay.children import Children
from perdure._replay.conditions import Conditions
from perdure._replay.eviction import close_task
from perdure._replay.external import External
from perdure._replay.fan_outs import FanOuts
from perdure._replay.interception import Interception
from perdure._replay.interrupts import ContinueAsNewError, WorkflowEvicted
from perdure._replay.ledger import Ledger
from perdure._replay.local_activities import LocalActivities
from perdure._replay.loop import DeterministicLoop, TimerHandle, WorkflowTask
from perdure._replay.machines.activity import (
    ActivityCancellationType,
    ActivityMachine,
    ActivityMove,
    ActivityState,
)
from perdure._replay.machines.completion import CompletionMachine, CompletionMove, CompletionState
from perdure._replay.machines.timer import TimerMachine, TimerMove, TimerState
from perdure._replay.messages import (
    CancelTimer,
    CancelWorkflow,
    Command,
    CompleteWorkflow,
    Event,
    FailWorkflow,
    RequestCancelActivity,
    ScheduleActivity,
    StartTimer,
    UpsertSearchAttributes,
    WorkflowExecutionStarted,
)
from perdure._replay.randomness import Randomness
from perdure._replay.signals import Signals
from perdure._replay.updates import Updates
from perdure._replay.verdict import defect_cause, raised_at
from perdure.common import SearchAttributeUpdate, TypedSearchAttributes
from perdure.converter import Payload, PayloadConverter
from perdure.errors import ReadOnlyContextError, is_cancelled_exception

logger = logging.getLogger(__name__)

_EVICTED = "evicted"


def current_run() -> WorkflowRun:
    """Of the code that calls; RuntimeError outside of workflow code."""
    loop = asyncio._get_running_loop()
    if type(loop) is not DeterministicLoop:
        raise RuntimeError("not in workflow code")
    return cast(WorkflowRun, loop.host)


class WorkflowRun:
    __slots__ = (
        "_activities_made",
        "_barred",
        "_context",
        "_main_args",
        "_timers_made",
        "activities",
        "activity_versions",
        "added_queries",
        "afterwards",
        "asked_history_size",
        "cancel_reason",
        "cancel_requested",
        "children",
        "completed_event_id",
        "completion",
        "conditions",
        "converter",
        "current_details",
        "defect",
        "definition",
        "external",
        "failure_types",
        "fan_outs",
        "history_length",
        "history_size_bytes",
        "inbound",
        "info",
        "interception",
        "ledger",
        "local",
        "loop",
        "main",
        "memo",
        "namespace",
        "newest_activities",
        "now_us",
        "outbound",
        "patches",
        "randomness",
        "replaying",
        "search_attributes",
        "signals",
        "started",
        "suggest_continue_as_new",
        "timer_summary",
        "timers",
        "upcoming",
        "updates",
        "version",
        "versioning_behavior",
        "workflow",
    )

    def __init__(
        self,
        definition: WorkflowDefinition,
        converter: PayloadConverter,
        namespace: str,
        failure_types: tuple[type[BaseException], ...] = (),
        versioning_behavior: int = 0,
    ) -> None:
        self.versioning_behavior = versioning_behavior
        self.definition = definition
        self.failure_types = definition.failure_exception_types + failure_types
        self.converter = converter
        self.namespace = namespace
        self.version: tuple[str, str] = (
            "",
            "",
        )  # deployment and build that run, or ran, the present workflow task
        self.loop = DeterministicLoop(self)  # type: ignore[abstract]  # the rest is never called
        self.ledger = Ledger(self.where_it_waits)
        self.completion = CompletionMachine()
        self.conditions = Conditions(self.loop, self)
        self.signals = Signals(self)
        self.fan_outs = FanOuts()
        self.updates = Updates(self)
        self.activities: dict[int, ActivityMachine] = {}  # by scheduled event id
        self.timers: dict[str, TimerMachine] = {}
        # What few runs use is made when it is first used.
        self.local: LocalActivities | None = None
        self.children: Children | None = None
        self.external: External | None = None
        self.patches: dict[str, bool] | None = None
        self.memo: dict[str, Payload] | None = None  # None: as the run was started with
        self.added_queries: dict[str | None, HandlerDefinition | None] | None = None
        self.current_details = ""
        self.timer_summary: Payload | None = None  # of the timer that is started next
        self.started: WorkflowExecutionStarted | None = None
        self.workflow: Any = None
        self.main: WorkflowTask[None] | None = None
        self.info: Any = None  # perdure.workflow.Info, made when first asked for
        self.newest_activities: Mapping[str, int] = NO_VERSIONS
        self.activity_versions: dict[str, int] | None = None  # that history has named
        self.search_attributes = TypedSearchAttributes.empty
        self.interception: Interception | None = None
        self.inbound: WorkflowInboundInterceptor | None = None
        self.outbound: WorkflowOutboundInterceptor | None = None
        self.afterwards: list[Callable[[], None]] | None = None
        # A fresh context: what the worker happens to have in its own must not reach the code.
        self._context = Context()
        self.randomness = Randomness()
        self._main_args: Any = None  # from the start to the first step
        self._activities_made = self._timers_made = 0
        self._barred: str | None = None
        self.cancel_requested = False
        self.cancel_reason = ""
        self.defect: BaseException | None = None
        # Of the workflow task that is being processed.
        self.now_us = 0
        self.replaying = True
        self.upcoming: Sequence[Event] = ()  # while it is replayed, with what follows
        self.completed_event_id = 0  # likewise: what completed it
        self.history_length = 0
        self.history_size_bytes = 0
        self.suggest_continue_as_new = False
        self.asked_history_size = False

    # --- what the code may do ---------------------------------------------------------------------

    @property
    def is_evicted(self) -> bool:
        return self._barred is _EVICTED

    def check_may_act(self) -> None:
        if self._barred is None:
            return
        if self._barred is _EVICTED:
            raise WorkflowEvicted
        raise ReadOnlyContextError(
            f"{self._barred} must not change the workflow: "
            "no activities, timers, tasks or random numbers"
        )

    def new_context(self) -> Context:
        return self._context.copy()

    def read_only(
        self, what: str, function: Callable[[], Any], context: Context | None = None
    ) -> Any:
        """Calls `function`, with everything barred that would change the run."""
        before, self._barred = self._barred, what
        try:
            return (context or self._context).run(function)
        finally:
            self._barred = before

    def ask(self, condition: Callable[[], bool]) -> bool:
        before, self._barred = self._barred, "a wait condition"
        try:
            return bool(condition())
        finally:
            self._barred = before

    @property
    def is_read_only(self) -> bool:
        """Does something run that must not change the run?"""
        return self._barred is not None and self._barred is not _EVICTED

    @property
    def silent(self) -> bool:
        """Has what the code says now been said before, or does it not count?"""
        return self.replaying or self._barred is not None

    def do_afterwards(self, what: Callable[[], None]) -> None:
        """Once the engine has taken the workflow task, outside of it; never when it has not. For
        interceptors, which see themselves that it is no replay. `what` must not refer to the run."""
        if self.afterwards is None:
            self.afterwards = []
        self.afterwards.append(what)

    # --- the run itself ---------------------------------------------------------------------------

    def begin(self, event: WorkflowExecutionStarted) -> None:
        self.started = event
        self.search_attributes = event.search_attributes
        self.randomness.begin(event.original_run_id or event.run_id)
        definition = self.definition
        self._main_args = args = definition.decode(event.input, self.converter)
        if self.interception is not None:
            self._context.run(self.interception.bind, self)
        try:
            init_args = args if definition.init_takes_input else ()
            self.workflow = self._context.run(definition.cls, *init_args)
            if definition.dynamic_config is not None:
                self._configure(self._context.run(definition.dynamic_config, self.workflow))
        except Exception as error:
            self.end_with(error)

    def _configure(self, config: DynamicWorkflowConfig) -> None:
        if config.failure_exception_types is not None:
            of_worker = self.failure_types[len(self.definition.failure_exception_types) :]
            self.failure_types = (*config.failure_exception_types, *of_worker)
        self.versioning_behavior = int(config.versioning_behavior) or self.versioning_behavior

    def start_main(self) -> None:
        """Once, after the handlers of what came with the start have begun: the code may look at what
        they left, and end, and nothing that it was sent is lost."""
        args, self._main_args = self._main_args, None
        if self.completion.state is not CompletionState.OPEN:
            return
        self.main = self.loop.create_main(self._run_main(args), self._context)
        self.updates.deliver_deferred()
        if self.cancel_requested:
            self.loop.call_soon(self._cancel_main, context=self._context)

    async def _run_main(self, args: list[Any]) -> None:
        run = self.definition.run
        try:
            if self.inbound is None:
                result = await run(self.workflow, *args)
            else:
                result = await self.inbound.execute_workflow(self._execution(args))
            payloads = [self.converter.to_payload(result)]
        except BaseException as error:
            self.end_with(error)
        else:
            if self.completion.state is CompletionState.OPEN:  # no handler has failed it before
                self.ledger.add_at(CompleteWorkflow(result=payloads), run.__code__, -1)
                self._close()

    def _execution(self, args: list[Any]) -> ExecuteWorkflowInput:
        definition, started = self.definition, self.started
        assert started is not None
        return ExecuteWorkflowInput(
            type=definition.cls, run_fn=definition.run, args=args, headers=started.header
        )

    def query_handler_for(self, name: str) -> HandlerDefinition | None:
        """That of the name, or else the dynamic one."""
        own, added = self.definition.queries, self.added_queries
        return find_handler(own, added, name) or find_handler(own, added, None)

    def end_with(self, error: BaseException) -> None:
        """What workflow code raised: a defect, a cancellation that was asked for, or a failure."""
        if self._barred is _EVICTED or self.completion.state is not CompletionState.OPEN:
            return
        if isinstance(error, ContinueAsNewError):
            if error.search_attributes is not None:
                self.upsert_search_attributes(
                    self.search_attributes.changes_to(error.search_attributes)
                )
            self._end(error.command, error)
            return
        if defect_cause(error, self.failure_types) is not None:
            self.defect = error
        elif not isinstance(error, Exception | asyncio.CancelledError):
            self.defect = error  # SystemExit, KeyboardInterrupt: not the run's to decide
        else:
            command: Command
            if self.cancel_requested and is_cancelled_exception(error):
                command = CancelWorkflow(details=[])
            else:
                command = FailWorkflow(failure=exception_to_failure(error, self.converter))
            self._end(command, error)
            return
        self.loop.stop()

    def _end(self, command: Command, error: BaseException) -> None:
        site = raised_at(error)
        code, offset = site or (self.definition.run.__code__, -1)
        self.ledger.add_at(command, code, offset)
        self._close()

    def _close(self) -> None:
        """What is ready still runs: an update's handler may have been about to answer. Of what it
        asks for only answers count (see Ledger.close); `settle` ends it."""
        self.completion.move(CompletionMove.COMMAND)
        self.ledger.close()

    def settle(self) -> None:
        """Runs until nothing is ready; a run that has ended by then does nothing more."""
        self.loop.run_until_idle(self.conditions.check)
        if self.completion.state is not CompletionState.OPEN:
            self.loop.stop()

    def warn_unfinished(self, workflow_id: str) -> None:
        """It has ended: says which handlers were cut off."""
        if self.signals.running:
            self.signals.warn_unfinished(workflow_id)
        if self.updates.running:
            self.updates.warn_unfinished(workflow_id)

    def request_cancel(self, reason: str) -> None:
        self.cancel_requested = True
        self.cancel_reason = reason
        if self.main is not None:
            # Through the queue: what became ready before must run before, the first step too.
            self.loop.call_soon(self._cancel_main, context=self._context)

    def _cancel_main(self) -> None:
        # Called by a name of ours: who calls `cancel` decides how activities end (loop.py).
        if self.main is not None:
            self.main.cancel()

    def spawn(self, coroutine: Any, name: str) -> None:
        self.loop.create_task(coroutine, name=name, context=self._context.copy())

    def report_unhandled(self, context: dict[str, Any]) -> None:
        """What the loop was told that nobody caught."""
        if self._barred is _EVICTED:
            return
        error = context.get("exception")
        if error is not None and defect_cause(error) is not None:
            self.defect = self.defect or error
        elif error is not None and is_cancelled_exception(error):
            return  # who cancels a task that nobody waits for (wait_for) knows how it ends
        if not self.silent:
            logger.error("in a workflow: %s", context.get("message"), exc_info=error)

    def where_it_waits(self) -> str:
        if self.completion.state is not CompletionState.OPEN:
            return "has ended"
        sites = waiting_at(self.main) if self.main is not None else []
        return f"waits at {sites[-1]}" if sites else "has not begun"

    # --- activities -------------------------------------------------------------------------------

    def next_activity_id(self) -> str:
        self._activities_made += 1
        return str(self._activities_made)

    def start_activity(
        self,
        command: ScheduleActivity,
        result_hint: Any,
        cancellation: ActivityCancellationType,
    ) -> ActivityHandle[Any]:
        self.check_may_act()
        machine = ActivityMachine(
            command.activity_id, command.activity_type, result_hint, cancellation, self
        )
        handle: ActivityHandle[Any] = ActivityHandle(self.loop, machine, self._activities_made)
        machine.handle = handle
        machine.entry = self.ledger.add(command, machine)
        return handle

    def cancel_activity(self, machine: ActivityMachine) -> None:
        if self._barred is _EVICTED:
            machine.handle.give_up()
            return
        self.check_may_act()
        if machine.state is ActivityState.CREATED:
            machine.move(ActivityMove.CANCEL)
            assert machine.entry is not None
            machine.entry.command = None
            end_cancelled(machine)
        elif machine.state is not ActivityState.SCHEDULED:
            return  # asked before: what it comes to is waited for
        elif machine.cancellation is ActivityCancellationType.ABANDON:
            machine.move(ActivityMove.ABANDON)
            end_cancelled(machine)
        else:
            machine.move(ActivityMove.CANCEL)
            command = RequestCancelActivity(scheduled_event_id=machine.scheduled_event_id)
            self.ledger.add(command, machine)
            if machine.cancellation is ActivityCancellationType.TRY_CANCEL:
                end_cancelled(machine)

    # --- timers -----------------------------------------------------------------------------------

    def start_timer(self, handle: TimerHandle, delay_ms: int) -> None:
        self.check_may_act()
        self._timers_made += 1
        machine = TimerMachine(str(self._timers_made), handle)
        handle.machine = machine
        summary, self.timer_summary = self.timer_summary, None
        command = StartTimer(timer_id=machine.timer_id, start_to_fire_ms=delay_ms, summary=summary)
        machine.entry = self.ledger.add(command, machine)
        self.timers[machine.timer_id] = machine

    def cancel_timer(self, handle: TimerHandle) -> None:
        machine: TimerMachine = handle.machine
        if self._barred is _EVICTED or machine.state is TimerState.CLOSED:
            return
        self.check_may_act()
        unsent = machine.state is TimerState.CREATED
        machine.move(TimerMove.CANCEL)
        if unsent:
            assert machine.entry is not None
            machine.entry.command = None
            del self.timers[machine.timer_id]
        else:
            self.ledger.add(CancelTimer(timer_id=machine.timer_id), machine)

    # --- search attributes ------------------------------------------------------------------------

    def upsert_search_attributes(self, updates: list[SearchAttributeUpdate[Any]]) -> None:
        self.check_may_act()
        if not updates:
            return
        self.search_attributes = self.search_attributes.changed(updates)
        self.info = None  # made anew, with these
        self.ledger.add(UpsertSearchAttributes(updates=updates), None)

    # --- leaving memory ---------------------------------------------------------------------------

    def evict(self) -> None:
        """Ends the code where it stands; nothing that it still asks for is done. Once."""
        self._barred = _EVICTED
        self.replaying = True
        self.loop.stop()
        for task in self.loop.live_tasks():
            self._context.run(close_task, task)
        self.loop.forget_tasks()
        # The rings that only the garbage collector would open otherwise.
        self.main = self.workflow = self.defect = None
        self.inbound = self.outbound = None
        self.activities.clear()
        self.timers.clear()
        self.local = self.children = self.external = None
        self.upcoming = ()
        del self.ledger, self.conditions, self.signals, self.updates, self.fan_outs, self.loop

"""One run under everything that can happen to it, in any order: with duplicates, stale tokens, batches, take-overs.

The machine asks at random and knows little: which requests were acknowledged, which starts have ended, when the next
attempt of an activity may begin. What must hold all the same is said in its rules (invariants 30, 31, 32, 41, 42, 47)
and in `invariants.CHECKS`, which run after every step.
"""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.unit.core import invariants
from tests.unit.core.scenario import (
    CANCEL,
    COMPLETE,
    FAIL,
    NAMESPACE,
    START_US,
    WORKFLOW_ID,
    Scenario,
    accept,
    activity,
    application,
    came_back,
    cancel,
    cancel_other,
    canceled,
    changes_of,
    child,
    complete_update,
    completed,
    continue_as_new,
    crashed,
    died,
    done,
    failed,
    frozen,
    options,
    pause,
    put_back,
    reject,
    request_id,
    reset,
    resume,
    save_start,
    signal,
    signal_other,
    start,
    task_failed,
    terminate,
    timed_out,
    timer,
    unpause,
    update,
)

from perdure_engine.core import commands as cmd
from perdure_engine.core import events as ev
from perdure_engine.core import intents
from perdure_engine.core import outside_events as out
from perdure_engine.core.decide.attempts import key_of
from perdure_engine.core.describe import following
from perdure_engine.core.failures import Failure, TimeoutType
from perdure_engine.core.intents import StartSignal
from perdure_engine.core.limits import RunLimits
from perdure_engine.core.lineage import writer_of
from perdure_engine.core.parents import ParentClosePolicy
from perdure_engine.core.retry import RetryPolicy, backoff_ms
from perdure_engine.core.search_attributes import AttributeType, SearchAttribute
from perdure_engine.core.state import WORKFLOW_TASK_KEY
from perdure_engine.core.tasks import TaskKind, TaskState, TimerKind
from perdure_engine.core.tokens import TaskToken
from perdure_engine.core.versions import Behavior, Versioning

LIMITS = RunLimits(
    history_events_max=45,
    pending_activities_max=4,
    pending_timers_max=3,
    signals_max=20,
    commands_max=20,
    pending_children_max=3,
    pending_external_signals_max=3,
    pending_external_cancels_max=3,
    updates_in_flight_max=4,
    updates_max=12,
)
POLICIES = (
    None,
    RetryPolicy(maximum_attempts=1),
    RetryPolicy(500, 1.0, maximum_attempts=3),
    RetryPolicy(non_retryable_error_types=("ValueError",)),
)
FAILURES = (
    application(type="IOError"),
    application(type="ValueError"),
    application(non_retryable=True),
    application(type="IOError", next_retry_delay_ms=0),
    application(type="IOError", next_retry_delay_ms=30_000),
)
CHAINS: list[dict[str, Any]] = [
    {},
    {"retry_policy": RetryPolicy(2_000, maximum_attempts=3)},
    {"retry_policy": RetryPolicy(2_000), "execution_timeout_ms": 40_000},
]
RESETS_MAX = 3  # of one test: each copies a history
DAY_US = 24 * 3_600 * 1_000_000
NAMES = "abcde"
some_name = st.sampled_from(NAMES)
timeout_ms = st.sampled_from([0, 0, 3_000, 20_000])
commands = st.lists(
    st.one_of(
        st.builds(
            activity,
            some_name,
            retry_policy=st.sampled_from(POLICIES),
            schedule_to_start_timeout_ms=timeout_ms,
            schedule_to_close_timeout_ms=timeout_ms,
        ),
        st.builds(timer, some_name, st.sampled_from([0, 1, 10])),
        st.tuples(st.just("cancel timer"), st.integers(0, 3)),
        st.tuples(st.just("cancel activity"), st.integers(0, 3)),
        st.just(cmd.RecordMarker("m", b"details", b"", None)),
        st.just(cmd.ModifyProperties(b"\x0a\x07\x0a\x01k\x12\x02\x0a\x00")),
        st.builds(
            lambda name, value: cmd.UpsertSearchAttributes(
                (SearchAttribute(name, AttributeType.INT, value),)
            ),
            some_name,
            st.sampled_from([None, 1, 2]),
        ),
        st.builds(child, some_name, parent_close_policy=st.sampled_from(ParentClosePolicy)),
        st.builds(signal_other, some_name),
        st.builds(cancel_other, some_name, child_workflow_only=st.booleans()),
    ),
    min_size=1,
    max_size=4,
)
few = st.integers(0, 7)  # which one; or how far back, 0 being the newest
hold = st.sampled_from([False, False, True])  # whether the batch stays open for what comes next
failures = st.sampled_from(FAILURES)
WORKER = (
    "workflow completed",
    "workflow failed",
    "activity completed",
    "activity failed",
    "activity canceled",
    "progress",
    "handed over",
    "checkpoint",
    "crashes",
    "workflow hangs",
)
OPERATOR = ("pause", "unpause", "hold the run", "let it go", "resume", "reset", "move")
# What workers of a version say of the run, and what an operator says instead.
VERSIONS = (
    None,
    Versioning(Behavior.PINNED, "shop", "1"),
    Versioning(Behavior.AUTO_UPGRADE, "shop", "2"),
    Versioning(Behavior.PINNED, "shop", "2"),
)
WEIGHTS = {  # hypothesis prefers both ends of a list: there stands what brings a run forward
    "take": 8,
    "activity failed": 4,
    "signal": 2,
    "update": 3,
    "cancel": 1,
    "terminate": 2,
    "answer": 4,
    "child closes": 2,
    "workflow failed": 1,
    "activity canceled": 1,
    "progress": 1,
    "handed over": 2,
    "checkpoint": 1,
    "pause": 1,
    "move": 1,
    "unpause": 2,
    "hold the run": 1,
    "let it go": 2,
    "resume": 2,
    "reset": 1,
    "crashes": 2,
    "worker dies": 2,
    "workers keep dying": 3,
    "comes back": 1,
    "workflow hangs": 1,
    "a day passes": 1,
    "time passes": 1,
    "take-over": 1,
    "save": 1,
    "put back": 2,
    "timed out": 2,
    "activity completed": 2,
    "goes ahead": 4,
    "timer": 5,
    "workflow completed": 6,
}


def by_version(intent: intents.CompleteWorkflowTask, which: int) -> intents.CompleteWorkflowTask:
    versioning = VERSIONS[which % len(VERSIONS)]
    if versioning is None:
        return intent
    return msgspec.structs.replace(
        intent,
        behavior=versioning.behavior,
        deployment_name=versioning.deployment_name,
        build_id=versioning.build_id,
    )


EARLY = (
    intents.CameBack,
    intents.ResumeWorkflow,
    intents.UnpauseWorkflow,
    intents.HeartbeatActivity,
    intents.HandOverActivity,
)
"""What ends the waiting of a poisoned task before its time."""

ACTIONS = [what for what, weight in WEIGHTS.items() for _ in range(weight)]


class RunMachine(RuleBasedStateMachine):
    """One rule with many actions: hypothesis leaves whole rules out of a run, and one without workers is dull."""

    run: Scenario

    @initialize(
        delayed=st.sampled_from([False, False, True]),
        run_timeout_ms=st.sampled_from([0, 0, 60_000]),
        signaled=st.booleans(),
        may_end_after=st.sampled_from([40, 20, 10]),
        chain=st.sampled_from(CHAINS),
        first=commands,
    )
    def begin(
        self,
        delayed: bool,
        run_timeout_ms: int,
        signaled: bool,
        may_end_after: int,
        chain: dict[str, Any],
        first: list[Any],
    ) -> None:
        self.run = Scenario(
            start(
                1,
                **chain,
                start_delay_ms=5_000 if delayed else 0,
                run_timeout_ms=run_timeout_ms,
                signal=StartSignal("paid", b"") if signaled else None,
            ),
            limits=LIMITS,
        )
        self.steps_left = may_end_after
        self.tokens: list[TaskToken] = []
        self.timers: dict[int, intents.FireTimer] = {}
        self.messages: dict[int, int] = {}  # task id -> key
        self.heard: set[int] = set()  # messages that have an answer; minus children that have ended
        self.acknowledged = [request_id(1)] if signaled else []  # signals, in order
        self.updates: set[str] = set()  # acknowledged ones
        self.ended: set[int] = set()  # start numbers whose attempt is over
        self.released: set[int] = set()  # … that were put back, uncounted
        self.not_before: dict[tuple[int, int], int] = {}  # (activity, attempt) -> earliest time
        self.named = 0
        self.resets = 0
        self.remember_timers()
        if not delayed:
            self.take(0)
            token = self.tokens[-1]
            self.report(done(token, *map(self.command, first)), token, hold=False)

    @rule(what=st.sampled_from(ACTIONS), which=few, asked=commands, hold=hold, failure=failures)
    def step(self, what: str, which: int, asked: list[Any], hold: bool, failure: Failure) -> None:
        match what:
            case "signal" | "update" | "cancel" | "terminate":
                self.a_client_asks(what, which, hold)
            case "take":
                self.a_worker_takes_a_task(which, asked, hold)
            case "answer" | "child closes":
                self.another_run_says(what, which, hold)
            case _ if what in OPERATOR:
                self.an_operator_asks(what, which, hold)
            case "goes ahead":
                self.a_worker_goes_ahead(which, asked, hold)
            case _ if what in WORKER:
                self.a_worker_reports(what, which, asked, hold, failure)
            case _:
                self.the_shard_acts(what, which, hold)

    # ---- clients

    def a_client_asks(self, what: str, number: int, hold: bool) -> None:
        match what:
            case "signal" if number < 3:
                self.signal(10 + number, hold)  # often one that came before
            case "signal":
                self.signal(20 + len(self.acknowledged), hold)
            case "cancel":
                self.do(cancel(40 + number), hold)
            case "update":
                update_id = f"u-{number if number < 3 else len(self.updates)}"
                _, refused = self.do(update(update_id), hold)
                if not refused:
                    self.updates.add(update_id)
            case _ if self.steps_left <= 0:
                self.do(terminate())
                assert not self.run.state.open, "invariant 47: terminate wins"

    def signal(self, number: int, hold: bool = False) -> None:
        _, refused = self.do(signal(number), hold)
        if not refused and request_id(number) not in self.acknowledged:
            self.acknowledged.append(request_id(number))

    # ---- workers

    def a_worker_takes_a_task(self, which: int, asked: list[Any], save: bool) -> None:
        """… or, when there is none, the workflow task that is out comes back."""
        if not self.take(which):
            self.a_worker_reports("workflow completed", 0, asked, False, FAILURES[0])
        elif save:
            self.do(save_start(self.tokens[-1]))

    def a_worker_reports(
        self,
        what: str,
        back: int,
        asked: list[Any],
        hold: bool,
        failure: Failure,
    ) -> None:
        kind = TaskKind.WORKFLOW if what.startswith("workflow") else TaskKind.ACTIVITY
        if what == "crashes" and hold:
            kind = TaskKind.WORKFLOW
        token = self.token(back, kind)
        if token is None:
            self.take(back)
            return
        match what:
            case "workflow completed":
                listed = [self.command(one) for one in asked] + self.verdicts(token, back)
                if self.steps_left <= 0 and back % 2 == 0:
                    listed.append((COMPLETE, FAIL, CANCEL, continue_as_new())[back // 2])
                intent = by_version(done(token, *listed, cached=hold), back)
                self.report(intent, token, hold)
            case "workflow failed":
                self.report(task_failed(token), token, hold)
            case "activity completed":
                self.report(completed(token), token, hold)
            case "activity failed":
                self.report(failed(token, failure), token, hold, failure)
            case "activity canceled":
                self.report(canceled(token), token, hold)
            case "crashes" | "workflow hangs":
                self.crashes(what, token, hold)
            case _:
                self.says(what, token, hold)

    def wait_for_one_activity(self) -> None:
        """Where a worker may go ahead: its code has looked at everything, and waits for one activity."""
        self.run.commit()
        if WORKFLOW_TASK_KEY in self.startable():
            token = self.run.hand_out()
            self.tokens.append(token)
            pending = len(self.run.state.folded.activities)
            asked = [] if pending else [activity(self.fresh("a"))]
            turn = done(token, *asked, *self.verdicts(token, 0), cached=True)
            self.report(turn, token, hold=False)
        keys = self.startable()
        if len(keys) == 1 and keys != [WORKFLOW_TASK_KEY]:
            self.take(0)

    def a_worker_goes_ahead(self, back: int, asked: list[Any], hold: bool) -> None:
        """Invariants 18, 42: what a worker did ahead counts only where nothing waited for the code but the result."""
        if back < 5:
            self.wait_for_one_activity()
        token = self.token(back, TaskKind.ACTIVITY)
        if token is None:
            return
        listed = [self.command(one) for one in asked]
        if self.steps_left <= 0 and back % 2 == 0:
            listed.append((COMPLETE, FAIL, CANCEL, continue_as_new())[back // 2])
        ahead = self.run.ahead(*listed, cached=hold)
        ahead = msgspec.structs.replace(ahead, completion=by_version(ahead.completion, back))
        if back == 4:
            previous = ahead.previous_started_id - 1
            ahead = msgspec.structs.replace(ahead, previous_started_id=previous)
        if back % 2:  # something overtakes the worker, which has reckoned with what was before
            self.a_client_asks("signal" if hold else "update", 3 + len(asked), hold)
        state = self.run.state
        before, waited = state.folded.previous_started_id, WORKFLOW_TASK_KEY in state.tasks
        self.report(completed(token, ahead=ahead), token, hold)
        after = state.folded.previous_started_id
        if after != before:
            assert after == ahead.completion.token.started_event_id
            assert not waited, "invariant 42: something waited that the code had not seen"
            assert back != 4, "it took another task for the last one"

    def crashes(self, what: str, token: TaskToken, hold: bool) -> None:
        deadlock = ev.WorkflowTaskFailedCause.DEADLOCK
        self.report(
            crashed(token) if what == "crashes" else task_failed(token, deadlock), token, hold
        )

    def says(self, what: str, token: TaskToken, hold: bool) -> None:
        """What ends no attempt, but is of one."""
        intent: intents.Intent
        match what:
            case "handed over":
                until = msgspec.structs.replace(token, deadline_us=token.started_us + 5_000_000)
                intent = intents.HandOverActivity(until, b"", "w")
            case "checkpoint":
                intent = intents.HeartbeatActivity(token, b"progress")
            case _:
                intent = intents.SaveProgress(token, b"progress")
        _, refused = self.do(intent, hold)
        assert refused or token.start_no not in self.ended, "invariant 30"

    # ---- operators

    def an_operator_asks(self, what: str, which: int, hold: bool) -> None:
        if what == "move":
            self.do(options(60 + which, VERSIONS[which % 4]), hold)
            return
        match what:
            case "reset":
                self.reset(which)
            case "hold the run":
                self.do(pause(300 + self.fresh_number()), hold)
            case "let it go":
                self.do(unpause(300 + self.fresh_number()), hold)
            case "resume":
                self.do(resume(300 + self.fresh_number()), hold)
            case _:
                self.an_operator_asks_of_an_activity(what, which, hold)

    def fresh_number(self) -> int:
        self.named += 1
        return self.named % 50

    def reset(self, which: int) -> None:
        """To one of its workflow tasks, open or closed; the test goes on with the new run."""
        self.run.commit()
        ends = [e.event_id for e in self.run.events if isinstance(e, invariants.TASK_ENDED)]
        if not ends or self.resets == RESETS_MAX:
            return
        self.resets += 1
        was_closed = not self.run.state.open
        begun = self.run.reset(reset(ends[which % len(ends)], 60 + self.resets))
        assert not begun.refused
        assert not self.run.state.open, "invariant 5: one open run"
        for check in invariants.CHECKS:
            check(self.run)
        begun.new.rejected_updates = self.run.rejected_updates
        if was_closed:  # what was only admitted ended with the run
            self.updates &= {*(self.run.state.folded.updates or ()), *self.run.rejected_updates}
        self.run = begun.new
        self.tokens, self.timers = [], {}  # a token, a timer row names its run
        taken_over = {-e.event_id for e in self.run.events if isinstance(e, invariants.INITIATED)}
        ended = {
            -e.initiated_event_id for e in self.run.events if isinstance(e, invariants.CHILD_ENDED)
        }
        known = {one for one in self.heard if one < 0}
        assert known & taken_over <= ended, "invariant 49: what was heard of a child stays heard"
        self.heard = self.heard - known | ended
        self.remember_timers()

    def an_operator_asks_of_an_activity(self, what: str, which: int, hold: bool) -> None:
        pending = list(self.run.state.folded.activities.values())
        if not pending:
            return
        one = pending[which % len(pending)].scheduled
        fields = {"namespace_id": NAMESPACE, "workflow_id": WORKFLOW_ID, "run_id": b""}
        fields |= {"activity_id": one.activity_id, "activity_type": ""}
        intent = intents.PauseActivity if what == "pause" else intents.UnpauseActivity
        self.do(intent(**fields), hold)  # type: ignore[arg-type]  # a dict of both

    def verdicts(self, token: TaskToken, back: int) -> list[cmd.Command]:
        """On the updates that came with the task, and the end of one that runs; seldom nothing: a bad worker."""
        state = self.run.state
        given = [id for id, one in (state.admitted or {}).items() if one.seq <= token.updates_to]
        listed: list[cmd.Command] = [
            accept(id) if (back + index) % 3 else reject(id) for index, id in enumerate(given)
        ]
        running = [
            id for id, one in (state.folded.updates or {}).items() if not one.completed_event_id
        ]
        if running and back % 2:
            listed.append(complete_update(running[back % len(running)]))
        return [] if back == 6 else listed

    # ---- other runs: what they answer may come late and twice

    def another_run_says(self, what: str, which: int, hold: bool) -> None:
        """Invariants 48, 49: an answer counts once, and so does a child's end."""
        if what == "answer":
            known = sorted(self.messages)[-6:]
            if not known:
                return
            task_id = known[which % len(known)]
            outcome = (*intents.MessageOutcome, *[intents.MessageOutcome.DONE] * 3)[which]
            key = self.messages[task_id]
            intent: intents.Intent = intents.AnswerMessage(
                self.run.state.run_id, key, task_id, outcome
            )
        else:
            kind = out.StartChildWorkflowExecutionInitiated
            children = [event for event in self.run.events if isinstance(event, kind)][-4:]
            if not children:
                return
            one = children[which % len(children)]
            task_id = -one.event_id
            intent = self.child_closes(one)
        before = self.everything()
        self.do(intent, hold=True)
        changed = self.everything() != before
        assert not (changed and task_id in self.heard), "invariant 48: heard of twice"
        if changed:
            self.heard.add(task_id)
        self.finish(hold)

    def child_closes(self, one: out.StartChildWorkflowExecutionInitiated) -> intents.CloseChild:
        return intents.CloseChild(
            namespace_id=NAMESPACE,
            workflow_id=WORKFLOW_ID,
            run_id=writer_of(self.run.started, one.event_id),
            initiated_event_id=one.event_id,
            child_workflow_id=one.workflow_id,
            child_run_id=request_id(99),
            child_workflow_type=one.workflow_type,
            closed=ev.WorkflowExecutionCompleted(9, START_US, b"", 8),
        )

    # ---- the shard: its timers, its lease book (what that asks for may come late), its end

    def the_shard_acts(self, what: str, back: int, hold: bool) -> None:
        match what:
            case "time passes":
                self.run.wait((0.1, 1.0, 5.0, -2.0)[back % 4])
            case "a day passes":
                self.run.wait(24 * 3_600)
            case "take-over":
                self.run.commit()
                self.run.reload()
            case "timer":
                self.fire(back, hold)
            case _:
                token = self.token(back)
                if token is not None:
                    self.lease_book(what, token, hold)

    def fire(self, back: int, hold: bool) -> None:
        """Any row there ever was may fire, again too, but never before its time."""
        known = sorted(self.timers.values(), key=lambda row: row.wake_us)
        known = known[-8:]
        if known:
            fire = known[back % len(known)]
            self.run.now_us = max(self.run.now_us, fire.wake_us)
            late = application(type="IOError") if fire.kind is TimerKind.ASYNC_TIMEOUT else None
            self.do(fire, hold, late)

    def lease_book(self, what: str, token: TaskToken, hold: bool) -> None:
        match what:
            case "put back":
                if self.quiet(put_back(token, worker_dead=hold), token, hold):
                    self.released.add(token.start_no)
                    self.take(-1)  # the newest task that waits: this one
            case "worker dies":
                self.workers_die(token, 1, hold)
            case "workers keep dying":
                self.workers_die(token, 3, hold)
            case "comes back":
                _, refused = self.do(came_back(token), hold)
                assert not refused
            case "timed out":
                kind = TimeoutType.HEARTBEAT if hold else TimeoutType.START_TO_CLOSE
                late = application(type="IOError")  # as retryable as a time-out is
                if self.quiet(timed_out(token, kind), token, hold, late):
                    self.ended.add(token.start_no)
            case _:
                self.quiet(save_start(token), token, hold)

    def workers_die(self, token: TaskToken, times: int, hold: bool) -> None:
        """One after the other, of the same task; the last of several may take a day to do so."""
        for number in range(times):
            if number == 2 and hold:
                self.run.wait(24 * 3_600)
            if not self.quiet(died(token), token, False):
                return
            self.released.add(token.start_no)
            if not self.take(-1):  # the newest task that waits: this one
                return
            token = self.tokens[-1]

    def token(self, back: int, kind: TaskKind | None = None) -> TaskToken | None:
        """One that is out, or (from 5 on) one that is over, the newest first."""
        known = [token for token in self.tokens if kind in (None, token.kind)]
        out = [t for t in known if t.start_no not in self.ended | self.released]
        over = [t for t in known if t.start_no in self.ended | self.released]
        chosen = (over or out) if back >= 5 else (out or over)
        return chosen[-1 - back % 5 % len(chosen)] if chosen else None

    def take(self, which: int) -> bool:
        """A worker takes one of the tasks that wait; what history.handout allows."""
        self.run.commit()
        state = self.run.state
        if not (ready := self.startable()):
            self.wake()
            ready = self.startable()
        if not ready:
            return False
        key = ready[which % len(ready)]
        name = ""
        if key != WORKFLOW_TASK_KEY:
            name = state.folded.activities[key].scheduled.activity_id
        token = self.run.hand_out(name)
        for older in self.tokens:
            if (older.kind, older.scheduled_event_id) == (token.kind, token.scheduled_event_id):
                self.released.add(older.start_no)
        self.tokens.append(token)
        return True

    def wake(self) -> None:
        """Have a workflow task, if there can be one: what is asked of a run that waits should not be lost on it."""
        task = self.run.state.tasks.get(WORKFLOW_TASK_KEY)
        if task is None:
            self.signal(20 + len(self.acknowledged))
        elif task.state is TaskState.BACKOFF:
            self.run.fire(TimerKind.WORKFLOW_TASK_BACKOFF)

    def startable(self) -> list[int]:
        state = self.run.state
        return [
            key
            for key, record in state.tasks.items()
            if record.state is TaskState.READY
            and record.handout is None
            and not (key == WORKFLOW_TASK_KEY and state.buffered)
        ]

    # ---- what every step has in common

    def command(self, one: Any) -> cmd.Command:
        """A command that mostly can be carried out; 3 of the indices, "e" of the names lead to a bad one."""
        folded = self.run.state.folded
        match one:
            case ("cancel timer", index):
                names = list(folded.timers)
                return cmd.CancelTimer(names[index % len(names)] if names and index < 3 else "?")
            case ("cancel activity", index):
                pending = list(folded.activities)
                return cmd.RequestCancelActivity(pending[index % len(pending)] if pending else 2)
            case cmd.ScheduleActivity() if one.activity_id != "e":
                return msgspec.structs.replace(one, activity_id=self.fresh(one.activity_id))
            case cmd.StartTimer() if one.timer_id != "e":
                return cmd.StartTimer(self.fresh(one.timer_id), one.start_to_fire_ms)
            case _:
                command: cmd.Command = one
                return command

    def fresh(self, name: str) -> str:
        self.named += 1
        return f"{name}-{self.named}"

    def report(
        self,
        intent: intents.WorkerIntent,
        token: TaskToken,
        hold: bool,
        failure: Failure | None = None,
    ) -> None:
        """Invariant 30: what a worker says of an attempt counts at most once."""
        key = key_of(token.kind, token.scheduled_event_id)
        record = self.run.state.tasks.get(key)
        handout = record.handout if record is not None else None
        other = handout is not None and handout.start_no != token.start_no
        _, refused = self.do(intent, hold, failure)
        if not refused:
            assert not other, "invariant 30: another worker has it"
            assert token.start_no not in self.ended, "invariant 30: applied after its end"
            self.ended.add(token.start_no)

    def quiet(
        self, intent: intents.Intent, token: TaskToken, hold: bool, failure: Failure | None = None
    ) -> bool:
        """What the shard asks of itself is never refused; of a start that is over it changes nothing.

        Returns whether it changed anything.
        """
        before = self.everything()
        over = token.start_no in self.ended or token.start_no in self.released
        if token.kind is TaskKind.WORKFLOW and self.run.state.buffered:
            over = False  # its saved number may stand for an unsaved start that events wait for
        _, refused = self.decide(intent, failure)
        assert not refused
        changed = self.everything() != before
        assert not (over and changed), "invariants 24, 30: the start was over"
        self.finish(hold)
        return changed

    def do(
        self, intent: intents.Intent, hold: bool = False, failure: Failure | None = None
    ) -> tuple[object, str]:
        outcome = self.decide(intent, failure)
        self.finish(hold)
        return outcome

    def decide(self, intent: intents.Intent, failure: Failure | None = None) -> tuple[object, str]:
        state = self.run.state
        attempts = {
            key: record.attempt
            for key, record in state.tasks.items()
            if record.kind is TaskKind.ACTIVITY
        }
        asked = {
            key: bool(pending.cancel_requested_event_id)
            for key, pending in state.folded.activities.items()
        }
        backing_off = {key for key in attempts if state.tasks[key].state is TaskState.BACKOFF}
        was_open, before = state.open, self.everything()
        outcome = self.run.decide(intent)
        if not was_open and not isinstance(intent, intents.AnswerMessage):
            assert self.everything() == before, "invariant 47: nothing has an effect after the end"
        for key, record in state.tasks.items():
            if key in attempts:
                self.one_attempt_more(key, record.attempt - attempts[key], asked[key], failure)
            if record.pool and record.state is TaskState.BACKOFF:
                self.not_before[key, record.attempt] = record.next_attempt_us
            early = isinstance(intent, EARLY)
            if key in backing_off and record.state is not TaskState.BACKOFF and not early:
                ready_us = self.not_before[key, record.attempt]
                assert self.run.now_us >= ready_us, "invariant 31: not before its delay is over"
        return outcome

    def one_attempt_more(self, key: int, more: int, asked: bool, failure: Failure | None) -> None:
        assert more in (0, 1), "invariant 31: one attempt at a time"
        if not more:
            return
        assert failure is not None, "invariant 31: only a failure or a time-out counts"
        assert not asked, "invariant 32: no retry after a cancellation was asked for"
        record = self.run.state.tasks[key]
        policy = self.run.state.folded.activities[key].scheduled.retry_policy
        assert not policy.maximum_attempts or record.attempt <= policy.maximum_attempts
        assert not failure.non_retryable
        assert failure.type not in policy.non_retryable_error_types
        delay_ms = failure.next_retry_delay_ms
        if delay_ms is None:
            delay_ms = backoff_ms(policy, record.attempt - 1)
        self.not_before[key, record.attempt] = self.run.now_us + delay_ms * 1000
        assert (record.state is TaskState.BACKOFF) == (delay_ms > 0), "invariant 31: its delay"

    def finish(self, hold: bool) -> None:
        self.steps_left -= 1
        if not hold:
            self.run.commit()
        self.remember_timers()

    def remember_timers(self) -> None:
        """… and messages."""
        for key, record in self.run.state.tasks.items():
            if record.kind is TaskKind.MESSAGE:
                self.messages[record.task_id] = key
        run_id = self.run.state.run_id
        for row in self.run.state.timer_rows.values():
            self.timers[row.timer_id] = intents.FireTimer(
                run_id, row.kind, row.reference, row.wake_us, row.timer_id
            )

    def everything(self) -> object:
        draft = self.run.draft
        return frozen(self.run.state), changes_of(draft) if draft is not None else (0,) * 7

    # ---- after every step

    @invariant()
    def what_must_hold_of_every_committed_run(self) -> None:
        if self.run.draft is None:
            for check in invariants.CHECKS:
                check(self.run)

    @invariant()
    def what_must_hold_of_a_run_that_follows(self) -> None:
        """It begins when this one has closed, and not otherwise; each signal goes along once, in order."""
        if self.run.draft is not None:
            return
        named = following(self.run.state.folded.closed)
        assert (self.run.following.state.run_id if self.run.following else b"") == named
        if self.run.following is None:
            return
        for check in invariants.CHECKS:
            check(self.run.following)
        signals = [
            event.request_id
            for event in self.run.following.events
            if isinstance(event, ev.WorkflowExecutionSignaled)
        ]
        assert signals == self.acknowledged[len(self.acknowledged) - len(signals) :]
        known = self.run.next.state.folded.request_ids
        assert set(self.acknowledged) <= known.keys() or self.run.now_us > START_US + DAY_US

    @invariant()
    def invariants_41_and_42_each_acknowledged_signal_is_there_once_in_order(self) -> None:
        draft = self.run.draft
        events = [*self.run.events, *(draft.events if draft else []), *self.run.state.buffered]
        signals = [e.request_id for e in events if isinstance(e, ev.WorkflowExecutionSignaled)]
        assert signals == self.acknowledged

    @invariant()
    def invariant_43_each_acknowledged_update_waits_or_has_its_verdict_once(self) -> None:
        run, draft = self.run, self.run.draft
        events = [*run.events, *(draft.events if draft else [])]
        accepted = [
            e.update_id for e in events if isinstance(e, ev.WorkflowExecutionUpdateAccepted)
        ]
        completed = [
            e.update_id for e in events if isinstance(e, ev.WorkflowExecutionUpdateCompleted)
        ]
        assert len(accepted) == len(set(accepted))
        assert len(completed) == len(set(completed))
        assert set(completed) <= set(accepted)
        admitted = set(run.state.admitted or ())
        assert not admitted & set(accepted)
        rejected = {*run.rejected_updates, *((draft.rejected or ()) if draft else ())}
        if run.state.open:
            assert self.updates <= admitted | set(accepted) | rejected
            assert not admitted or WORKFLOW_TASK_KEY in run.state.tasks, "somebody will look at it"
        else:
            assert not admitted

    @invariant()
    def invariant_18_nothing_is_numbered_while_the_workflow_task_is_out(self) -> None:
        record = self.run.state.tasks.get(WORKFLOW_TASK_KEY)
        if record is not None and record.handout is not None:
            transient = 0 if record.scheduled_event_id else 1
            expected = record.handout.started_event_id - transient
            assert self.run.state.folded.next_event_id == expected

    def teardown(self) -> None:
        if hasattr(self, "run"):
            self.run.commit()
            for check in invariants.CHECKS:
                check(self.run)

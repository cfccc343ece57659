"""Spans of workflows: which are made, when, and under what. Time and ids are the history's."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import (
    NonRecordingSpan,
    ProxyTracer,
    SpanContext,
    StatusCode,
    TraceFlags,
    get_current_span,
    set_span_in_context,
)
from tests.unit.sdk.engine_in_small import SECOND_US, START_US, PocketEngine, names, new_instance

from perdure import workflow
from perdure._payload import Payload
from perdure._replay import messages as m
from perdure._replay.external_messages import StartChildWorkflow
from perdure.contrib.opentelemetry import TracingInterceptor, default_text_map_propagator
from perdure.contrib.opentelemetry import workflow as traced_workflow
from perdure.contrib.opentelemetry._carrier import CARRIER_BYTES_MAX, Carrier
from perdure.errors import ApplicationError, WorkflowTaskError

SOON = timedelta(seconds=5)
KEY = "_tracer-data"
CARRIER = Carrier(KEY, default_text_map_propagator)
SAMPLED = TraceFlags(TraceFlags.SAMPLED)
CLIENT = SpanContext(0xA11CE, 0xB0B, is_remote=True, trace_flags=SAMPLED)


def header(
    span: SpanContext = CLIENT, sent_us: int = START_US, base: Context | None = None
) -> dict[str, Payload]:
    """As a client with a span sends it."""
    context = set_span_in_context(NonRecordingSpan(span), base or Context())
    return {**CARRIER.into({}, context, sent_us)}


class Collected:
    """An interceptor, and the spans that it made so far."""

    def __init__(self, **options: Any) -> None:
        self.exporter = InMemorySpanExporter()
        provider = TracerProvider(sampler=ParentBased(TraceIdRatioBased(1.0)))
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.interceptor = TracingInterceptor(provider.get_tracer("test"), **options)

    def take(self) -> list[ReadableSpan]:
        spans = [*self.exporter.get_finished_spans()]
        self.exporter.clear()
        return spans

    def names(self) -> list[str]:
        return [one.name for one in self.take()]


def ids(span: ReadableSpan) -> SpanContext:
    context = span.get_span_context()
    assert context is not None
    return context


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return {**(span.attributes or {})}


@workflow.defn
class Order:
    def __init__(self) -> None:
        self.told: list[str] = []

    @workflow.run
    async def run(self, how: str) -> str:
        await workflow.execute_activity("charge", start_to_close_timeout=SOON)
        if how == "fails":
            raise ApplicationError("secret 4711")
        if how == "again":
            workflow.continue_as_new("fine")
        await workflow.execute_activity("ship", start_to_close_timeout=SOON)
        return "shipped"

    @workflow.signal
    async def tell(self, what: str) -> None:
        await workflow.sleep(3)
        self.told.append(what)

    @workflow.query
    def state(self) -> str:
        return f"{get_current_span().get_span_context().span_id:x}"

    @workflow.update
    async def add(self, what: str) -> None:
        self.told.append(what)

    @add.validator
    def check(self, what: str) -> None:
        if not what:
            raise ApplicationError("nothing")


@pytest.fixture
def collected() -> Collected:
    return Collected()


def order(collected: Collected, how: str = "fine", **started: Any) -> PocketEngine:
    return PocketEngine(
        Order,
        how,
        interceptors=[collected.interceptor],
        started={"header": header()} | started,
    )


def activity_parent(commands: list[m.Command]) -> SpanContext:
    """The span that the activity's attempts will be under."""
    (command,) = commands
    assert isinstance(command, m.ScheduleActivity)
    arrival = CARRIER.out_of(command.header)
    assert arrival is not None
    return arrival.span


def test_a_run_is_one_trace_by_workflow_time(collected: Collected) -> None:
    run = order(collected)
    first = activity_parent(run.task())
    (starting,) = collected.take()
    run.complete("1")
    run.task()
    run.complete("2")
    run.task()
    _, ran = collected.take()

    assert starting.name == "StartActivity:charge"
    assert ids(starting).trace_id == CLIENT.trace_id
    assert ids(starting).span_id == first.span_id
    assert ran.name == "RunWorkflow:Order"
    assert ran.parent is not None
    assert ran.parent.span_id == CLIENT.span_id
    assert starting.parent is not None
    assert starting.parent.span_id == ids(ran).span_id
    # From the first workflow task to the third, each a second later.
    assert ran.start_time == (START_US + SECOND_US) * 1000
    assert ran.end_time == (START_US + 3 * SECOND_US) * 1000
    assert starting.start_time == starting.end_time == (START_US + SECOND_US) * 1000
    assert attributes(ran)["perdureWorkflowID"] == "w-1"
    assert attributes(ran)["messaging.destination.name"] == "orders"


def test_replay_makes_no_span_and_another_worker_goes_on_in_the_same_place(
    collected: Collected,
) -> None:
    """B21: no span twice, whatever dies; what follows hangs where it would have hung."""
    stays = order(collected)
    stays.task()
    stays.complete("1")
    expected = activity_parent(stays.task())
    spans = collected.take()
    assert len({ids(one).span_id for one in spans}) == len(spans) == 2

    moved = order(collected)
    moved.task()
    assert collected.names() == ["StartActivity:charge"]
    moved.instance.evict()  # its worker is gone
    moved.instance = new_instance(Order, interceptors=[collected.interceptor])
    moved.sent = 0
    moved.complete("1")
    assert activity_parent(moved.task()).span_id == expected.span_id
    (shipping,) = collected.take()
    assert shipping.name == "StartActivity:ship"
    assert ids(shipping).span_id == expected.span_id

    moved.complete("2")
    moved.task()
    assert collected.names() == ["RunWorkflow:Order"]
    moved.replay_all()
    assert collected.names() == []


_broken = [True]


@workflow.defn
class Deploying:
    """Its code has a defect until somebody mends it."""

    @workflow.run
    async def run(self) -> None:
        handle = workflow.start_activity("charge", start_to_close_timeout=SOON)
        if _broken[0]:
            raise WorkflowTaskError("a defect")
        await handle


def test_a_workflow_task_that_comes_to_nothing_makes_no_span(collected: Collected) -> None:
    """B21: its code runs again, and only then has happened what the span says."""
    run = PocketEngine(
        Deploying, interceptors=[collected.interceptor], started={"header": header()}
    )
    _broken[0] = True
    run.failed_task()
    assert collected.names() == []

    _broken[0] = False
    run.add(m.WorkflowTaskFailedOrTimedOut)
    run.instance = new_instance(Deploying, interceptors=[collected.interceptor])
    run.sent = 0
    run.task()
    assert collected.names() == ["StartActivity:charge"]


def test_spans_wait_until_the_engine_has_taken_the_workflow_task(collected: Collected) -> None:
    run = order(collected)
    run.begin_task()
    outcome = run.instance.activate(run.message(run.events))

    assert isinstance(outcome, m.TaskSuccess)
    assert collected.names() == []
    for one in outcome.afterwards:
        one()
    assert collected.names() == ["StartActivity:charge"]


def test_what_began_more_than_a_minute_later_is_linked_and_not_nested(
    collected: Collected,
) -> None:
    run = order(collected, header=header(sent_us=START_US - 60 * SECOND_US))
    run.task()
    run.complete("1")
    run.task()
    run.complete("2")
    run.task()

    charging, _, ran = collected.take()
    assert ran.parent is None
    assert ids(ran).trace_id != CLIENT.trace_id
    assert [one.context.span_id for one in ran.links] == [CLIENT.span_id]
    assert ids(charging).trace_id == ids(ran).trace_id
    assert charging.parent is not None
    assert charging.parent.span_id == ids(ran).span_id


def test_just_a_minute_is_nested(collected: Collected) -> None:
    run = order(collected, "fails", header=header(sent_us=START_US - 59 * SECOND_US))
    run.task()
    run.complete("1")
    run.task()

    _, ran = collected.take()
    assert ran.parent is not None
    assert ran.parent.span_id == CLIENT.span_id


def test_a_failed_run_says_why(collected: Collected) -> None:
    run = order(collected, "fails")
    run.task()
    run.complete("1")
    run.task()

    _, ran = collected.take()
    assert ran.status.status_code is StatusCode.ERROR
    (event,) = ran.events
    assert event.attributes is not None
    assert event.attributes["exception.message"] == "secret 4711"
    assert event.timestamp == ran.end_time


def test_messages_of_exceptions_can_be_kept_out() -> None:
    collected = Collected(exception_messages=False)
    run = order(collected, "fails")
    run.task()
    run.complete("1")
    run.task()

    _, ran = collected.take()
    assert "4711" not in ran.to_json()
    assert attributes(ran)["error.type"] == "ApplicationError"


def test_the_next_run_of_a_chain_is_below_this_one(collected: Collected) -> None:
    run = order(collected, "again")
    run.task()
    run.complete("1")
    (command,) = run.task()

    assert isinstance(command, m.ContinueAsNew)
    _, ran = collected.take()
    assert ran.status.status_code is not StatusCode.ERROR
    arrival = CARRIER.out_of(command.header)
    assert arrival is not None
    assert arrival.span.span_id == ids(ran).span_id


def test_a_signal_is_below_the_run_and_linked_with_its_sender(collected: Collected) -> None:
    sender = SpanContext(0x51, 0x52, is_remote=True, trace_flags=SAMPLED)
    run = order(collected)
    run.task()
    (charging,) = collected.take()
    run.signal("tell", "x", header=header(sender))
    run.task()
    assert collected.names() == []  # it sleeps

    run.fire("1")
    run.task()
    (handled,) = collected.take()
    assert handled.name == "HandleSignal:tell"
    assert [one.context.span_id for one in handled.links] == [sender.span_id]
    assert handled.parent is not None
    assert charging.parent is not None
    assert handled.parent.span_id == charging.parent.span_id
    assert handled.end_time is not None
    assert handled.start_time is not None
    assert handled.end_time - handled.start_time == SECOND_US * 1000
    run.replay_all()
    assert collected.names() == []


def test_a_query_is_below_who_asks_and_on_replay_too(collected: Collected) -> None:
    sender = SpanContext(0x61, 0x62, is_remote=True, trace_flags=SAMPLED)
    run = order(collected)
    run.task()
    collected.take()

    run.query("state", header=header(sender))
    (handled,) = collected.take()
    assert handled.name == "HandleQuery:state"
    assert handled.parent is not None
    assert handled.parent.span_id == sender.span_id
    assert len(handled.links) == 1

    run.query("state")
    assert collected.names() == []  # who asks is not traced


def test_an_update_is_validated_and_handled_once(collected: Collected) -> None:
    sender = SpanContext(0x71, 0x72, is_remote=True, trace_flags=SAMPLED)
    run = order(collected)
    run.task()
    collected.take()
    run.update("u1", "add", "x", header=header(sender))
    run.update("u2", "add", "", header=header(sender))
    run.task()

    spans = collected.take()
    assert [(one.name, one.status.status_code) for one in spans] == [
        ("ValidateUpdate:add", StatusCode.UNSET),
        ("HandleUpdate:add", StatusCode.UNSET),
        ("ValidateUpdate:add", StatusCode.ERROR),
    ]
    assert {link.context.span_id for one in spans for link in one.links} == {sender.span_id}
    assert len({ids(one).span_id for one in spans}) == 3
    assert [attributes(one)["perdureUpdateID"] for one in spans] == ["u1", "u1", "u2"]
    run.replay_all()
    assert collected.names() == []


@workflow.defn
class Parent:
    @workflow.run
    async def run(self) -> None:
        child = await workflow.start_child_workflow("Child", id="c")
        await child.signal("hurry")


def test_a_child_is_below_what_started_it(collected: Collected) -> None:
    started = {"header": header()}
    run = PocketEngine(Parent, interceptors=[collected.interceptor], started=started)
    (command,) = run.task()
    assert isinstance(command, StartChildWorkflow)
    (starting,) = collected.take()
    assert starting.name == "StartChildWorkflow:Child"
    arrival = CARRIER.out_of(command.header)
    assert arrival is not None
    assert arrival.span.span_id == ids(starting).span_id

    run.child_started("c")
    run.task()
    assert collected.names() == ["SignalChildWorkflow:hurry"]


def test_without_a_trace_that_came_there_are_no_spans(collected: Collected) -> None:
    run = order(collected, header={})
    (command,) = run.task()
    assert isinstance(command, m.ScheduleActivity)
    assert command.header == {}
    run.signal("tell", "x", header=header())
    run.update("u1", "add", "x", header=header())
    run.task()
    run.fire("1")
    run.task()

    assert collected.names() == []


def test_a_run_can_begin_a_trace_itself() -> None:
    collected = Collected(always_create_workflow_spans=True)
    run = order(collected, header={})
    run.task()
    run.complete("1")
    run.task()
    run.complete("2")
    run.task()

    charging, _, ran = collected.take()
    assert ran.parent is None
    assert charging.parent is not None
    assert charging.parent.span_id == ids(ran).span_id
    assert ids(charging).trace_id == ids(ran).trace_id


def test_what_was_not_sampled_stays_so(collected: Collected) -> None:
    unsampled = SpanContext(0x81, 0x82, is_remote=True, trace_flags=TraceFlags(0))
    run = order(collected, header=header(unsampled))

    assert activity_parent(run.task()).trace_flags == 0
    assert collected.names() == []


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[1]",
        b"\xff\xfe",
        b'{"traceparent": 5}',
        b'{"traceparent": "00-00-00-00"}',
        b'{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "x": "'
        + b"x" * CARRIER_BYTES_MAX
        + b'"}',
    ],
)
def test_a_header_that_cannot_be_read_is_as_if_it_were_not_there(
    collected: Collected, data: bytes
) -> None:
    """It comes from outside: it must not fail a workflow task."""
    run = order(collected, header={KEY: Payload("json/plain", data)})

    assert names(run.task()) == ["ScheduleActivity 1 charge"]
    assert collected.names() == []


def test_a_time_that_cannot_be_read_is_none() -> None:
    data = (
        b'{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",'
        b'"perdure-sent-us": "soon"}'
    )
    arrival = CARRIER.out_of({KEY: Payload("json/plain", data)})

    assert arrival is not None
    assert not arrival.is_old(START_US)


def test_baggage_goes_along_and_is_left_out_when_it_is_too_large() -> None:
    from opentelemetry import baggage

    small = CARRIER.out_of(header(base=baggage.set_baggage("tenant", "x")))
    assert small is not None
    assert baggage.get_baggage("tenant", small.context) == "x"

    base = Context()
    for number in range(3):
        base = baggage.set_baggage(f"n{number}", "x" * 2000, base)
    sent = header(base=base)
    assert len(sent[KEY].data) <= CARRIER_BYTES_MAX
    large = CARRIER.out_of(sent)
    assert large is not None
    assert large.span.span_id == CLIENT.span_id
    assert baggage.get_all(large.context) == {}


@workflow.defn
class Telling:
    @workflow.run
    async def run(self) -> None:
        traced_workflow.completed_span("step", attributes={"n": 1})
        traced_workflow.completed_span("step", exception=ApplicationError("no"))
        await workflow.sleep(1)


def test_code_can_make_spans_of_its_own(collected: Collected) -> None:
    started = {"header": header()}
    run = PocketEngine(Telling, interceptors=[collected.interceptor], started=started)
    run.task()

    first, second = collected.take()
    assert ids(first).span_id != ids(second).span_id
    assert attributes(first)["n"] == 1
    assert second.status.status_code is StatusCode.ERROR
    run.fire("1")
    run.task()
    (ran,) = collected.take()
    assert first.parent is not None
    assert first.parent.span_id == ids(ran).span_id


def test_code_that_makes_spans_runs_without_the_interceptor_too() -> None:
    assert names(PocketEngine(Telling).task()) == ["StartTimer 1 1000"]


def test_others_tracers_keep_their_ids(collected: Collected) -> None:
    """Fixed ids are for the spans of workflows: the tracer that was given is left as it is."""
    tracer = collected.interceptor.tracer
    before = getattr(tracer, "id_generator")  # noqa: B009 - of the SDK's tracer only
    order(collected).task()

    assert getattr(tracer, "id_generator") is before  # noqa: B009
    with tracer.start_as_current_span("mine") as one, tracer.start_as_current_span("inner") as two:
        assert one.get_span_context().span_id != two.get_span_context().span_id


def test_a_tracer_made_before_there_is_a_provider_does_no_harm() -> None:
    interceptor = TracingInterceptor(ProxyTracer("early"))
    run = PocketEngine(Order, "fine", interceptors=[interceptor], started={"header": header()})

    assert activity_parent(run.task()).trace_id == CLIENT.trace_id

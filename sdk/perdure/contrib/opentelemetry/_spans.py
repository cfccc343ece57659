"""Spans of workflows: put down as data while workflow code runs, made of it outside of it.

Their ids are functions of the run's id and of what the span is, because a replay on another worker
has to know them without having made the span.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, cast

from opentelemetry.context import Context
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.trace import Link, Span, SpanKind, StatusCode, Tracer
from opentelemetry.util.types import Attributes

from perdure.errors import is_benign

_SPAN_ID_BYTES = 8
_TRACE_ID_BYTES = 16


@dataclass(frozen=True, slots=True)
class Raised:
    """An exception without its frames, which would keep a run in memory."""

    kind: str
    message: str
    benign: bool = False

    @classmethod
    def of(cls, error: BaseException | None, *, with_message: bool) -> Raised | None:
        if error is None:
            return None
        message = str(error) if with_message else ""
        return cls(type(error).__qualname__, message, is_benign(error))


@dataclass(frozen=True, slots=True)
class SpanRecord:
    """Times in ns since the epoch; None: when it is made into a span."""

    name: str
    trace_id: int
    span_id: int
    parent: Context
    kind: SpanKind
    links: tuple[Link, ...]
    attributes: Attributes
    start_ns: int | None
    end_ns: int | None
    raised: Raised | None


def span_id_of(run_id: str, what: str) -> int:
    return _hashed(f"{run_id}/{what}", _SPAN_ID_BYTES)


def trace_id_of(run_id: str) -> int:
    return _hashed(run_id, _TRACE_ID_BYTES)


def _hashed(text: str, size: int) -> int:
    # 0 would be no id at all.
    return int.from_bytes(blake2b(text.encode(), digest_size=size).digest(), "big") or 1


class SpanMaker:
    """Makes spans of records, in any thread outside of workflow code."""

    def __init__(self, tracer: Callable[[], Tracer]) -> None:
        """`tracer` is asked when it is needed: a provider may be set later than this is made."""
        self._tracer = tracer
        self._asked: Tracer | None = None
        self._own: Tracer | None = None  # a copy of it, with ids as we give them

    def make(self, record: SpanRecord) -> None:
        with _fixed_ids(record.trace_id, record.span_id):
            span = self._with_fixed_ids().start_span(
                record.name,
                context=record.parent,
                kind=record.kind,
                attributes=record.attributes,
                links=record.links,
                start_time=record.start_ns,
            )
        if record.raised is not None:
            mark_failed(span, record.raised, record.end_ns)
        span.end(end_time=record.end_ns)

    def _with_fixed_ids(self) -> Tracer:
        """A copy of the tracer, so that nobody else's spans are touched."""
        tracer = self._tracer()
        # What `get_tracer` gave before there was a provider passes its calls on to this.
        tracer = getattr(tracer, "_tracer", tracer)
        if self._own is None or tracer is not self._asked:
            own: Any = copy(tracer)
            if hasattr(own, "id_generator"):  # of the SDK; else ids are what they are
                own.id_generator = _FixedIds(own.id_generator)
            self._asked = tracer
            self._own = own
            return cast(Tracer, own)
        return self._own


def mark_failed(span: Span, raised: Raised, time_ns: int | None = None) -> None:
    attributes = {"exception.type": raised.kind}
    if raised.message:
        attributes["exception.message"] = raised.message
    span.add_event("exception", attributes, timestamp=time_ns)
    if raised.benign:
        return  # it happened, and nothing is wrong
    span.set_attribute("error.type", raised.kind)
    text = f"{raised.kind}: {raised.message}" if raised.message else raised.kind
    span.set_status(StatusCode.ERROR, text)


_fixed: ContextVar[tuple[int, int] | None] = ContextVar("perdure_span_ids", default=None)


@contextmanager
def _fixed_ids(trace_id: int, span_id: int) -> Generator[None]:
    token = _fixed.set((trace_id, span_id))
    try:
        yield
    finally:
        _fixed.reset(token)


class _FixedIds(IdGenerator):
    def __init__(self, others: Any) -> None:
        self._others = others

    def generate_span_id(self) -> int:
        ids = _fixed.get()
        return int(self._others.generate_span_id()) if ids is None else ids[1]

    def generate_trace_id(self) -> int:
        ids = _fixed.get()
        return int(self._others.generate_trace_id()) if ids is None else ids[0]

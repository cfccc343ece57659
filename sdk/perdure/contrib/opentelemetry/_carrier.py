"""Trace context in headers: W3C trace context and baggage, and when it was sent.

What comes in may come from anybody: what cannot be read is as if it were not there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from opentelemetry.baggage.propagation import W3CBaggagePropagator
from opentelemetry.context import Context
from opentelemetry.propagators.composite import CompositePropagator
from opentelemetry.propagators.textmap import TextMapPropagator
from opentelemetry.trace import SpanContext, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from perdure.converter import Payload

default_text_map_propagator: TextMapPropagator = CompositePropagator(
    [TraceContextTextMapPropagator(), W3CBaggagePropagator()]
)

# It is written into the history of every run and into every activity: enough for trace state (512
# bytes at most) and some baggage, and no place for a program's data.
CARRIER_BYTES_MAX = 4096
# Beyond it the trace of what asked is most likely over and looked at.
GAP_US_MAX = 60_000_000

_SENT = "perdure-sent-us"
_JSON = "json/plain"
# Left out first, and then everything.
_OPTIONAL = ("baggage", "tracestate")


@dataclass(frozen=True, slots=True)
class Arrival:
    """What a header brought. `sent_us` 0: it does not say when."""

    context: Context
    span: SpanContext
    sent_us: int

    def is_old(self, now_us: int) -> bool:
        return self.sent_us > 0 and now_us - self.sent_us > GAP_US_MAX


class Carrier:
    def __init__(self, header_key: str, propagator: TextMapPropagator) -> None:
        self._key = header_key
        self._propagator = propagator

    def into(
        self, headers: Mapping[str, Payload], context: Context, sent_us: int
    ) -> Mapping[str, Payload]:
        """The headers with the context; as they are when there is none."""
        fields: dict[str, Any] = {}
        self._propagator.inject(fields, context=context)
        if not fields:
            return headers
        fields[_SENT] = str(sent_us)
        data = _packed(fields)
        for name in _OPTIONAL:
            if len(data) > CARRIER_BYTES_MAX:
                fields.pop(name, None)
                data = _packed(fields)
        if len(data) > CARRIER_BYTES_MAX:
            return headers
        return {**headers, self._key: Payload(_JSON, data)}

    def out_of(self, headers: Mapping[str, Payload]) -> Arrival | None:
        """None: there is no context, or none that can be read."""
        payload = headers.get(self._key)
        if payload is None or len(payload.data) > CARRIER_BYTES_MAX:
            return None
        try:
            fields = cast(object, json.loads(payload.data))
        except ValueError:
            return None
        if not isinstance(fields, dict):
            return None
        found = cast(dict[str, object], fields)
        texts = {name: text for name, text in found.items() if isinstance(text, str)}
        sent = texts.pop(_SENT, "")
        # Not into the present context: what this process happens to do is not what asked.
        context = self._propagator.extract(texts, context=Context())
        span = get_current_span(context).get_span_context()
        if not span.is_valid:
            return None
        is_time = sent.isascii() and sent.isdigit() and len(sent) < 20
        return Arrival(context, span, int(sent) if is_time else 0)


def _packed(fields: Mapping[str, Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()

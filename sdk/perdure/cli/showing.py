"""How the command line reads payloads: what it cannot decode it shows as it is.

The keys are with the workers and their clients, not here, and an operator has to see all the same
that there is a result, in which encoding, and by which key.
"""

from __future__ import annotations

from typing import Any

from perdure.converter import DataConverter, Payload, PayloadConverter
from perdure.errors import PayloadDecodeError


class ShowingPayloadConverter(PayloadConverter):
    def from_payload(self, payload: Payload, type_hint: Any = Any) -> Any:
        try:
            return super().from_payload(payload, type_hint)
        except PayloadDecodeError:
            return payload


SHOWING = DataConverter(payload_converter_class=ShowingPayloadConverter)

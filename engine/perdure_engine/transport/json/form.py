"""What the archive writes (ports.archive.ArchiveForm)."""

from __future__ import annotations

from perdure_engine.core.events import Event
from perdure_engine.transport.json.events import event_json


class ContractForm:
    """Implements ports.archive.ArchiveForm."""

    def event(self, event: Event) -> bytes:
        return event_json(event)

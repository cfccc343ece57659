"""What the archive writes (ports.archive.ArchiveForm)."""

from __future__ import annotations

from perdure_engine.core.events import Event
from perdure_engine.core.jobs.replies import JobDescription
from perdure_engine.transport.json.events import event_json
from perdure_engine.transport.json.jobs import job_json


class ContractForm:
    """Implements ports.archive.ArchiveForm."""

    def event(self, event: Event) -> bytes:
        return event_json(event)

    def job(self, job: JobDescription) -> tuple[bytes, bytes]:
        return job_json(job)

"""Jobs that are to be made, as messages.

Thousands a call: a message's fields are put into a dict, and of the options only those are looked
at that were given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perdure._jobs import Concurrency, JobOptions, JobStatus, NewJob
from perdure._wire.errors import error_from_status
from perdure._wire.payloads import fields_to_bytes, payloads_to_bytes
from perdure._wire.policies import duration_to_ms, instant_to_us, retry_policy_to_message
from perdure.common import Priority
from perdure.converter import Payload, PayloadConverter
from perdure.errors import RPCError
from perdure_api.v1 import job_service_pb2 as pb

Fields = dict[str, Any]

_PLAIN = ("user_id", "idempotency_key", "unique_key", "unique_scope")
_KNOWN = JobOptions.__annotations__.keys()
_MESSAGE_FIELDS: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "queue": ("task_queue", str),
    "run_at": ("due_time_us", instant_to_us),
    "delay": ("delay_ms", duration_to_ms),
    "timeout": ("timeout_ms", duration_to_ms),
    "heartbeat_timeout": ("heartbeat_timeout_ms", duration_to_ms),
    "retry_policy": ("retry_policy", retry_policy_to_message),
    "priority": ("priority", lambda priority: _priority(priority)),
    "unique_period": ("unique_period_ms", duration_to_ms),
    "concurrency": ("concurrency", lambda concurrency: _concurrency(concurrency)),
    "expires_at": ("expire_time_us", instant_to_us),
    **{name: (name, lambda value: value) for name in _PLAIN},
}


@dataclass(frozen=True, slots=True)
class MadeJob:
    id: str
    created: bool
    """False: a job of its idempotency or unique key was there."""
    status: JobStatus | None


class JobsToMake:
    """The jobs of one message, which may be sent any number of times."""

    __slots__ = ("input_bytes_max", "message")

    def __init__(
        self,
        jobs: Sequence[Fields],
        *,
        namespace: str,
        request_id: str,
        identity: str,
        batch: Fields | None = None,
    ) -> None:
        fields: Any = {"jobs": jobs, "batch": batch}  # the stubs know nothing of dicts
        self.message = pb.CreateJobsRequest(
            namespace=namespace, request_id=request_id, identity=identity, **fields
        )
        self.input_bytes_max = max((len(one["input"]) for one in jobs), default=0)
        """Of the largest input, in bytes, as it was before codecs."""


def job_fields(
    job: NewJob[Any], converter: PayloadConverter, header: Mapping[str, Payload]
) -> Fields:
    """Raises TypeError for options that are not there, ValueError for those that exclude each
    other, PayloadEncodeError for arguments that cannot travel."""
    fields: Fields = {
        "task_name": job.name,
        "input": payloads_to_bytes(converter.to_payloads(job.args)),
    }
    for name, value in job.options.items():
        if value is None:
            continue
        if name not in _MESSAGE_FIELDS:
            raise TypeError(f"a job has no option {name!r}; it has: {', '.join(_KNOWN)}")
        field, convert = _MESSAGE_FIELDS[name]
        fields[field] = convert(value)
    if "due_time_us" in fields and "delay_ms" in fields:
        raise ValueError("give run_at or delay, not both")
    if header:
        fields["header"] = fields_to_bytes(header)
    return fields


def made_from_message(message: pb.CreatedJob) -> MadeJob | RPCError:
    if message.error:
        return error_from_status(message.error)
    return MadeJob(message.job_id, message.created, _STATUSES.get(message.status))


_STATUSES = {int(status): status for status in JobStatus}


def _priority(priority: Priority) -> int:
    return priority.priority_key or 0


def _concurrency(concurrency: Concurrency) -> Fields:
    return {
        "key": concurrency.key,
        "limit": concurrency.limit,
        "policy": int(concurrency.policy),
        "rate_per_s": concurrency.rate_per_s,
    }

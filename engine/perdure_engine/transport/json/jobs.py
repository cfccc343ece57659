"""Jobs as JSON: JobInfo and JobDetails of the contract."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
from google.protobuf.message import Message

from perdure_api.v1 import job_service_pb2 as pb
from perdure_engine.core.jobs.replies import JobDescription
from perdure_engine.ports.archive import ArchiveCorrupt
from perdure_engine.transport.grpc.convert.job_replies import details_fields, job_failure_fields
from perdure_engine.transport.json.fields import fields_to_json, message_from_json

MessageT = TypeVar("MessageT", bound=Message)

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


def job_json(job: JobDescription) -> tuple[bytes, bytes]:
    """JobInfo and JobDetails of one that has ended, with all failures that are kept."""
    fields = details_fields(job, job.info.closed_us)
    info = _encode(fields_to_json(pb.JobInfo.DESCRIPTOR, fields.pop("info")))
    fields["failures"] = [job_failure_fields(failed) for failed in job.info.state.failures]
    details = fields_to_json(pb.JobDetails.DESCRIPTOR, fields)
    return info, _encode({"info": msgspec.Raw(info), **details})


def info_from_json(text: bytes) -> pb.JobInfo:
    """Raises ArchiveCorrupt."""
    info = _message(pb.JobInfo, text)
    info.archived = True
    return info


def details_from_json(text: bytes) -> pb.JobDetails:
    """Raises ArchiveCorrupt."""
    details = _message(pb.JobDetails, text)
    details.info.archived = True
    return details


def _message(kind: type[MessageT], text: bytes) -> MessageT:
    try:
        return message_from_json(kind, _decode(text))
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise ArchiveCorrupt(f"an archived job does not read back: {error!r}") from error

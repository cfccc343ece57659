"""What a run came to, as clients hear of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from perdure._failure_info import FailureInfo
from perdure._wire.edge import PayloadEdge
from perdure._wire.errors import error_from_status
from perdure._wire.failures import failure_from_message, failure_to_message
from perdure._wire.payloads import payloads_from_bytes, payloads_to_bytes
from perdure.common import WorkflowStatus
from perdure.converter import Payload
from perdure.errors import PayloadDecodeError, RPCError, RPCStatusCode
from perdure_api.v1 import workflow_service_pb2 as pb


@dataclass(frozen=True, slots=True)
class RunResult:
    status: WorkflowStatus
    run_id: str
    result: list[Payload]
    """Of a completed run."""
    failure: FailureInfo | None
    """Of every other closed run, but one that continued as new."""
    next_run_id: str = ""
    """The run that follows; empty: none."""


@dataclass(frozen=True, slots=True)
class ResultWait:
    wait_id: int
    namespace: str
    workflow_id: str
    run_id: str
    """Empty: the run that is current when the wait arrives."""


@dataclass(frozen=True, slots=True)
class WaitedResult:
    wait_id: int
    outcome: RunResult | RPCError


def wait_to_message(wait: ResultWait) -> pb.Wait:
    return pb.Wait(
        wait_id=wait.wait_id,
        namespace=wait.namespace,
        workflow_id=wait.workflow_id,
        run_id=wait.run_id,
    )


def waited_from_message(message: pb.WaitedResult) -> WaitedResult:
    return WaitedResult(message.wait_id, _outcome(message))


async def decoded_result(outcome: RunResult, edge: PayloadEdge) -> RunResult:
    """Raises PayloadDecodeError. Here and not at the stream, where one result that takes long to
    decode would hold up all others."""
    if edge.is_plain:
        return outcome
    message = pb.WorkflowResult(result=payloads_to_bytes(outcome.result))
    if outcome.failure is not None:
        message.failure.CopyFrom(failure_to_message(outcome.failure))
    await edge.decode(message)
    failure = failure_from_message(message.failure) if message.HasField("failure") else None
    return replace(outcome, result=payloads_from_bytes(message.result), failure=failure)


def _outcome(message: pb.WaitedResult) -> RunResult | RPCError:
    if message.error:
        return error_from_status(message.error)
    result = message.result
    try:
        return RunResult(
            status=WorkflowStatus(result.status),
            run_id=result.run_id,
            result=payloads_from_bytes(result.result),
            failure=failure_from_message(result.failure) if result.HasField("failure") else None,
            next_run_id=result.next_run_id,
        )
    except (ValueError, PayloadDecodeError) as error:
        return RPCError(f"a result that cannot be read: {error}", RPCStatusCode.INTERNAL)

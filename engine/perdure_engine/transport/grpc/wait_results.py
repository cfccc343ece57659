"""WaitResults: one stream for any number of waits."""

from __future__ import annotations

import asyncio

from perdure_api.v1 import workflow_service_pb2 as pb
from perdure_engine.core import limits
from perdure_engine.core.errors import Code, Rejected, invalid, unavailable
from perdure_engine.core.intents import WaitResult
from perdure_engine.core.replies import Closed, Reply
from perdure_engine.frontend.archived import archived_run
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.frontend.handlers.wait_results import wait_result
from perdure_engine.transport.grpc.convert import archived, intents
from perdure_engine.transport.grpc.convert.fields import Fields
from perdure_engine.transport.grpc.convert.replies import result_fields
from perdure_engine.transport.grpc.errors import Errors
from perdure_engine.transport.grpc.message_stream import MessageStream

WAITS_MAX = 100_000  # of one stream, 50 MB of waits; a client that needs more opens another
RESULT_ENVELOPE_BYTES = 256


class WaitStream:
    """The waits of one stream and the answers that are ready to be sent.

    Answers that come in one turn of the loop leave in one message. A client that ends its half of
    the stream still gets the answers to what it asked; when the stream ends, its waits are
    cancelled. Of a run that the tables do not have any more the archive is asked, and only then: on
    the way of all others nothing of it may cost.
    """

    def __init__(self, frontend: Frontend, errors: Errors) -> None:
        self._frontend = frontend
        self._errors = errors
        self._waits: dict[int, asyncio.Future[Reply]] = {}
        self._ready: list[tuple[int, Closed | BaseException]] = []
        self._changed = asyncio.Event()
        self._asked_all = False

    async def serve(self, stream: MessageStream) -> None:
        reader = asyncio.get_running_loop().create_task(self._read(stream))
        try:
            while True:
                if await self._frontend.parking.wait(self._changed.wait(), None) is None:
                    raise unavailable("SHUTTING_DOWN", "this node is stopping; ask another one")
                self._changed.clear()
                while self._ready:
                    await stream.write(self._message())
                if reader.done():
                    reader.result()
                    if not self._waits:
                        return
        finally:
            reader.cancel()
            for future in list(self._waits.values()):
                future.cancel()

    async def _read(self, stream: MessageStream) -> None:
        try:
            while (request := await stream.read()) is not None:
                for wait_id in request.forget:
                    self._forget(wait_id)
                for wait in request.waits:
                    await self._begin(wait)
        finally:
            # Set in the next turn, when this task counts as done.
            asyncio.get_running_loop().call_soon(self._changed.set)

    async def _begin(self, wait: pb.Wait) -> None:
        wait_id = wait.wait_id
        try:
            if wait_id in self._waits:
                raise invalid("wait_id", "is in use on this stream")
            if len(self._waits) >= WAITS_MAX:
                raise _too_many()
            namespace_id = await self._frontend.namespaces.id_of(wait.namespace)
            intent = intents.wait_result(wait, namespace_id)
            future = wait_result(self._frontend, intent)
        except Exception as error:
            self._answer(wait_id, error)
            return
        self._waits[wait_id] = future
        future.add_done_callback(lambda done: self._done(wait_id, done, intent))

    def _done(self, wait_id: int, future: asyncio.Future[Reply], intent: WaitResult | None) -> None:
        """`intent`: what the archive may still be asked; None: it has been."""
        if self._waits.pop(wait_id, None) is None:
            return
        if future.cancelled():
            self._answer(wait_id, asyncio.CancelledError())
            return
        error = future.exception()
        if error is None:
            reply = future.result()
            assert isinstance(reply, Closed)
            self._answer(wait_id, reply)
        elif isinstance(error, Rejected) and error.code is Code.NOT_FOUND and intent is not None:
            looking = asyncio.get_running_loop().create_task(self._archived(intent, error))
            self._waits[wait_id] = looking
            looking.add_done_callback(lambda done: self._done(wait_id, done, None))
        else:
            self._answer(wait_id, error)

    async def _archived(self, intent: WaitResult, refusal: Rejected) -> Reply:
        run = await archived_run(
            self._frontend, refusal, intent.namespace_id, intent.workflow_id, intent.run_id
        )
        return archived.closed(run)

    def _forget(self, wait_id: int) -> None:
        future = self._waits.pop(wait_id, None)
        if future is not None:
            future.cancel()

    def _answer(self, wait_id: int, answer: Closed | BaseException) -> None:
        self._ready.append((wait_id, answer))
        self._changed.set()

    def _message(self) -> pb.WaitResultsResponse:
        """As many of the ready answers as fit into a message, and at least one."""
        results: list[Fields] = []
        room = limits.BATCH_MESSAGE_BYTES_MAX
        for wait_id, answer in self._ready:
            if isinstance(answer, Closed):
                fields = {"wait_id": wait_id, "result": result_fields(answer)}
                room -= _bytes_of(fields["result"])
            else:
                fields = {"wait_id": wait_id, "error": self._errors.encoded(answer)}
                room -= len(fields["error"]) + RESULT_ENVELOPE_BYTES
            if room < 0 and results:
                break
            results.append(fields)
        del self._ready[: len(results)]
        return pb.WaitResultsResponse(results=results)


def _bytes_of(result: Fields) -> int:
    if "result" in result:
        return RESULT_ENVELOPE_BYTES + len(result["result"])
    return RESULT_ENVELOPE_BYTES + pb.WorkflowResult(**result).ByteSize()


def _too_many() -> Rejected:
    return Rejected(
        Code.RESOURCE_EXHAUSTED,
        "TOO_MANY_WAITS",
        f"the stream carries {WAITS_MAX} waits already; open another one",
    )

"""A client and a worker with codecs and external storage, against the fake engine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import zstandard
from obstore.store import LocalStore
from tests.integration.sdk.fake_engine import FakeEngine

from perdure import activity, workflow
from perdure._failure_info import FailureInfo
from perdure.cli.jsonable import to_jsonable
from perdure.cli.showing import SHOWING
from perdure.client import Client, WorkflowFailureError
from perdure.codecs import CodecChain, CompressionCodec, EncryptionCodec, KeyRing
from perdure.common import RetryPolicy
from perdure.converter import (
    CompositePayloadConverter,
    DataConverter,
    DefaultFailureConverter,
    DefaultFailureConverterWithEncodedAttributes,
    DefaultPayloadConverter,
    EncodingPayloadConverter,
    Payload,
    PayloadCodec,
    PayloadConverter,
)
from perdure.errors import (
    ActivityError,
    ApplicationError,
    ExternalPayloadError,
    PayloadAlteredError,
    PayloadEncodeError,
    PayloadTooLargeError,
    RPCError,
    RPCStatusCode,
    UnknownKeyError,
)
from perdure.storage import ExternalStorage
from perdure.worker import Worker
from perdure_api.v1 import event_pb2

QUEUE = "queue"
SECRET = "4111-1111"
KEYS = KeyRing("k1", {"k1": b"1" * 32})
ENCRYPTED = DataConverter(
    payload_codec=CodecChain(CompressionCodec(), EncryptionCodec(KEYS)),
    failure_converter_class=DefaultFailureConverterWithEncodedAttributes,
)
TEN_SECONDS = timedelta(seconds=10)


@activity.defn
async def charge(card: str) -> str:
    return f"charged {card}"


@activity.defn
async def refuse(card: str) -> None:
    raise ApplicationError(f"no money on {card}", card, type="Refused", non_retryable=True)


@activity.defn
async def grow(size: int) -> str:
    return "x" * size


@activity.defn
async def go_on_after(progress: str) -> str:
    """Fails once, with progress; then returns the progress that it finds."""
    info = activity.info()
    if info.attempt == 1:
        activity.heartbeat(progress)
        raise ApplicationError("once more")
    return str(info.heartbeat_details[0])


@workflow.defn
class Call:
    """Runs an activity with what it is sent by a signal."""

    def __init__(self) -> None:
        self._card: Any = None

    @workflow.run
    async def run(self, name: str, attempts: int = 1) -> Any:
        await workflow.wait_condition(lambda: self._card is not None)
        return await workflow.execute_activity(
            name,
            self._card,
            start_to_close_timeout=TEN_SECONDS,
            retry_policy=RetryPolicy(maximum_attempts=attempts),
        )

    @workflow.signal
    def card(self, card: Any) -> None:
        self._card = card

    @workflow.query
    def about(self, greeting: str) -> str:
        return f"{greeting}, {workflow.memo()['owner']} has {self._card}"

    @workflow.query
    def large(self, size: int) -> str:
        return "x" * size


@asynccontextmanager
async def connected(engine: FakeEngine, converter: DataConverter) -> AsyncIterator[Client]:
    async with await Client.connect(
        engine.address, identity="a test", data_converter=converter
    ) as client:
        yield client


def worker(client: Client) -> Worker:
    return Worker(
        client,
        task_queue=QUEUE,
        workflows=[Call],
        activities=[charge, refuse, grow, go_on_after],
        graceful_shutdown_timeout=timedelta(),
    )


async def begin(client: Client, name: str, value: Any, attempts: int = 1) -> Any:
    return await client.start_workflow(
        Call.run,
        args=[name, attempts],
        id="call",
        task_queue=QUEUE,
        memo={"owner": f"owner {SECRET}"},
        static_summary=f"about {SECRET}",
        start_signal="card",
        start_signal_args=[value],
    )


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def all_that_came(engine: FakeEngine) -> bytes:
    return b"".join(
        request.SerializeToString() for one in engine.requests.values() for request in one
    )


# --- encryption -----------------------------------------------------------------------------------


async def test_nothing_of_a_value_reaches_the_engine(engine: FakeEngine) -> None:
    """reliability 68: arguments, results, signals, queries, memo, summary, progress."""
    async with connected(engine, ENCRYPTED) as client, worker(client):
        handle = await begin(client, "charge", SECRET)
        assert await handle.result() == f"charged {SECRET}"
        answer = await handle.query(Call.about, "hello")
        described = await handle.describe()
        history = await handle.fetch_history()

    assert answer == f"hello, owner {SECRET} has {SECRET}"
    assert described.memo == {"owner": f"owner {SECRET}"}
    # As it is saved, for a file or for a Replayer: it must not be what a codec was to hide.
    saved = history.events[0].attributes["memo"]["owner"]
    assert saved.encoding == "binary/encrypted"
    assert await ENCRYPTED.decode([saved]) == [f"owner {SECRET}"]
    came = all_that_came(engine)
    assert b"encryption-key-id" in came
    assert SECRET.encode() not in came


async def test_nothing_of_a_failure_reaches_the_engine(engine: FakeEngine) -> None:
    async with connected(engine, ENCRYPTED) as client, worker(client):
        handle = await begin(client, "refuse", SECRET)
        with pytest.raises(WorkflowFailureError) as caught:
            await handle.result()

    failure = caught.value.cause
    assert isinstance(failure, ActivityError)
    error = failure.cause
    assert isinstance(error, ApplicationError)
    assert (error.message, error.type) == (f"no money on {SECRET}", "Refused")
    assert list(error.details) == [SECRET]
    assert error.failure is not None
    assert "raise ApplicationError" in error.failure.stack_trace
    came = all_that_came(engine)
    assert SECRET.encode() not in came
    assert b"raise ApplicationError" not in came
    assert b"Refused" in came  # retry policies go by it


async def test_progress_is_encrypted_and_found_by_the_next_attempt(engine: FakeEngine) -> None:
    async with connected(engine, ENCRYPTED) as client, worker(client):
        handle = await begin(client, "go_on_after", SECRET, attempts=2)
        assert await handle.result() == SECRET
    (failed,) = engine.completions("activity_failure")
    assert failed.activity_failure.heartbeat_details
    assert SECRET.encode() not in all_that_came(engine)


async def test_progress_on_its_way_is_encrypted(engine: FakeEngine) -> None:
    """Heartbeats leave from a thread, where no codec can run: they carry what is encoded by then."""
    sent = asyncio.Event()

    @activity.defn
    async def report(card: str) -> str:
        activity.heartbeat(card)
        await sent.wait()
        return "done"

    def progress() -> list[bytes]:
        requests = engine.requests["Heartbeat"]
        return [one.heartbeat_details for request in requests for one in request.held]

    async with (
        connected(engine, ENCRYPTED) as client,
        Worker(client, task_queue=QUEUE, workflows=[Call], activities=[report],
               graceful_shutdown_timeout=timedelta()),
    ):  # fmt: skip
        handle = await begin(client, "report", SECRET)
        await engine.until(lambda: any(progress()))
        sent.set()
        assert await handle.result() == "done"
    details = next(one for one in progress() if one)
    assert b"encryption-key-id" in details
    assert SECRET.encode() not in all_that_came(engine)


async def test_a_client_without_the_key_gets_an_error_with_a_name(engine: FakeEngine) -> None:
    """And an operator without any key still sees that there is something."""
    other = DataConverter(payload_codec=EncryptionCodec(KeyRing("k2", {"k2": b"2" * 32})))
    altered = DataConverter(payload_codec=EncryptionCodec(KeyRing("k1", {"k1": b"2" * 32})))
    async with connected(engine, ENCRYPTED) as client, worker(client):
        handle = await begin(client, "charge", SECRET)
        await handle.result()
        async with connected(engine, other) as stranger:
            with pytest.raises(UnknownKeyError, match="result: key 'k1' is not in the key ring"):
                await stranger.get_workflow_handle("call").result()
            described = await stranger.get_workflow_handle("call").describe()
            assert described.memo["owner"].encoding == "binary/encrypted"
            assert (await stranger.get_workflow_handle("call").fetch_history()).events
        async with connected(engine, altered) as stranger:
            with pytest.raises(PayloadAlteredError, match="result: data or metadata was altered"):
                await stranger.get_workflow_handle("call").result()
        async with connected(engine, DataConverter.default) as stranger:
            described = await stranger.get_workflow_handle("call").describe()
            assert described.memo["owner"].encoding == "binary/encrypted"


async def test_the_command_line_shows_what_it_cannot_decode(engine: FakeEngine) -> None:
    """Its own converter, as `perdure workflow result`, `query`, `describe` and `show` use it."""
    async with connected(engine, ENCRYPTED) as client, worker(client):
        await (await begin(client, "charge", SECRET)).result()
        async with connected(engine, SHOWING) as command_line:
            handle = command_line.get_workflow_handle("call")
            shown = [
                to_jsonable(one, command_line.core.decode_or_keep)
                for one in (
                    await handle.result(),
                    (await handle.describe()).memo["owner"],
                    (await handle.fetch_history()).events[0].attributes["input"][0],
                )
            ]
    for one in shown:
        assert one["encoding"] == "binary/encrypted"
        assert one["metadata"]["encryption-key-id"] == "k1"


@pytest.mark.parametrize(
    ("converter", "type_", "said"),
    [
        (
            DataConverter(payload_codec=EncryptionCodec(KeyRing("k2", {"k2": b"2" * 32}))),
            "UnknownKeyError",
            "event 1 workflow_execution_started.input: key 'k1' is not in the key ring",
        ),
        (
            DataConverter(payload_codec=EncryptionCodec(KeyRing("k1", {"k1": b"2" * 32}))),
            "PayloadAlteredError",
            "event 1 workflow_execution_started.input: data or metadata was altered",
        ),
        (DataConverter.default, "UnknownEncodingError", "this side has no EncryptionCodec"),
    ],
)
async def test_a_worker_without_the_key_fails_the_task_and_not_the_run(
    engine: FakeEngine, converter: DataConverter, type_: str, said: str
) -> None:
    """F37: retried by the engine until a worker has the key; the payload is untouched."""
    async with connected(engine, ENCRYPTED) as client:
        await begin(client, "charge", SECRET)
        async with connected(engine, converter) as stranger, worker(stranger):
            await engine.until(lambda: bool(engine.completions("workflow_task_failure")))
        (failed,) = engine.completions("workflow_task_failure")
        failure = failed.workflow_task_failure
        assert failure.cause == event_pb2.WORKFLOW_TASK_FAILED_CAUSE_PAYLOAD_DECODE
        assert failure.failure.application.type == type_
        assert said in failure.failure.message

        run = engine.runs.by_workflow_id["call"]
        engine.runs.schedule(run)  # the engine's next try
        async with worker(client):
            assert await client.get_workflow_handle("call").result() == f"charged {SECRET}"


class Failing(PayloadCodec):
    """Like encryption by a server, which is down when it is told to be."""

    def __init__(self) -> None:
        self.fails_for: Callable[[Payload], bool] = lambda payload: False

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [self._turn(one, "turned") for one in payloads]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [self._turn(one, "json/plain") for one in payloads]

    def _turn(self, payload: Payload, encoding: str) -> Payload:
        if self.fails_for(payload):
            raise ConnectionError("codec server is down")
        return Payload(encoding, payload.data[::-1], payload.metadata)


async def test_f37_an_input_that_cannot_be_decoded_now_is_tried_again(engine: FakeEngine) -> None:
    """As with temporalio the attempt fails, retryably: nothing is lost while the server is down."""
    codec = Failing()
    failed: list[Payload] = []

    def once(payload: Payload) -> bool:
        if payload.encoding == "turned" and payload.data == b'"arg"'[::-1] and len(failed) < 1:
            tasks = engine.runs.started_attempts
            if tasks:  # the activity's input, not the signal's
                failed.append(payload)
                return True
        return False

    codec.fails_for = once
    async with connected(engine, DataConverter(payload_codec=codec)) as client, worker(client):
        handle = await begin(client, "charge", "arg", attempts=3)
        assert await handle.result() == "charged arg"
    (report,) = engine.completions("activity_failure")
    assert report.activity_failure.failure.application.type == "PayloadDecodeError"
    assert not report.activity_failure.failure.application.non_retryable
    assert "input: ConnectionError: codec server is down" in report.activity_failure.failure.message


class Pickling(EncodingPayloadConverter):
    """Texts in an encoding that nobody here reads."""

    @property
    def encoding(self) -> str:
        return "binary/pickle"

    def to_payload(self, value: Any) -> Payload | None:
        return Payload(self.encoding, value.encode()) if isinstance(value, str) else None

    def from_payload(self, payload: Payload, type_hint: Any = None) -> Any:
        return payload.data.decode()


class PicklingConverter(CompositePayloadConverter):
    def __init__(self) -> None:
        super().__init__(Pickling(), *DefaultPayloadConverter.default_encoding_payload_converters)


class Bombing(PayloadCodec):
    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        bomb = zstandard.ZstdCompressor().compress(bytes(50 * 1024 * 1024))
        return [Payload("binary/zstd", bomb) if b"arg" in one.data else one for one in payloads]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        plain = Payload("json/plain", b'"arg"')
        return [plain if one.encoding == "binary/zstd" else one for one in payloads]


@pytest.mark.parametrize(
    ("sender", "receiver", "type_", "said"),
    [
        (
            DataConverter(payload_converter_class=PicklingConverter),
            DataConverter.default,
            "UnknownEncodingError",
            "payload encoding 'binary/pickle' is not known to this converter",
        ),
        (
            DataConverter(payload_codec=Bombing()),
            DataConverter(payload_codec=CompressionCodec()),
            "DecompressionError",
            "would become 52428800, more than is allowed",
        ),
    ],
    ids=["b49", "b11"],
)
async def test_what_no_attempt_can_mend_is_not_tried_again(
    engine: FakeEngine, sender: DataConverter, receiver: DataConverter, type_: str, said: str
) -> None:
    async with (
        connected(engine, sender) as client,
        connected(engine, receiver) as other,
        Worker(client, task_queue=QUEUE, workflows=[Call], graceful_shutdown_timeout=timedelta()),
        Worker(other, task_queue=QUEUE, activities=[charge], graceful_shutdown_timeout=timedelta()),
    ):
        handle = await begin(client, "charge", "arg", attempts=3)
        with pytest.raises(WorkflowFailureError) as caught:
            await handle.result()
    assert isinstance(caught.value.cause, ActivityError)
    error = caught.value.cause.cause
    assert isinstance(error, ApplicationError)
    assert (error.type, error.non_retryable) == (type_, True)
    assert said in error.message
    assert len(engine.completions("activity_failure")) == 1


async def test_a_result_that_cannot_be_encoded_fails_the_attempt(engine: FakeEngine) -> None:
    codec = Failing()
    codec.fails_for = lambda payload: payload.data == b'"charged arg"'
    async with connected(engine, DataConverter(payload_codec=codec)) as client, worker(client):
        handle = await begin(client, "charge", "arg")
        with pytest.raises(WorkflowFailureError) as caught:
            await handle.result()
    assert isinstance(caught.value.cause, ActivityError)
    error = caught.value.cause.cause
    assert isinstance(error, ApplicationError)
    assert error.type == "PayloadEncodeError"
    assert "result: ConnectionError: codec server is down" in error.message


async def test_a_command_that_cannot_be_encoded_fails_the_task(engine: FakeEngine) -> None:
    codec = Failing()
    async with connected(engine, DataConverter(payload_codec=codec)) as client:
        handle = await begin(client, "charge", "arg")
        codec.fails_for = lambda payload: payload.data == b'"arg"'
        async with worker(client):
            await engine.until(lambda: bool(engine.completions("workflow_task_failure")))
            codec.fails_for = lambda payload: False
            engine.runs.schedule(engine.runs.by_workflow_id["call"])
            assert await handle.result() == "charged arg"
    failure = engine.completions("workflow_task_failure")[0].workflow_task_failure
    assert failure.cause == event_pb2.WORKFLOW_TASK_FAILED_CAUSE_WORKER_FAILURE
    assert failure.failure.application.type == "PayloadEncodeError"
    expected = "commands[0].schedule_activity.input: ConnectionError: codec server is down"
    assert expected in failure.failure.message


async def test_a_codec_that_takes_too_long_uses_up_the_time_of_the_call(engine: FakeEngine) -> None:
    class Stuck(Failing):
        async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
            await asyncio.Event().wait()
            raise AssertionError

    async with connected(engine, DataConverter(payload_codec=Stuck())) as client:
        handle = client.get_workflow_handle("call")
        with pytest.raises(RPCError, match="not encoded in time") as caught:
            await handle.signal("card", "arg", rpc_timeout=timedelta(milliseconds=1))
    assert caught.value.status is RPCStatusCode.DEADLINE_EXCEEDED
    assert not engine.requests["BatchCall"]


async def test_a_start_that_cannot_be_encoded_is_not_sent(engine: FakeEngine) -> None:
    codec = Failing()
    codec.fails_for = lambda payload: True
    async with connected(engine, DataConverter(payload_codec=codec)) as client:
        with pytest.raises(PayloadEncodeError, match="codec server is down"):
            await begin(client, "charge", "arg")
    assert not engine.requests["BatchCall"]


# --- sizes ----------------------------------------------------------------------------------------

TOO_LARGE = 2 * 1024 * 1024


async def test_b7_a_client_hears_at_once_of_what_is_too_large(
    engine: FakeEngine, client: Client
) -> None:
    with pytest.raises(PayloadTooLargeError, match=r"signal_input has \d+ bytes, the limit is"):
        await begin(client, "charge", "x" * TOO_LARGE)
    assert not engine.requests["BatchCall"]


async def test_an_answer_that_is_too_large_fails_the_query_and_nothing_else(
    engine: FakeEngine, client: Client
) -> None:
    async with worker(client):
        handle = await client.start_workflow(Call.run, args=["charge"], id="call", task_queue=QUEUE)
        answers = asyncio.ensure_future(handle.query(Call.large, TOO_LARGE))
        await engine.until(lambda: any(one.query_results for r in engine.requests["CompleteTasks"]
                                       for one in r.completions))  # fmt: skip
        with pytest.raises(Exception, match="result has 2097"):
            await answers
        await handle.signal(Call.card, "c")
        assert await handle.result() == "charged c"
    assert not engine.completions("workflow_task_failure")


async def test_a_command_that_is_too_large_fails_the_task(
    engine: FakeEngine, client: Client
) -> None:
    @workflow.defn
    class Huge:
        @workflow.run
        async def run(self) -> str:
            return "x" * TOO_LARGE

    async with Worker(
        client, task_queue=QUEUE, workflows=[Huge], graceful_shutdown_timeout=timedelta()
    ):
        await client.start_workflow(Huge.run, id="huge", task_queue=QUEUE)
        await engine.until(lambda: bool(engine.completions("workflow_task_failure")))
    failure = engine.completions("workflow_task_failure")[0].workflow_task_failure
    assert failure.cause == event_pb2.WORKFLOW_TASK_FAILED_CAUSE_BAD_COMMAND
    assert failure.failure.application.type == "PayloadTooLargeError"
    assert "commands[0].complete_workflow.result has" in failure.failure.message


# --- external storage -----------------------------------------------------------------------------


async def test_large_values_go_by_external_storage(engine: FakeEngine, tmp_path: Path) -> None:
    """Also what is larger than the engine takes, and encrypted on top."""
    converter = DataConverter(
        payload_codec=EncryptionCodec(KEYS), external_storage=ExternalStorage(LocalStore(tmp_path))
    )
    size = 3_000_000
    async with connected(engine, converter) as client, worker(client):
        handle = await begin(client, "charge", "y" * size)
        assert await handle.result() == "charged " + "y" * size
    assert max(len(one.SerializeToString()) for one in engine.requests["CompleteTasks"]) < 5_000
    kept = files(tmp_path)
    assert len(kept) == 4  # the signal, the activity's input, its result, the workflow's
    assert all(b"yyyyyyyy" not in path.read_bytes() for path in kept)


async def test_a_missing_object_has_a_name_everywhere(engine: FakeEngine, tmp_path: Path) -> None:
    storage = ExternalStorage(LocalStore(tmp_path), threshold=1_000)
    converter = DataConverter(external_storage=storage)
    async with connected(engine, converter) as client:
        async with worker(client):
            handle = await begin(client, "grow", 2_000)
            assert len(await handle.result()) == 2_000
        for path in files(tmp_path):
            path.unlink()
        with pytest.raises(ExternalPayloadError, match=r"result: external object .* is missing"):
            await handle.result()
        async with worker(client):  # it has forgotten the run, and replays for the query
            with pytest.raises(Exception, match=r"external object .* is missing"):
                await handle.query(Call.about, "hello")


# --- failure converters ---------------------------------------------------------------------------


class OurError(Exception):
    """What this application raises wherever a card was refused."""


class Translating(DefaultFailureConverter):
    def from_failure(
        self, failure: FailureInfo, payload_converter: PayloadConverter
    ) -> BaseException:
        error = super().from_failure(failure, payload_converter)
        cause = error.__cause__
        if isinstance(cause, ApplicationError) and cause.type == "Refused":
            return OurError(cause.message)
        return error


async def test_an_own_failure_converter_is_asked_everywhere(engine: FakeEngine) -> None:
    @workflow.defn
    class Catching:
        @workflow.run
        async def run(self) -> str:
            try:
                await workflow.execute_activity(refuse, "c", start_to_close_timeout=TEN_SECONDS)
            except OurError as error:
                return f"caught {error}"
            return "nothing"

    converter = DataConverter(failure_converter_class=Translating)
    async with (
        connected(engine, converter) as client,
        Worker(client, task_queue=QUEUE, workflows=[Catching], activities=[refuse],
               graceful_shutdown_timeout=timedelta()),
    ):  # fmt: skip
        result = await client.execute_workflow(Catching.run, id="c", task_queue=QUEUE)
    assert result == "caught no money on c"

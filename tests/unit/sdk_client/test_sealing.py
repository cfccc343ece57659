"""Progress through a codec: the latest is what heartbeats carry, whatever the codec does."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

from perdure._wire.edge import PayloadEdge
from perdure._wire.payloads import payloads_from_bytes, payloads_to_bytes
from perdure._worker.holding import HeldTask, Progress
from perdure._worker.sealing import Sealing
from perdure.converter import Payload, PayloadCodec


class Gate(PayloadCodec):
    """Lets one encoding after the other through, when it is told to."""

    def __init__(self) -> None:
        self.entered: asyncio.Queue[bytes] = asyncio.Queue()
        self.let_through: asyncio.Queue[Exception | None] = asyncio.Queue()

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        self.entered.put_nowait(payloads[0].data)
        error = await self.let_through.get()
        if error is not None:
            raise error
        return [Payload("sealed", one.data) for one in payloads]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return list(payloads)


def progress(step: int) -> Progress:
    return Progress(payloads_to_bytes([Payload("json/plain", b"%d" % step)]))


def sent(held: HeldTask) -> tuple[str, bytes] | None:
    if held.progress is None:
        return None
    (payload,) = payloads_from_bytes(held.progress.details)
    return payload.encoding, payload.data


async def until_idle(held: HeldTask) -> None:
    while held.sealing:
        await asyncio.get_running_loop().run_in_executor(None, lambda: None)


async def test_what_is_reported_meanwhile_is_encoded_next_and_only_the_latest_of_it() -> None:
    codec, held = Gate(), HeldTask(b"t")
    sealing = Sealing(PayloadEdge(codec), asyncio.get_running_loop())

    sealing.report(held, progress(1))
    assert await codec.entered.get() == b"1"
    assert sent(held) is None  # never in clear
    sealing.report(held, progress(2))
    sealing.report(held, progress(3))
    codec.let_through.put_nowait(None)
    assert await codec.entered.get() == b"3"
    assert sent(held) == ("sealed", b"1")
    codec.let_through.put_nowait(None)
    await until_idle(held)

    assert sent(held) == ("sealed", b"3")
    assert codec.entered.empty()
    assert held.unsealed is not None  # what a failure of the attempt takes along, to be encoded


async def test_a_codec_that_fails_leaves_the_progress_before() -> None:
    codec, held = Gate(), HeldTask(b"t")
    sealing = Sealing(PayloadEdge(codec), asyncio.get_running_loop())
    for step, error in ((1, None), (2, ConnectionError("down")), (3, None)):
        codec.let_through.put_nowait(error)
        sealing.report(held, progress(step))
        await codec.entered.get()
        await until_idle(held)
        assert sent(held) == ("sealed", b"1" if step < 3 else b"3")


async def test_reports_from_many_threads_end_with_the_last() -> None:
    codec, held = Gate(), HeldTask(b"t")
    sealing = Sealing(PayloadEdge(codec), asyncio.get_running_loop())
    for _ in range(1_000):
        codec.let_through.put_nowait(None)

    def report() -> None:
        for step in range(100):
            sealing.report(held, progress(step))

    threads = [threading.Thread(target=report) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join)
    sealing.report(held, progress(1_000))
    await until_idle(held)

    assert sent(held) == ("sealed", b"1000")

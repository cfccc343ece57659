"""Values that the engine carries and cannot read.

    perdure dev &
    python sdk/examples/encryption/main.py

Client and worker share a key ring; the engine, its database and everyone without a key see neither
arguments nor results nor error messages. The keys here are made up on the spot; yours come from
where you keep secrets.
"""

import asyncio
import os
from datetime import timedelta

from perdure import activity, workflow
from perdure.client import Client
from perdure.codecs import CodecChain, CompressionCodec, EncryptionCodec, KeyRing
from perdure.converter import DataConverter, DefaultFailureConverterWithEncodedAttributes
from perdure.errors import PayloadDecodeError
from perdure.worker import Worker

QUEUE = "encryption-example"


@activity.defn
async def charge(card: str, cents: int) -> str:
    return f"{cents / 100:.2f} from card {card}"


@workflow.defn
class Payment:
    @workflow.run
    async def run(self, card: str, cents: int) -> str:
        return await workflow.execute_activity(
            charge, args=[card, cents], start_to_close_timeout=timedelta(seconds=10)
        )


def data_converter(keys: KeyRing) -> DataConverter:
    return DataConverter(
        payload_codec=CodecChain(CompressionCodec(), EncryptionCodec(keys)),
        failure_converter_class=DefaultFailureConverterWithEncodedAttributes,
    )


async def run(address: str, workflow_id: str) -> list[str]:
    """Pays, rotates the key, pays again; returns what the three parties saw."""
    keys = KeyRing("2026-05", {"2026-05": os.urandom(32)})
    seen: list[str] = []
    async with (
        await Client.connect(address, data_converter=data_converter(keys)) as client,
        Worker(client, task_queue=QUEUE, workflows=[Payment], activities=[charge]),
    ):
        result = await client.execute_workflow(
            Payment.run, args=["4111-1111", 1999], id=workflow_id, task_queue=QUEUE
        )
        seen.append(f"with the key: {result}")

    # A new key: known to all processes first, current later. What the old one wrote stays readable.
    keys = keys.with_key("2026-11", os.urandom(32)).rotated_to("2026-11")
    async with await Client.connect(address, data_converter=data_converter(keys)) as client:
        handle = client.get_workflow_handle_for(Payment.run, workflow_id)
        seen.append(f"after the rotation: {await handle.result()}")

    async with await Client.connect(address) as stranger:
        try:
            await stranger.get_workflow_handle(workflow_id).result()
        except PayloadDecodeError as error:
            seen.append(f"without a key: {error}")
    return seen


async def main() -> None:
    address = os.environ.get("PERDURE_ADDRESS", "localhost:7233")
    for line in await run(address, f"payment-{os.urandom(4).hex()}"):
        print(line)


if __name__ == "__main__":
    asyncio.run(main())

"""Values that the engine carries and cannot read.

    perdure dev                                      # in one terminal
    pip install '.[crypto]'
    python sdk/examples/encryption/encryption.py     # in another one

Client and worker share a key ring; the engine, its database and everyone without a key see neither
arguments nor results nor error messages. The keys here are made up on the spot; yours come from
where you keep secrets.

Its tests: tests/e2e/examples/test_encryption.py
"""

import asyncio
import os
from datetime import timedelta

from perdure import activity, workflow
from perdure.client import Client, WorkflowHandle
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


def make_worker(client: Client) -> Worker:
    return Worker(client, task_queue=QUEUE, workflows=[Payment], activities=[charge])


async def pay(
    client: Client, workflow_id: str, card: str, cents: int
) -> WorkflowHandle[Payment, str]:
    return await client.start_workflow(
        Payment.run, args=[card, cents], id=workflow_id, task_queue=QUEUE
    )


async def run(address: str, workflow_id: str, namespace: str = "default") -> list[str]:
    """Pays, rotates the key, looks again; returns what the three parties saw."""
    keys = KeyRing("2026-05", {"2026-05": os.urandom(32)})
    seen: list[str] = []
    async with (
        await Client.connect(
            address, namespace=namespace, data_converter=data_converter(keys)
        ) as client,
        make_worker(client),
    ):
        handle = await pay(client, workflow_id, "4111-1111", 1999)
        seen.append(f"with the key: {await handle.result()}")

    # A new key: known to all processes first, current later. What the old one wrote stays readable.
    keys = keys.with_key("2026-11", os.urandom(32)).rotated_to("2026-11")
    async with await Client.connect(
        address, namespace=namespace, data_converter=data_converter(keys)
    ) as client:
        handle = client.get_workflow_handle_for(Payment.run, workflow_id)
        seen.append(f"after the rotation: {await handle.result()}")

    async with await Client.connect(address, namespace=namespace) as stranger:
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

"""Encryption with a whole engine: the example runs, and the database knows nothing."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg
import pytest
import zstandard
from tests.e2e.examples.loading import load_example
from tests.engine_node import running_node

from perdure import activity, workflow
from perdure.client import Client, WorkflowFailureError
from perdure.codecs import EncryptionCodec, KeyRing
from perdure.converter import DataConverter, DefaultFailureConverterWithEncodedAttributes
from perdure.errors import ActivityError, ApplicationError
from perdure.worker import Worker
from perdure_engine.store.codec import ZSTD

example = load_example("encryption/encryption.py")
SECRET = "4111-2222"
CONVERTER = DataConverter(
    payload_codec=EncryptionCodec(KeyRing("k", {"k": b"k" * 32})),
    failure_converter_class=DefaultFailureConverterWithEncodedAttributes,
)


@activity.defn
async def refuse(card: str) -> None:
    activity.heartbeat(card)
    raise ApplicationError(f"no money on {card}", card, type="Refused", non_retryable=True)


@workflow.defn
class Paying:
    @workflow.run
    async def run(self, card: str) -> None:
        await workflow.execute_activity(refuse, card, start_to_close_timeout=timedelta(seconds=10))


def everything_saved(dsn: str) -> str:
    """All values of all rows of all tables as text, decompressed."""
    with psycopg.connect(dsn) as connection:
        tables = connection.execute(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'"
            " AND table_type = 'BASE TABLE'"
        ).fetchall()
        rows: list[Any] = []
        for (table,) in tables:
            query = psycopg.sql.SQL("SELECT * FROM {}").format(psycopg.sql.Identifier(table))
            rows += connection.execute(query).fetchall()
    return "\n".join(text_of(value) for row in rows for value in row)


def text_of(value: Any) -> str:
    if not isinstance(value, bytes):
        return str(value)
    if value.startswith(ZSTD + zstandard.FRAME_HEADER):
        value = zstandard.ZstdDecompressor().decompress(value[1:])
    return value.decode("latin-1")


async def test_the_example(database_dsn: str) -> None:
    async with running_node(database_dsn) as node:
        with_key, *_ = await example.run(node.address, "payment-1")
        saved = everything_saved(database_dsn)

    assert with_key == "with the key: 19.99 from card 4111-1111"
    assert "payment-1" in saved  # ids are for everyone
    assert "encryption-key-id" in saved
    assert "4111-1111" not in saved


async def test_failures_come_back_whole_and_are_saved_unreadable(database_dsn: str) -> None:
    async with running_node(database_dsn) as node:
        async with (
            await Client.connect(node.address, data_converter=CONVERTER) as client,
            Worker(client, task_queue="q", workflows=[Paying], activities=[refuse]),
        ):
            with pytest.raises(WorkflowFailureError) as caught:
                await client.execute_workflow(Paying.run, SECRET, id="paying", task_queue="q")
        saved = everything_saved(database_dsn)

    failure = caught.value.cause
    assert isinstance(failure, ActivityError)
    error = failure.cause
    assert isinstance(error, ApplicationError)
    assert (error.message, error.type, list(error.details)) == (
        f"no money on {SECRET}",
        "Refused",
        [SECRET],
    )
    assert error.failure is not None
    assert "raise ApplicationError" in error.failure.stack_trace
    assert "Encoded failure" in saved
    assert SECRET not in saved
    assert "raise ApplicationError" not in saved

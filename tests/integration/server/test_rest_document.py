"""schemathesis holds the document against a whole engine: what it says is allowed is served, what it says is wrong is
refused, and every answer is as it says (A5). Each operation is a test."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
import schemathesis
from tests.engine_node import running_node

from perdure_engine.core import limits
from perdure_engine.server.embedded import EmbeddedPostgres
from perdure_engine.server.version import perdure_version
from perdure_engine.transport.http.rest.openapi import document
from perdure_engine.transport.http.rest.table import OPERATIONS

pytestmark = pytest.mark.soak  # conftest says why

EXAMPLES = 10  # of each operation, besides the edges of all its parameters, which are many more
WAITED_MS = 50  # instead of a minute, by calls that wait for what does not come


def narrowed(spec: dict[str, Any]) -> dict[str, Any]:
    """The same for one namespace: in any other there is nothing, and each call would end there."""
    for item in spec["paths"].values():
        for operation in item.values():
            for parameter in operation["parameters"]:
                if parameter["name"] in ("namespace", "Perdure-Namespace"):
                    parameter["schema"] = {"type": "string", "enum": ["default", ""]}
    return spec


schema = schemathesis.openapi.from_dict(narrowed(document(OPERATIONS, perdure_version())))
schema.config.generation.update(max_examples=EXAMPLES, no_shrink=True, deterministic=True)
# Some of what is wrong no schema can say: that names are printable and in Unicode's normal form, that the longest
# interval of a policy is not under its first, that a cron expression ever fires.
schema.config.checks.update(excluded_check_names=["positive_data_acceptance"])


@contextmanager
def engine(dsn: str) -> Iterator[str]:
    """The URL of an engine on a loop and a thread of its own: schemathesis calls as it goes."""
    told: list[str] = []
    begun, ends = threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        async with running_node(dsn) as node:
            told.append(f"http://{node.http_address}")
            begun.set()
            await ends.wait()

    def run() -> None:
        try:
            loop.run_until_complete(serve())
        finally:
            loop.close()
            begun.set()

    thread = threading.Thread(target=run, name="engine")
    thread.start()
    begun.wait()
    yield told[0]
    loop.call_soon_threadsafe(ends.set)
    thread.join()


@pytest.fixture(scope="module")
def url(postgres_server: EmbeddedPostgres, template_database: str) -> Iterator[str]:
    dsn = postgres_server.create_database("rest_document", template_database)
    with pytest.MonkeyPatch.context() as patched, engine(dsn) as address:
        patched.setattr(limits, "POLL_TIMEOUT_MS_MAX", WAITED_MS)
        yield address
    postgres_server.drop_database("rest_document")


def test_the_document_is_the_one_that_is_served(url: str) -> None:
    assert httpx.get(f"{url}/openapi.json").json() == document(OPERATIONS, perdure_version())


@schema.parametrize()
def test_every_operation_is_as_the_document_says(case: schemathesis.Case, url: str) -> None:
    case.call_and_validate(base_url=url, timeout=30)

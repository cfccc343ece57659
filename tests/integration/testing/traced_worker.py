"""A traced worker in a process of its own: `python traced_worker.py ENGINE COLLECTOR`."""

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta

from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.trace import get_tracer

from perdure import activity, workflow
from perdure.client import Client
from perdure.contrib.opentelemetry import TracingInterceptor
from perdure.worker import Worker

QUEUE = "traced"
SOON = timedelta(minutes=1)


@activity.defn
async def charge() -> None:
    pass


@activity.defn
def ship() -> None:
    with get_tracer("user").start_as_current_span("packing"):
        pass


@workflow.defn
class Order:
    def __init__(self) -> None:
        self._paid = False

    @workflow.run
    async def run(self) -> str:
        await workflow.execute_activity(charge, start_to_close_timeout=SOON)
        await workflow.wait_condition(lambda: self._paid)
        await workflow.execute_activity(ship, start_to_close_timeout=SOON)
        return "shipped"

    @workflow.signal
    async def paid(self) -> None:
        self._paid = True

    @workflow.query
    def is_paid(self) -> bool:
        return self._paid


def traced_to(collector: str) -> TracerProvider:
    """Every span is sent when it has ended: a killed process owes none."""
    provider = TracerProvider(shutdown_on_exit=False)
    exporter = OTLPSpanExporter(endpoint=collector, insecure=True)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider


async def main(engine: str, collector: str) -> None:
    import opentelemetry.trace

    opentelemetry.trace.set_tracer_provider(traced_to(collector))
    async with await Client.connect(engine, interceptors=[TracingInterceptor()]) as client:
        worker = Worker(client, task_queue=QUEUE, workflows=[Order], activities=[charge, ship])
        await worker.run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

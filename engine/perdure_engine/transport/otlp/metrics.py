"""Sends the engine's figures to an OpenTelemetry collector, by OTLP over gRPC.

The figures are the rooms' own (ports.metrics); OpenTelemetry's exporter makes messages of them and
has its own patience with a collector that does not answer. It blocks, so it runs in a thread, on
numbers that were read on the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics import export
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from perdure_engine.ports.clock import Clock
from perdure_engine.ports.metrics import Counter, Family, Gauge, Histogram, Labels, Metrics

log = logging.getLogger(__name__)

CUMULATIVE = export.AggregationTemporality.CUMULATIVE
LAST_EXPORT_MS = 2_000  # at the stop, which must not wait for a collector


class MetricsExport:
    """Start once; stop sends a last time and waits for it; stopping twice is fine."""

    def __init__(
        self,
        metrics: Metrics,
        *,
        endpoint: str,
        every_s: float,
        version: str,
        node_id: str,
        clock: Clock,
        unix_ns: Callable[[], int],
    ) -> None:
        """`endpoint`: http://host:port is plain, https:// is TLS."""
        self._metrics = metrics
        self._every_s = every_s
        self._clock = clock
        self._unix_ns = unix_ns
        self._began_ns = unix_ns()
        self._resource = Resource.create(
            {
                "service.name": "perdure",
                "service.version": version,
                "service.instance.id": node_id,
            }
        )
        self._scope = InstrumentationScope("perdure_engine", version)
        self._exporter = OTLPMetricExporter(
            endpoint=endpoint, insecure=not endpoint.startswith("https://")
        )
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        assert self._task is None, "start once"
        self._task = asyncio.get_running_loop().create_task(self._run(), name="otlp metrics")

    async def stop(self) -> None:
        if self._task is None:
            return
        task, self._task = self._task, None
        task.cancel()
        await asyncio.wait({task})
        await self._send(LAST_EXPORT_MS)
        await asyncio.to_thread(self._exporter.shutdown, LAST_EXPORT_MS)

    async def _run(self) -> None:
        while True:
            await self._clock.sleep(self._every_s)
            await self._send(int(self._every_s * 1000))

    async def _send(self, timeout_ms: int) -> None:
        try:
            await asyncio.to_thread(self._exporter.export, self._read(), timeout_ms)
        except Exception as error:  # figures are not worth more than the work they tell of
            log.warning("the figures were not sent: %r", error)

    def _read(self) -> export.MetricsData:
        now_ns = self._unix_ns()
        shown = [self._shown(family, now_ns) for family in self._metrics.families()]
        scope = export.ScopeMetrics(self._scope, [one for one in shown if one is not None], "")
        return export.MetricsData([export.ResourceMetrics(self._resource, [scope], "")])

    def _shown(self, family: Family, now_ns: int) -> export.Metric | None:
        """None: there is nothing to say yet."""
        data: Any
        match family:
            case Counter():
                points = [
                    self._number(family, labels, value, now_ns)
                    for labels, value in family.values.items()
                ]
                data = export.Sum(points, CUMULATIVE, is_monotonic=True)
            case Gauge():
                points = [
                    self._number(family, labels, value, now_ns) for labels, value in family.read()
                ]
                data = export.Gauge(points)
            case Histogram():
                data = export.Histogram(self._histogram(family, now_ns), CUMULATIVE)
        if not data.data_points:
            return None
        return export.Metric(family.name, family.help, _unit(family.name), data)

    def _number(
        self, family: Family, labels: Labels, value: float, now_ns: int
    ) -> export.NumberDataPoint:
        return export.NumberDataPoint(_named(family, labels), self._began_ns, now_ns, value)

    def _histogram(self, family: Histogram, now_ns: int) -> list[export.HistogramDataPoint]:
        return [
            export.HistogramDataPoint(
                _named(family, labels),
                self._began_ns,
                now_ns,
                sum(series.counts),
                series.total,
                list(series.counts),
                [float(bound) for bound in family.bounds],
                min=0.0,
                max=0.0,
            )
            for labels, series in family.series.items()
        ]


def _named(family: Family, labels: Labels) -> dict[str, str]:
    return dict(zip(family.labels, labels, strict=True))


def _unit(name: str) -> str:
    if name.endswith("_seconds"):
        return "s"
    return "By" if name.endswith("_bytes") else "1"

"""`/metrics`: the engine's figures as Prometheus reads them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response

from perdure_engine.ports.metrics import Counter, Family, Gauge, Histogram, Metrics


class MetricsPage:
    """Answers in the text format, or as OpenMetrics if that is what the client accepts."""

    def __init__(self, metrics: Metrics) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(_Rooms(metrics))
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)

    async def show(self, request: Request) -> Response:
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(self._registry), headers={"content-type": content_type})


class _Rooms(Collector):
    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        for family in self._metrics.families():
            yield _shown(family)


def _shown(family: Family) -> Metric:
    match family:
        case Counter():
            counter = CounterMetricFamily(family.name, family.help, labels=family.labels)
            for labels, count in family.values.items():
                counter.add_metric(labels, count)
            return counter
        case Gauge():
            gauge = GaugeMetricFamily(family.name, family.help, labels=family.labels)
            for labels, value in family.read():
                gauge.add_metric(labels, value)
            return gauge
        case Histogram():
            histogram = HistogramMetricFamily(family.name, family.help, labels=family.labels)
            for labels, series in family.series.items():
                buckets = list(_buckets(family.bounds, series.counts))
                histogram.add_metric(labels, buckets, sum_value=series.total)
            return histogram


def _buckets(bounds: tuple[float, ...], counts: list[int]) -> Iterator[tuple[str, int]]:
    """Cumulative, as Prometheus has them."""
    so_far = 0
    for bound, count in zip((*bounds, float("inf")), counts, strict=True):
        so_far += count
        yield ("+Inf" if bound == float("inf") else str(float(bound))), so_far

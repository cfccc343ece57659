"""The figures as Prometheus reads them."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families
from starlette.requests import Request

from perdure_engine.ports.metrics import OTHER, SERIES_MAX, Counter, Metrics
from perdure_engine.transport.http.metrics import MetricsPage


async def page(metrics: Metrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    answer = await MetricsPage(metrics).show(Request({"type": "http", "headers": []}))
    assert answer.headers["content-type"].startswith("text/plain")
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(bytes(answer.body).decode())
        for sample in family.samples
    }


async def test_counters_gauges_and_histograms() -> None:
    metrics = Metrics()
    metrics.workflow_closed.inc("COMPLETED")
    metrics.workflow_closed.inc("COMPLETED", by=2)
    metrics.shards_owned.read_number(lambda: 4)
    metrics.backlog_count.read_from(lambda: [(("orders", "activity"), 7)])
    metrics.lease_renew_seconds.observe(0.001)  # a bound belongs to its bucket
    metrics.lease_renew_seconds.observe(0.0011)
    metrics.lease_renew_seconds.observe(-5.0)  # clocks of two machines: as 0
    metrics.lease_renew_seconds.observe(1e9)

    shown = await page(metrics)

    assert shown["perdure_workflow_closed_total", (("status", "COMPLETED"),)] == 3
    assert shown["perdure_shards_owned", ()] == 4
    backlog = (("task_kind", "activity"), ("task_queue", "orders"))
    assert shown["perdure_backlog_count", backlog] == 7
    bucket = "perdure_lease_renew_seconds_bucket"
    assert shown[bucket, (("le", "0.001"),)] == 2
    assert shown[bucket, (("le", "0.0025"),)] == 3
    assert shown[bucket, (("le", "60.0"),)] == 3
    assert shown[bucket, (("le", "+Inf"),)] == 4
    assert shown["perdure_lease_renew_seconds_count", ()] == 4
    assert shown["perdure_lease_renew_seconds_sum", ()] == 1e9 + 0.0021


async def test_what_never_happened_is_shown_as_nothing() -> None:
    """An alert on a counter that must stay 0 needs the 0."""
    shown = await page(Metrics())

    assert shown["perdure_timer_early_total", ()] == 0
    assert shown["perdure_nondeterminism_total", ()] == 0


def test_the_number_of_series_is_bounded() -> None:
    counter = Counter("numbers_total", "", "queue")
    for number in range(SERIES_MAX + 10):
        counter.inc(f"queue {number}")
    counter.inc("queue 3")

    assert len(counter.values) == SERIES_MAX + 1
    assert counter.value("queue 3") == 2
    assert counter.value(OTHER) == 10


def test_every_family_has_a_name_of_its_own_and_says_what_it_is() -> None:
    families = list(Metrics().families())

    assert len({family.name for family in families}) == len(families)
    assert all(family.help.endswith(".") for family in families)

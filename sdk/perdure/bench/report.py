"""What a workload has measured, and the one line of JSON that it becomes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version

from perdure.bench.accounting import Component, Usage
from perdure.bench.arithmetic import median, percentile, ratio, rounded

Figure = int | float | str | None

SYSTEM = "perdure"


@dataclass(frozen=True, kw_only=True)
class Measured:
    n: int
    """How much was asked for, in the workload's own unit (see WORKLOADS)."""
    units: int
    """What `per_s` and `cpu_us_per_unit` count; 0 where neither has a meaning."""
    seconds: float
    usage: Usage
    latencies_s: Sequence[float] = ()
    figures: Mapping[str, Figure] = field(default_factory=dict[str, Figure])
    """What only this workload has."""
    notes: Sequence[str] = ()


def report_line(workload: str, measured: Measured) -> dict[str, Figure]:
    """The keys are a contract with whoever compares systems; None where one has no meaning."""
    usage = measured.usage
    cpu_us = ratio(usage.total_s * 1e6, measured.units)
    return {
        "system": SYSTEM,
        "version": installed_version(),
        "workload": workload,
        "n": measured.n,
        "seconds": round(measured.seconds, 4),
        "per_s": rounded(ratio(measured.units, measured.seconds) if measured.units else None, 1),
        **_latencies(measured.latencies_s),
        **measured.figures,
        "cpu_s": round(usage.total_s, 3),
        **{f"cpu_{one}_s": rounded(usage.cpu_s.get(one), 3) for one in Component},
        "cpu_us_per_unit": rounded(cpu_us, 1),
        "foreign_cpu": round(usage.foreign_cores, 3),
        "notes": "; ".join(measured.notes),
    }


def _latencies(latencies_s: Sequence[float]) -> dict[str, Figure]:
    if not latencies_s:
        return {"p50_ms": None, "p95_ms": None, "p99_ms": None}
    ordered = sorted(latencies_s)
    shares = {"p50_ms": 0.5, "p95_ms": 0.95, "p99_ms": 0.99, "max_ms": 1.0}
    return {name: round(percentile(ordered, share) * 1e3, 3) for name, share in shares.items()}


def median_run(runs: Sequence[Measured]) -> Measured:
    """The run in the middle, of several that measured the same."""
    middle = median([run.seconds for run in runs])
    return next(run for run in runs if run.seconds == middle)


def installed_version() -> str:
    try:
        return version("perdure")
    except PackageNotFoundError:
        return "unknown"

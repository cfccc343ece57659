"""How figures are made of samples."""

from __future__ import annotations

import math
from collections.abc import Sequence


def percentile(ordered: Sequence[float], share: float) -> float:
    """The nearest-rank percentile of an ascending, non-empty sequence: a value that occurred."""
    if not ordered:
        raise ValueError("no samples")
    if not 0 < share <= 1:
        raise ValueError(f"not a share: {share}")
    return ordered[math.ceil(share * len(ordered)) - 1]


def median(values: Sequence[float]) -> float:
    return percentile(sorted(values), 0.5)


def rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)


def ratio(dividend: float, divisor: float) -> float | None:
    """None where nothing was counted: a figure of 0 or infinity would be read as a result."""
    return dividend / divisor if divisor > 0 else None

"""Seeds of what is done at random: some in every run of the tests, the rest in `make soak`."""

from __future__ import annotations

import pytest


def seeds(number: int, soak: int) -> list[object]:
    """`number` of them, and up to `soak` with the mark of what takes long."""
    rest = [pytest.param(seed, marks=pytest.mark.soak) for seed in range(number, soak)]
    return [*range(number), *rest]

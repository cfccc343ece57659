"""How figures are made of samples."""

import pytest

from perdure.bench.arithmetic import median, percentile, ratio, rounded


@pytest.mark.parametrize(
    ("count", "share", "expected"),
    [(1, 0.5, 1), (2, 0.5, 1), (3, 0.5, 2), (100, 0.5, 50), (100, 0.99, 99), (100, 1.0, 100)],
)
def test_percentiles_are_values_that_occurred(count: int, share: float, expected: float) -> None:
    assert percentile(range(1, count + 1), share) == expected


def test_a_high_percentile_of_few_is_the_largest() -> None:
    assert percentile([1.0, 2.0, 30.0], 0.99) == 30.0


def test_of_nothing_there_is_no_percentile() -> None:
    with pytest.raises(ValueError, match="no samples"):
        percentile([], 0.5)


@pytest.mark.parametrize("share", [0, -0.1, 1.1, 50])
def test_a_share_is_a_share(share: float) -> None:
    with pytest.raises(ValueError, match="not a share"):
        percentile([1.0], share)


def test_the_median_sorts() -> None:
    assert median([3.0, 1.0, 2.0]) == 2.0


def test_ratios_and_rounding_without_a_value() -> None:
    assert ratio(1.0, 4.0) == 0.25
    assert ratio(1.0, 0.0) is None
    assert rounded(None, 3) is None
    assert rounded(0.12345, 3) == 0.123

"""Which effects happened more than once, and which of them a kill excuses."""

from pathlib import Path

import pytest

from perdure.bench.effects import Effect, count_in_flight, read_effects, repeated

KILL_S = 100.0


def effect(key: str, at_s: float, number: int = 1) -> Effect:
    return Effect(key=key, number=number, at_s=at_s)


def test_repetitions_are_by_key_and_in_order() -> None:
    effects = [effect("a", 1), effect("b", 2), effect("a", 3), effect("c", 4), effect("a", 5)]

    assert repeated(effects) == [[effect("a", 1), effect("a", 3), effect("a", 5)]]


def test_two_workflows_of_one_number_are_not_a_repetition() -> None:
    assert repeated([effect("a", 1, number=7), effect("b", 2, number=7)]) == []


@pytest.mark.parametrize(
    ("first_s", "second_s", "completed_s", "excused"),
    [
        (99.9, 101.0, 101.5, 1),  # the kill came between effect and completion
        (99.9, 101.0, None, 1),
        (99.9, 101.0, 99.95, 0),  # was known to be done, and was run again all the same
        (98.0, 99.0, 99.5, 0),  # before the kill: nobody had interrupted it
        (101.0, 102.0, 102.5, 0),  # after the kill
    ],
)
def test_what_a_kill_excuses(
    first_s: float, second_s: float, completed_s: float | None, excused: int
) -> None:
    same = [[effect("a", first_s), effect("a", second_s)]]

    assert count_in_flight(same, [KILL_S], lambda number: completed_s) == excused


def test_each_repetition_needs_a_kill_of_its_own() -> None:
    same = [[effect("a", 99), effect("a", 101), effect("a", 103)]]

    assert count_in_flight(same, [100.0], lambda number: 104.0) == 1
    assert count_in_flight(same, [100.0, 102.0], lambda number: 104.0) == 2


def test_a_file_that_nobody_wrote_has_no_effects(tmp_path: Path) -> None:
    assert read_effects(tmp_path / "effects") == []


def test_lines_of_the_file(tmp_path: Path) -> None:
    line = '{"key": "a", "number": 1, "at_s": 2.5}\n'
    (tmp_path / "effects").write_text(line * 2, encoding="ascii")

    assert read_effects(tmp_path / "effects") == [effect("a", 2.5)] * 2

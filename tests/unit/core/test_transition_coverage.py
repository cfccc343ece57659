"""Runs last of its folder: every legal move of every table was made by some decision (style §4, rule 14)."""

from __future__ import annotations

from tests.unit.core.moves_ran import RAN, legal_moves


def test_every_legal_move_was_made_by_a_decision() -> None:
    assert sorted(legal_moves() - RAN) == []


def test_no_decision_made_a_move_that_is_in_no_table() -> None:
    assert sorted(RAN - legal_moves()) == []

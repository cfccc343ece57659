"""A filter as a condition on `r`, a row of `visibility`.

Composed of the literal pieces below and of placeholders alone: no value of a user's, nor a name, ever
becomes text of a statement. Each condition is true or false and never null (ports.filters), so that
NOT turns it round. Equality with an attribute is containment, which the GIN index finds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, Final, LiteralString, assert_never

from perdure_engine.core.search_attributes import JSON_KEYS, WORDS_KEY, AttributeType, words
from perdure_engine.ports.filters import (
    And,
    AttributeIsNull,
    Column,
    Compare,
    CompareAttribute,
    Expression,
    IsNull,
    Not,
    Operator,
    Or,
)
from perdure_engine.store.sql.parameters import Instant, Int2, Int8, Uuid

_DIGITS: Final[tuple[LiteralString, ...]] = ("0", "1", "2", "3", "4", "5", "6", "7", "8", "9")

_OPERATORS: Final[dict[Operator, LiteralString]] = {
    Operator.EQ: " = ",
    Operator.LT: " < ",
    Operator.LE: " <= ",
    Operator.GT: " > ",
    Operator.GE: " >= ",
}


def _bool(value: Any) -> bool:
    return bool(value)


# Column: what stands for it, its parameter's cast and type.
_COLUMNS: Final[dict[Column, tuple[LiteralString, LiteralString, Callable[[Any], object]]]] = {
    Column.WORKFLOW_ID: ("r.workflow_id", "::text", str),
    Column.RUN_ID: ("r.run_id", "::uuid", Uuid),
    Column.WORKFLOW_TYPE: ("r.workflow_type", "::text", str),
    Column.TASK_QUEUE: ("r.task_queue", "::text", str),
    Column.STATUS: ("r.status", "::int2", Int2),
    Column.START_TIME: ("r.start_time", "::timestamptz", Instant),
    Column.CLOSE_TIME: ("r.close_time", "::timestamptz", Instant),
    Column.HISTORY_LENGTH: ("r.history_events", "::int8", Int8),
    Column.HISTORY_SIZE_BYTES: ("r.history_bytes", "::int8", Int8),
    Column.STUCK: ("((r.attrs ->> 'stuck') is not null)", "::bool", _bool),
}

# The one value that a run may have of a name, as text.
_KEYWORD: Final[tuple[LiteralString, LiteralString]] = ("((r.attrs -> 'k') ->> ", ")")
_INSTANT: Final[tuple[LiteralString, LiteralString]] = ("((r.attrs -> 'd') ->> ", ")::int8")
_NUMBER: Final[tuple[LiteralString, LiteralString, LiteralString]] = (
    "coalesce((r.attrs -> 'i') ->> ",
    ", (r.attrs -> 'f') ->> ",
    ")::numeric",
)
_ANY_TYPE: Final[tuple[LiteralString, ...]] = (
    "(r.attrs -> 'k') ->> ",
    "(r.attrs -> 'l') ->> ",
    "(r.attrs -> 't') ->> ",
    "(r.attrs -> 'i') ->> ",
    "(r.attrs -> 'f') ->> ",
    "(r.attrs -> 'b') ->> ",
    "(r.attrs -> 'd') ->> ",
)


def indexed(expression: Expression) -> bool:
    """Whether equality with an attribute is demanded: then the GIN index finds the few that have it."""
    match expression:
        case And(terms):
            return any(indexed(term) for term in terms)
        case Or(terms):
            return all(indexed(term) for term in terms)
        case CompareAttribute(_, operator):
            return operator is Operator.EQ
        case _:
            return False


class Conditions:
    """Makes conditions whose parameters follow those that the statement has already."""

    def __init__(self, taken: int) -> None:
        self._taken = taken
        self.values: list[object] = []

    def text(self, expression: Expression) -> LiteralString:
        match expression:
            case And(terms):
                return self._joined(" and ", [self.text(term) for term in terms])
            case Or(terms):
                return self._joined(" or ", [self.text(term) for term in terms])
            case Not(term):
                return "not (" + self.text(term) + ")"
            case Compare():
                return self._compare(expression)
            case IsNull(column):
                return _COLUMNS[column][0] + " is null"
            case AttributeIsNull(name):
                bound = self._bind(name, "::text")
                return "coalesce(" + ", ".join([piece + bound for piece in _ANY_TYPE]) + ") is null"
            case CompareAttribute():
                return self._compare_attribute(expression)
            case _:
                assert_never(expression)

    def _compare(self, compare: Compare) -> LiteralString:
        column, cast, parameter = _COLUMNS[compare.column]
        bound = self._bind(parameter(compare.value), cast)
        if compare.column is Column.CLOSE_TIME:  # the one that may be null
            operator = _OPERATORS[compare.operator]
            return "(" + column + " is not null and " + column + operator + bound + ")"
        return _compared(column, compare.operator, bound)

    def _compare_attribute(self, compare: CompareAttribute) -> LiteralString:
        value = compare.value
        if isinstance(value, bool):
            return self._contains(AttributeType.BOOL, compare.name, value)
        if compare.operator is Operator.EQ:
            return self._equals(compare)
        if isinstance(value, str):
            return self._compare_text(compare, value)
        name = self._bind(compare.name, "::text")
        integer, double, end = _NUMBER
        number = integer + name + double + name + end
        bound = self._bind(str(value), "::numeric")
        return _false_without(_compared(number, compare.operator, bound))

    def _compare_text(self, compare: CompareAttribute, text: str) -> LiteralString:
        name = self._bind(compare.name, "::text")
        keyword = _KEYWORD[0] + name + _KEYWORD[1]
        bound = self._bind(text, "::text")
        conditions = [_false_without(_compared(keyword, compare.operator, bound))]
        if compare.instant_us is not None and compare.operator is not Operator.STARTS_WITH:
            instant = _INSTANT[0] + name + _INSTANT[1]
            bound = self._bind(Int8(compare.instant_us), "::int8")
            conditions.append(_false_without(_compared(instant, compare.operator, bound)))
        return self._joined(" or ", conditions)

    def _equals(self, compare: CompareAttribute) -> LiteralString:
        name, value = compare.name, compare.value
        if not isinstance(value, str):
            conditions = [self._contains(AttributeType.DOUBLE, name, value)]
            if value == int(value):
                conditions.append(self._contains(AttributeType.INT, name, int(value)))
            return self._joined(" or ", conditions)
        conditions = [
            self._contains(AttributeType.KEYWORD, name, value),
            self._contains(AttributeType.KEYWORD_LIST, name, [value]),
        ]
        if found := words(value):
            conditions.append(self._contains_under(WORDS_KEY, name, found))
        if compare.instant_us is not None:
            conditions.append(self._contains(AttributeType.DATETIME, name, compare.instant_us))
        return self._joined(" or ", conditions)

    def _contains(self, type_: AttributeType, name: str, value: object) -> LiteralString:
        return self._contains_under(JSON_KEYS[type_], name, value)

    def _contains_under(self, key: str, name: str, value: object) -> LiteralString:
        return "r.attrs @> " + self._bind(json.dumps({key: {name: value}}), "::jsonb")

    def _joined(self, word: LiteralString, conditions: Iterable[LiteralString]) -> LiteralString:
        return "(" + word.join(conditions) + ")"

    def _bind(self, value: object, cast: LiteralString) -> LiteralString:
        self.values.append(value)
        return placeholder(self._taken + len(self.values)) + cast


def placeholder(number: int) -> LiteralString:
    return "$" + "".join([_DIGITS[int(digit)] for digit in str(number)])


def _compared(left: LiteralString, operator: Operator, bound: LiteralString) -> LiteralString:
    if operator is Operator.STARTS_WITH:
        return "substring(" + left + ", 1, length(" + bound + ")) = " + bound
    return left + _OPERATORS[operator] + bound


def _false_without(condition: LiteralString) -> LiteralString:
    return "coalesce(" + condition + ", false)"

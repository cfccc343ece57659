"""A filter on one row: the meaning that the SQL must agree with."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any, assert_never

from perdure_engine.core.search_attributes import (
    JSON_KEYS,
    STUCK_KEY,
    WORDS_KEY,
    AttributeType,
    words,
)
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
from perdure_engine.ports.rows import VisibilityRow
from perdure_engine.ports.store import VisibilityFilter

_OPERATORS: dict[Operator, Callable[[Any, Any], bool]] = {
    Operator.EQ: lambda a, b: bool(a == b),
    Operator.LT: lambda a, b: bool(a < b),
    Operator.LE: lambda a, b: bool(a <= b),
    Operator.GT: lambda a, b: bool(a > b),
    Operator.GE: lambda a, b: bool(a >= b),
    Operator.STARTS_WITH: lambda a, b: bool(a.startswith(b)),
}
_FIELDS = {
    Column.WORKFLOW_ID: "workflow_id",
    Column.RUN_ID: "run_id",
    Column.WORKFLOW_TYPE: "workflow_type",
    Column.TASK_QUEUE: "task_queue",
    Column.STATUS: "status",
    Column.START_TIME: "start_us",
    Column.CLOSE_TIME: "close_us",
    Column.HISTORY_LENGTH: "history_events",
    Column.HISTORY_SIZE_BYTES: "history_bytes",
}


def listed(where: VisibilityFilter, row: VisibilityRow) -> bool:
    """Whether a list with this filter shows the row."""
    return (
        row.namespace_id == where.namespace_id
        and (not where.statuses or row.status in where.statuses)
        and where.workflow_type in ("", row.workflow_type)
        and row.workflow_id.startswith(where.workflow_id_prefix)
        and row.start_us >= where.start_min_us
        and (not where.start_max_us or row.start_us < where.start_max_us)
        and (where.expression is None or matches(where.expression, row))
    )


def matches(expression: Expression, row: VisibilityRow) -> bool:
    return _holds(expression, row, json.loads(row.attrs))


def _holds(expression: Expression, row: VisibilityRow, attrs: dict[str, Any]) -> bool:
    match expression:
        case And(terms):
            return all(_holds(term, row, attrs) for term in terms)
        case Or(terms):
            return any(_holds(term, row, attrs) for term in terms)
        case Not(term):
            return not _holds(term, row, attrs)
        case Compare(column, operator, value):
            found = _column(column, row, attrs)
            return found is not None and _OPERATORS[operator](found, value)
        case IsNull(column):
            return _column(column, row, attrs) is None
        case AttributeIsNull(name):
            return not any(name in attrs.get(key, ()) for key in JSON_KEYS.values())
        case CompareAttribute():
            return _holds_of_attribute(expression, attrs)
        case _:
            assert_never(expression)


def _column(column: Column, row: VisibilityRow, attrs: dict[str, Any]) -> Any:
    if column is Column.STUCK:
        return STUCK_KEY in attrs
    return getattr(row, _FIELDS[column])


def _holds_of_attribute(compare: CompareAttribute, attrs: dict[str, Any]) -> bool:
    operator, wanted = compare.operator, compare.value

    def of(type_: AttributeType) -> Any:
        return attrs.get(JSON_KEYS[type_], {}).get(compare.name)

    if isinstance(wanted, bool):
        return of(AttributeType.BOOL) is wanted
    if not isinstance(wanted, str):
        number = of(AttributeType.INT)
        number = of(AttributeType.DOUBLE) if number is None else number
        # By the digits that JSON has, as a database does.
        return number is not None and _OPERATORS[operator](
            Decimal(str(number)), Decimal(str(wanted))
        )
    keyword = of(AttributeType.KEYWORD)
    if keyword is not None:
        return _OPERATORS[operator](keyword, wanted)
    instant = of(AttributeType.DATETIME)
    if instant is not None:
        if operator is Operator.STARTS_WITH:
            return False
        return compare.instant_us is not None and _OPERATORS[operator](instant, compare.instant_us)
    if operator is not Operator.EQ:
        return False
    wanted_words = words(wanted)
    has_words = attrs.get(WORDS_KEY, {}).get(compare.name, ())
    return wanted in (of(AttributeType.KEYWORD_LIST) or ()) or bool(
        wanted_words and set(wanted_words) <= set(has_words)
    )

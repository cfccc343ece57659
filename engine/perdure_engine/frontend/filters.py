"""The language of lists: text in, `ports.filters` out.

    WorkflowType = 'Order' AND (Region IN ('eu', 'us') OR Amount >= 100) AND StartTime > '2h'
    ORDER BY CloseTime DESC

The grammar is ours and the parser knows nothing of SQL: what comes out is a tree of a few shapes,
whose values become bound parameters. `A != x`, `NOT IN`, `NOT BETWEEN` and `NOT STARTS_WITH` ask for
a value that is another one; `NOT (…)` also holds where there is none.

Bounds come before parsing: the length of the text, its values, its parentheses. So the tree is
shallow, and walking it by recursion is safe.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NoReturn

import msgspec
from lark import Lark, Token, Tree, UnexpectedInput

from perdure_engine.core import limits
from perdure_engine.core.errors import Rejected, invalid
from perdure_engine.core.status import Status
from perdure_engine.frontend import checks
from perdure_engine.ports.filters import (
    And,
    AttributeIsNull,
    Column,
    Compare,
    CompareAttribute,
    Expression,
    Group,
    IsNull,
    Not,
    Operator,
    Or,
    Order,
)

GRAMMAR = r"""
start: expression? order? group?

?expression: conjunction
    | conjunction (_OR conjunction)+ -> either
?conjunction: negation
    | negation (_AND negation)+ -> all
?negation: condition
    | NOT negation -> negated
?condition: "(" expression ")"
    | field OPERATOR value -> compare
    | field STARTS_WITH value -> compare
    | field NOT STARTS_WITH value -> differ
    | field _IN "(" value ("," value)* ")" -> within
    | field NOT _IN "(" value ("," value)* ")" -> without
    | field _BETWEEN value _AND value -> between
    | field NOT _BETWEEN value _AND value -> outside
    | field _IS NULL -> absent
    | field _IS NOT NULL -> present

order: _ORDER _BY field [ASC | DESC]
group: _GROUP _BY field
?field: NAME | QUOTED
?value: STRING | NUMBER | TRUE | FALSE

_OR.2: /OR\b/i
_AND.2: /AND\b/i
_IN.2: /IN\b/i
_IS.2: /IS\b/i
_BETWEEN.2: /BETWEEN\b/i
_ORDER.2: /ORDER\b/i
_GROUP.2: /GROUP\b/i
_BY.2: /BY\b/i
NOT.2: /NOT\b/i
NULL.2: /NULL\b/i
STARTS_WITH.2: /STARTS_WITH\b/i
ASC.2: /ASC\b/i
DESC.2: /DESC\b/i
TRUE.2: /TRUE\b/i
FALSE.2: /FALSE\b/i
OPERATOR: "=" | "!=" | "<=" | ">=" | "<" | ">"
NAME: /[^\W\d][\w.]*/
QUOTED: /`[^`]+`/
STRING: /'(?:[^'\\]|''|\\.)*'/ | /"(?:[^"\\]|""|\\.)*"/
NUMBER: /-?\d+(\.\d+)?([eE][+-]?\d+)?/
%ignore /\s+/
"""

_TERMS = frozenset({"STRING", "NUMBER", "TRUE", "FALSE", "NULL", "NOT"})
_NEVER_NULL = frozenset(Column) - {Column.CLOSE_TIME}
_TIMES = (Column.START_TIME, Column.CLOSE_TIME)
_NUMBERS = (Column.HISTORY_LENGTH, Column.HISTORY_SIZE_BYTES)
_BY_EQUALITY = (Column.RUN_ID, Column.STATUS, Column.STUCK)  # no order that means something
_COLUMNS = {column.value: column for column in Column}
_STATUSES = {status.name.replace("_", "").lower(): status for status in Status}
_ORDERS = {
    ("StartTime", False): Order.START_ASC,
    ("StartTime", True): Order.START_DESC,
    ("CloseTime", False): Order.CLOSE_ASC,
    ("CloseTime", True): Order.CLOSE_DESC,
}
_GROUPS = {group.value: group for group in Group}
_INT_MAX = 2**63 - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_AGO = re.compile(r"(\d{1,9})(ms|s|m|h|d)")
_UNITS_US = {"ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}

_Node = Tree[Token] | Token


class Query(msgspec.Struct, frozen=True):
    expression: Expression | None = None
    order: Order | None = None
    group: Group | None = None


def parse(field: str, text: str, now_us: int) -> Query:
    """`now_us`: what "2h" (ago) counts from. Raises INVALID_ARGUMENT that names the position."""
    checks.prose(field, text, limits.QUERY_BYTES_MAX)
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise invalid(field, "holds a lone surrogate")
    try:
        _check_bounds(field, _grammar().lex(text))
        tree = _grammar().parse(text)
    except UnexpectedInput as error:
        raise invalid(field, f"does not go on like this at {_position(error)}") from None
    return _Reader(field, now_us).query(tree)


def condition(field: str, text: str, now_us: int) -> Expression | None:
    """Of a query that neither groups nor orders. Raises as `parse`."""
    query = parse(field, text, now_us)
    if query.group is not None or query.order is not None:
        raise invalid(field, "has no GROUP BY and no ORDER BY here")
    return query.expression


def read_condition(text: str, now_us: int) -> Expression | None:
    """One that was checked before. Implements ports.batches.ReadQuery."""
    return condition("query", text, now_us)


@lru_cache(maxsize=1)
def _grammar() -> Lark:
    return Lark(GRAMMAR, parser="lalr", lexer="basic", maybe_placeholders=False)


def _check_bounds(field: str, tokens: Iterator[Token]) -> None:
    terms = depth = 0
    for token in tokens:
        terms += token.type in _TERMS
        depth += (token == "(") - (token == ")")
        if depth > limits.QUERY_DEPTH_MAX:
            raise invalid(field, f"has over {limits.QUERY_DEPTH_MAX} parentheses in each other")
        if terms > limits.QUERY_TERMS_MAX:
            raise invalid(field, f"has over {limits.QUERY_TERMS_MAX} values and NOTs")


def _position(error: UnexpectedInput) -> str:
    token = getattr(error, "token", None)
    if error.pos_in_stream is None or (token is not None and token.type == "$END"):
        return "its end"
    return f"position {error.pos_in_stream + 1}"


class _Reader:
    """Walks one tree."""

    def __init__(self, field: str, now_us: int) -> None:
        self._field = field
        self._now_us = now_us

    def query(self, tree: Tree[Token]) -> Query:
        expression: Expression | None = None
        order: Order | None = None
        group: Group | None = None
        for part in tree.children:
            assert isinstance(part, Tree)
            if part.data == "order":
                order = self._order(part)
            elif part.data == "group":
                group = self._group(part)
            else:
                expression = self._expression(part)
        return Query(expression, order, group)

    def _order(self, tree: Tree[Token]) -> Order:
        name = _token(tree.children[0])
        descending = len(tree.children) > 1 and _token(tree.children[1]).type == "DESC"
        order = _ORDERS.get((_name(name), descending))
        if order is None:
            self._refuse(name, "lists are ordered by StartTime or CloseTime")
        return order

    def _group(self, tree: Tree[Token]) -> Group:
        name = _token(tree.children[0])
        group = _GROUPS.get(_name(name))
        if group is None:
            self._refuse(name, "counts are grouped by ExecutionStatus or WorkflowType")
        return group

    def _expression(self, node: _Node) -> Expression:
        assert isinstance(node, Tree)
        match node.data:
            case "either":
                return Or(tuple([self._expression(child) for child in node.children]))
            case "all":
                return And(tuple([self._expression(child) for child in node.children]))
            case "negated":
                return Not(self._expression(node.children[1]))
            case _:
                return self._condition(node)

    def _condition(self, tree: Tree[Token]) -> Expression:
        name, *rest = [_token(child) for child in tree.children]
        values = [token for token in rest if token.type not in ("NOT", "NULL")]
        match tree.data:
            case "compare" if values[0] == "!=":
                return _other(name, self._compare(name, Operator.EQ, values[1]))
            case "compare":
                return self._compare(name, Operator(values[0].upper()), values[1])
            case "differ":
                return _other(name, self._compare(name, Operator.STARTS_WITH, values[1]))
            case "within":
                return self._within(name, values)
            case "without":
                return _other(name, self._within(name, values))
            case "between":
                return self._between(name, values)
            case "outside":
                return _other(name, self._between(name, values))
            case "absent":
                return _absent(name)
            case _:
                assert tree.data == "present"
                return Not(_absent(name))

    def _within(self, name: Token, values: list[Token]) -> Expression:
        terms = tuple([self._compare(name, Operator.EQ, value) for value in values])
        return Or(terms) if len(terms) > 1 else terms[0]

    def _between(self, name: Token, values: list[Token]) -> Expression:
        low, high = values
        least = self._compare(name, Operator.GE, low)
        return And((least, self._compare(name, Operator.LE, high)))

    def _compare(self, name: Token, operator: Operator, token: Token) -> Expression:
        value = self._value(token)
        column = _COLUMNS.get(_name(name))
        if column is None:
            return self._compare_attribute(name, operator, token, value)
        if operator is not Operator.EQ and column in _BY_EQUALITY:
            self._refuse(name, f"{column.value} is only compared by =, != and IN")
        if operator is Operator.STARTS_WITH and column in (*_TIMES, *_NUMBERS):
            self._refuse(name, f"{column.value} is no text")
        return Compare(column, operator, self._column_value(column, token, value))

    def _compare_attribute(
        self, name: Token, operator: Operator, token: Token, value: bool | int | float | str
    ) -> Expression:
        if isinstance(value, bool) and operator is not Operator.EQ:
            self._refuse(token, "true and false are only compared by =, != and IN")
        if operator is Operator.STARTS_WITH and not isinstance(value, str):
            self._refuse(token, "STARTS_WITH needs a text")
        is_date = isinstance(value, str) and _DATE.match(value)
        return CompareAttribute(
            _name(name), operator, value, _instant_us(str(value)) if is_date else None
        )

    def _column_value(
        self, column: Column, token: Token, value: bool | int | float | str
    ) -> bool | int | str | bytes:
        if column is Column.STUCK:
            return (
                value if isinstance(value, bool) else self._refuse(token, "must be true or false")
            )
        if column in _NUMBERS:
            if isinstance(value, int) and not isinstance(value, bool):
                return value
            self._refuse(token, f"{column.value} is a whole number")
        if not isinstance(value, str):
            self._refuse(token, f"{column.value} is compared with a text in quotes")
        if column in _TIMES:
            return self._instant(token, value)
        if column is Column.STATUS:
            status = _STATUSES.get(re.sub("[-_ ]", "", value).lower())
            return self._refuse(token, "is not a status") if status is None else int(status)
        if column is Column.RUN_ID:
            try:
                return checks.uuid_bytes(self._field, value)
            except Rejected:
                self._refuse(token, "a run id is a UUID in canonical text form")
        return value

    def _instant(self, token: Token, text: str) -> int:
        ago = _AGO.fullmatch(text)
        if ago is not None:
            instant_us: int | None = self._now_us - int(ago[1]) * _UNITS_US[ago[2]]
        else:
            instant_us = _instant_us(text) if _DATE.match(text) else None
        if instant_us is None:
            self._refuse(token, "is no time (2026-11-29T10:00:00Z; 2h: two hours ago)")
        if not checks.DATETIME_US_MIN <= instant_us <= checks.DATETIME_US_MAX:
            self._refuse(token, "lies outside the years 1 to 9999")
        return instant_us

    def _value(self, token: Token) -> bool | int | float | str:
        if token.type in ("TRUE", "FALSE"):
            return token.type == "TRUE"
        if token.type == "STRING":
            return self._text(token)
        if token.lstrip("-").isdecimal():
            number = int(token)
            if abs(number) > _INT_MAX:
                self._refuse(token, "is too large a number")
            return number
        value = float(token)
        if abs(value) == float("inf"):
            self._refuse(token, "is too large a number")
        return value

    def _text(self, token: Token) -> str:
        quote = token[0]

        def plain(found: re.Match[str]) -> str:
            escaped = found[0][1]
            if escaped not in ("'", '"', "\\"):
                self._refuse(token, r"knows the escapes \' \" and \\ only")
            return escaped

        return re.sub(rf"{quote}{quote}|\\.", plain, token[1:-1], flags=re.DOTALL)

    def _refuse(self, token: Token, why: str) -> NoReturn:
        assert token.start_pos is not None
        raise invalid(self._field, f"at position {token.start_pos + 1}: {why}")


def _token(node: _Node) -> Token:
    assert isinstance(node, Token)
    return node


def _name(token: Token) -> str:
    return token[1:-1] if token.type == "QUOTED" else str(token)


def _absent(name: Token) -> Expression:
    column = _COLUMNS.get(_name(name))
    return AttributeIsNull(_name(name)) if column is None else IsNull(column)


def _other(name: Token, same: Expression) -> Expression:
    """There is a value, and it is another one."""
    if _COLUMNS.get(_name(name)) in _NEVER_NULL:
        return Not(same)
    return And((Not(_absent(name)), Not(same)))


def _instant_us(text: str) -> int | None:
    """ISO 8601, in UTC unless it says otherwise."""
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        return None
    if instant.tzinfo is None:
        instant = instant.replace(tzinfo=UTC)
    return (instant - _EPOCH) // timedelta(microseconds=1)

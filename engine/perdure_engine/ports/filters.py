"""What a list's filter says, once it is read: the frontend makes it, both stores carry it out.

Every condition is true or false, never unknown: one about something that a run does not have is
false, and `Not` turns it round. An attribute is compared with values that its type can be compared
with: a text with Keyword (by byte), with Text (`=`: all its words are there), with KeywordList (`=`:
it is among them) and, when it reads as a time, with Datetime; a number with Int and Double; true and
false with Bool.
"""

from __future__ import annotations

import enum
from typing import TypeAlias, Union

import msgspec


class Column(enum.Enum):
    """What every run has. The values are the names that filters use."""

    WORKFLOW_ID = "WorkflowId"
    RUN_ID = "RunId"
    WORKFLOW_TYPE = "WorkflowType"
    TASK_QUEUE = "TaskQueue"
    STATUS = "ExecutionStatus"
    START_TIME = "StartTime"
    CLOSE_TIME = "CloseTime"
    HISTORY_LENGTH = "HistoryLength"
    HISTORY_SIZE_BYTES = "HistorySizeBytes"
    STUCK = "Stuck"


class Operator(enum.Enum):
    EQ = "="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    STARTS_WITH = "STARTS_WITH"


class Order(enum.Enum):
    """Ties by run id. By close time, runs that are open count as closing last, the later start later."""

    START_DESC = "start desc"
    START_ASC = "start asc"
    CLOSE_DESC = "close desc"
    CLOSE_ASC = "close asc"


class Group(enum.Enum):
    STATUS = "ExecutionStatus"
    WORKFLOW_TYPE = "WorkflowType"


class Compare(msgspec.Struct, frozen=True, tag=True):
    """`value` has the column's type: µs for times, a number for a status, 16 bytes for a run id."""

    column: Column
    operator: Operator
    value: bool | int | str | bytes


class CompareAttribute(msgspec.Struct, frozen=True, tag=True):
    """`instant_us`: the text read as a time, if it is one. Bool knows EQ only, numbers no STARTS_WITH."""

    name: str
    operator: Operator
    value: bool | int | float | str
    instant_us: int | None = None


class IsNull(msgspec.Struct, frozen=True, tag=True):
    column: Column


class AttributeIsNull(msgspec.Struct, frozen=True, tag=True):
    """The run has no value of that name, of whatever type."""

    name: str


class And(msgspec.Struct, frozen=True, tag=True):
    terms: tuple[Expression, ...]


class Or(msgspec.Struct, frozen=True, tag=True):
    terms: tuple[Expression, ...]


class Not(msgspec.Struct, frozen=True, tag=True):
    term: Expression


Expression: TypeAlias = Union[
    "Compare", "CompareAttribute", "IsNull", "AttributeIsNull", "And", "Or", "Not"
]

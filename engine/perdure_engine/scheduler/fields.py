"""The fields of a cron schedule, each expanded to its numbers: what croniter would read otherwise never reaches it."""

from __future__ import annotations

import re

import msgspec


class CronFault(ValueError):
    """Why a schedule cannot be used, in words for its author."""


class FieldKind(msgspec.Struct, frozen=True):
    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()  # of `low`, `low` + 1, …
    wraps: int = 0  # this number is another word for 0 (Sunday)


SECOND = FieldKind("second", 0, 59)
MINUTE = FieldKind("minute", 0, 59)
HOUR = FieldKind("hour", 0, 23)
DAY_OF_MONTH = FieldKind("day of month", 1, 31)
MONTH = FieldKind(
    "month",
    1,
    12,
    ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"),
)
DAY_OF_WEEK = FieldKind(
    "day of week", 0, 7, ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"), wraps=7
)
KINDS = (MINUTE, HOUR, DAY_OF_MONTH, MONTH, DAY_OF_WEEK)

_ITEM = re.compile(r"(\*|[0-9]{1,2}|[A-Za-z]{3})(?:-([0-9]{1,2}|[A-Za-z]{3}))?(?:/([0-9]{1,2}))?")
_NTH = re.compile(r"([0-7]|[A-Za-z]{3})#([1-5])")


def expanded(kind: FieldKind, text: str) -> str:
    """ "*", or a list of numbers (with `L` and `#n` where they may stand). Raises CronFault."""
    if text == "*":
        return text
    items = text.split(",")
    nth = sum("#" in item for item in items)
    if 0 < nth < len(items):
        raise CronFault(f"{kind.name}: #n beside a day without it")
    return ",".join(part for item in items for part in _item(kind, item))


def _item(kind: FieldKind, item: str) -> list[str]:
    if kind is DAY_OF_MONTH and item.upper() == "L":
        return ["L"]
    nth = _NTH.fullmatch(item)
    if kind is DAY_OF_WEEK and nth is not None:
        return [f"{_number(kind, nth[1]) % 7}#{nth[2]}"]
    found = _ITEM.fullmatch(item)
    if found is None or (found[1] == "*" and found[2]):
        raise CronFault(f"{kind.name}: {item[:20]!r} is not of the dialect")
    first, last, step = found[1], found[2], found[3]
    every = int(step) if step else 1
    if step and not 1 <= every <= kind.high:
        raise CronFault(f"{kind.name}: no step of {every}")
    if first == "*":
        low, high = kind.low, kind.high - (1 if kind.wraps else 0)
    else:
        low = _number(kind, first)
        high = _number(kind, last) if last else low
        if step and not last:
            raise CronFault(f"{kind.name}: a step needs a range or *")
        if high < low:
            raise CronFault(f"{kind.name}: the range {low}-{high} goes backwards")
    numbers = range(low, high + 1, every)
    return [str(number % 7 if kind.wraps else number) for number in numbers]


def _number(kind: FieldKind, text: str) -> int:
    if text.isdigit():
        number = int(text)
        if kind.low <= number <= kind.high:
            return number
    elif text.upper() in kind.names:
        return kind.low + kind.names.index(text.upper())
    raise CronFault(f"{kind.name}: {text!r} lies outside {kind.low}-{kind.high}")

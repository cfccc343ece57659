"""JSON as RFC 8259 has it and nothing beside it, read so that no two readers could disagree about what was said.

Python's reader takes NaN, keeps the last of two equal keys, makes an infinity of 1e400 and takes integers of any length
(reliability §4, B8 and B9). Its scanner is in C all the same; what it lets through is asked for in its hooks.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

from perdure_engine.core.errors import Code, Rejected

DEPTH_MAX = 64
INTEGER_MIN = -(2**63)
INTEGER_MAX = 2**64 - 1
"""What a 64-bit reader elsewhere can hold, signed or not."""
INTEGER_CHARS_MAX = 20


def parse(raw: bytes) -> Any:
    """The value. Raises `Rejected` INVALID_ARGUMENT, reason MALFORMED_JSON."""
    try:
        text = raw.decode()
        value = _read(text)
        if "\\ud" in text or "\\uD" in text:
            json.dumps(value, ensure_ascii=False).encode()  # raises for half of a surrogate pair
    except UnicodeEncodeError:
        raise malformed("has half of a surrogate pair, which no UTF-8 can hold") from None
    except UnicodeDecodeError as error:
        raise malformed(f"is not UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        problem = f"is not JSON: {error.msg} (line {error.lineno}, column {error.colno})"
        raise malformed(problem) from None
    except RecursionError:
        raise _too_deep() from None
    if _is_deeper(value, DEPTH_MAX):
        raise _too_deep()
    return value


def malformed(problem: str) -> Rejected:
    return Rejected(Code.INVALID_ARGUMENT, "MALFORMED_JSON", f"the body {problem}", field="body")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise malformed(f"has an object with the key {_twice(pairs)!r:.100} twice")
    return found


def _twice(pairs: list[tuple[str, Any]]) -> str:
    seen: set[str] = set()
    return next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]  # on purpose


def _integer(text: str) -> int:
    if len(text) > INTEGER_CHARS_MAX or not INTEGER_MIN <= (value := int(text)) <= INTEGER_MAX:
        raise malformed("has an integer of more than 64 bits")
    return value


def _float(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise malformed("has a number that is too large")
    return value


def _constant(name: str) -> NoReturn:
    raise malformed(f"has {name}, which is not JSON")


_read = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_float, parse_constant=_constant
).decode


def _is_deeper(value: Any, depth: int) -> bool:
    """Level by level: a recursion would be as deep as what it is to find."""
    level = [value] if type(value) is dict or type(value) is list else []
    for _ in range(depth):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if type(outer) is dict else outer)
            if type(inner) is dict or type(inner) is list
        ]
        if not level:
            return False
    return True


def _too_deep() -> Rejected:
    return malformed(f"is nested deeper than {DEPTH_MAX} levels")

"""JSON that is read is JSON (RFC 8259), says one thing only, and is what its author meant (B8, B9)."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure_engine.core.errors import Code, Rejected
from perdure_engine.transport.http.rest import strict_json
from perdure_engine.transport.http.rest.strict_json import (
    DEPTH_MAX,
    INTEGER_MAX,
    INTEGER_MIN,
    parse,
)

scalars = (
    st.none()
    | st.booleans()
    | st.integers(INTEGER_MIN, INTEGER_MAX)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=20,
)


def refusal(raw: bytes) -> Rejected:
    with pytest.raises(Rejected) as refused:
        parse(raw)
    assert refused.value.code is Code.INVALID_ARGUMENT
    assert refused.value.reason == "MALFORMED_JSON"
    assert refused.value.field == "body"
    return refused.value


def nested(depth: int, opening: str = "[", closing: str = "]") -> bytes:
    return (opening * depth + closing * depth).encode()


@given(values, st.booleans(), st.none() | st.integers(0, 3))
def test_what_is_json_is_read_as_it_was_meant(
    value: Any, ascii_only: bool, indent: int | None
) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)

    assert parse(text.encode()) == value


@given(values, st.integers(0, 10_000), st.sampled_from([b"NaN", b"Infinity", b"-Infinity"]))
def test_b9_what_only_python_takes_for_json_is_refused_wherever_it_stands(
    value: Any, place: int, constant: bytes
) -> None:
    raw = json.dumps([value, "here"]).encode().replace(b'"here"]', constant + b"]")

    assert constant.decode().lstrip("-") in refusal(raw).message


@given(
    st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), scalars, min_size=1),
    st.booleans(),
)
def test_b9_a_key_twice_is_refused_however_it_is_written(
    members: dict[str, Any], ascii_only: bool
) -> None:
    first = next(iter(members))
    again = json.dumps(first, ensure_ascii=ascii_only)
    raw = f"{json.dumps(members)[:-1]}, {again}: 1}}"

    refusal(raw.encode())


@given(st.integers(min_value=INTEGER_MAX + 1) | st.integers(max_value=INTEGER_MIN - 1))
def test_b9_an_integer_of_more_than_64_bits_is_refused(number: int) -> None:
    assert "64 bits" in refusal(f'{{"a": [{number}]}}'.encode()).message


def read_or_refused(raw: bytes) -> Any:
    try:
        return parse(raw)
    except Rejected as rejected:
        return rejected


@given(st.binary() | st.text(alphabet='{}[]",:0123456789.eE+-tfnul \\').map(str.encode))
def test_any_bytes_are_read_or_refused_and_nothing_else(raw: bytes) -> None:
    found = read_or_refused(raw)

    if isinstance(found, Rejected):
        assert found.reason == "MALFORMED_JSON"
    else:
        assert found == json.loads(raw)


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"", "is not JSON"),
        (b"{", "is not JSON"),
        (b"{'a': 1}", "is not JSON"),
        (b"[1,]", "is not JSON"),
        (b"{} {}", "is not JSON"),
        (b"\xef\xbb\xbf{}", "is not JSON"),
        (b'"\xff\xfe"', "is not UTF-8 at byte 1"),
        (b"1e400", "too large"),
        (b"-1e400", "too large"),
        (b"9" * 5_000, "64 bits"),
        (b'["\\ud800"]', "half of a surrogate pair"),
        (b'{"\\uDC00": 1}', "half of a surrogate pair"),
        (nested(DEPTH_MAX + 1), "nested deeper"),
        (nested(DEPTH_MAX + 1, '{"a":', "}").replace(b":}", b":1}", 1), "nested deeper"),
        (nested(1_000_000), "nested deeper"),
        (b"[" * 1_000_000, "nested deeper"),
    ],
)
def test_what_is_no_json_or_more_than_a_reader_need_bear_is_refused(raw: bytes, why: str) -> None:
    assert why in refusal(raw).message


def test_what_just_fits_is_read() -> None:
    assert parse(nested(DEPTH_MAX)) is not None
    assert parse(b'"\\ud83d\\ude00"') == "\N{GRINNING FACE}"
    assert parse(b"[18446744073709551615, -9223372036854775808]") == [INTEGER_MAX, INTEGER_MIN]
    assert parse(b'"\\u0000"') == "\0"


def test_a_key_that_is_repeated_is_named_but_not_at_any_length() -> None:
    key = "k" * 10_000
    message = refusal(f'{{"{key}": 1, "{key}": 2}}'.encode()).message

    assert "'kkk" in message
    assert len(message) < 200


def test_the_hooks_are_not_passed_by_when_the_scanner_is_in_c() -> None:
    """They are what strictness rests on."""
    assert json.scanner.c_make_scanner is not None  # type: ignore[attr-defined]  # no stub has it
    assert strict_json.parse(b'{"a": 1.5}') == {"a": 1.5}

"""Memos at rest: names and payloads as the wire encodes them. The names are read here, the payloads never.

A Memo is a protobuf map: one field 1 for each entry, in which field 1 is the name and field 2 the Payload. Where a
name comes twice the later one counts, as protobuf itself has it.
"""

from __future__ import annotations

from collections.abc import Iterator

_ENTRY = 0x0A  # field 1, length-delimited; inside an entry: the name
_VALUE = 0x12  # field 2, length-delimited


class MalformedMemo(ValueError):
    """The bytes are not an encoded Memo."""


def merged(before: bytes, upserted: bytes) -> bytes:
    """The memo after an upsert: a name with an empty Payload is taken away. Raises MalformedMemo."""
    entries = {name: entry for name, entry, _ in _entries(before)}
    for name, entry, is_empty in _entries(upserted):
        if is_empty:
            entries.pop(name, None)
        else:
            entries[name] = entry
    return b"".join(entries.values())


def check(memo: bytes) -> None:
    """Raises MalformedMemo."""
    for name, _, _ in _entries(memo):
        try:
            name.decode()
        except UnicodeDecodeError:
            raise MalformedMemo("a name is not UTF-8") from None


def _entries(memo: bytes) -> Iterator[tuple[bytes, bytes, bool]]:
    """Name, the whole encoded entry, and whether its Payload is empty."""
    for tag, start, begin, end in _fields(memo, 0, len(memo)):
        if tag != _ENTRY:
            raise MalformedMemo(f"unexpected field with tag {tag}")
        name, is_empty = b"", True
        for inner, _, inner_begin, inner_end in _fields(memo, begin, end):
            if inner == _ENTRY:
                name = memo[inner_begin:inner_end]
            elif inner == _VALUE:
                is_empty = inner_begin == inner_end
            else:
                raise MalformedMemo(f"unexpected field with tag {inner} in an entry")
        yield name, memo[start:end], is_empty


def _fields(data: bytes, at: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Tag, where the field begins, where its contents begin, and where they end."""
    while at < end:
        start = at
        length, begin = _varint(data, at + 1, end)
        at = begin + length
        if at > end:
            raise MalformedMemo("cut short")
        yield data[start], start, begin, at


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while at < end and shift < 32:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise MalformedMemo("cut short")

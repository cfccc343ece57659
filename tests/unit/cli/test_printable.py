"""What others named must not reach a terminal as commands."""

import json

import pytest

from perdure.cli.printable import json_text, printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("order-1", "order-1"),
        ("größe 寸 🎉", "größe 寸 🎉"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x9b31mred", "red"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]52;c;Y2xpcA==\x1b\\after", "after"),
        ("\x1bPdevice\x1b\\after", "after"),
        ("\x1bcafter", "after"),
        ("a\x1b", "a"),
        ("one\r\ntwo\tthree", "one two three"),
        ("a\x00b\x7fc\x85d", "abc d"),
        ("\u202egnp.exe", "gnp.exe"),
        ("zero\u200bwidth", "zerowidth"),
        ("half \ud83d", "half "),
    ],
)
def test_text_is_shown_without_what_a_terminal_obeys(text: str, shown: str) -> None:
    assert printable(text) == shown


@pytest.mark.parametrize(
    "value", ["\x1b[31m", "\x9b31m", "\u202ex", "\u2028", "half \ud83d", "\x7f"]
)
def test_json_keeps_the_value_and_is_safe_to_look_at(value: str) -> None:
    text = json_text({"id": value})

    assert json.loads(text) == {"id": value}
    assert printable(text) == text


def test_json_keeps_letters_readable() -> None:
    assert json_text(["größe", 1]) == '["größe", 1]'

"""Text from elsewhere, made fit for a terminal and for JSON.

Ids, types and messages are whatever somebody called them. A terminal obeys the control sequences in
what it is shown (titles, colours, clipboard, cursor), and bidirectional marks reorder what is read.
"""

from __future__ import annotations

import json
import re
from typing import Any

# CSI (colours, cursor), OSC, DCS, SOS, PM and APC (titles, clipboard, links) with their end or
# without it, and the two-character sequences.
_SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]?"
)
_SPACE = re.compile(r"[\t\n\v\f\r\x85\u2028\u2029]+")
# Control characters, invisible and bidirectional marks, halves of surrogate pairs.
_UNPRINTABLE = re.compile(
    r"[\x00-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)
# JSON escapes the first 32 by itself.
_UNSAFE_IN_JSON = re.compile(
    r"[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def printable(text: str) -> str:
    """The same text on one line, without what a terminal would obey instead of show."""
    return _UNPRINTABLE.sub("", _SPACE.sub(" ", _SEQUENCE.sub("", text)))


def json_text(value: Any, *, indent: int | None = None) -> str:
    """JSON that is safe to look at and exactly the value: what is unsafe is escaped, not removed."""
    separators = (",", ": ") if indent else (", ", ": ")
    text = json.dumps(value, ensure_ascii=False, indent=indent, separators=separators)
    return _UNSAFE_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)

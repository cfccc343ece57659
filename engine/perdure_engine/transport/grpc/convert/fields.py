"""The type of a message that is still a dict of its fields."""

from __future__ import annotations

from typing import Any, TypeAlias

Fields: TypeAlias = Any
"""Really `dict[str, Any]`. The generated stubs do not know that a message's constructor takes a
dict in the place of a nested message; the tests of tests/unit/transport check the names."""

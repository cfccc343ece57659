"""One converted value. A module of its own, because errors carry payloads and converters raise."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

NO_METADATA: Mapping[str, bytes] = MappingProxyType({})


class Payload(msgspec.Struct, frozen=True):
    """A value as it travels: how it is encoded, its bytes, and what codecs need besides."""

    encoding: str
    data: bytes
    # Shared: nearly all payloads have none, and a dict for each would be most of their memory.
    metadata: Mapping[str, bytes] = NO_METADATA

    def __reduce__(self) -> tuple[type[Payload], tuple[object, ...]]:
        """For activities in other processes: what metadata is shared by cannot be pickled."""
        return Payload, (
            self.encoding,
            self.data,
            *([dict(self.metadata)] if self.metadata else []),
        )

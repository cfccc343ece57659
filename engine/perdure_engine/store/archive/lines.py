"""The lines of an object, in frames of zstd: what decompresses the object whole gets them all, and what is after one
line reads its frame only."""

from __future__ import annotations

from typing import NamedTuple

import zstandard

from perdure_engine.ports.archive import ArchiveCorrupt

FRAME_BYTES = 512 * 1024  # of lines that share a frame, before compression: read in a millisecond
LEVEL = 3


class Frame(NamedTuple):
    offset: int
    size: int


class LinesWriter:
    """Lines, one after the other, each in parts. `frames` has that of each line once `content` was asked for."""

    def __init__(self) -> None:
        self._compressor = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True)
        self._done: list[bytes] = []
        self._size = 0
        self._open: list[bytes] = []  # lines of the frame that is filled
        self._open_size = 0
        self.frames: list[Frame] = []

    @property
    def size(self) -> int:
        """Compressed, but for the frame that is filled now."""
        return self._size + self._open_size

    def add(self, line: bytes) -> None:
        self._open.append(line)
        self._open_size += len(line)
        if self._open_size >= FRAME_BYTES:
            self._close()

    def add_compressed(self, frame: bytes) -> None:
        """A line that has a frame of its own, as a `LineCompressor` made it."""
        self._close()
        self._append(frame, 1)

    def content(self) -> bytes:
        self._close()
        return b"".join(self._done)

    def _close(self) -> None:
        if self._open:
            self._append(self._compressor.compress(b"".join(self._open)), len(self._open))
            self._open, self._open_size = [], 0

    def _append(self, frame: bytes, lines: int) -> None:
        self.frames += [Frame(self._size, len(frame))] * lines
        self._done.append(frame)
        self._size += len(frame)


class LineCompressor:
    """A line that is compressed as it comes: all of it may be more than memory should hold."""

    def __init__(self) -> None:
        self._compressor = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True).compressobj()
        self._parts: list[bytes] = []

    def write(self, part: bytes) -> None:
        self._parts.append(self._compressor.compress(part))

    def finish(self) -> bytes:
        self._parts.append(self._compressor.flush())
        return b"".join(self._parts)


def lines_of(content: bytes) -> list[bytes]:
    """Of one frame or many. Raises ArchiveCorrupt."""
    whole: list[bytes] = []
    left = content
    try:
        while left:
            frame = zstandard.ZstdDecompressor().decompressobj()
            whole.append(frame.decompress(left))
            if not frame.eof:
                raise ArchiveCorrupt("an archived object ends too soon")
            left = frame.unused_data
    except zstandard.ZstdError as error:
        raise ArchiveCorrupt(f"an archived object does not decompress: {error}") from error
    return b"".join(whole).splitlines()

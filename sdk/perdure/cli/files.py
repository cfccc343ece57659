"""Reading the files that the user names, which may be anything: devices, pipes, 20 GB of noise."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from perdure.cli.errors import UsageError


def read_text_file(path: Path, bytes_max: int) -> str:
    """A regular file's UTF-8 text. Raises UsageError for everything else; never blocks."""
    try:
        # Not blocking: to open a pipe that nobody writes to would otherwise wait for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"{path} cannot be read: {reason}") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise UsageError(f"{path} is not a regular file")
    with open(descriptor, "rb") as file:
        return decode_text(file.read(bytes_max + 1), bytes_max, str(path))


def decode_text(content: bytes, bytes_max: int, name: str) -> str:
    """Raises UsageError when there is more than `bytes_max`, or when it is not UTF-8."""
    if len(content) > bytes_max:
        raise UsageError(f"{name} is larger than the limit of {bytes_max:,} bytes")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} is not UTF-8: {error.reason} at byte {error.start}") from None

"""What every command needs to know: from a flag, else the environment, else a TOML file.

| flag             | environment            | file             | otherwise        |
| ---------------- | ---------------------- | ---------------- | ---------------- |
| `--address`      | `PERDURE_ADDRESS`      | `address`        | localhost:7233   |
| `--namespace`    | `PERDURE_NAMESPACE`    | `namespace`      | default          |
| `--output`       | `PERDURE_OUTPUT`       | `output`         | table            |
| `--call-timeout` | `PERDURE_CALL_TIMEOUT` | `call_timeout`   | 10s              |
| `--no-color`     | `NO_COLOR`             | `color = false`  | as the terminal  |

The file is `PERDURE_CONFIG`, else `perdure/config.toml` in `XDG_CONFIG_HOME` or `~/.config`. An
empty variable counts as unset. Nothing here is secret, and nothing secret will ever be a flag.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any

from perdure.cli.durations import parse_duration
from perdure.cli.errors import UsageError
from perdure.cli.files import read_text_file
from perdure.envconfig import config_path

DEFAULT_ADDRESS = "localhost:7233"
DEFAULT_NAMESPACE = "default"
# Long enough for an engine that is busy or just starting, short enough for somebody who waits.
DEFAULT_CALL_TIMEOUT = "10s"
DEFAULT_PORT = 7233

CONFIG_FILE_BYTES_MAX = 64 * 1024
ADDRESS_CHARS_MAX = 255

# A name or an IPv4 address without a port; to gRPC that would mean port 443.
_HOST_ALONE = re.compile(r"[A-Za-z0-9.-]+")
_UNPRINTABLE = re.compile(r"[\x00-\x20\x7f-\x9f]")


class OutputFormat(StrEnum):
    TABLE = "table"
    JSON = "json"


@dataclass(frozen=True, kw_only=True)
class Flags:
    """What was said on the command line. None: nothing."""

    address: str | None = None
    namespace: str | None = None
    output: OutputFormat | None = None
    call_timeout: str | None = None
    no_color: bool = False


@dataclass(frozen=True, kw_only=True)
class Settings:
    address: str
    namespace: str
    output: OutputFormat
    call_timeout: timedelta
    color: bool


def load_settings(flags: Flags, environment: Mapping[str, str]) -> Settings:
    """Raises UsageError, which names the variable or the file at fault."""
    file = _read_config(environment)

    def text(flag: str | None, name: str, default: str) -> str:
        return flag or environment.get(f"PERDURE_{name.upper()}") or file.get(name) or default

    try:
        output = OutputFormat(text(flags.output, "output", OutputFormat.TABLE))
    except ValueError as error:
        raise UsageError(f"output must be table or json: {error}") from None
    no_color = flags.no_color or bool(environment.get("NO_COLOR"))
    return Settings(
        address=checked_address(text(flags.address, "address", DEFAULT_ADDRESS)),
        namespace=text(flags.namespace, "namespace", DEFAULT_NAMESPACE),
        output=output,
        call_timeout=parse_duration(text(flags.call_timeout, "call_timeout", DEFAULT_CALL_TIMEOUT)),
        color=not no_color and file.get("color", True),
    )


def checked_address(address: str) -> str:
    """HOST:PORT; the port may be left out. Raises UsageError for what cannot be an address."""
    if not address or len(address) > ADDRESS_CHARS_MAX or _UNPRINTABLE.search(address):
        raise UsageError(f"not an address (HOST:PORT): {address!r}")
    return f"{address}:{DEFAULT_PORT}" if _HOST_ALONE.fullmatch(address) else address


_KINDS: Mapping[str, type] = {
    "address": str,
    "namespace": str,
    "output": str,
    "call_timeout": str,
    "color": bool,
}


def _read_config(environment: Mapping[str, str]) -> dict[str, Any]:
    path, must_exist = config_path(environment)
    if not must_exist and not path.exists():
        return {}
    try:
        values = tomllib.loads(read_text_file(path, CONFIG_FILE_BYTES_MAX))
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path} is not TOML: {error}") from None
    # Tables are the engine's sections: one file may serve both.
    own = {name: value for name, value in values.items() if not isinstance(value, dict)}
    for name, value in own.items():
        kind = _KINDS.get(name)
        if kind is None:
            raise UsageError(f"{path}: unknown setting {name!r}; known: {', '.join(_KINDS)}")
        if not isinstance(value, kind):
            raise UsageError(f"{path}: {name} must be a {kind.__name__}, not {value!r}")
    return own

"""Where settings come from. Later wins: defaults < TOML file < environment < command line.

A setting remembers its source, so that a wrong one can be found. Values are never repeated in an
error: they may be secrets.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from perdure_engine.server import dsn
from perdure_engine.server.config import KEYS, Config
from perdure_engine.server.errors import ConfigError

PREFIX = "PERDURE_"
FILE_VARIABLE = "PERDURE_CONFIG"

# msgspec tells the place at the end: "Expected `int`, got `str` - at `$.grpc.port`"
_PLACE = re.compile(r"^(?P<problem>.*) - at `\$\.(?P<key>.*)`$", re.DOTALL)


class Setting(NamedTuple):
    value: object
    source: str


Layer = Mapping[str, Setting]


def load(
    *,
    environment: Mapping[str, str],
    options: Mapping[str, object],
    file: Path | None = None,
    defaults: Mapping[str, object] | None = None,
) -> Config:
    """The settings of this process. Raises ConfigError.

    `options` and `defaults` go by dotted name; an option that is None was not given. Without a
    `file` the environment may name one.
    """
    if file is None and environment.get(FILE_VARIABLE):
        file = Path(environment[FILE_VARIABLE])
    merged = {
        **from_values(defaults or {}, "default"),
        **(from_file(file) if file else {}),
        **from_environment(environment),
        **from_command_line(options),
    }
    return _build(merged)


def from_file(path: Path) -> Layer:
    """The engine's settings are all in tables. What stands above them is the CLI's, as the file may
    be one for both."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"the configuration file {path} cannot be read: {error}") from error
    values = {
        f"{section}.{name}": value
        for section, fields in tables.items()
        if isinstance(fields, dict)
        for name, value in fields.items()
    }
    unknown = sorted(values.keys() - KEYS)
    if unknown:
        raise ConfigError(f"unknown settings in {path}: {', '.join(unknown)}")
    return from_values(values, str(path))


def from_environment(environment: Mapping[str, str]) -> Layer:
    """Unknown names are passed over: the CLI has variables of its own, and Kubernetes sets some
    for every service. An empty one counts as not set, as compose files leave them."""
    return {
        key: Setting(environment[name], name)
        for key in KEYS
        if environment.get(name := variable(key))
    }


def from_command_line(options: Mapping[str, object]) -> Layer:
    given = {key: value for key, value in options.items() if value is not None}
    url = given.get("database.url")
    if isinstance(url, str) and dsn.is_readable(url) and dsn.has_secret(url):
        raise ConfigError(
            "a password on the command line can be read by every user of this machine: "
            f"set {variable('database.url')} instead"
        )
    return {key: Setting(value, option(key)) for key, value in given.items()}


def from_values(values: Mapping[str, object], source: str) -> Layer:
    return {key: Setting(value, source) for key, value in values.items()}


def variable(key: str) -> str:
    """The environment variable of a setting."""
    return PREFIX + key.replace(".", "_").upper()


def option(key: str) -> str:
    """The command-line option of a setting."""
    return "--" + key.replace(".", "-").replace("_", "-")


def _build(settings: Layer) -> Config:
    tree: dict[str, dict[str, object]] = {}
    for key, setting in settings.items():
        assert key in KEYS, key
        section, name = key.split(".")
        tree.setdefault(section, {})[name] = setting.value
    try:
        return msgspec.convert(tree, Config, strict=False)  # the environment has texts only
    except msgspec.ValidationError as error:
        raise ConfigError(_words(str(error), settings)) from None


def _words(problem: str, settings: Layer) -> str:
    """The problem with its place and its source. The place may be a setting or a whole section."""
    found = _PLACE.match(problem)
    if found is None:
        return problem
    key = found["key"]
    sources = {
        s.source for name, s in settings.items() if name == key or name.startswith(f"{key}.")
    }
    return f"{key}: {found['problem']} ({', '.join(sorted(sources))})"

"""Where the engine is, from the environment or a TOML file: the same that the CLI reads.

    client = await Client.connect(**ClientConfig.load_client_connect_config())

`PERDURE_ADDRESS` and `PERDURE_NAMESPACE`, else `address` and `namespace` in the file `PERDURE_CONFIG`,
else in `perdure/config.toml` under `XDG_CONFIG_HOME` or `~/.config`; what neither names is left out.
An empty variable counts as unset.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypedDict

__all__ = ["ClientConfig", "ClientConfigProfile", "ClientConnectConfig", "config_path"]

# A config file is some lines long; what is larger is another file.
_FILE_BYTES_MAX = 64 * 1024


class ClientConnectConfig(TypedDict, total=False):
    """Keyword arguments of `Client.connect`."""

    target_host: str
    namespace: str


@dataclass(frozen=True, kw_only=True)
class ClientConfigProfile:
    """One engine and namespace; None: left to `Client.connect`."""

    address: str | None = None
    namespace: str | None = None

    @classmethod
    def load(cls, *, override_env_vars: Mapping[str, str] | None = None) -> Self:
        """From the process's environment, or from the one given.

        Raises ValueError, which names the file, for a file that is not what it should be, and OSError
        when the one that `PERDURE_CONFIG` names cannot be read.
        """
        environment = os.environ if override_env_vars is None else override_env_vars
        file = _file(environment)
        return cls(
            address=environment.get("PERDURE_ADDRESS") or file.get("address"),
            namespace=environment.get("PERDURE_NAMESPACE") or file.get("namespace"),
        )

    def to_dict(self) -> dict[str, str]:
        """What is known."""
        known = {"address": self.address, "namespace": self.namespace}
        return {name: value for name, value in known.items() if value is not None}

    @classmethod
    def from_dict(cls, known: Mapping[str, str]) -> Self:
        return cls(address=known.get("address"), namespace=known.get("namespace"))

    def to_client_connect_config(self) -> ClientConnectConfig:
        config = ClientConnectConfig()
        if self.address is not None:
            config["target_host"] = self.address
        if self.namespace is not None:
            config["namespace"] = self.namespace
        return config


class ClientConfig:
    """For programs that want one line."""

    @staticmethod
    def load_client_connect_config(
        *, override_env_vars: Mapping[str, str] | None = None
    ) -> ClientConnectConfig:
        """See `ClientConfigProfile.load`."""
        profile = ClientConfigProfile.load(override_env_vars=override_env_vars)
        return profile.to_client_connect_config()


def config_path(environment: Mapping[str, str]) -> tuple[Path, bool]:
    """The file, and whether it was named by the user and so must be there."""
    named = environment.get("PERDURE_CONFIG")
    if named:
        return Path(named), True
    folder = environment.get("XDG_CONFIG_HOME") or os.path.join(
        environment.get("HOME") or os.path.expanduser("~"), ".config"
    )
    return Path(folder) / "perdure" / "config.toml", False


def _file(environment: Mapping[str, str]) -> dict[str, str]:
    path, must_exist = config_path(environment)
    if not must_exist and not path.exists():
        return {}
    if path.stat().st_size > _FILE_BYTES_MAX:
        raise ValueError(f"{path} is larger than {_FILE_BYTES_MAX} bytes")
    try:
        values: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not TOML: {error}") from None
    found: dict[str, str] = {}
    for name in ("address", "namespace"):
        value = values.get(name)
        if value is None:
            continue
        if not isinstance(value, str):
            raise ValueError(f"{path}: {name} must be a text, not {value!r}")
        found[name] = value
    return found

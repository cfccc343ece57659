"""The commands of the engine, found by the CLI through the entry points `perdure.engine`.

`server_command` and `dev_command` are functions for `Typer.command()`, `db_command` is a Typer with
commands of its own. Nothing heavy is imported before a command runs: `--help` must be quick.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from perdure_engine.server.config import Config

ConfigFile = Annotated[
    Path | None, typer.Option("--config", help="TOML file (else PERDURE_CONFIG names it)")
]
DatabaseUrl = Annotated[
    str | None,
    typer.Option(help="its address; one with a password belongs into PERDURE_DATABASE_URL"),
]
GrpcPort = Annotated[int | None, typer.Option(help="0: any free port (default: 7233)")]
HttpPort = Annotated[int | None, typer.Option(help="0: any free port (default: 8233)")]
LogLevel = Annotated[str | None, typer.Option(help="debug, info, warning or error")]
LogFormat = Annotated[str | None, typer.Option(help="console or json")]

INTERRUPTED = 130  # as shells say it


def server_command(
    config: ConfigFile = None,
    database_url: DatabaseUrl = None,
    grpc_host: Annotated[
        str | None, typer.Option(help="where to listen (default: 127.0.0.1)")
    ] = None,
    grpc_port: GrpcPort = None,
    http_host: Annotated[
        str | None, typer.Option(help="where to listen (default: 127.0.0.1)")
    ] = None,
    http_port: HttpPort = None,
    node_address: Annotated[
        str | None, typer.Option(help="where others reach this node (default: the gRPC listener)")
    ] = None,
    node_region: Annotated[str | None, typer.Option(help="where this node is")] = None,
    log_level: LogLevel = None,
    log_format: LogFormat = None,
) -> None:
    """Run one engine process against a database that `perdure db migrate` has prepared.

    Every option can be set in a TOML file (grpc.port) and in the environment (PERDURE_GRPC_PORT).
    """
    with _reported():
        settings = _load(
            config,
            {
                "database.url": database_url,
                "grpc.host": grpc_host,
                "grpc.port": grpc_port,
                "http.host": http_host,
                "http.port": http_port,
                "node.address": node_address,
                "node.region": node_region,
                "log.level": log_level,
                "log.format": log_format,
            },
        )
        from perdure_engine.server import logs, running, schema
        from perdure_engine.server.wiring import start_node

        logs.set_up(settings.log)
        schema.check(settings)
        running.run(
            running.serve(lambda: start_node(settings), lambda node: _say(node.describe().rstrip()))
        )


def dev_command(
    data: Annotated[
        Path | None,
        typer.Option(help="where the database lives (default: in the user's data folder)"),
    ] = None,
    grpc_port: GrpcPort = None,
    http_port: HttpPort = None,
    number_of_shards: Annotated[
        int | None, typer.Option(help="fixed by the first start (default: 4)", min=1, max=65_536)
    ] = None,
    config: ConfigFile = None,
    log_level: LogLevel = None,
) -> None:
    """Run everything in one process, with a database of its own. Ctrl-C stops it, the data stay."""
    with _reported():
        from perdure_engine.server import logs
        from perdure_engine.server.dev import DEFAULTS, run_dev

        settings = _load(
            config,
            {
                "dev.data": None if data is None else str(data),
                "grpc.port": grpc_port,
                "http.port": http_port,
                "database.number_of_shards": number_of_shards,
                "log.level": log_level,
            },
            DEFAULTS,
        )
        logs.set_up(settings.log)
        run_dev(settings, _say)


db_command = typer.Typer(
    help="The schema of the database: migrate it, look at it.",
    no_args_is_help=True,
    add_completion=False,
)


@db_command.command("migrate")
def migrate_command(
    shards: Annotated[
        int | None,
        typer.Option(
            "--shards",
            "--number-of-shards",
            help="fixed by the first migration (default: 512)",
            min=1,
            max=65_536,
        ),
    ] = None,
    database_url: DatabaseUrl = None,
    config: ConfigFile = None,
) -> None:
    """Create the tables, or bring them to this version. Calling it again changes nothing."""
    with _reported():
        settings = _load(
            config, {"database.number_of_shards": shards, "database.url": database_url}
        )
        from perdure_engine.server import schema

        _say("Migrating ...")
        done = schema.migrate(settings)
        _say(f"The database has schema {done.current} and {done.number_of_shards} shards.")


@db_command.command("status")
def status_command(
    database_url: DatabaseUrl = None,
    config: ConfigFile = None,
    output: Annotated[Literal["table", "json"], typer.Option("--output", "-o")] = "table",
) -> None:
    """Say which schema the database has. Exit code 1 when `perdure db migrate` must come first."""
    with _reported():
        settings = _load(config, {"database.url": database_url})
        from perdure_engine.server import dsn, schema

        found = schema.status(settings)
        facts = {
            "database": dsn.redacted(settings.database.url),
            "schema": found.current,
            "newest_schema": found.head,
            "number_of_shards": found.number_of_shards,
            "ready": schema.is_current(found),
        }
        if output == "json":
            _say(json.dumps(facts))
        else:
            for name, value in facts.items():
                _say(f"{name:<18}{value}")
        if not facts["ready"]:
            raise typer.Exit(1)


def _load(
    file: Path | None, options: Mapping[str, object], defaults: Mapping[str, object] | None = None
) -> Config:
    from perdure_engine.server.config_layers import load

    return load(environment=os.environ, options=options, file=file, defaults=defaults)


@contextmanager
def _reported() -> Iterator[None]:
    """Turn what went wrong into a line on standard error and an exit code."""
    from perdure_engine.server.errors import ServerError

    try:
        yield
    except ServerError as error:
        print(f"Error: {error}", file=sys.stderr)
        raise typer.Exit(error.exit_code) from error
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None


def _say(text: str) -> None:
    # Flushed: whoever started us may be waiting for this line at the end of a pipe.
    print(text, flush=True)

"""The settings of an engine process: one frozen tree, read once, handed out in sections.

Every setting has one name: `[grpc] port` in the TOML file is PERDURE_GRPC_PORT in the environment
and --grpc-port on the command line. `config_layers` says which of them wins.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from perdure_engine.history.rooms import HistoryConfig
from perdure_engine.server import dsn
from perdure_engine.store.archive.opening import is_address

Port = Annotated[int, Meta(ge=0, le=65_535)]  # 0: any that is free
ShardCount = Annotated[int, Meta(ge=1, le=65_536)]
LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["console", "json"]

LOOPBACK = "127.0.0.1"  # there is no authentication yet: other listeners must be asked for


class DatabaseConfig(msgspec.Struct, frozen=True):
    """`url` is libpq's: a URI or key=value words. It may hold a password, and is shown without.

    `number_of_shards` is fixed by the first migration; None is what the database has. With
    `allow_unsafe` the engine runs on a database that may lose what it has acknowledged: for tests,
    and for products that make PostgreSQL durable by other means than its own.
    """

    url: str = ""
    number_of_shards: ShardCount | None = None
    allow_unsafe: bool = False
    readers: Annotated[int, Meta(ge=1, le=100)] = 4
    statement_timeout_ms: Annotated[int, Meta(ge=1_000, le=60_000)] = 10_000

    def __post_init__(self) -> None:
        if not dsn.is_readable(self.url):
            raise ValueError("is not a connection string of PostgreSQL")

    def __repr__(self) -> str:
        return f"DatabaseConfig(url={dsn.redacted(self.url)!r}, ...)"


class GrpcConfig(msgspec.Struct, frozen=True):
    host: str = LOOPBACK
    port: Port = 7233


class HttpConfig(msgspec.Struct, frozen=True):
    """`allowed_hosts`: the names by which callers may reach this server, without ports, parted by
    commas. "" is those of loopback while `host` is one of them, else any; * is any."""

    host: str = LOOPBACK
    port: Port = 8233
    allowed_hosts: str = ""


class NodeConfig(msgspec.Struct, frozen=True):
    """`address` is where workers, clients and other nodes reach this one; "" is the listener's."""

    address: str = ""
    region: str = ""
    roles: Literal["all"] = "all"


class LogConfig(msgspec.Struct, frozen=True):
    level: LogLevel = "info"
    format: LogFormat = "json"


class MetricsConfig(msgspec.Struct, frozen=True):
    """Where the figures go besides /metrics: `otlp_endpoint` is a collector's OTLP over gRPC, as
    http://host:4317 (or https); "" is none."""

    otlp_endpoint: str = ""
    otlp_every_s: Annotated[float, Meta(gt=0)] = 15.0

    def __post_init__(self) -> None:
        if self.otlp_endpoint and not self.otlp_endpoint.startswith(("http://", "https://")):
            raise ValueError("otlp_endpoint must begin with http:// or https://")


class ArchiveConfig(msgspec.Struct, frozen=True):
    """Where to what is over its retention goes: `url` is file:///folder or s3://bucket/prefix; "": it is deleted.

    One installation, one prefix. A bucket is reached as the AWS variables of the environment say.
    """

    url: str = ""

    def __post_init__(self) -> None:
        if self.url and not is_address(self.url):
            raise ValueError("is neither file:///folder nor s3://bucket/prefix")


class DevConfig(msgspec.Struct, frozen=True):
    """`data` is the folder of `perdure dev`; "" is one in the user's data folder."""

    data: str = ""


class Config(msgspec.Struct, frozen=True):
    database: DatabaseConfig = DatabaseConfig()
    grpc: GrpcConfig = GrpcConfig()
    http: HttpConfig = HttpConfig()
    node: NodeConfig = NodeConfig()
    history: HistoryConfig = HistoryConfig()
    log: LogConfig = LogConfig()
    metrics: MetricsConfig = MetricsConfig()
    archive: ArchiveConfig = ArchiveConfig()
    dev: DevConfig = DevConfig()

    def __post_init__(self) -> None:
        for name, value in msgspec.structs.asdict(self.history).items():
            if value <= 0:
                raise ValueError(f"history.{name} must be above 0")


KEYS = frozenset(
    f"{section}.{name}"
    for section, fields in msgspec.to_builtins(Config()).items()
    for name in fields
)
"""Every setting, by its dotted name."""

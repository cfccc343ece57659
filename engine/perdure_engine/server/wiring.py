"""A node, put together: the only module that names the concrete class behind each port.

The order of the start is the order of trust: first the database, then the keys and the lease that
it holds, then the shards under that lease, and only then the doors through which work comes in. The
stop goes the other way round: no door is open to a shard that has been given up.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import structlog

from perdure_engine.frontend import filters
from perdure_engine.frontend.deployments import Deployments
from perdure_engine.frontend.frontend import About, Frontend
from perdure_engine.frontend.ledger import InstallationLedger
from perdure_engine.frontend.namespaces import Namespaces
from perdure_engine.frontend.seal import Sealer, load_sealer
from perdure_engine.history.batches import Batches
from perdure_engine.history.controller import ShardController
from perdure_engine.history.expiry import Expiry
from perdure_engine.history.flows import Flows
from perdure_engine.history.retention import Retention
from perdure_engine.history.rooms import Rooms
from perdure_engine.history.service import HistoryService
from perdure_engine.history.writer import Writer
from perdure_engine.matching.limits import QueueLimits
from perdure_engine.matching.matcher import Matcher
from perdure_engine.membership.lease import NodeIdentity, NodeLease
from perdure_engine.membership.nodes import NodeDirectory
from perdure_engine.ports.metrics import Metrics
from perdure_engine.ports.store import StoreError
from perdure_engine.scheduler.cron import CronSpecs
from perdure_engine.scheduler.times import Times
from perdure_engine.server import addresses, dsn
from perdure_engine.server.clock import SystemClock, SystemIds, new_incarnation
from perdure_engine.server.config import Config
from perdure_engine.server.config_layers import variable
from perdure_engine.server.errors import ConfigError, StartError
from perdure_engine.server.following import Following
from perdure_engine.server.lifecycle import Lifecycle
from perdure_engine.server.metering import MeasuredStore, read_gauges
from perdure_engine.server.node import Node
from perdure_engine.server.version import perdure_version
from perdure_engine.store.archive.archive import ObjectArchive
from perdure_engine.store.archive.opening import objects_at
from perdure_engine.store.codec import MsgpackCodec
from perdure_engine.store.sql.errors import ConfigError as DatabaseUnfit
from perdure_engine.store.sql.store import SqlStoreConfig
from perdure_engine.transport.grpc.convert.payloads import json_payload
from perdure_engine.transport.grpc.peers import GrpcPeers
from perdure_engine.transport.grpc.server import GrpcServer
from perdure_engine.transport.http.rest.api import routes
from perdure_engine.transport.http.server import HttpServer, application
from perdure_engine.transport.json.form import ContractForm

if TYPE_CHECKING:  # an extra has it
    from perdure_engine.transport.otlp.metrics import MetricsExport

log = structlog.get_logger(__name__)

ROLES = "frontend,history,matching"  # one process holds all rooms, for now

# Beside the writer's sessions: one for the node's lease, which must never wait for a commit, and one
# for everything else that is written outside of batches.
SESSIONS_BESIDE_WRITER = 2

# What was taken in is answered within a commit or two; clients repeat what is refused.
GRPC_GRACE_S = 2.0

# A renewal of the lease, and the time until the others have read it.
LEAVE_S = 5.0


async def start_node(
    config: Config, *, node_id: bytes | None = None, dead_nodes: Iterable[bytes] = ()
) -> Node:
    """A node that serves. Raises ServerError; nothing is left running then, also when cancelled.

    `node_id` must never have been used before. `dead_nodes` are ids of nodes that the caller knows
    to be dead: nobody waits for the end of their leases.
    """
    node_id = node_id or SystemIds().new_id()
    lifecycle = Lifecycle()
    async with lifecycle.starting():
        try:
            foundation = await _lay_foundation(config, lifecycle)
            for dead_id in dead_nodes:
                await foundation.store.release_node(dead_id)
            return await _start(config, foundation, node_id, lifecycle)
        except DatabaseUnfit as error:
            raise StartError(str(error)) from error
        except (StoreError, TimeoutError) as error:
            where = dsn.redacted(config.database.url)
            raise StartError(f"the database does not answer ({where}): {error}") from error
        except OSError as error:  # of a listener
            raise StartError(f"{error} (port 0 takes a free one)") from error


class Foundation(NamedTuple):
    """What the rooms stand on."""

    metrics: Metrics
    store: MeasuredStore
    clock: SystemClock
    ids: SystemIds
    sealer: Sealer
    about: About
    number_of_shards: int


class Parts(NamedTuple):
    """What is started and stopped, in this order; frontend and metrics have neither."""

    lease: NodeLease
    directory: NodeDirectory
    writer: Writer
    history: HistoryService
    controller: ShardController
    retention: Retention
    batches: Batches
    matcher: Matcher
    frontend: Frontend
    metrics: Metrics
    peers: GrpcPeers
    deployments: Deployments
    flows: Flows
    limits: QueueLimits


async def _start(
    config: Config, foundation: Foundation, node_id: bytes, lifecycle: Lifecycle
) -> Node:
    grpc = config.grpc
    port = grpc.port or addresses.free_port(grpc.host)  # others hear of it before it is bound
    address = addresses.join(grpc.host, port)
    identity = NodeIdentity(
        node_id=node_id,
        address=config.node.address or addresses.reachable(grpc.host, port),
        region=config.node.region,
        roles=ROLES,
        incarnation=new_incarnation(),
    )
    parts = _make_parts(config, foundation, identity)
    await lifecycle.begin("lease", parts.lease.start, parts.lease.stop)
    await lifecycle.begin("directory", parts.directory.start, parts.directory.stop)
    await lifecycle.begin("writer", _at_once(parts.writer.start), parts.writer.stop)
    lifecycle.at_stop("peers", parts.peers.stop)
    lifecycle.at_stop("history", parts.history.stop)
    await lifecycle.begin("flows", parts.flows.start, parts.flows.stop)
    for name, refresh in (
        ("deployments", parts.deployments.refresh),
        ("queue limits", parts.limits.refresh),
    ):
        following = Following(name, refresh)
        await lifecycle.begin(name, following.start, following.stop)
    await lifecycle.begin("controller", parts.controller.start, parts.controller.stop)
    await lifecycle.begin("retention", parts.retention.start, parts.retention.stop)
    await lifecycle.begin("batches", parts.batches.start, parts.batches.stop)
    if config.metrics.otlp_endpoint:
        export = _make_export(config, foundation, node_id)
        await lifecycle.begin("otlp", export.start, export.stop)

    node = Node(
        node_id, address, foundation.about, parts.history, lifecycle, parts.lease.lease_valid
    )
    await _open_doors(config, parts, node, lifecycle)
    log.info(
        "node_started",
        version=foundation.about.version,
        node_id=node.node_id.hex(),
        grpc=node.address,
        http=node.http_address,
        shards=len(node.owned_shards()),
        database=dsn.redacted(config.database.url),
    )
    return node


async def _lay_foundation(config: Config, lifecycle: Lifecycle) -> Foundation:
    metrics = Metrics()
    store = MeasuredStore(
        SqlStoreConfig(
            config.database.url,
            writers=config.history.writers + SESSIONS_BESIDE_WRITER,
            readers=config.database.readers,
            statement_timeout_ms=config.database.statement_timeout_ms,
        ),
        metrics,
    )
    await lifecycle.begin("store", store.open, store.close)
    if store.warnings and not config.database.allow_unsafe:
        raise StartError(
            f"the database is not safe: {'; '.join(store.warnings)}. "
            f"To run on it nevertheless set {variable('database.allow_unsafe')}=true"
        )
    installed = len(await store.list_shards())
    if not installed:
        raise StartError("the database has no shards: run `perdure db migrate` first")
    asked = config.database.number_of_shards
    if asked not in (None, installed):
        raise ConfigError(
            f"{asked} shards were asked for, and the database has {installed} for ever"
        )
    ids = SystemIds()
    about = About(version=perdure_version(), database=await store.describe())
    sealer = await load_sealer(store, ids)
    return Foundation(metrics, store, SystemClock(), ids, sealer, about, installed)


def _make_parts(config: Config, foundation: Foundation, identity: NodeIdentity) -> Parts:
    metrics, store, clock, ids, sealer, about, number_of_shards = foundation
    lease = NodeLease(identity, store, clock, ids)
    directory = NodeDirectory(lease, store, clock)
    cron = CronSpecs()
    deployments = Deployments(store)
    codec = MsgpackCodec()
    rooms = Rooms(
        node_id=identity.node_id,
        store=store,
        codec=codec,
        clock=clock,
        ids=ids,
        lease_valid=lease.lease_valid,
        alarm=partial(raise_alarm, metrics),
        config=config.history,
        cron=cron,
        times=Times(),
        metrics=metrics,
        routing=deployments,
        json_payload=json_payload,
    )
    rooms.writer = writer = Writer(rooms)
    history = HistoryService(
        rooms, store, number_of_shards=number_of_shards, address=identity.address
    )
    limits = QueueLimits(store, lambda: len(history.owned()) / number_of_shards)
    rooms.matching = matcher = Matcher(metrics, limits)
    history.peers = peers = GrpcPeers(directory, sealer)
    matcher.connect(history)
    lease.on_lapse(history.lapsed)
    store.sample = rooms.database_clock.sample
    batches = Batches(rooms, store, history.shards, number_of_shards, filters.read_condition)
    ledger = InstallationLedger(store)
    archive = _open_archive(config, clock)
    frontend = Frontend(
        history=history,
        matching=matcher,
        visibility=store,
        members=store,
        membership=directory,
        namespaces=Namespaces(store, clock),
        sealer=sealer,
        ids=ids,
        clock=clock,
        db_now_us=rooms.database_clock.low_us,
        about=about,
        cron=cron,
        audit=store,
        ledger=ledger,
        batches=store,
        batch_begun=batches.wake,
        deployments=deployments,
        jobs=store,
        queue_limits=store,
        schedules=store,
        times=rooms.times,
        codec=codec,
        archive=archive,
    )
    controller = ShardController(history, directory, store, number_of_shards)
    expiry = Expiry(rooms, store, ledger, history.shards)
    retention = Retention(rooms, store, history.shards, (expiry.run_once,), archive)
    read_gauges(metrics, history, matcher, rooms.database_clock.low_us, retention.archiving.lag_us)
    return Parts(
        *(lease, directory, writer, history, controller, retention, batches, matcher, frontend),
        *(metrics, peers, deployments, rooms.flows, limits),
    )


def _open_archive(config: Config, clock: SystemClock) -> ObjectArchive | None:
    if not config.archive.url:
        return None
    try:
        objects = objects_at(config.archive.url)
    except ModuleNotFoundError as error:
        raise ConfigError(
            "an archive in a bucket (archive.url) needs obstore: pip install 'perdure[s3]'"
        ) from error
    return ObjectArchive(objects, clock, ContractForm())


def _make_export(config: Config, foundation: Foundation, node_id: bytes) -> MetricsExport:
    try:
        from perdure_engine.transport.otlp.metrics import MetricsExport
    except ModuleNotFoundError as error:
        raise ConfigError(
            "metrics.otlp_endpoint needs OpenTelemetry: pip install 'perdure[opentelemetry]'"
        ) from error
    return MetricsExport(
        foundation.metrics,
        endpoint=config.metrics.otlp_endpoint,
        every_s=config.metrics.otlp_every_s,
        version=foundation.about.version,
        node_id=node_id.hex(),
        clock=foundation.clock,
        unix_ns=time.time_ns,
    )


async def _open_doors(config: Config, parts: Parts, node: Node, lifecycle: Lifecycle) -> None:
    """HTTP before gRPC, and closed after it: while gRPC drains, health says so."""
    app = application(
        node.ready,
        node.describe,
        parts.metrics,
        routes(parts.frontend, parts.metrics),
        addresses.allowed_hosts(config.http.allowed_hosts, config.http.host),
    )
    http = HttpServer(app, config.http.host, config.http.port)
    await lifecycle.begin("http", http.start, http.stop)
    node.http_address = addresses.join(config.http.host, http.port)

    async def stop_grpc() -> None:
        parts.matcher.stop()
        await grpc.stop(GRPC_GRACE_S)

    grpc = GrpcServer(parts.frontend, node.address, parts.history, parts.metrics)
    await lifecycle.begin("grpc", grpc.start, stop_grpc)
    # The first thing to do at a stop, while everything still serves: shards that are released when
    # the others count on this node no more find their next owner waiting for them.
    lifecycle.at_stop("leave", parts.directory.leave, LEAVE_S)
    node.opened()


def raise_alarm(metrics: Metrics, what: str, **facts: object) -> None:
    """Implements history.rooms.Alarm, but for its first argument."""
    metrics.invariant_violations.inc(what)
    log.error("alarm", what=what, **facts)


def _at_once(start: Callable[[], None]) -> Callable[[], Awaitable[None]]:
    async def started() -> None:
        start()

    return started

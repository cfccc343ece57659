"""The room as its handlers see it: what they may reach."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from perdure_engine.core.ids import shard_of
from perdure_engine.core.intents import ClientIntent
from perdure_engine.core.replies import Reply
from perdure_engine.core.schedules.intents import ScheduleIntent, ScheduleReply
from perdure_engine.frontend.deployments import Deployments
from perdure_engine.frontend.namespaces import Namespaces
from perdure_engine.frontend.parking import Parking
from perdure_engine.frontend.seal import Sealer
from perdure_engine.ports.archive import Archive
from perdure_engine.ports.audit import AuditStore, Ledger
from perdure_engine.ports.batches import BatchStore
from perdure_engine.ports.clock import Clock, IdSource
from perdure_engine.ports.codec import Codec
from perdure_engine.ports.cron import Cron
from perdure_engine.ports.history import History
from perdure_engine.ports.jobs import JobStore, QueueLimitStore, ScheduleStore
from perdure_engine.ports.matching import Matching
from perdure_engine.ports.membership import Membership
from perdure_engine.ports.schedules import ScheduleTimes
from perdure_engine.ports.store import MembershipStore, VisibilityStore


class About(msgspec.Struct, frozen=True):
    """What DescribeCluster says of this installation."""

    version: str
    database: str


class Frontend(msgspec.Struct, frozen=True, kw_only=True):
    """`db_now_us` is a lower bound of the database's time in µs, as history knows it."""

    history: History
    matching: Matching
    visibility: VisibilityStore
    members: MembershipStore
    membership: Membership
    namespaces: Namespaces
    sealer: Sealer
    ids: IdSource
    clock: Clock
    db_now_us: Callable[[], int]
    about: About
    cron: Cron
    audit: AuditStore
    ledger: Ledger
    batches: BatchStore
    batch_begun: Callable[[], None]  # somebody is to look for a new batch operation at once
    deployments: Deployments
    jobs: JobStore
    queue_limits: QueueLimitStore
    codec: Codec
    schedules: ScheduleStore
    times: ScheduleTimes
    archive: Archive | None = None
    parking: Parking = msgspec.field(default_factory=Parking)

    def submit(self, intent: ClientIntent) -> asyncio.Future[Reply]:
        """Forward to the shard of the intent's workflow id."""
        history = self.history
        shard_id = shard_of(intent.namespace_id, intent.workflow_id, history.number_of_shards)
        return history.submit(shard_id, intent)

    def submit_schedule(self, intent: ScheduleIntent) -> asyncio.Future[ScheduleReply]:
        """Forward to the schedule's shard."""
        shard_id = self.schedule_shard_id(intent.namespace_id, intent.schedule_id)
        return self.history.submit_schedule(shard_id, intent)

    def schedule_shard_id(self, namespace_id: bytes, schedule_id: str) -> int:
        return self.shard_id(namespace_id, f"schedule:{schedule_id}")

    def shard_id(self, namespace_id: bytes, workflow_id: str) -> int:
        return shard_of(namespace_id, workflow_id, self.history.number_of_shards)

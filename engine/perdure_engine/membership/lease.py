"""This node's lease: a row that says until when nobody may take our shards.

The database judges the lease by its own clock; this process judges it by its own too, counted from
before a renewal was sent and with a margin, so that it stops trusting the lease before anybody else
may. Both clocks only have to run at nearly the same speed; they are never compared.

Three things can go wrong, and each has its answer:

- The database does not answer. The lease runs out here at most LEASE_S - MARGIN_S after the last
  answered renewal was sent.
- The event loop was stuck, or the process stopped (SIGSTOP). The pulse was late by more than LATE_S:
  the lease counts as invalid until a renewal that was sent *after* the gap has been answered.
- The lease had ended, or nearly so, before it was renewed: the database's time says it. Others may
  have taken shards, or may be about to, having looked at the nodes in between. A valid lease proves
  nothing about these shards: `on_lapse` is called before the lease counts as valid again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import msgspec

from perdure_engine.membership.periodic import Periodic
from perdure_engine.ports.clock import Clock, IdSource
from perdure_engine.ports.store import MembershipStore, NodeRow, StoreError

log = logging.getLogger(__name__)

LEASE_S = 6.0  # a killed node's shards stand still for at most this
RENEW_EVERY_S = 2.0  # two renewals may fail before the lease is in danger
RENEW_LIMIT_S = 2.5  # a slow database is waited for, but one more try must fit into the lease
RETRY_S = 0.25
# The difference in speed of two clocks, the skew between two nodes of the database (CockroachDB
# allows 0.5 s), and the time between a check and what follows it.
MARGIN_S = 1.0
PULSE_S = 0.5
LATE_S = 1.0  # as for the leases of tasks (design §6)


class NodeIdentity(msgspec.Struct, frozen=True):
    """Who this process is. `node_id` and `incarnation` are new at each start; `roles` has commas."""

    node_id: bytes
    address: str
    region: str
    roles: str
    incarnation: int


class NodeLease:
    """Start once (on a running loop), stop once; what it renews it releases."""

    def __init__(
        self, node: NodeIdentity, store: MembershipStore, clock: Clock, ids: IdSource
    ) -> None:
        self.node = node
        self._store = store
        self._clock = clock
        self._ids = ids
        self._on_lapse: list[Callable[[], None]] = []
        self._job = Periodic("node lease", self._renew_and_pause, RETRY_S)
        self._renewing = asyncio.Lock()
        self._pulse_timer: asyncio.TimerHandle | None = None
        self._pulsed_at = 0.0
        self._trusted_from = 0.0  # renewals sent before this prove nothing
        self._valid_until = 0.0
        self._ends_us = 0  # by the database's clock, as far as answered
        self._failing = False
        self._stopped = False

    def on_lapse(self, lapsed: Callable[[], None]) -> None:
        """Call `lapsed` when a renewal finds that the lease had ended. It must not await."""
        self._on_lapse.append(lapsed)

    async def start(self) -> None:
        """Take the lease and keep it. Raises StoreError or TimeoutError when it cannot be had."""
        self._pulsed_at = self._clock.monotonic()
        self._pulse()
        try:
            await self._renew()
        except BaseException:
            self._end_pulse()
            raise
        self._job.start(RENEW_EVERY_S)

    async def stop(self) -> None:
        """Stop renewing and give the lease back, so that nobody waits for its end."""
        if self._stopped:
            return
        self._stopped = True
        await self._job.stop()  # a renewal that landed after the release would undo it
        self._valid_until = 0.0
        self._end_pulse()
        try:
            async with asyncio.timeout(RENEW_LIMIT_S):
                await self._store.release_node(self.node.node_id)
        except (StoreError, TimeoutError) as error:
            log.warning("the node's lease was not released, it ends by itself: %r", error)

    async def leave(self) -> None:
        """Keep the lease, but tell the others to plan without this node: it has no roles now."""
        self.node = msgspec.structs.replace(self.node, roles="")
        try:
            await self._renew()
        except (StoreError, TimeoutError) as error:
            log.warning("the others do not know yet that this node is leaving: %r", error)

    def lease_valid(self) -> bool:
        """Whether nobody else may have taken our shards: judged by this process's own clock."""
        now = self._clock.monotonic()
        return now < self._valid_until and now - self._pulsed_at <= PULSE_S + LATE_S

    def row(self) -> NodeRow:
        """This node as the others see it."""
        node = self.node
        return NodeRow(
            node.node_id,
            node.address,
            node.region,
            node.roles,
            node.incarnation,
            self._ends_us,
            self.lease_valid(),
        )

    async def renew_once(self) -> bool:
        """Renew. False: no answer, the lease stays as it was."""
        try:
            await self._renew()
        except (StoreError, TimeoutError) as error:
            if not self._failing:
                log.warning("the node's lease was not renewed: %r", error)
            self._failing = True
            return False
        self._failing = False
        return True

    async def _renew_and_pause(self) -> float:
        sent_at = self._clock.monotonic()
        if not await self.renew_once():
            return RETRY_S * (0.5 + self._ids.jitter())
        return max(0.0, sent_at + RENEW_EVERY_S - self._clock.monotonic())

    async def _renew(self) -> None:
        async with self._renewing:
            self._notice_gap()
            node = self.node
            sent_at = self._clock.monotonic()
            async with asyncio.timeout(RENEW_LIMIT_S):
                now_us = await self._store.renew_node(
                    node.node_id,
                    node.address,
                    node.region,
                    node.roles,
                    node.incarnation,
                    int(LEASE_S * 1_000),
                )
            self._accept(sent_at, now_us)

    def _accept(self, sent_at: float, now_us: int) -> None:
        self._notice_gap()
        lapsed = self._ends_us and now_us >= self._ends_us - int(MARGIN_S * 1_000_000)
        self._ends_us = now_us + int(LEASE_S * 1_000_000)
        if lapsed:
            log.warning("the node's lease had ended before it was renewed")
            for call in self._on_lapse:
                call()
        if sent_at >= self._trusted_from:
            self._valid_until = sent_at + LEASE_S - MARGIN_S

    def _pulse(self) -> None:
        """Show that the loop turns."""
        self._notice_gap()
        self._pulse_timer = asyncio.get_running_loop().call_later(PULSE_S, self._pulse)

    def _notice_gap(self) -> None:
        now = self._clock.monotonic()
        if now - self._pulsed_at > PULSE_S + LATE_S:
            log.warning("the event loop was stuck for %.1f s", now - self._pulsed_at)
            self._trusted_from = now
            self._valid_until = 0.0
        self._pulsed_at = now

    def _end_pulse(self) -> None:
        if self._pulse_timer is not None:
            self._pulse_timer.cancel()

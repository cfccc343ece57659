"""Messages between two nodes over gRPC: what comes back is what the receiver said, or that nothing is known."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.unit.frontend.fakes import NAMESPACE_ID, RUN_ID, Room

from perdure_engine.core import limits
from perdure_engine.core.errors import Code, Rejected, invalid, not_found, unavailable
from perdure_engine.core.intents import DeliveredIntent, SignalWorkflow
from perdure_engine.core.replies import Reply, RunStatus, Started
from perdure_engine.core.status import Status
from perdure_engine.frontend.seal import Sealer
from perdure_engine.ports.store import NodeRow, TokenKeyRow
from perdure_engine.server import addresses
from perdure_engine.transport.grpc.peers import GrpcPeers
from perdure_engine.transport.grpc.server import GrpcServer

HERE, THERE = b"here".ljust(16, b"."), b"there".ljust(16, b".")


class Members:
    """Implements ports.membership.Membership: one other node, which has every shard."""

    node_id = HERE
    address = "here"

    def __init__(self, address: str, owner: bytes = THERE) -> None:
        self.nodes = [NodeRow(owner, address, "", "history", 1, 0, True)]
        self.changed: list[Any] = []

    def lease_valid(self) -> bool:
        return True

    def live_nodes(self) -> list[NodeRow]:
        return self.nodes

    def owner_of(self, shard_id: int) -> NodeRow | None:
        return self.nodes[0] if self.nodes else None

    def subscribe(self, changed: Any) -> None:
        self.changed.append(changed)


class Receiver:
    """Implements ports.delivery.Receiver."""

    def __init__(self) -> None:
        self.received: list[tuple[int, DeliveredIntent]] = []
        self.refusal: Exception | None = None
        self.reply: Reply = None
        self.silent = False
        self.heard = asyncio.Event()

    async def receive(self, shard_id: int, intent: DeliveredIntent) -> Reply:
        self.received.append((shard_id, intent))
        self.heard.set()
        if self.silent:
            await asyncio.Event().wait()
        if self.refusal is not None:
            raise self.refusal
        return self.reply


class Two:
    def __init__(self, room: Room, receiver: Receiver, members: Members) -> None:
        self.room = room
        self.receiver = receiver
        self.members = members
        self.peers = GrpcPeers(members, room.sealer)

    async def refusal(self, intent: DeliveredIntent | None = None) -> Rejected:
        with pytest.raises(Rejected) as refused:
            await self.peers.deliver(3, intent or signal())
        return refused.value


@pytest.fixture
async def two() -> AsyncIterator[Two]:
    room, receiver = Room(), Receiver()
    server = GrpcServer(room.frontend, "127.0.0.1:0", receiver)
    await server.start()
    made = Two(room, receiver, Members(f"127.0.0.1:{server.port}"))
    yield made
    await made.peers.stop()
    await made.peers.stop()
    await server.stop(0)


def signal(size: int = 1) -> SignalWorkflow:
    return SignalWorkflow(
        namespace_id=NAMESPACE_ID,
        workflow_id="order ✓",
        run_id=RUN_ID,
        signal_name="paid",
        request_id=RUN_ID,
        body_hash=b"h",
        input=bytes(size),
    )


async def test_an_intent_arrives_as_it_was_sent(two: Two) -> None:
    await two.peers.deliver(3, signal())
    await two.peers.deliver(4, signal(limits.PAYLOAD_BYTES_MAX))

    assert two.receiver.received == [(3, signal()), (4, signal(limits.PAYLOAD_BYTES_MAX))]


async def test_of_replies_only_a_runs_status_is_carried(two: Two) -> None:
    two.receiver.reply = Started(RUN_ID, True)
    assert await two.peers.deliver(3, signal()) is None
    for status in Status:
        two.receiver.reply = RunStatus(status)
        assert await two.peers.deliver(3, signal()) == RunStatus(status)


@pytest.mark.parametrize(
    "said",
    [
        not_found("WORKFLOW", "no such workflow"),
        invalid("signal_name", "is empty"),
        Rejected(Code.ALREADY_EXISTS, "WORKFLOW_ALREADY_STARTED", "it runs"),
        Rejected(Code.RESOURCE_EXHAUSTED, "TOO_MANY_SIGNALS", "at most so many"),
        Rejected(Code.DATA_LOSS, "RUN_QUARANTINED", "set aside"),
    ],
    ids=lambda said: said.reason,
)
async def test_what_the_receiver_says_comes_back(two: Two, said: Rejected) -> None:
    two.receiver.refusal = said

    refused = await two.refusal()

    assert (refused.code, refused.reason, refused.message) == (said.code, said.reason, said.message)


async def test_what_says_nothing_of_its_arrival_is_unavailable(two: Two) -> None:
    """Such a message is sent again."""
    two.receiver.refusal = unavailable("SHARD_MOVED", "not served here")
    assert (await two.refusal()).code is Code.UNAVAILABLE
    two.receiver.refusal = None
    two.members.nodes = []
    assert (await two.refusal()).code is Code.UNAVAILABLE, "nobody is known"
    two.members.nodes = Members("here", HERE).nodes
    assert (await two.refusal()).code is Code.UNAVAILABLE, "the ring gives it to us: it is coming"
    two.members.nodes = Members(f"127.0.0.1:{addresses.free_port('127.0.0.1')}").nodes
    assert (await two.refusal()).code is Code.UNAVAILABLE, "nobody listens"


async def test_a_message_to_a_node_whose_lease_has_ended_is_unavailable(two: Two) -> None:
    """A node that stands still answers nothing, and when its lease has ended its channel is closed. Who waits for an
    answer hears so; to be cancelled would be the end of whoever sends the message again."""
    two.receiver.silent = True
    waiting = asyncio.create_task(two.refusal())
    await two.receiver.heard.wait()
    two.members.nodes = []
    for changed in two.members.changed:
        changed()

    assert (await waiting).code is Code.UNAVAILABLE


async def test_who_does_not_want_to_wait_any_more_is_cancelled(two: Two) -> None:
    two.receiver.silent = True
    waiting = asyncio.create_task(two.refusal())
    await two.receiver.heard.wait()
    waiting.cancel()

    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_a_bug_at_the_receiver_is_internal(two: Two) -> None:
    two.receiver.refusal = RuntimeError("with a secret")

    refused = await two.refusal()

    assert refused.code is Code.INTERNAL
    assert "secret" not in refused.message


async def test_a_node_of_another_cluster_is_not_heard(two: Two) -> None:
    """Invariant 67."""
    stranger = GrpcPeers(two.members, Sealer([TokenKeyRow(1, b"x" * 32, 0)]))

    with pytest.raises(Rejected) as refused:
        await stranger.deliver(3, signal())
    await stranger.stop()

    assert refused.value.code is Code.PERMISSION_DENIED
    assert two.receiver.received == []


async def test_an_older_node_without_the_service_is_asked_again() -> None:
    room = Room()
    server = GrpcServer(room.frontend, "127.0.0.1:0")
    await server.start()
    peers = GrpcPeers(Members(f"127.0.0.1:{server.port}"), room.sealer)

    with pytest.raises(Rejected) as refused:
        await peers.deliver(3, signal())
    await peers.stop()
    await server.stop(0)

    assert refused.value.code is Code.UNAVAILABLE


async def test_what_no_message_can_hold_is_an_alarm_and_not_silence(two: Two) -> None:
    assert (await two.refusal(signal(limits.REQUEST_BYTES_MAX))).reason == "MESSAGE_TOO_LARGE"


async def test_channels_to_nodes_that_have_gone_are_closed(two: Two) -> None:
    await two.peers.deliver(3, signal())
    two.members.nodes = []

    for changed in two.members.changed:
        changed()
    await asyncio.sleep(0)

    assert two.peers._channels == {}

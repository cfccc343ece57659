"""Random offers, polls, cancels, slow starts, lost workers: each task is handed out once."""

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.simulation.world import pass_time, turns
from tests.unit.matching.fakes import FakeHistory, handed_in, key_of, offer, request, run

from perdure_engine.core.tasks import TaskKind
from perdure_engine.matching.backlog import offer_key
from perdure_engine.matching.matcher import Matcher
from perdure_engine.ports.matching import PollAnswer, PollRequest

ROUNDS_MAX = 20  # what waits is taken in one; the others are for what was put back
WORKERS = [b"w1", b"w2", b"w3"]

workers = st.sampled_from(WORKERS)
small = st.integers(0, 3)
steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("publish"), st.integers(1, 6), st.sampled_from([b"", *WORKERS]), st.booleans()
        ),
        st.tuples(st.just("poll"), workers, small, small, st.sampled_from([0.0, 0.3, 2.0])),
        st.tuples(st.just("take"), workers, small, small, st.sampled_from([0.0, 0.005, 0.3])),
        st.tuples(st.just("cancel"), st.integers(0, 9)),
        st.tuples(st.just("finish"), st.integers(0, 9)),
        st.tuples(st.just("double"), st.integers(0, 9)),
        st.tuples(st.just("forget"), workers),
        st.tuples(st.just("wait"), st.sampled_from([0.0, 0.0, 0.1, 1.0])),
    ),
    max_size=40,
)


class Scene:
    """What the workers really got: answers that reached the coroutine that awaited the poll."""

    def __init__(self, matcher: Matcher, history: FakeHistory) -> None:
        self.matcher = matcher
        self.history = history
        self.polls: list[asyncio.Task[None]] = []
        self.got: list[tuple[int, int]] = []
        self.made = 0

    async def _poll(self, poll: PollRequest) -> None:
        self._check(poll, await self.matcher.poll(poll))

    async def _take(self, poll: PollRequest) -> None:
        """A call that brings completions: they are saved when the poll's time is over."""
        taker = self.matcher.announce(poll)
        try:
            await pass_time(poll.timeout_s)
        except asyncio.CancelledError:
            taker.leave()
            raise
        self._check(poll, taker.take())

    def _check(self, poll: PollRequest, answer: PollAnswer) -> None:
        assert len(answer.workflow_tasks) <= poll.max_workflow_tasks
        assert len(answer.activity_tasks) <= poll.max_activity_tasks
        for handed in handed_in(answer):
            key = key_of(handed)
            assert self.history.holder[key][0] == poll.worker.worker_id
            self.got.append(key)

    async def step(self, step: tuple[object, ...]) -> None:
        match step:
            case "publish", int(count), bytes(sticky), bool(slow):
                for _ in range(count):
                    self.made += 1
                    kind = TaskKind.ACTIVITY if self.made % 3 == 0 else TaskKind.WORKFLOW
                    if slow:
                        self.history.slow.add(self.made)
                    self.history.publish(offer(self.made, kind=kind, sticky=sticky))
            case ("poll" | "take") as how, bytes(worker), int(w), int(a), float(seconds):
                call = self._take if how == "take" else self._poll
                poll = request(worker, workflows=w, activities=a, timeout_s=seconds)
                self.polls.append(asyncio.ensure_future(call(poll)))
            case "cancel", int(which) if self.polls:
                self.polls[which % len(self.polls)].cancel()
            case "finish", int(which) if self.history.pending:
                numbers = list(self.history.pending)
                self.history.finish(numbers[which % len(numbers)])
            case "double", int(which) if self.history.offers:
                offers = list(self.history.offers.values())
                self.matcher.offer([offers[which % len(offers)]])
            case "forget", bytes(worker):
                self.matcher.forget_worker(worker)
            case "wait", float(seconds):
                await pass_time(seconds)

    async def settle(self) -> None:
        """All runs get loaded, all old polls end; then one worker asks for everything."""
        while self.history.pending:
            self.history.finish(next(iter(self.history.pending)))
        self.history.slow.clear()
        await pass_time(5.0)
        await asyncio.gather(*self.polls, return_exceptions=True)
        for poll in self.polls:
            assert poll.cancelled() or poll.exception() is None, poll.exception()


def waiting_in(matcher: Matcher) -> set[tuple[int, int]]:
    return {
        offer_key(offer)
        for queue in matcher._queues.values()
        for backlog in queue._backlogs.values()
        for offer in backlog
    }


@settings(max_examples=300, deadline=None)
@given(steps, st.integers(0, 2**16))
def test_invariants_16_and_17_each_task_is_handed_out_once_or_still_waits(
    plan: list[tuple[object, ...]], seed: int
) -> None:
    async def main(matcher: Matcher, history: FakeHistory) -> None:
        scene = Scene(matcher, history)
        for step in plan:
            await scene.step(step)
        await scene.settle()

        assert len(set(scene.got)) == len(scene.got)
        assert set(history.holder) == set(scene.got)
        assert history.ready <= waiting_in(matcher), "a ready task waits nowhere"

        for _ in range(ROUNDS_MAX):
            if history.ready:
                await scene._poll(request(b"last", timeout_s=3))
                await turns()
        assert sorted(scene.got) == sorted(history.offers)

    run(main, seed)

"""What happens in the demo, from the first process to the last."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from perdure.bench.engine import LocalEngine
from perdure.bench.processes import Child
from perdure.cli.demo.ledger import Entry, Kind, Ledger
from perdure.cli.demo.order import Order, OrderWorkflow, Receipt
from perdure.cli.errors import CliError
from perdure.client import Client, HistoryEvent, WorkflowExecution, WorkflowHandle
from perdure.errors import RPCError

Say = Callable[[str], None]

# Half a minute is usual; what takes longer than this will not end.
PATIENCE_S = 110.0
POLL_S = 0.05
QUERY_TIMEOUT = timedelta(seconds=2)
TASK_QUEUE = "demo"
TRACKING = "PD-2718281828"
CENTS = 4_200


@dataclass(frozen=True)
class Mark:
    """What was done to the processes, and when, by the wall clock that is also the engine's."""

    at: datetime
    text: str


@dataclass(frozen=True, kw_only=True)
class Ended:
    """All that is known when the story is over."""

    order: Order
    tracking: str
    receipt: Receipt
    events: Sequence[HistoryEvent]
    runs: Sequence[WorkflowExecution]
    """All that the list has for the workflow's id."""
    entries: Sequence[Entry]
    marks: Sequence[Mark]


@dataclass
class _Stage:
    engine: LocalEngine
    worker: Child
    ledger: Ledger
    say: Say
    marks: list[Mark] = field(default_factory=list[Mark])

    def mark(self, text: str) -> None:
        self.marks.append(Mark(datetime.now(UTC), text))
        self.say(text)


async def tell(data: Path | None, say: Say) -> Ended:
    """Raises ProcessFailed or CliError when it cannot go on. Leaves no process behind, ever."""
    me = asyncio.current_task()
    assert me is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, me.cancel)
    try:
        with _stage(data, say) as stage:
            async with asyncio.timeout(PATIENCE_S):
                return await _play(stage)
    except TimeoutError:
        raise CliError(f"the order was not done within {PATIENCE_S:.0f} s") from None


@contextmanager
def _stage(data: Path | None, say: Say) -> Generator[_Stage]:
    with ExitStack() as undo:
        if data is None:
            folder = Path(undo.enter_context(tempfile.TemporaryDirectory(prefix="perdure-demo-")))
        else:
            folder = data.absolute()
            folder.mkdir(parents=True, exist_ok=True)
        engine = LocalEngine(folder / "engine", folder)
        undo.callback(engine.child.stop)
        ledger = folder / f"ledger-{os.urandom(4).hex()}"
        arguments = ["-m", "perdure.cli.demo.worker", "--address", engine.address]
        arguments += ["--task-queue", TASK_QUEUE, "--ledger", str(ledger)]
        worker = Child("worker", arguments, folder / "worker.log")
        undo.callback(worker.stop)
        try:
            yield _Stage(engine, worker, Ledger(ledger), say)
        except Exception:
            for child in (engine.child, worker):
                if text := child.tail():
                    say(f"The last lines of the {child.name}:\n{text}")
            raise


async def _play(stage: _Stage) -> Ended:
    await _start_all(stage)
    async with await Client.connect(stage.engine.address, identity="demo") as client:
        order = Order(f"order-{os.urandom(4).hex()}", CENTS)
        handle = await client.start_workflow(
            OrderWorkflow.run, order, id=order.order_id, task_queue=TASK_QUEUE
        )
        stage.mark(f"{order.order_id} is accepted: from here on it must not get lost")
        await _until(lambda: _is_charged(stage), stage)
        await _kill_all(stage)
        await _start_all(stage)
        await _until(lambda: _is_paid(handle), stage)
        await handle.signal(OrderWorkflow.shipped, TRACKING)
        stage.mark("the order is shipped: signal sent")
        receipt = await handle.result()
        stage.mark("the result is here")
        return Ended(
            order=order,
            tracking=TRACKING,
            receipt=receipt,
            events=(await handle.fetch_history()).events,
            runs=[run async for run in client.list_workflows(id_prefix=order.order_id)],
            entries=stage.ledger.entries(),
            marks=stage.marks,
        )


async def _start_all(stage: _Stage) -> None:
    stage.mark("engine, database and worker are being started")
    stage.worker.start()
    await stage.engine.start()
    stage.mark("the engine answers")


async def _kill_all(stage: _Stage) -> None:
    """At the worst moment: the money is taken, and nobody but the bank knows."""
    stage.mark("the money is taken, the bank has not confirmed yet")
    stage.worker.kill()
    stage.mark("worker killed with -9")
    stage.engine.child.kill()
    stage.mark("engine and database killed with -9")


async def _is_charged(stage: _Stage) -> bool:
    return any(one.kind is Kind.EFFECT and one.step == "charge" for one in stage.ledger.entries())


async def _is_paid(handle: WorkflowHandle[OrderWorkflow, Receipt]) -> bool:
    try:
        return await handle.query(OrderWorkflow.is_paid, rpc_timeout=QUERY_TIMEOUT)
    except RPCError:
        return False  # no worker yet


async def _until(condition: Callable[[], Awaitable[bool]], stage: _Stage) -> None:
    while not await condition():
        stage.worker.check()
        stage.engine.child.check()
        await asyncio.sleep(POLL_S)

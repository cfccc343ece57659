"""The parts of tasks that run alone that need no process of their own."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from types import SimpleNamespace

import msgspec
import pytest

from perdure._wire.completions import Completion, activity_success, task_crash
from perdure._wire.surroundings import Surroundings
from perdure._wire.tasks import (
    PolledActivityTask,
    PolledJobTask,
    PolledTask,
    PolledTasks,
    PolledWorkflowTask,
    task_from_bytes,
    task_to_bytes,
)
from perdure._worker.isolation import messages
from perdure._worker.isolation.bootstrap import main_script_can_be_imported
from perdure._worker.isolation.child import Seen
from perdure._worker.isolation.problems import error_of, problem_of
from perdure._worker.isolation.report import REPORT_BYTES_MAX, report_of
from perdure._worker.isolation.stacks import Stacks
from perdure._worker.isolation.surgical import SurgicalPoller
from perdure._worker.isolation.vitals import Limits, Usage, Vitals, bytes_text, usage_of
from perdure.errors import (
    PayloadError,
    PayloadTooLargeError,
    PerdureError,
    RPCError,
    RPCStatusCode,
)
from perdure_api.v1 import event_pb2
from perdure_api.v1 import worker_service_pb2 as pb

MIB = 1024 * 1024


def seen(**changes: object) -> Seen:
    fields: dict[str, object] = {
        "exit_code": 1,
        "killed_for": "",
        "ran_s": 2.0,
        "way": "spawn",
        "vitals": Vitals(None),
        "stacks": "",
        "steps": [],
        **changes,
    }
    return Seen(**fields)  # type: ignore[arg-type]  # whatever the test gives


# --- what travels ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "task",
    [
        PolledActivityTask(pb.ActivityTask(token=b"t", activity_type="a", crashes=2)),
        PolledJobTask(pb.JobTask(token=b"t", task_name="a", crashes=3)),
        PolledWorkflowTask(pb.WorkflowTask(token=b"t", workflow_type="w", crashes=4)),
    ],
    ids=["activity", "job", "workflow task"],
)
def test_a_task_is_the_same_elsewhere(task: PolledTask) -> None:
    there = task_from_bytes(task.kind, task_to_bytes(task))
    assert type(there) is type(task)
    assert there.message == task.message
    assert there.crashes == task.crashes > 0


def test_a_completion_is_the_same_elsewhere() -> None:
    for one in (activity_success(b"t", []), task_crash(b"t", "exit code 1", "seen")):
        there = Completion.from_bytes(one.to_bytes())
        assert there.message == one.message
        assert there.content == one.message


def test_a_task_takes_in_the_rest_of_its_history() -> None:
    def events(*ids: int) -> list[event_pb2.HistoryEvent]:
        return [event_pb2.HistoryEvent(event_id=one) for one in ids]

    task = PolledWorkflowTask(pb.WorkflowTask(events=events(3, 4), next_page_token=b"more"))
    assert task.first_event_id == 3
    task.complete(events(1, 2), events(5))
    there = task_from_bytes(task.kind, task_to_bytes(task))
    assert isinstance(there, PolledWorkflowTask)
    assert [one.event_id for one in there.message.events] == [1, 2, 3, 4, 5]
    assert (there.first_event_id, there.next_page_token) == (1, b"")


def test_nonsense_is_refused() -> None:
    for data in (b"", b"\x00", b"\x81\xa4type\xa4code", os.urandom(64)):
        with pytest.raises(msgspec.MsgspecError):
            messages.decode_up(data)


def test_errors_keep_what_is_asked_of_them() -> None:
    refusal = error_of(problem_of(RPCError("no", RPCStatusCode.ABORTED, reason="WHY")))
    assert isinstance(refusal, RPCError)
    assert (refusal.message, refusal.status, refusal.reason) == (
        "no",
        RPCStatusCode.ABORTED,
        "WHY",
    )
    too_large = PayloadTooLargeError("much", field="f", size_bytes=2, bytes_max=1)
    assert isinstance(error_of(problem_of(too_large)), PayloadTooLargeError)
    other = error_of(problem_of(PayloadError("key")))
    assert type(other) is PayloadError
    unknown = error_of(problem_of(KeyError("key")))
    assert type(unknown) is PerdureError
    assert "KeyError" in str(unknown)


# --- what is seen ---------------------------------------------------------------------------------


def test_an_end_in_words() -> None:
    assert seen(exit_code=0).message == "exit code 0"
    assert seen(exit_code=-signal.SIGSEGV).message == "killed by signal 11 (SIGSEGV)"
    assert seen(exit_code=-63).message == "killed by signal 63"
    killed = seen(exit_code=-9, killed_for="used 1.2 GiB of 1 GiB memory")
    assert killed.message == "killed: used 1.2 GiB of 1 GiB memory"


def test_bytes_in_words() -> None:
    assert bytes_text(1024 * MIB) == "1 GiB"
    assert bytes_text(1229 * MIB) == "1.2 GiB"
    assert bytes_text(512 * MIB) == "512 MiB"


def test_limits() -> None:
    vitals = Vitals(Limits(memory_bytes=100 * MIB, cpu_s=10))
    assert vitals.take(Usage(100 * MIB, 10.0), 1.0) is None
    assert vitals.take(Usage(150 * MIB, 1.0), 2.0) == "used 150 MiB of 100 MiB memory"
    assert vitals.take(Usage(1 * MIB, 10.1), 3.0) == "used 10.1 s of 10 s processor time"
    assert vitals.memory_bytes_max == 150 * MIB


def test_a_long_record_of_memory_is_thinned_out_and_keeps_both_ends() -> None:
    vitals = Vitals(Limits(memory_bytes=10**12, cpu_s=10**6))
    for number in range(100_000):
        vitals.take(Usage(number, 0.0), float(number))
    assert len(vitals.growth) < 60
    assert vitals.growth[0] == (0.0, 0)
    assert vitals.growth[-1][0] == 99_999.0


def test_usage_of_a_process() -> None:
    usage = usage_of(os.getpid())
    assert usage is not None
    assert 10 * MIB < usage.memory_bytes < 10_000 * MIB
    assert usage.cpu_s > 0
    assert usage_of(2**22 + 1) is None  # no process has that number


def test_a_report_says_first_what_tells_most_and_is_never_too_long() -> None:
    steps = [(float(number), f"step {number} " + "é" * 500) for number in range(200)]
    vitals = Vitals(None, growth=[(0.0, MIB), (1.0, 2 * MIB)], memory_bytes_max=2 * MIB)
    report = report_of("job x", seen(stacks="File a.py", steps=steps, vitals=vitals))
    assert len(report.encode()) <= REPORT_BYTES_MAX
    assert report.startswith("job x: exit code 1 after 2.0 s")
    assert report.index("File a.py") < report.index("step 199") < report.index("step 190")
    assert report_of("job x", seen(vitals=vitals)).endswith("2 MiB")


def test_stacks_are_those_that_came_last() -> None:
    stacks = Stacks()
    try:
        with open(stacks.path, "a") as written:  # as the process does
            os.unlink(stacks.path)
            written.write("first")
            written.flush()
            signal.signal(signal.SIGRTMAX, lambda *_: None)
            stacks.ask(os.getpid())
            assert not stacks.is_there
            assert stacks.last() == "first"  # nothing has come yet
            written.write("second")
            written.flush()
            assert stacks.last() == "second"
    finally:
        signal.signal(signal.SIGRTMAX, signal.SIG_DFL)
        stacks.close()


# --- the surgical pool ----------------------------------------------------------------------------


async def test_where_nothing_can_run_alone_no_poisoned_task_is_asked_for(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It would come again and again, and be given back each time."""
    asked: list[str] = []

    class Door:
        async def poll_tasks(self, workflows: int, activities: int, pool: str) -> PolledTasks:
            asked.append(pool)
            return PolledTasks([], [])

    async def at_once(delay_s: float) -> None:
        raise AssertionError(delay_s)

    surroundings = Surroundings(lambda: 0.0, at_once, lambda: 0.0, str)
    poller = SurgicalPoller(
        Door(),
        lambda polled: None,
        surroundings,
        slots=1,
        workflows=True,
        activities=True,
        is_able=lambda: len(asked) < 2,
    )
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(poller.run(), 0.05)
    assert asked == ["surgical", "surgical"]
    assert caplog.messages == ["no task can run alone here: poisoned ones wait for another worker"]


# --- the main script ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "can"),
    [
        ('if __name__ == "__main__":\n    main()\n', True),
        ("main()\n", False),
        ("logger = logging.getLogger(__name__)\nmain()\n", False),
        (None, False),  # not there: "<stdin>", or inside of an archive
    ],
)
def test_whether_a_main_script_can_be_imported(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch, text: str | None, can: bool
) -> None:
    path = f"{tmp_path}/script.py"
    if text is not None:
        with open(path, "w") as script:
            script.write(text)
    monkeypatch.setitem(sys.modules, "__main__", SimpleNamespace(__file__=path))
    assert main_script_can_be_imported() is can


def test_a_session_has_no_main_script(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "__main__", SimpleNamespace())
    assert main_script_can_be_imported()

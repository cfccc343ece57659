"""Children: that they end, with all that is below them, and say why when they fail."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.waiting import wait_until

from perdure.bench import proc, processes
from perdure.bench.processes import (
    OWN_PORTS,
    Child,
    ProcessFailed,
    family,
    free_port,
    kill_all,
)

FOREVER = "import threading; threading.Event().wait()"
DEAF = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); {FOREVER}"
PARENT = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {FOREVER!r}])"
DEADLINE_S = 20


@pytest.fixture
def make(tmp_path: Path) -> Iterator[object]:
    made: list[Child] = []

    def make(program: str) -> Child:
        child = Child("child", ["-c", program], tmp_path / "log")
        made.append(child)
        child.start()
        return child

    yield make
    for child in made:
        child.kill()


def pid_of(child: Child) -> int:
    assert child.pid is not None
    return child.pid


def test_kill_takes_all_that_is_below(make) -> None:  # type: ignore[no-untyped-def]
    child = make(PARENT)
    wait_until(lambda: len(proc.descendants(pid_of(child))) == 1, DEADLINE_S)
    pids = [pid for pid, _ in family(pid_of(child))]

    child.kill()

    assert child.pid is None
    assert not any(map(proc.is_alive, pids))


def test_stop_is_sigterm_and_twice_is_fine(make) -> None:  # type: ignore[no-untyped-def]
    child = make(FOREVER)

    child.stop()
    child.stop()

    assert child.pid is None
    with pytest.raises(ProcessFailed, match=f"ended with {-signal.SIGTERM}"):
        child.check()


def test_what_does_not_stop_is_killed(make, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(processes, "STOP_PATIENCE_S", 0.05)
    child = make(DEAF)
    wait_until(lambda: "deaf" in child.tail(), DEADLINE_S)

    child.stop()

    assert child.pid is None


def test_a_child_can_be_started_again(make) -> None:  # type: ignore[no-untyped-def]
    child = make(FOREVER)
    first = child.pid
    child.kill()

    child.start()

    child.check()
    assert child.pid not in (None, first)


def test_one_that_fails_says_so_with_its_last_words(make) -> None:  # type: ignore[no-untyped-def]
    child = make("raise SystemExit('no space left')")
    wait_until(lambda: child.pid is None, DEADLINE_S)

    with pytest.raises(ProcessFailed, match="child ended with 1"):
        child.check()
    assert child.tail() == "no space left"


def test_a_pid_that_was_used_again_is_not_killed() -> None:
    kill_all({(os.getpid(), "another start time")})


def test_children_end_with_their_parent_even_if_that_is_killed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    program = (
        "import sys, threading\n"
        "from pathlib import Path\n"
        "from perdure.bench.processes import Child\n"
        f"child = Child('child', ['-c', {FOREVER!r}], Path({str(log)!r}))\n"
        "child.start()\n"
        "print(child.pid, flush=True)\n"
        "threading.Event().wait()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-P", "-c", program], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        # Until then it is the tie, which is not yet tied.
        wait_until(lambda: b"tied.py" not in Path(f"/proc/{pid}/cmdline").read_bytes(), DEADLINE_S)
        parent.kill()

    wait_until(lambda: not proc.is_alive(pid), DEADLINE_S, "the child lives on")


def test_free_ports_are_ports() -> None:
    assert free_port() in OWN_PORTS

"""Reading /proc, on a /proc of our own making."""

from pathlib import Path

import pytest

from perdure.bench import proc

TICK_NS = proc.TICK_NS


class FakeProc:
    def __init__(self, root: Path) -> None:
        self.root = root

    def add(
        self,
        pid: int,
        *,
        children: str = "",
        ticks: tuple[int, int, int, int] = (0, 0, 0, 0),
        threads_ns: tuple[int, ...] = (0,),
        state: str = "S",
        name: str = "postgres",
    ) -> None:
        folder = self.root / str(pid)
        for number, ran_ns in enumerate(threads_ns):
            thread = folder / "task" / str(pid + number)
            thread.mkdir(parents=True)
            (thread / "schedstat").write_text(f"{ran_ns} 5 7\n")
            (thread / "children").write_text(children if number == 0 else "")
        before = "1 1 1 0 -1 0 0 0 0 0"
        times = " ".join(map(str, ticks))
        (folder / "stat").write_text(f"{pid} ({name}) {state} {before} {times} 20 0 1 0 4711 0\n")


@pytest.fixture
def fake(tmp_path: Path) -> FakeProc:
    return FakeProc(tmp_path)


def test_descendants_parents_first(fake: FakeProc) -> None:
    fake.add(1, children="2 5 ")
    fake.add(2, children="3 4 ")
    for pid in (3, 4, 5):
        fake.add(pid)

    assert proc.descendants(1, fake.root) == [2, 3, 4, 5]
    assert proc.descendants(5, fake.root) == []
    assert proc.descendants(99, fake.root) == []


def test_cpu_is_that_of_all_threads_and_of_reaped_children(fake: FakeProc) -> None:
    fake.add(1, threads_ns=(3 * TICK_NS, 4 * TICK_NS + 5), ticks=(6, 1, 20, 10))

    assert proc.cpu_ns(1, fake.root) == 7 * TICK_NS + 5 + 30 * TICK_NS


def test_cpu_of_ended_threads_is_in_the_ticks(fake: FakeProc) -> None:
    fake.add(1, threads_ns=(TICK_NS,), ticks=(40, 2, 0, 0))

    assert proc.cpu_ns(1, fake.root) == 42 * TICK_NS


def test_a_name_may_hold_anything(fake: FakeProc) -> None:
    fake.add(1, name="postgres: a) S (b c", ticks=(1, 1, 0, 0))

    assert proc.cpu_ns(1, fake.root) == 2 * TICK_NS
    assert proc.start_time(1, fake.root) == "4711"


@pytest.mark.parametrize(("state", "alive"), [("R", True), ("S", True), ("Z", False), ("X", False)])
def test_a_zombie_is_not_alive(fake: FakeProc, state: str, alive: bool) -> None:
    fake.add(1, state=state)

    assert proc.is_alive(1, fake.root) is alive


def test_what_is_gone_counts_as_nothing(fake: FakeProc) -> None:
    assert proc.cpu_ns(7, fake.root) == 0
    assert proc.start_time(7, fake.root) == ""
    assert proc.memory_bytes(7, fake.root) == 0
    assert not proc.is_alive(7, fake.root)


def test_the_machine_is_busy_with_all_but_idling(fake: FakeProc) -> None:
    (fake.root / "stat").write_text("cpu  10 20 30 4000 500 6 7 8 99 98\ncpu0 1 1 1 1\n")

    assert proc.machine_ns(fake.root) == (10 + 20 + 30 + 6 + 7 + 8) * TICK_NS


def test_memory_is_the_proportional_share(fake: FakeProc) -> None:
    (fake.root / "1").mkdir()
    (fake.root / "1" / "smaps_rollup").write_text("Rss:  300 kB\nPss:  100 kB\nPss_Dirty: 9 kB\n")

    assert proc.memory_bytes(1, fake.root) == 100 * 1024

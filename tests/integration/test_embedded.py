"""EmbeddedPostgres with real servers, real owners and real kills."""

import contextlib
import json
import os
import pwd
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import psycopg
import pytest
from tests.waiting import wait_until

from perdure_engine.server.embedded import (
    EmbeddedPostgres,
    EmbeddedPostgresError,
    account,
    binaries,
    folder,
)

# How long a server may outlive its owner.
OWNER_GONE_DEADLINE_S = 3
DEADLINE_S = 30

# An owner in a process of its own: says who it is, waits for a word, and stops the server.
OWNER = """
import json, os, sys
from pathlib import Path
import psycopg
from perdure_engine.server.embedded import EmbeddedPostgres, watcher

for account in (word for word in sys.argv if word.startswith("namespace:")):
    watcher.become(account)
server = EmbeddedPostgres(Path(sys.argv[1]))
dsn = server.start()
if "fork" in sys.argv:
    # What multiprocessing does: a child that has all our descriptors and does not exec.
    child = os.fork()
    if child == 0:
        sys.stdin.read()
        os._exit(0)
try:
    # Inside: whoever reads it may interrupt us at once.
    print(json.dumps({"pid": server.pid, "dsn": dsn, "euid": os.geteuid()}), flush=True)
    sys.stdin.readline()
except KeyboardInterrupt:
    with psycopg.connect(dsn) as connection:
        print(connection.execute("SELECT 'alive'").fetchone()[0], flush=True)
server.stop()
"""

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="root's case")
needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="uses /proc")
# The programs lie in the environment of the tests, and a clone may lie in a private folder.
needs_open_folders = pytest.mark.skipif(
    any(not folder.stat().st_mode & stat.S_IXOTH for folder in Path(sys.prefix).resolve().parents),
    reason="nobody cannot reach the server's programs: a folder above them is private",
)


class Owner:
    """A process that runs OWNER; killed at the end of the block."""

    def __init__(self, data_dir: Path, *options: str) -> None:
        """`namespace:UID:GID` as an option: it becomes that before anything else. Not in a preexec_fn: gRPC starts
        threads in forked children, and a process with threads cannot leave its user namespace."""
        self.process = subprocess.Popen(
            [sys.executable, "-c", OWNER, str(data_dir), *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self.process.stdout is not None
        self.output = self.process.stdout

    def started(self) -> Self:
        # The log goes to standard output too, in its own format.
        said = json.loads(self.line_starting_with("{"))
        self.server_pid = int(said["pid"])
        self.dsn = str(said["dsn"])
        self.effective_uid = int(said["euid"])
        return self

    def line_starting_with(self, start: str) -> str:
        return next(line for line in self.output if line.startswith(start))

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.output.close()


@pytest.fixture
def data_dir(scratch_dir: Path) -> Iterator[Path]:
    parent = Path(tempfile.mkdtemp(dir=scratch_dir))
    path = parent / "data"
    yield path
    if path.exists():
        # The server of an owner that was killed last may still be writing.
        os.close(folder.DataFolder(path).lock_server())
    shutil.rmtree(parent)


def status_fields(pid: int) -> list[str]:
    """State, parent, ... of a process: what follows its name in /proc/PID/stat."""
    text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    return text.rpartition(")")[2].split()


def lives(pid: int) -> bool:
    # A zombie whose parent is not interested is as dead as can be.
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return status_fields(pid)[0] not in "ZX"
    return False


def parent_of(pid: int) -> int:
    return int(status_fields(pid)[1])


def children_of(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def ask(dsn: str, query: str) -> object:
    with psycopg.connect(dsn, autocommit=True) as connection:
        row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]


def write(dsn: str, number: int) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS kept (number int8)")
        connection.execute("INSERT INTO kept VALUES (%s)", (number,))


def kept(dsn: str) -> object:
    return ask(dsn, "SELECT array_agg(number ORDER BY number) FROM kept")


@contextlib.contextmanager
def busy_backend(dsn: str) -> Iterator[int]:
    """The pid of one that computes for ever and looks at nothing but its interrupts meanwhile."""
    with contextlib.closing(psycopg.connect(dsn, autocommit=True)) as connection:
        pid = connection.info.backend_pid
        try:
            connection.pgconn.send_query(b"DO 'BEGIN LOOP END LOOP; END'")
            state = f"SELECT state = 'active' FROM pg_stat_activity WHERE pid = {pid}"
            wait_until(lambda: ask(dsn, state), DEADLINE_S)
            yield pid
        finally:
            # It is dead already unless the test has failed.
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@contextlib.contextmanager
def halted(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


# --- what start promises --------------------------------------------------------------------------


def test_a_fresh_server_is_what_the_engine_expects(data_dir: Path) -> None:
    server = EmbeddedPostgres(data_dir)
    dsn = server.start()
    try:
        with psycopg.connect(dsn) as connection:
            shown = connection.execute("SELECT name, setting FROM pg_settings").fetchall()
            database = connection.execute(
                "SELECT datname, datcollate, datctype, pg_encoding_to_char(encoding)"
                " FROM pg_database WHERE datname = current_database()"
            ).fetchone()
        settings: dict[str, str] = dict(shown)

        assert database == ("perdure", "C", "C", "UTF8")
        assert {name: settings[name] for name in ("fsync", "synchronous_commit", "jit")} == {
            "fsync": "on",
            "synchronous_commit": "on",
            "jit": "off",
        }
        assert settings["full_page_writes"] == "on"
        assert settings["default_transaction_isolation"] == "serializable"
        assert settings["max_connections"] == "50"
        assert settings["listen_addresses"] == ""
        assert settings["data_checksums"] == "on"
        assert server.tcp_dsn is None
        assert stat.S_IMODE((data_dir / "socket").stat().st_mode) == 0o700
        assert stat.S_IMODE((data_dir / "pgdata").stat().st_mode) == 0o700
    finally:
        server.stop()


@needs_linux
def test_the_allocator_of_the_server_keeps_its_memory(data_dir: Path) -> None:
    with EmbeddedPostgres(data_dir) as server:
        environment = Path(f"/proc/{server.pid}/environ").read_bytes().split(b"\0")

    assert b"MALLOC_TRIM_THRESHOLD_=67108864" in environment
    assert b"MALLOC_MMAP_THRESHOLD_=33554432" in environment


def test_a_restart_keeps_the_data_and_stopping_twice_is_fine(data_dir: Path) -> None:
    server = EmbeddedPostgres(data_dir)
    write(server.start(), 1)
    server.stop()
    server.stop()
    assert server.pid is None

    write(server.start(), 2)
    with pytest.raises(RuntimeError, match="started already"):
        server.start()
    server.stop()

    with EmbeddedPostgres(data_dir) as again:
        assert kept(again.create_database("copy", "perdure")) == [1, 2]
        again.drop_database("copy")
        again.drop_database("copy")


def test_with_a_port_it_listens_on_loopback_and_wants_the_password(data_dir: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    with EmbeddedPostgres(data_dir, port=port) as server:
        dsn = server.tcp_dsn
        assert dsn is not None
        assert ask(dsn, "SHOW listen_addresses") == "127.0.0.1"
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(f"postgresql://perdure:wrong@127.0.0.1:{port}/perdure")
    with EmbeddedPostgres(data_dir, port=port) as server:
        assert server.tcp_dsn == dsn
        assert ask(dsn, "SELECT 1") == 1
    assert stat.S_IMODE((data_dir / "password").stat().st_mode) == 0o600


@pytest.mark.parametrize("name", ["long" * 30, "a, 'b' \N{SNOWMAN}"])
def test_a_path_that_no_socket_can_have_works(data_dir: Path, name: str) -> None:
    data_dir = data_dir.parent / name / "data"
    server = EmbeddedPostgres(data_dir)
    try:
        write(server.start(), 1)
        short = Path((data_dir / "socket_folder").read_text())
        assert stat.S_IMODE(short.stat().st_mode) == 0o700
        server.stop()
        assert not short.exists()
        assert kept(server.start()) == [1]
    finally:
        server.stop()


def test_a_large_log_is_put_aside(data_dir: Path) -> None:
    data_dir.mkdir()
    with (data_dir / "postgres.log").open("wb") as file:
        file.truncate(folder.LOG_BYTES_MAX + 1)

    with EmbeddedPostgres(data_dir):
        pass

    assert (data_dir / "postgres.log.1").stat().st_size == folder.LOG_BYTES_MAX + 1
    assert 0 < (data_dir / "postgres.log").stat().st_size < folder.LOG_BYTES_MAX


def test_a_server_that_cannot_start_says_why_and_leaves_nothing_behind(data_dir: Path) -> None:
    server = EmbeddedPostgres(data_dir, settings={"shared_buffers": "a lot"})
    with pytest.raises(EmbeddedPostgresError) as caught:
        server.start()

    assert "shared_buffers" in caught.value.log_tail
    assert str(data_dir / "postgres.log") in caught.value.advice
    assert server.pid is None
    with EmbeddedPostgres(data_dir) as good:
        assert good.pid is not None


def test_an_installed_postgresql_will_do_without_the_wheel(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binaries, "WHEEL", "not_installed")
    try:
        found = binaries.find_binaries(None)
    except EmbeddedPostgresError as error:
        pytest.skip(error.problem)

    with EmbeddedPostgres(data_dir) as server:
        dsn = server.create_database("other")
        assert str(ask(dsn, "SHOW server_version")).startswith(f"{found.major_version}.")
    monkeypatch.undo()
    with EmbeddedPostgres(data_dir) as server:
        assert ask(server.create_database("copy", "other"), "SELECT 1") == 1


def test_data_of_another_version_are_refused(data_dir: Path) -> None:
    (data_dir / "pgdata").mkdir(parents=True)
    (data_dir / "pgdata" / "PG_VERSION").write_text("9\n")

    with pytest.raises(EmbeddedPostgresError, match="belongs to PostgreSQL 9"):
        EmbeddedPostgres(data_dir).start()


def test_a_folder_with_something_else_in_it_is_refused(data_dir: Path) -> None:
    (data_dir / "pgdata").mkdir(parents=True)
    (data_dir / "pgdata" / "thesis.txt").write_text("years of work")

    with pytest.raises(EmbeddedPostgresError, match="cannot be used"):
        EmbeddedPostgres(data_dir).start()

    assert (data_dir / "pgdata" / "thesis.txt").read_text() == "years of work"


# --- one owner ------------------------------------------------------------------------------------


def test_a_second_owner_is_refused_and_may_come_later(data_dir: Path) -> None:
    with Owner(data_dir) as owner:
        owner.started()
        second = EmbeddedPostgres(data_dir)
        with pytest.raises(EmbeddedPostgresError, match=f"in use by process {owner.process.pid}"):
            second.start()

        assert ask(owner.dsn, "SELECT 1") == 1
        owner.process.communicate("stop\n", timeout=DEADLINE_S)
        assert owner.process.returncode == 0
        with second:
            assert second.pid is not None


def test_a_second_owner_in_the_same_process_is_refused(data_dir: Path) -> None:
    refused = pytest.raises(EmbeddedPostgresError, match=f"in use by process {os.getpid()}")
    with EmbeddedPostgres(data_dir), refused:
        EmbeddedPostgres(data_dir).start()


# --- kills ----------------------------------------------------------------------------------------


@needs_linux
def test_what_was_acknowledged_survives_kill_9_of_the_whole_server(data_dir: Path) -> None:
    server = EmbeddedPostgres(data_dir)
    write(server.start(), 1)
    assert server.pid is not None
    # Halted, so that it neither restarts what is killed first nor ends the rest itself.
    with halted(server.pid):
        pids = [*children_of(server.pid), server.pid]
        assert len(pids) > 3
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not any(map(lives, pids)), DEADLINE_S)
    server.stop()

    with EmbeddedPostgres(data_dir) as again:
        dsn = again.create_database("copy", "perdure")
        assert kept(dsn) == [1]
    assert "was interrupted" in (data_dir / "postgres.log").read_text()


@needs_linux
@pytest.mark.parametrize("option", ["", "fork"])
def test_a_killed_owner_takes_its_server_along(data_dir: Path, option: str) -> None:
    with Owner(data_dir, option) as owner:
        owner.started()
        write(owner.dsn, 1)
        with busy_backend(owner.dsn) as backend:
            owner.kill()
            wait_until(lambda: not lives(owner.server_pid), OWNER_GONE_DEADLINE_S)
            wait_until(lambda: not lives(backend), OWNER_GONE_DEADLINE_S)

    with Owner(data_dir) as next_owner:
        assert kept(next_owner.started().dsn) == [1]
    assert "was interrupted" not in (data_dir / "postgres.log").read_text()


@needs_linux
def test_a_killed_watcher_takes_its_server_along(data_dir: Path) -> None:
    server = EmbeddedPostgres(data_dir)
    write(server.start(), 1)
    pid = server.pid
    assert pid is not None
    os.kill(parent_of(pid), signal.SIGKILL)
    wait_until(lambda: not lives(pid), OWNER_GONE_DEADLINE_S)
    server.stop()

    assert "perdure" in server.start()
    server.stop()


@needs_linux
def test_a_new_owner_waits_until_the_old_ones_server_has_ended(data_dir: Path) -> None:
    with Owner(data_dir) as owner:
        owner.started()
        write(owner.dsn, 1)
        logged = (data_dir / "postgres.log").stat().st_size
        with contextlib.ExitStack() as watcher_is_halted:
            watcher_is_halted.enter_context(halted(parent_of(owner.server_pid)))
            owner.kill()
            with Owner(data_dir) as next_owner:
                holder = f"{next_owner.process.pid}\n"
                wait_until(lambda: (data_dir / "owner.lock").read_text() == holder, DEADLINE_S)
                with pytest.raises(AssertionError, match="not within"):
                    wait_until(lambda: (data_dir / "postgres.log").stat().st_size != logged, 0.3)
                assert lives(owner.server_pid)

                watcher_is_halted.close()
                assert kept(next_owner.started().dsn) == [1]
                assert not lives(owner.server_pid)


@needs_linux
def test_a_backend_that_outlives_everybody_is_ended_by_the_next_start(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder, "REMAINS_PATIENCE_S", 0.2)
    with Owner(data_dir) as owner:
        owner.started()
        with busy_backend(owner.dsn) as backend:
            # From the far end: each of them would end the next one in good order.
            watcher_pid = parent_of(owner.server_pid)
            os.kill(owner.server_pid, signal.SIGKILL)
            wait_until(lambda: not lives(watcher_pid), DEADLINE_S)
            owner.kill()
            assert lives(backend)

            with EmbeddedPostgres(data_dir):
                assert not lives(backend)


@needs_linux
def test_pids_and_sockets_of_a_dead_server_do_not_matter(data_dir: Path) -> None:
    """Its pid may be in use again, or be a zombie's that nobody waits for."""
    with EmbeddedPostgres(data_dir) as server:
        pidfile = (data_dir / "pgdata" / "postmaster.pid").read_text()
    mine = "\n".join([str(os.getppid()), *pidfile.split("\n")[1:]])
    (data_dir / "pgdata" / "postmaster.pid").write_text(mine)
    (data_dir / "socket" / ".s.PGSQL.5432.lock").write_text(mine)
    (data_dir / "socket" / ".s.PGSQL.5432").touch()

    server.start()
    server.stop()


def test_ctrl_c_reaches_the_owner_only(data_dir: Path) -> None:
    with Owner(data_dir) as owner:
        owner.started()
        os.killpg(owner.process.pid, signal.SIGINT)

        assert owner.line_starting_with("alive")
        assert owner.process.wait(DEADLINE_S) == 0
    with EmbeddedPostgres(data_dir) as again:
        assert again.pid is not None
    assert "was interrupted" not in (data_dir / "postgres.log").read_text()


def test_an_initdb_that_was_killed_is_done_again(data_dir: Path) -> None:
    def half_done() -> list[Path]:
        return [path for path in data_dir.glob("pgdata.new-*") if (path / "base").exists()]

    with Owner(data_dir) as owner:
        wait_until(half_done, DEADLINE_S)
        owner.kill()
        assert not (data_dir / "pgdata").exists()

    with EmbeddedPostgres(data_dir) as server:
        assert server.pid is not None
    assert list(data_dir.glob("pgdata.new-*")) == []


# --- root -----------------------------------------------------------------------------------------


@pytest.fixture
def public_dir() -> Iterator[Path]:
    """A folder below which everybody may look: pytest's own is closed to others."""
    path = Path(tempfile.mkdtemp())
    path.chmod(0o711)
    yield path
    shutil.rmtree(path)


def modes(path: Path) -> dict[Path, tuple[int, int]]:
    return {parent: (parent.stat().st_mode, parent.stat().st_uid) for parent in path.parents}


@needs_root
def test_root_changes_no_parent_folder_and_makes_no_user(data_dir: Path) -> None:
    data_dir = data_dir.parent / "closed" / "data"
    data_dir.parent.mkdir(mode=0o700)
    before = modes(data_dir), modes(Path(sys.executable)), Path("/etc/passwd").read_bytes()

    with EmbeddedPostgres(data_dir) as server:
        write(server.create_database("other"), 1)
        owners = {path.stat().st_uid for path in (data_dir, *data_dir.rglob("*"))}
        powers = Path(f"/proc/{server.pid}/status").read_text()

    assert owners == {0}
    assert "CapEff:\t0000000000000000" in powers
    after = modes(data_dir), modes(Path(sys.executable)), Path("/etc/passwd").read_bytes()
    assert after == before


@needs_root
@needs_open_folders
def test_root_without_namespaces_gives_the_data_to_nobody(
    public_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data_dir = public_dir / "data"
    before = modes(data_dir), Path("/etc/passwd").read_bytes()
    with EmbeddedPostgres(data_dir) as server:
        write(server.create_database("other"), 1)

    nobody = pwd.getpwuid(account.NOBODY_UID)
    with monkeypatch.context() as patch:
        only_nobody = [account.Account("user", nobody.pw_uid, nobody.pw_gid)]
        patch.setattr(account, "_for_root", lambda pgdata: only_nobody)
        with EmbeddedPostgres(data_dir) as server:
            assert Path(f"/proc/{server.pid}").stat().st_uid == account.NOBODY_UID
            assert kept(server.create_database("copy", "other")) == [1]
            pid = server.pid
            assert pid is not None
            os.kill(parent_of(pid), signal.SIGKILL)
            wait_until(lambda: not lives(pid), OWNER_GONE_DEADLINE_S)

    # They stay nobody's, also when there are namespaces again.
    with EmbeddedPostgres(data_dir) as server:
        assert Path(f"/proc/{server.pid}").stat().st_uid == account.NOBODY_UID
    assert (modes(data_dir), Path("/etc/passwd").read_bytes()) == before


@needs_root
def test_root_that_has_no_way_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nobody = account.Account("user", account.NOBODY_UID, account.NOBODY_UID)
    monkeypatch.setattr(account, "_for_root", lambda pgdata: [nobody])
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)

    with pytest.raises(EmbeddedPostgresError, match="Permission denied") as caught:
        EmbeddedPostgres(closed / "data").start()

    assert "--database-url" in caught.value.advice
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700


@needs_root
def test_who_is_not_root_needs_nothing(data_dir: Path) -> None:
    """The owner in a namespace where it is nobody: the nearest to a second user that root has."""
    user = f"namespace:{account.NOBODY_UID}:{account.NOBODY_UID}"
    with Owner(data_dir, user) as owner:
        assert owner.started().effective_uid == account.NOBODY_UID
        write(owner.dsn, 1)
        owner.kill()
        wait_until(lambda: not lives(owner.server_pid), OWNER_GONE_DEADLINE_S)

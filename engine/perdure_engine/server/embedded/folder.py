"""The data folder, apart from what PostgreSQL itself keeps in it.

owner.lock      locked by the owner alone: one owner at a time
server.lock     locked by every process of the cluster: none of an earlier one is left
pgdata/         PostgreSQL's own
postgres.log    what it has to say; postgres.log.1 the one before
socket/         mode 0700, the only way in without a password ...
socket_folder   ... or the name of a short folder that takes its place
password        for TCP, when a port was asked for
"""

import contextlib
import fcntl
import os
import re
import signal
import stat
import tempfile
import time
from pathlib import Path

from perdure_engine.server.embedded.account import Account
from perdure_engine.server.embedded.errors import EmbeddedPostgresError

LOG_BYTES_MAX = 10 * 1024 * 1024
LOG_TAIL_LINES = 30
LOG_TAIL_BYTES = 8 * 1024

# A watcher whose owner has gone takes at most 5 s (watcher.OWNER_GONE). What lives longer has
# neither: a backend whose postmaster was killed ends only when its statement does.
REMAINS_PATIENCE_S = 10.0
REMAINS_DEADLINE_S = 20.0
LOCK_POLL_S = 0.02

# sockaddr_un holds 108 bytes with the final zero. The characters are those which need no quoting in
# postgresql.conf and cannot be taken for a list of hosts by libpq.
SOCKET_PATH_BYTES_MAX = 107
PLAIN_PATH = re.compile(r"[A-Za-z0-9_./+=-]+")
SHORT_FOLDER_PREFIX = "perdure-pg-"


class DataFolder:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.pgdata = root / "pgdata"
        self.log = root / "postgres.log"
        self.password = root / "password"
        self._owner_lock = root / "owner.lock"
        self._server_lock = root / "server.lock"
        self._socket_record = root / "socket_folder"

    def make(self) -> None:
        if not self.root.exists():
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)

    def give(self, account: Account) -> None:
        """Lets the account in, and leaves nothing here that it could not open as an owner."""
        for path in (self._owner_lock, self._server_lock, self.log, self.password):
            with contextlib.suppress(FileNotFoundError):
                account.give(path)
        account.give(self.root)

    def lock_owner(self) -> int:
        """The descriptor that holds the owner's lock; raises when somebody else does."""
        descriptor = _open_lock(self._owner_lock)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(descriptor, 20).decode(errors="replace").strip()
            os.close(descriptor)
            raise EmbeddedPostgresError(
                f"The data folder {self.root} is in use by process {holder or 'unknown'}.",
                "Stop that process, or choose another data folder.",
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        return descriptor

    def lock_server(self) -> int:
        """The descriptor that holds the server's lock, for the server to inherit.

        To be called by the owner, so what else holds it is what a dead owner left behind. Waits for
        it to end, and then ends it.
        """
        descriptor = _open_lock(self._server_lock)
        began_s = time.monotonic()
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return descriptor
            except BlockingIOError:
                waited_s = time.monotonic() - began_s
            if waited_s > REMAINS_DEADLINE_S:
                os.close(descriptor)
                raise EmbeddedPostgresError(
                    f"Processes of an earlier PostgreSQL still use {self.root} and do not end.",
                    "End the `postgres` processes that work there, or restart the machine.",
                )
            if waited_s > REMAINS_PATIENCE_S:
                _kill_servers(self.pgdata)
            time.sleep(LOCK_POLL_S)

    def open_log(self) -> int:
        """A descriptor to append to the log, which is put aside first when it has grown large."""
        with contextlib.suppress(FileNotFoundError):
            if self.log.stat().st_size > LOG_BYTES_MAX:
                self.log.replace(self.log.with_name("postgres.log.1"))
        return os.open(self.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def log_tail(self, offset: int) -> str:
        """The last lines of what was logged from the offset on."""
        with self.log.open("rb") as file:
            file.seek(max(offset, self.log.stat().st_size - LOG_TAIL_BYTES))
            lines = file.read().decode(errors="replace").splitlines()
        return "\n".join(lines[-LOG_TAIL_LINES:])

    def make_socket_folder(self, port: int) -> Path:
        """An empty folder of mode 0700 whose path is short enough for a socket."""
        self.remove_short_folder()
        folder = self.root / "socket"
        if not _fits(folder, port):
            folder = _make_short_folder(port)
            write_file(self._socket_record, str(folder))
        folder.mkdir(mode=0o700, exist_ok=True)
        folder.chmod(0o700)
        _clear_sockets(folder)
        return folder

    def remove_short_folder(self) -> None:
        """Removes the folder that took the place of `socket/`, if one did."""
        try:
            folder = Path(self._socket_record.read_text(encoding="utf-8", errors="surrogateescape"))
        except FileNotFoundError:
            return
        # A temporary folder may have been swept and its name taken by somebody else since.
        with contextlib.suppress(OSError):
            status = folder.lstat()
            owners = {os.geteuid(), self.pgdata.stat().st_uid}
            if stat.S_ISDIR(status.st_mode) and status.st_uid in owners:
                _clear_sockets(folder)
                folder.rmdir()
        self._socket_record.unlink()


def write_file(path: Path, text: str) -> None:
    """Replaces the file at once, readable by its owner only."""
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(os.fsencode(text))
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


def _open_lock(path: Path) -> int:
    # Never removed: another process may be waiting for the lock on the very file.
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _kill_servers(pgdata: Path) -> None:
    """Kills the server processes that work in pgdata (Linux; elsewhere there is no /proc)."""
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (entry / "comm").read_text() == "postgres\n" and (entry / "cwd").samefile(pgdata):
                os.kill(int(entry.name), signal.SIGKILL)


def _fits(folder: Path, port: int) -> bool:
    path = str(folder / f".s.PGSQL.{port}")
    return len(path) <= SOCKET_PATH_BYTES_MAX and PLAIN_PATH.fullmatch(path) is not None


def _make_short_folder(port: int) -> Path:
    for parent in (tempfile.gettempdir(), "/tmp"):
        if _fits(Path(parent) / f"{SHORT_FOLDER_PREFIX}12345678", port):
            return Path(tempfile.mkdtemp(prefix=SHORT_FOLDER_PREFIX, dir=parent))
    raise EmbeddedPostgresError(
        "There is no folder whose path is short enough for a socket.",
        "Let TMPDIR name a folder with a short path, or choose another data folder.",
    )


def _clear_sockets(folder: Path) -> None:
    for leftover in folder.glob(".s.PGSQL.*"):
        leftover.unlink()

"""What lies in pgdata: made once by initdb, configured anew at each start."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from perdure_engine.server.embedded.account import Account
from perdure_engine.server.embedded.binaries import Binaries
from perdure_engine.server.embedded.folder import write_file

SUPERUSER = "perdure"
CONFIGURATION = "perdure.conf"
NEW_PREFIX = "pgdata.new-"

SETTINGS: Mapping[str, str] = {
    # Nothing acknowledged is ever lost.
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "default_transaction_isolation": "serializable",
    "max_connections": "50",
    # A transaction may lock half as many pages of one table as this says; with more, it locks the
    # whole table and aborts others for nothing. The default is 64.
    "max_pred_locks_per_transaction": "256",
    "shared_buffers": "128MB",
    "max_wal_size": "2GB",
    # Task rows live for milliseconds. Left for a minute, the default, their dead versions make the
    # table grow that would otherwise use its pages again.
    "autovacuum_naptime": "15s",
    # Short statements with plans made once: compiling or spreading them costs more than it gains.
    # Parallel workers would also need more of /dev/shm than the 64 MB that a container gets.
    "jit": "off",
    "max_parallel_workers_per_gather": "0",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] %d ",
}

HOST_BASED_ACCESS = """\
# Written by perdure at each start. The socket lies in a folder of mode 0700.
local all all trust
host all all 127.0.0.1/32 scram-sha-256
"""


def data_version(pgdata: Path) -> int | None:
    """The major version of PostgreSQL that the data belong to, or None when there are none yet."""
    try:
        return int((pgdata / "PG_VERSION").read_text(encoding="ascii"))
    except FileNotFoundError:
        return None


def remove_half_done(root: Path) -> None:
    """Removes what an initdb that was killed has left behind."""
    for leftover in root.glob(f"{NEW_PREFIX}*"):
        shutil.rmtree(leftover)


def initialize(
    pgdata: Path,
    binaries: Binaries,
    account: Account,
    *,
    durable: bool,
    run: Callable[[Sequence[str | Path]], None],
) -> None:
    """Makes pgdata. `run` runs initdb, and raises if it fails.

    It is made beside its place and moved there whole, so that pgdata exists only when it is good.
    """
    with contextlib.suppress(FileNotFoundError):
        pgdata.rmdir()  # raises when there is something in it, and that is not ours
    new = Path(tempfile.mkdtemp(prefix=NEW_PREFIX, dir=pgdata.parent))
    account.give(new)
    command: list[str | Path] = [binaries.initdb, "-D", new, "-U", SUPERUSER]
    command += ["--no-locale", "-E", "UTF8", "--data-checksums"]
    command += ["--auth-local=trust", "--auth-host=scram-sha-256", "--no-instructions"]
    run(command if durable else [*command, "--no-sync"])
    with (new / "postgresql.conf").open("a", encoding="utf-8") as file:
        file.write("\n# Rewritten by perdure at each start; what follows it wins.\n")
        file.write(f"include_if_exists = '{CONFIGURATION}'\n")
        file.flush()
        os.fsync(file.fileno())
    new.rename(pgdata)
    _sync_folder(pgdata.parent)


def configure(pgdata: Path, account: Account, settings: Mapping[str, str]) -> None:
    lines = [f"{name} = {_quoted(value)}\n" for name, value in settings.items()]
    text = "# Written by perdure at each start; put your own lines into postgresql.conf.\n"
    for path, content in (
        (pgdata / CONFIGURATION, text + "".join(lines)),
        (pgdata / "pg_hba.conf", HOST_BASED_ACCESS),
    ):
        write_file(path, content)
        account.give(path)


def _quoted(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

"""EmbeddedPostgres: a PostgreSQL that lives as long as we do."""

import os
import secrets
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

import psycopg
import structlog
from psycopg import sql

from perdure_engine.server.embedded import cluster
from perdure_engine.server.embedded.account import Account, choose_account
from perdure_engine.server.embedded.binaries import Binaries, find_binaries
from perdure_engine.server.embedded.errors import EmbeddedPostgresError
from perdure_engine.server.embedded.folder import DataFolder, write_file
from perdure_engine.server.embedded.launch import CONNECT_TIMEOUT_S, Launcher, WatchedProcess

DATABASE = "perdure"
MAINTENANCE_DATABASE = "postgres"
DEFAULT_PORT = 5432

log = structlog.get_logger(__name__)


class EmbeddedPostgres:
    """A PostgreSQL server whose data live in `data_dir`, a folder that is all its own.

    Everything here blocks: call it before or after the event loop, or in a thread. The server ends
    with this process, however that ends. It may be started again after it was stopped, from here
    or by another process.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        port: int | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """With a `port` it listens on 127.0.0.1 too, and asks for a password there (`tcp_dsn`).

        `settings` are lines of postgresql.conf that replace ours; tests turn fsync off.
        """
        self._folder = DataFolder(data_dir.absolute())
        self._listens = port is not None
        self._port = DEFAULT_PORT if port is None else port
        self._settings = {**cluster.SETTINGS, **(settings or {})}
        self._durable = self._settings["fsync"] != "off"
        self._sockets = self._folder.root
        self._process: WatchedProcess | None = None
        self._undo = ExitStack()

    @property
    def pid(self) -> int | None:
        """The postmaster's process id while the server is started."""
        return self._process.pid if self._process else None

    @property
    def tcp_dsn(self) -> str | None:
        """How programs that cannot use the socket connect, when a port was asked for."""
        if not self._listens or self._process is None:
            return None
        return (
            f"postgresql://{cluster.SUPERUSER}:{self._password()}@127.0.0.1:{self._port}/{DATABASE}"
        )

    def start(self) -> str:
        """Starts the server and returns the conninfo of its database `perdure`.

        Raises EmbeddedPostgresError when that is impossible; nothing is left running then.
        """
        if self._process is not None:
            raise RuntimeError("the embedded PostgreSQL is started already")
        began_s = time.monotonic()
        with ExitStack() as undo:
            try:
                self._start(undo)
            except (OSError, psycopg.Error) as error:
                raise EmbeddedPostgresError(
                    f"The data folder {self._folder.root} cannot be used: {error}",
                    "Choose another data folder, or give this one to the user who runs perdure.",
                ) from error
            self._undo = undo.pop_all()
        log.info(
            "embedded_postgres_started",
            data_dir=str(self._folder.root),
            pid=self.pid,
            seconds=round(time.monotonic() - began_s, 3),
        )
        return self._dsn(DATABASE)

    def stop(self) -> None:
        """Disconnects everybody, writes a checkpoint and ends the server. Twice is fine."""
        self._undo.close()

    def create_database(self, name: str, template: str | None = None) -> str:
        """Creates a database, as a copy of another one if given, and returns its conninfo.

        Nobody may be connected to the other one meanwhile.
        """
        # C is the order by bytes, as on CockroachDB; only a copy of template0 can be given another
        # order. Copying files is quicker (7 to 10 ms) unless they must be synced (70 to 20 ms).
        statement = "CREATE DATABASE {} TEMPLATE {} LOCALE 'C' STRATEGY {}"
        with self._connect() as connection:
            connection.execute(
                sql.SQL(statement).format(
                    sql.Identifier(name),
                    sql.Identifier(template or "template0"),
                    sql.SQL("wal_log" if self._durable else "file_copy"),
                )
            )
        return self._dsn(name)

    def drop_database(self, name: str) -> None:
        """Drops a database, with the connections to it; one that is not there is fine."""
        statement = "DROP DATABASE IF EXISTS {} WITH (FORCE)"
        with self._connect() as connection:
            connection.execute(sql.SQL(statement).format(sql.Identifier(name)))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    # ---------------------------------------------------------------------------------------------

    def _start(self, undo: ExitStack) -> None:
        folder = self._folder
        folder.make()
        undo.callback(os.close, folder.lock_owner())
        lock_fd = folder.lock_server()
        undo.callback(os.close, lock_fd)
        log_fd = folder.open_log()
        undo.callback(os.close, log_fd)
        launch = Launcher(folder, log_fd, lock_fd)

        binaries = find_binaries(cluster.data_version(folder.pgdata))
        account = choose_account(folder.pgdata, lambda tried: launch.probe(binaries, tried))
        self._prepare(launch, binaries, account, undo)
        process = launch.start([binaries.postgres, "-D", folder.pgdata], account)
        undo.callback(self._end, process)
        self._process = process
        launch.wait_until_ready(process, self._dsn(MAINTENANCE_DATABASE))
        self._complete()

    def _end(self, process: WatchedProcess) -> None:
        code = process.stop()
        self._process = None
        log.info("embedded_postgres_stopped", data_dir=str(self._folder.root), exit_code=code)

    def _prepare(
        self, launch: Launcher, binaries: Binaries, account: Account, undo: ExitStack
    ) -> None:
        folder = self._folder
        cluster.remove_half_done(folder.root)
        if cluster.data_version(folder.pgdata) is None:
            cluster.initialize(
                folder.pgdata,
                binaries,
                account,
                durable=self._durable,
                run=lambda command: launch.run(command, account),
            )
        self._sockets = folder.make_socket_folder(self._port)
        undo.callback(folder.remove_short_folder)
        account.give(self._sockets, below=True)
        account.give(folder.pgdata, below=True)
        places = {
            "port": str(self._port),
            "listen_addresses": "127.0.0.1" if self._listens else "",
            "unix_socket_directories": str(self._sockets),
        }
        cluster.configure(folder.pgdata, account, {**self._settings, **places})
        # The server's lock is ours, so no process of it lives, but its pid may be in use again.
        (folder.pgdata / "postmaster.pid").unlink(missing_ok=True)

    def _complete(self) -> None:
        """Brings the running server to what `start` promises."""
        with self._connect() as connection:
            found = connection.execute(
                "SELECT 1 FROM pg_database WHERE datname = %s", (DATABASE,)
            ).fetchone()
            if self._listens:
                connection.execute(
                    sql.SQL("ALTER ROLE {} PASSWORD {}").format(
                        sql.Identifier(cluster.SUPERUSER), sql.Literal(self._password())
                    )
                )
        if found is None:
            self.create_database(DATABASE)

    def _password(self) -> str:
        """Made once and kept, so that what others have noted down goes on working."""
        path = self._folder.password
        if not path.exists():
            write_file(path, secrets.token_urlsafe(24))
        return path.read_text(encoding="ascii")

    def _connect(self) -> psycopg.Connection:
        return psycopg.connect(
            self._dsn(MAINTENANCE_DATABASE), autocommit=True, connect_timeout=CONNECT_TIMEOUT_S
        )

    def _dsn(self, database: str) -> str:
        socket = quote(str(self._sockets), safe="")
        return (
            f"postgresql://{cluster.SUPERUSER}@/{quote(database, safe='')}"
            f"?host={socket}&port={self._port}"
        )

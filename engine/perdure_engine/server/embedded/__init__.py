"""A PostgreSQL of our own, for `perdure dev` and the tests.

Theory of operation. Three processes in a row, each watching the one before it:

    owner (this Python)  ──pipe, pidfd──▶  watcher.py  ──PR_SET_PDEATHSIG──▶  postgres

The owner prepares the data folder and asks the watcher, a tiny program in a session of its own
(so that Ctrl-C in the terminal reaches neither it nor PostgreSQL), to run `postgres`. When the
owner asks, or ends in any way, kill -9 included, the watcher shuts the server down; when the
watcher itself is killed, the kernel does.

The lock on a data folder is held by the open file of every process of the cluster, inherited from
owner to watcher to postmaster to backend. Whoever gets it therefore knows that nothing of an
earlier server is left, whatever pids the files that it left behind speak of; those can be removed.

    server.py    the order of events: the only module that the outside needs
    folder.py    the data folder: locks, log, the place of the socket
    cluster.py   what lies in pgdata: initdb, configuration
    binaries.py  which PostgreSQL
    account.py   as whom: PostgreSQL refuses to run as root
    launch.py    the owner's end of the watcher
    watcher.py   the watcher
"""

from perdure_engine.server.embedded.errors import EmbeddedPostgresError
from perdure_engine.server.embedded.server import EmbeddedPostgres

__all__ = ["EmbeddedPostgres", "EmbeddedPostgresError"]

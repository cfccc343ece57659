"""What may be shown of the address of a database: everything but its secrets."""

from __future__ import annotations

import re

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

SECRETS = ("password", "sslpassword")
HIDDEN = "***"

# For texts that are not ours, as messages of drivers: userinfo of a URI, and key=value words.
_URI_PASSWORD = re.compile(r"(?<=://)([^\s/@:]*):[^\s/@]*@")
_WORD_PASSWORD = re.compile(r"\b((?:ssl)?password)\s*=\s*('(?:[^'\\]|\\.)*'|[^\s&'\"]+)", re.I)


def is_readable(dsn: str) -> bool:
    """Whether libpq understands it."""
    try:
        conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:
        return False
    return True


def has_secret(dsn: str) -> bool:
    return any(conninfo_to_dict(dsn).get(name) for name in SECRETS)


def redacted(dsn: str) -> str:
    """The dsn as key=value words, with its secrets hidden."""
    if not is_readable(dsn):
        return HIDDEN
    words = conninfo_to_dict(dsn)
    hidden = {name: HIDDEN for name in SECRETS if words.get(name)}
    return make_conninfo("", **(words | hidden))


def scrubbed(text: str) -> str:
    """Any text, with what looks like a password hidden."""
    if "://" in text:
        text = _URI_PASSWORD.sub(rf"\1:{HIDDEN}@", text)
    if "password" in text.lower():
        text = _WORD_PASSWORD.sub(rf"\1={HIDDEN}", text)
    return text

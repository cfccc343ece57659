"""`token_keys`: the keys of the MACs of tokens, the same on all nodes."""

from __future__ import annotations

from typing import Final, LiteralString

LIST: Final[LiteralString] = """\
select k.key_id, k.secret, k.created_at from token_keys as k order by k.key_id"""

PUT: Final[LiteralString] = """\
insert into token_keys as t (key_id, secret, created_at)
values ($1::int8, $2::bytea, clock_timestamp())
on conflict (key_id) do nothing
returning t.key_id"""

STATEMENTS: Final[dict[str, LiteralString]] = {"token_keys.list": LIST, "token_keys.put": PUT}

"""`nodes`: the lease of each engine process, by the database's clock."""

from __future__ import annotations

from typing import Final, LiteralString

# An older incarnation of the same node changes nothing and gets no row. A statement that had to
# wait gives a shorter lease, never a longer one.
RENEW: Final[LiteralString] = """\
insert into nodes as t (node_id, address, region, roles, incarnation, lease_end)
values ($1::uuid, $2::text, $3::text, $4::text, $5::int8,
  statement_timestamp() + $6::int8 * interval '1 millisecond')
on conflict (node_id) do update set address = excluded.address, region = excluded.region,
  roles = excluded.roles, incarnation = excluded.incarnation, lease_end = excluded.lease_end
where t.incarnation <= excluded.incarnation
returning statement_timestamp() as db_now"""

RELEASE: Final[LiteralString] = "delete from nodes where node_id = $1::uuid"

LIST: Final[LiteralString] = """\
select n.node_id, n.address, n.region, n.roles, n.incarnation, n.lease_end,
  n.lease_end > clock_timestamp() as alive
from nodes as n order by n.node_id"""

STATEMENTS: Final[dict[str, LiteralString]] = {
    "nodes.renew": RENEW,
    "nodes.release": RELEASE,
    "nodes.list": LIST,
}

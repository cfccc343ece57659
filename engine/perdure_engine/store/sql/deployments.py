"""`deployments`: the versions of workers and their routing; few rows, changed by conflict token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, LiteralString

import msgspec

from perdure_engine.core.audit import AuditRow
from perdure_engine.core.deployments import WHOLE, Deployment
from perdure_engine.ports.store import DeploymentRow
from perdure_engine.store.sql import audit
from perdure_engine.store.sql.parameters import Int8, Uuid
from perdure_engine.store.sql.readable import to_json

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Deployment).decode

LIST: Final[LiteralString] = """\
select d.namespace_id, d.name, d.conflict_token, d.payload
from deployments as d order by d.namespace_id, d.name"""

# $1 namespace, $2 name, $3 token, $4 the deployment; the audit log's row follows, or none; $14 for people.
CREATE: Final[LiteralString] = (
    """\
with w as (
  insert into deployments as t (namespace_id, name, conflict_token, payload, readable)
  values ($1::uuid, $2::text, $3::int8 + 1, $4::bytea, $14::text::jsonb)
  on conflict (namespace_id, name) do nothing
  returning t.conflict_token),
"""
    + audit.BEHIND_FOUR
    + """
select w.conflict_token from w"""
)

# As in `namespaces`: one that is not there divides by zero, so that an update never makes one.
UPDATE: Final[LiteralString] = (
    """\
with w as (
  insert into deployments as t (namespace_id, name, conflict_token, payload, readable)
  values ($1::uuid, $2::text, $3::int8, $4::bytea, $14::text::jsonb)
  on conflict (namespace_id, name) do update set payload = excluded.payload,
    readable = excluded.readable, conflict_token = t.conflict_token + 1
  where t.conflict_token = excluded.conflict_token
  returning t.conflict_token),
"""
    + audit.BEHIND_FOUR
    + """
select div(1::numeric, (case when w.conflict_token > $3::int8 then 1 else 0 end)::numeric)::int8
  as guard
from w"""
)

STATEMENTS: Final[dict[str, LiteralString]] = {
    "deployments.list": LIST,
    "deployments.create": CREATE,
    "deployments.update": UPDATE,
}


def parameters(row: DeploymentRow, audited: AuditRow | None) -> list[object]:
    return [
        Uuid(row.namespace_id),
        row.name,
        Int8(row.conflict_token),
        _encode(row.deployment),
        *audit.rows_parameters([] if audited is None else [audited]),
        _readable(row.deployment),
    ]


def read(row: Sequence[Any]) -> DeploymentRow:
    namespace_id, name, conflict_token, payload = row
    return DeploymentRow(namespace_id, name, conflict_token, _decode(payload))


def _readable(deployment: Deployment) -> str:
    """For `perdure_v1_deployments`."""
    return to_json(
        {
            "current_build_id": deployment.current,
            "ramping_build_id": deployment.ramping,
            "ramping_percentage": deployment.ramp_share / (WHOLE / 100),
            "changed_by": deployment.changed_by,
            "versions": [
                {
                    "build_id": build.build_id,
                    "task_queues": build.queues,
                    "retired": bool(build.retired_us),
                }
                for build in deployment.builds
            ],
        }
    )

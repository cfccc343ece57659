"""The removal: closed runs of one shard deleted under its fence, in one autocommit statement.

Sent by the writer in the shard's turn, like the sweep, and like it planned anew each time. Its guard
raises (22012) when one of the runs is open. Rows of the audit log for those that somebody asked to
delete are written along. A closed run has no live task and no live timer: their
dead rows are the sweep's.
"""

from __future__ import annotations

from typing import Final, LiteralString

from perdure_engine.ports.store import Removal
from perdure_engine.store.sql import (
    audit,
    current_runs,
    executions,
    history,
    inbox,
    shard_fence,
    snapshots,
    visibility,
)
from perdure_engine.store.sql.parameters import Texts, Uuids

REMOVE: Final = shard_fence.guarded(
    [
        executions.REMOVE,
        history.REMOVE,
        inbox.REMOVE,
        snapshots.REMOVE,
        visibility.REMOVE,
        current_runs.REMOVE,
        audit.REMOVED,
    ],
    [executions.STILL_OPEN + " = 0", audit.REMOVED_COMPLETE],
)

STATEMENTS: Final[dict[str, LiteralString]] = {"removal": REMOVE}


def parameters(removal: Removal) -> list[object]:
    return [
        *shard_fence.advance_parameters([removal.fence], removal.batch_id),
        Uuids(removal.run_ids),
        Uuids([namespace_id for namespace_id, _ in removal.workflows]),
        Texts([workflow_id for _, workflow_id in removal.workflows]),
        *audit.rows_parameters(removal.audit),
    ]

"""Lists: filter checked, pages in order, tokens bound to their query."""

from typing import Any

import pytest
from tests.unit.frontend.fakes import NAMESPACE_ID, OTHER_NAMESPACE_ID, Room

from perdure_engine.core import limits
from perdure_engine.core.errors import Code, Rejected
from perdure_engine.frontend.handlers.count_workflows import count_workflows
from perdure_engine.frontend.handlers.list_workflows import list_workflows
from perdure_engine.ports.rows import VisibilityRow
from perdure_engine.ports.store import VisibilityFilter

ALL = VisibilityFilter(NAMESPACE_ID)


def row(number: int, memo: bytes = b"") -> VisibilityRow:
    run_id = number.to_bytes(16, "big")
    return VisibilityRow(
        1, run_id, NAMESPACE_ID, 1, f"w{number}", "T", "q", 1, number // 2, None, 3, 300, memo, "{}"
    )


async def test_pages_bring_every_row_once_newest_first() -> None:
    room = Room()
    room.store.runs = [row(number) for number in range(1, 8)]
    seen: list[str] = []
    token = b""
    while True:
        answer = await list_workflows(room.frontend, ALL, 3, token)
        seen += [found.workflow_id for found in answer.rows]
        token = answer.next_page_token
        if not token:
            break

    assert seen == ["w7", "w6", "w5", "w4", "w3", "w2", "w1"]
    assert len(room.store.lists) == 3


async def test_a_page_is_cut_where_its_memos_fill_a_message() -> None:
    room = Room()
    memo = bytes(limits.BATCH_MESSAGE_BYTES_MAX // 2 + 1)
    room.store.runs = [row(1, memo), row(2, memo)]

    first = await list_workflows(room.frontend, ALL, 100, b"")
    second = await list_workflows(room.frontend, ALL, 100, first.next_page_token)

    assert [found.workflow_id for found in first.rows] == ["w2"]
    assert [found.workflow_id for found in second.rows] == ["w1"]


@pytest.mark.parametrize(
    "other",
    [
        VisibilityFilter(OTHER_NAMESPACE_ID),
        VisibilityFilter(NAMESPACE_ID, statuses=(1,)),
        VisibilityFilter(NAMESPACE_ID, workflow_type="T"),
    ],
)
async def test_b20_a_page_token_belongs_to_its_filter_and_namespace(
    other: VisibilityFilter,
) -> None:
    room = Room()
    room.store.runs = [row(1), row(2)]
    token = (await list_workflows(room.frontend, ALL, 1, b"")).next_page_token

    with pytest.raises(Rejected) as caught:
        await list_workflows(room.frontend, other, 1, token)

    assert (caught.value.code, caught.value.field) == (Code.INVALID_ARGUMENT, "page_token")
    assert len(room.store.lists) == 1


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"statuses": (1, 99)}, "filter.statuses[1]"),
        ({"statuses": (0,)}, "filter.statuses[0]"),
        ({"workflow_type": "a\0"}, "filter.workflow_type"),
        ({"workflow_id_prefix": "a\u202e"}, "filter.workflow_id_prefix"),
        ({"workflow_id_prefix": "x" * 1_001}, "filter.workflow_id_prefix"),
        ({"start_min_us": -1}, "filter.start_time_min_us"),
        ({"start_max_us": -1}, "filter.start_time_max_us"),
        ({"start_min_us": 2**62}, "filter.start_time_min_us"),
        ({"start_max_us": 2**63 - 1}, "filter.start_time_max_us"),
    ],
)
async def test_bad_filters_do_not_reach_the_store(changes: dict[str, Any], field: str) -> None:
    room = Room()
    where = VisibilityFilter(NAMESPACE_ID, **changes)

    with pytest.raises(Rejected) as listed:
        await list_workflows(room.frontend, where, 0, b"")
    with pytest.raises(Rejected) as counted:
        await count_workflows(room.frontend, where)

    assert listed.value.field == counted.value.field == field
    assert not room.touched


async def test_b21_page_sizes() -> None:
    room = Room()
    await list_workflows(room.frontend, ALL, 0, b"")
    await list_workflows(room.frontend, ALL, 10**9, b"")
    with pytest.raises(Rejected) as caught:
        await list_workflows(room.frontend, ALL, -1, b"")

    assert caught.value.field == "page_size"
    assert [limit for _, _, limit in room.store.lists] == [101, 1_001]

"""Names, lines and rows of archived runs."""

from __future__ import annotations

import hashlib

import pytest
import zstandard
from tests.conformance.owner import COMPLETED, Run, listed_row

from perdure_engine.ports.archive import ArchiveCorrupt, Kind, Shelf
from perdure_engine.store.archive import names, rows
from perdure_engine.store.archive.lines import FRAME_BYTES, LineCompressor, LinesWriter, lines_of

NAMESPACE = bytes(range(16))


def noise(size: int) -> bytes:
    """Text that does not compress."""
    blocks = [hashlib.sha256(b"%d" % n).hexdigest().encode() for n in range(size // 64 + 1)]
    return b"".join(blocks)[:size]


def test_a_name_says_shard_and_all_that_is_in_the_object() -> None:
    """Not only the first and the last of them: what is left after a removal in part has the same two."""
    keys = [(bytes([n]) * 16, n) for n in (1, 2, 3)]
    name = names.object_name(12, names.digest_of(keys))

    assert name.startswith("00012-")
    assert names.shard_of_name(name) == 12
    assert name.startswith(names.shelf_prefix(Shelf(NAMESPACE, Kind.JOBS, 1, 12)))
    assert names.digest_of(reversed(keys)) == names.digest_of(keys)
    for other in (keys[::2], keys[:2], [*keys[:2], (keys[2][0], 4)]):
        assert names.digest_of(other) != names.digest_of(keys)


def test_folders_are_of_a_namespace_a_kind_and_a_day() -> None:
    day = names.day_of_folder("2026-11-29")

    assert day is not None
    folder = names.index_folder(NAMESPACE, Kind.WORKFLOWS, day)
    assert folder == "00010203-0405-0607-0809-0a0b0c0d0e0f/workflows/index/2026-11-29"
    assert names.data_folder(NAMESPACE, Kind.JOBS, 0).endswith("/jobs/1970-01-01")
    assert names.day_of_folder("lost+found") is None


def test_each_line_is_read_from_its_frame_and_all_from_the_whole() -> None:
    written = [b"%d " % number + noise(number * 1_000) + b"\n" for number in range(60)]
    writer = LinesWriter()
    for line in written[:40]:
        writer.add(line)
    large = LineCompressor()
    for part in (b"large ", noise(2 * FRAME_BYTES), b"\n"):
        large.write(part)
    writer.add_compressed(large.finish())
    for line in written[40:]:
        writer.add(line)
    content = writer.content()

    assert len(set(writer.frames)) > 3
    expected = [*written[:40], b"large " + noise(2 * FRAME_BYTES) + b"\n", *written[40:]]
    assert lines_of(content) == [line.rstrip(b"\n") for line in expected]
    for frame, line in zip(writer.frames, expected, strict=True):
        assert line.rstrip(b"\n") in lines_of(content[frame.offset : frame.offset + frame.size])
    assert zstandard.ZstdDecompressor().stream_reader(content, read_across_frames=True).read() == (
        b"".join(expected)
    ), "what everybody's tools read"


def test_what_was_cut_or_changed_is_corrupt() -> None:
    writer = LinesWriter()
    for number in range(100):
        writer.add(b"%d\n" % number + noise(1_000))
    content = writer.content()

    for bad in (content[:-1], content[1:], content + b"x", content[:500] + b"!" + content[501:]):
        with pytest.raises(ArchiveCorrupt):
            lines_of(bad)
    assert lines_of(b"") == []


def test_a_row_reads_back() -> None:
    row = listed_row(Run(3), COMPLETED)._replace(
        bucket=0, memo=b"\x00\xff", attrs='{"k": {"Region": "eu, \\"west\\""}}'
    )

    line = rows.encode(rows.run_row(row))

    assert b"\n" not in line
    assert rows.visibility_row(line, row.namespace_id, 3) == row
    bare = row._replace(memo=b"", attrs="{}")
    assert rows.visibility_row(rows.encode(rows.run_row(bare)), row.namespace_id, 3) == bare


def test_a_row_of_a_later_version_is_read_without_what_is_new() -> None:
    row = listed_row(Run(3), COMPLETED)._replace(bucket=0)
    line = rows.encode(rows.run_row(row))

    assert rows.visibility_row(line[:-1] + b',"new":[1]}', row.namespace_id, 3) == row


@pytest.mark.parametrize("line", [b"", b"[]", b"{}", b'{"workflow_id":1}', b"\xff"])
def test_a_row_that_does_not_read_back_is_corrupt(line: bytes) -> None:
    with pytest.raises(ArchiveCorrupt):
        rows.visibility_row(line, NAMESPACE, 1)


def test_a_run_is_read_with_its_events_as_they_are() -> None:
    row = listed_row(Run(3), COMPLETED)._replace(bucket=0)
    events = [b'{"event_id":1,"run_id":"x"}', b'{"event_id": 2}']
    listed = rows.encode(rows.run_row(row))
    line = b'{"workflow":' + listed + b',"events":[' + b",".join(events) + b"]}"

    assert rows.run_line_row(line, row.namespace_id, 3) == row
    assert rows.run_line(line, row).events == events

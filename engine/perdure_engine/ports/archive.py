"""The archive's door: runs that have left the tables, in object storage (engine/adr/0019).

A run is put there first and removed from the tables then. So it may be in both, and is never in neither; whoever looks
for one looks into the tables first. Nothing is ever changed there.
"""

from __future__ import annotations

import enum
from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple, Protocol

import msgspec

from perdure_engine.core.events import Event
from perdure_engine.core.jobs.replies import JobDescription
from perdure_engine.ports.jobs import JobFilter
from perdure_engine.ports.rows import VisibilityRow
from perdure_engine.ports.store import VisibilityFilter

DAY_US = 24 * 3600 * 1_000_000


class ArchiveError(Exception):
    """
    ArchiveError
    ├── ArchiveUnavailable    the object store did not do what it was asked to, or not in time: try again
    └── ArchiveCorrupt        what lies there is not what was put there
    """


class ArchiveUnavailable(ArchiveError):
    pass


class ArchiveCorrupt(ArchiveError):
    pass


class Kind(enum.Enum):
    """What an archived run is one of. The values are names of folders."""

    WORKFLOWS = "workflows"
    JOBS = "jobs"


class Shelf(NamedTuple):
    """Where runs of one kind lie that one shard has closed on one day."""

    namespace_id: bytes
    kind: Kind
    day: int  # UTC, since the epoch
    shard_id: int


class ArchivedRun(msgspec.Struct, frozen=True):
    """A workflow run: what lists showed of it, and its whole history, an event a text of JSON."""

    row: VisibilityRow
    events: list[bytes]


WHOLE = -1


class ArchivePlace(msgspec.Struct, frozen=True, array_like=True):
    """The last row of a page: the object that it is in, and its index there; WHOLE: the page ends with the object."""

    day: int
    name: str
    index: int


class ArchivedRuns(msgspec.Struct, frozen=True):
    """A page of a list, each row with its place. `end`: where to go on; None: there is no more.

    A page may have no rows and yet an end: it looks into so many objects and no more.
    """

    rows: list[tuple[VisibilityRow, ArchivePlace]]
    end: ArchivePlace | None


class ArchivedJob(msgspec.Struct, frozen=True):
    """A job run, or what lists show of it, as JSON of the contract: JobDetails, or JobInfo."""

    text: bytes


class ArchivedJobFilter(msgspec.Struct, frozen=True):
    """As ListJobs has it. `failure_type` "": any."""

    where: JobFilter
    failure_type: str = ""


class ArchivedJobs(msgspec.Struct, frozen=True):
    """As `ArchivedRuns`."""

    rows: list[tuple[ArchivedJob, ArchivePlace]]
    end: ArchivePlace | None


class Parcel(Protocol):
    """Runs of one shelf on their way into the archive."""

    @property
    def full(self) -> bool:
        """It had better be put before more is added."""
        ...

    async def add_run(self, row: VisibilityRow, pages: AsyncIterator[Sequence[Event]]) -> None:
        """Whatever `pages` raises is raised, and the run is then not in the parcel."""
        ...

    def add_job(self, job: JobDescription) -> None: ...

    async def put(self) -> int:
        """All of it, or as if nothing: what was put of a parcel that fails is not seen, and replaced when the same
        runs are put again. Returns the bytes written. Raises ArchiveUnavailable.
        """
        ...


class Archive(Protocol):
    """Every method raises ArchiveUnavailable, every one that reads ArchiveCorrupt too."""

    async def written(self, shelf: Shelf) -> set[tuple[bytes, int]]:
        """The runs that lie there, as id and close (µs)."""
        ...

    def parcel(self, shelf: Shelf) -> Parcel: ...

    async def find_run(
        self, namespace_id: bytes, shard_id: int, workflow_id: str, run_id: bytes
    ) -> ArchivedRun | None:
        """`run_id` b"": the run of the workflow id that closed last."""
        ...

    async def list_runs(
        self, where: VisibilityFilter, past: ArchivePlace | None, limit: int
    ) -> ArchivedRuns:
        """By the day of their close, the newest first; within a day in an order that stays the same."""
        ...

    async def find_job(
        self, namespace_id: bytes, shard_id: int, job_id: bytes
    ) -> ArchivedJob | None:
        """Its JobDetails."""
        ...

    async def list_jobs(
        self, where: ArchivedJobFilter, past: ArchivePlace | None, limit: int
    ) -> ArchivedJobs:
        """Their JobInfos, in the order of `list_runs`."""
        ...


class ArchiveForm(Protocol):
    """What archived runs look like: the contract's own JSON, which the transport knows."""

    def event(self, event: Event) -> bytes:
        """As `perdure workflow show -o json` prints it."""
        ...

    def job(self, job: JobDescription) -> tuple[bytes, bytes]:
        """Its JobInfo and its JobDetails."""
        ...

"""Ended jobs on their way into the archive: all that is kept of them."""

from __future__ import annotations

from perdure_engine.core.jobs.decide.describe import info_of
from perdure_engine.core.jobs.replies import JobDescription
from perdure_engine.history.jobs.removing import LeavingJob
from perdure_engine.history.jobs.rows import job_of_row
from perdure_engine.history.shard import Shard
from perdure_engine.ports.archive import Kind, Parcel
from perdure_engine.ports.codec import CorruptRow


class ClosedJobs:
    """Implements history.archiving.Goods, of one shard."""

    kind = Kind.JOBS

    def __init__(self, shard: Shard) -> None:
        self._shard = shard

    def key(self, item: LeavingJob) -> tuple[bytes, int]:
        return item.job_id, item.closed_us

    def size(self, item: LeavingJob) -> int:
        return item.row_bytes

    async def fill(self, parcel: Parcel, items: list[LeavingJob]) -> list[LeavingJob]:
        shard = self._shard
        job_ids = [job.job_id for job in items]
        rows = await shard.rooms.store.load_jobs(shard.shard_id, job_ids)
        found = {(row.job_id, row.closed_us): row for row in rows}
        inside: list[LeavingJob] = []
        for job in items:
            row = found.get(self.key(job))
            if row is None:
                continue  # it has begun anew meanwhile
            try:
                run = job_of_row(row, shard.rooms.codec)
            except CorruptRow as error:  # it stays where somebody can look at it
                shard.rooms.alarm("job_not_archived", job_id=job.job_id.hex(), error=str(error))
            else:
                parcel.add_job(JobDescription(info_of(run), run.result))
                inside.append(job)
        return inside

    async def remove(self, items: list[LeavingJob]) -> bool:
        removing = self._shard.jobs.removing
        for job in items:
            removing.add(job)
        return await removing.wait_idle()

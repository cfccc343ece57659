"""JobService: jobs, one or thousands, and what becomes of them."""

from __future__ import annotations

from perdure_api.v1 import job_service_pb2 as pb
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.frontend.handlers.cancel_job import cancel_job
from perdure_engine.frontend.handlers.count_jobs import count_jobs
from perdure_engine.frontend.handlers.create_jobs import create_jobs
from perdure_engine.frontend.handlers.get_job import get_job
from perdure_engine.frontend.handlers.get_job_batch import get_job_batch
from perdure_engine.frontend.handlers.get_job_results import GetJobResults, get_job_results
from perdure_engine.frontend.handlers.list_jobs import list_archived_jobs, list_jobs
from perdure_engine.frontend.handlers.redrive_jobs import redrive_jobs
from perdure_engine.frontend.handlers.reschedule_job import reschedule_job
from perdure_engine.frontend.handlers.resume_job import resume_job
from perdure_engine.frontend.handlers.set_queue_limit import SetQueueLimit, set_queue_limit
from perdure_engine.transport.grpc.convert import archived, job_intents, job_replies
from perdure_engine.transport.grpc.decode import Context
from perdure_engine.transport.grpc.errors import Errors


class JobService:
    """One function per RPC, by its name: message in, message out, errors raised."""

    def __init__(self, frontend: Frontend, errors: Errors) -> None:
        self._frontend = frontend
        self._errors = errors

    async def CreateJobs(self, request: pb.CreateJobsRequest, _: Context) -> pb.CreateJobsResponse:
        namespace_id = await self._frontend.namespaces.id_of(request.namespace)
        call = job_intents.create_jobs(request, namespace_id)
        return job_replies.created(await create_jobs(self._frontend, call), self._errors)

    async def GetJob(self, request: pb.GetJobRequest, _: Context) -> pb.GetJobResponse:
        namespace_id = await self._frontend.namespaces.id_of(request.namespace)
        described = await get_job(self._frontend, namespace_id, request.job_id)
        now_us = self._frontend.db_now_us()
        return pb.GetJobResponse(job=archived.job_details(described, now_us))

    async def ListJobs(self, request: pb.ListJobsRequest, _: Context) -> pb.ListJobsResponse:
        namespace_id = await self._frontend.namespaces.id_of(request.namespace)
        asked = job_intents.list_jobs(request, namespace_id)
        if asked.archived:
            found = await list_archived_jobs(self._frontend, asked)
            jobs = archived.job_infos(found.jobs)
            return pb.ListJobsResponse(jobs=jobs, next_page_token=found.next_page_token)
        page = await list_jobs(self._frontend, asked)
        now_us = self._frontend.db_now_us()
        return pb.ListJobsResponse(
            jobs=[job_replies.info_fields(one, now_us) for one in page.jobs],
            next_page_token=page.next_page_token,
        )

    async def CountJobs(self, request: pb.CountJobsRequest, _: Context) -> pb.CountJobsResponse:
        namespace_id = await self._frontend.namespaces.id_of(request.namespace)
        where = job_intents.filter_of(request.filter, namespace_id)
        counts = await count_jobs(self._frontend, where, request.filter.failure_type)
        return job_replies.counted(counts)

    async def GetJobResults(
        self, request: pb.GetJobResultsRequest, _: Context
    ) -> pb.GetJobResultsResponse:
        asked = GetJobResults(
            namespace_id=await self._frontend.namespaces.id_of(request.namespace),
            job_ids=request.job_ids,
            timeout_ms=request.timeout_ms,
        )
        ended = await get_job_results(self._frontend, asked)
        return job_replies.results(archived.job_result(one, self._errors) for one in ended)

    async def CancelJob(self, request: pb.CancelJobRequest, _: Context) -> pb.CancelJobResponse:
        namespace_id = await self._frontend.namespaces.id_of(request.namespace)
        status = await cancel_job(
            self._frontend,
            namespace_id,
            request.job_id,
            request.request_id,
            request.reason,
            request.identity,
        )
        return pb.CancelJobResponse(status=pb.JobStatus.ValueType(int(status)))

    async def RescheduleJob(
        self, request: pb.RescheduleJobRequest, _: Context
    ) -> pb.RescheduleJobResponse:
        namespace_id = await self._frontend.namespaces.id_of(request.namespace)
        await reschedule_job(
            self._frontend,
            namespace_id,
            request.job_id,
            request.request_id,
            request.due_time_us,
            request.identity,
        )
        return pb.RescheduleJobResponse()

    async def ResumeJob(self, request: pb.ResumeJobRequest, _: Context) -> pb.ResumeJobResponse:
        namespace_id = await self._frontend.namespaces.id_of(request.namespace)
        status = await resume_job(
            self._frontend,
            namespace_id,
            request.job_id,
            request.request_id,
            request.reason,
            request.identity,
        )
        return pb.ResumeJobResponse(status=pb.JobStatus.ValueType(int(status)))

    async def RedriveJobs(
        self, request: pb.RedriveJobsRequest, _: Context
    ) -> pb.RedriveJobsResponse:
        namespace_id = await self._frontend.namespaces.id_of(request.namespace)
        asked = job_intents.redrive_jobs(request, namespace_id)
        return pb.RedriveJobsResponse(count=await redrive_jobs(self._frontend, asked))

    async def GetJobBatch(
        self, request: pb.GetJobBatchRequest, _: Context
    ) -> pb.GetJobBatchResponse:
        namespace_id = await self._frontend.namespaces.id_of(request.namespace)
        batch = await get_job_batch(self._frontend, namespace_id, request.batch_id)
        return job_replies.batch_message(batch)

    async def SetQueueLimit(
        self, request: pb.SetQueueLimitRequest, _: Context
    ) -> pb.SetQueueLimitResponse:
        asked = SetQueueLimit(
            namespace_id=await self._frontend.namespaces.id_of(request.namespace),
            queue=request.task_queue,
            rate_per_s=request.rate_per_s,
            identity=request.identity,
            reason=request.reason,
        )
        await set_queue_limit(self._frontend, asked)
        return pb.SetQueueLimitResponse()

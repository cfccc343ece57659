"""The calls of WorkflowService that are about one activity: its outcome from outside, and its operation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perdure_api.v1 import workflow_service_pb2 as pb
from perdure_engine.core.intents import ReportActivity
from perdure_engine.core.jobs.intents import SaveJobProgress
from perdure_engine.core.replies import ActivityHeard, Reply
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.frontend.handlers.pause_activity import pause_activity
from perdure_engine.frontend.handlers.report_activity import (
    report_by_ids,
    report_by_token,
    save_job_progress,
)
from perdure_engine.frontend.handlers.reset_activity import reset_activity
from perdure_engine.frontend.handlers.unpause_activity import unpause_activity
from perdure_engine.frontend.handlers.update_activity_options import update_activity_options
from perdure_engine.transport.grpc.convert import activity_intents as convert
from perdure_engine.transport.grpc.decode import Context


class ActivityCalls:
    """One function per RPC, by its name: message in, message out, errors raised."""

    _frontend: Frontend

    async def CompleteActivity(
        self, request: pb.CompleteActivityRequest, _: Context
    ) -> pb.CompleteActivityResponse:
        await self._report(request)
        return pb.CompleteActivityResponse()

    async def FailActivity(
        self, request: pb.FailActivityRequest, _: Context
    ) -> pb.FailActivityResponse:
        await self._report(request)
        return pb.FailActivityResponse()

    async def CancelActivity(
        self, request: pb.CancelActivityRequest, _: Context
    ) -> pb.CancelActivityResponse:
        await self._report(request)
        return pb.CancelActivityResponse()

    async def HeartbeatActivity(
        self, request: pb.HeartbeatActivityRequest, _: Context
    ) -> pb.HeartbeatActivityResponse:
        heard = await self._report(request)
        if heard is None:  # of a job: its worker hears of a cancellation by its heartbeats
            return pb.HeartbeatActivityResponse()
        assert isinstance(heard, ActivityHeard)
        return pb.HeartbeatActivityResponse(
            cancel_requested=heard.cancel_requested,
            activity_paused=heard.paused,
            activity_reset=heard.reset,
        )

    async def PauseActivity(
        self, request: pb.PauseActivityRequest, _: Context
    ) -> pb.PauseActivityResponse:
        await self._operate(request, convert.pause_activity, pause_activity)
        return pb.PauseActivityResponse()

    async def UnpauseActivity(
        self, request: pb.UnpauseActivityRequest, _: Context
    ) -> pb.UnpauseActivityResponse:
        await self._operate(request, convert.unpause_activity, unpause_activity)
        return pb.UnpauseActivityResponse()

    async def ResetActivity(
        self, request: pb.ResetActivityRequest, _: Context
    ) -> pb.ResetActivityResponse:
        await self._operate(request, convert.reset_activity, reset_activity)
        return pb.ResetActivityResponse()

    async def UpdateActivityOptions(
        self, request: pb.UpdateActivityOptionsRequest, _: Context
    ) -> pb.UpdateActivityOptionsResponse:
        await self._operate(request, convert.update_activity_options, update_activity_options)
        return pb.UpdateActivityOptionsResponse()

    async def _report(self, request: Any) -> Reply | None:
        namespace_id = await self._frontend.namespaces.id_of(request.namespace)
        report = convert.report_of(request, self._frontend.sealer, namespace_id)
        if isinstance(report, ReportActivity):
            return await report_by_ids(self._frontend, report)
        if isinstance(report, SaveJobProgress):
            await save_job_progress(self._frontend, report)
            return None
        return await report_by_token(self._frontend, report)

    async def _operate(
        self,
        request: Any,
        intent_of: Callable[[Any, bytes], Any],
        submit: Callable[[Frontend, Any], Any],
    ) -> None:
        namespace_id = await self._frontend.namespaces.id_of(request.namespace)
        await submit(self._frontend, intent_of(request, namespace_id))

"""`perdure version`: which build of the workers gets which runs; alone, the version of Perdure."""

from __future__ import annotations

import platform
from datetime import UTC, datetime, timedelta
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perdure.cli.durations import parse_duration
from perdure.cli.errors import UsageError
from perdure.cli.jsonable import to_jsonable
from perdure.cli.output import Output, shown_instant
from perdure.cli.parameters import AuditReason, RunId, WorkflowId
from perdure.cli.session import Session, connected
from perdure.cli.settings import OutputFormat

if TYPE_CHECKING:
    from perdure._versioning import VersioningOverride, WorkerDeploymentVersion
    from perdure.client import WorkerDeployment, WorkerVersion

app = typer.Typer(
    name="version",
    help="Show Perdure's own version, or roll out versions of workers.",
    invoke_without_command=True,
)

VersionName = Annotated[
    str,
    typer.Argument(metavar="DEPLOYMENT.BUILD", help="Deployment and build id.", show_default=False),
]
Target = Annotated[
    str,
    typer.Argument(
        metavar="DEPLOYMENT[.BUILD]",
        help="Deployment and build id; the deployment alone with --unversioned or --end.",
        show_default=False,
    ),
]
IgnoreMissing = Annotated[
    bool,
    typer.Option(
        "--ignore-missing-task-queues",
        help="Although it does not poll a queue that the current version does.",
    ),
]
AllowNoPollers = Annotated[
    bool, typer.Option("--allow-no-pollers", help="Although no worker of it was ever seen.")
]


@app.callback()
def own_version(
    context: typer.Context,
    output: Annotated[
        OutputFormat, typer.Option("--output", "-o", help="How it is printed.")
    ] = OutputFormat.TABLE,
) -> None:
    """Show the versions of Perdure and of Python; or roll out versions of workers."""
    if context.invoked_subcommand is not None:
        return
    found = {"perdure": perdure_version(), "python": platform.python_version()}
    if output is OutputFormat.JSON:
        Output(output, color=False).document(found)
    else:
        print(f"perdure {found['perdure']} (Python {found['python']})")


def perdure_version() -> str:
    try:
        return installed_version("perdure")
    except PackageNotFoundError:
        return "unknown"  # run from a checkout that is not installed


@connected(app, "list")
async def list_(session: Session) -> None:
    """List the versions of all deployments, and how many open runs each has."""
    client = await session.connect()
    found = await client.operator.list_worker_deployments(rpc_timeout=session.call_timeout)
    if session.out.is_json:
        for one in found:
            session.out.json_line(_plain(one))
        return
    rows = [_row(one, version) for one in found for version in one.versions]
    session.out.table(("VERSION", "STATUS", "SHARE", "PINNED", "UPGRADING", "TASK QUEUES"), rows)


@connected(app, "describe")
async def describe(
    session: Session,
    deployment: Annotated[str, typer.Argument(help="Its name.", show_default=False)],
) -> None:
    """Show one deployment: its routing, and each of its versions."""
    client = await session.connect()
    found = await client.operator.describe_worker_deployment(
        deployment, rpc_timeout=session.call_timeout
    )
    _print_deployment(session, found)


@connected(app, "reachability")
async def reachability(session: Session, version: VersionName) -> None:
    """Show what still needs a version, and when it may be retired."""
    wanted = _version(version)
    client = await session.connect()
    found = await client.operator.worker_version_reachability(
        wanted, rpc_timeout=session.call_timeout
    )
    if session.out.is_json:
        session.out.document(_plain(found))
        return
    retirable = found.retirable_time
    session.out.fields(
        {
            "version": version,
            "status": found.version.status.name,
            "open runs pinned to it": found.version.pinned_runs,
            "open runs that ran on it last": found.version.upgrading_runs,
            "may get new runs": "yes" if found.new_runs else "no",
            "may be retired": "no" if retirable is None else _since(retirable),
        }
    )


@connected(app, "set-current")
async def set_current(
    session: Session,
    version: Target,
    unversioned: Annotated[
        bool, typer.Option("--unversioned", help="Workers that name no version.")
    ] = False,
    ignore_missing_task_queues: IgnoreMissing = False,
    allow_no_pollers: AllowNoPollers = False,
    reason: AuditReason = "",
) -> None:
    """Send new runs, and those that upgrade by themselves, to this version from now on."""
    name, build_id = _target(version, "--unversioned", unversioned)
    client = await session.connect()
    found = await client.operator.set_current_worker_version(
        name,
        build_id,
        ignore_missing_task_queues=ignore_missing_task_queues,
        allow_no_pollers=allow_no_pollers,
        reason=reason,
        rpc_timeout=session.call_timeout,
    )
    _print_deployment(session, found)


@connected(app, "ramp")
async def ramp(
    session: Session,
    version: Target,
    percentage: Annotated[
        float | None, typer.Argument(help="0 to 100.", show_default=False)
    ] = None,
    end: Annotated[bool, typer.Option("--end", help="No version ramps any more.")] = False,
    ignore_missing_task_queues: IgnoreMissing = False,
    allow_no_pollers: AllowNoPollers = False,
    reason: AuditReason = "",
) -> None:
    """Send a share of them to this version; each run stays on its side."""
    name, build_id = _target(version, "--end", end)
    if (percentage is None) != end:
        raise UsageError("give a percentage, or --end")
    client = await session.connect()
    found = await client.operator.set_ramping_worker_version(
        name,
        build_id,
        percentage or 0,
        ignore_missing_task_queues=ignore_missing_task_queues,
        allow_no_pollers=allow_no_pollers,
        reason=reason,
        rpc_timeout=session.call_timeout,
    )
    _print_deployment(session, found)


@connected(app, "retire")
async def retire(
    session: Session,
    version: VersionName,
    grace: Annotated[
        str | None,
        typer.Option(
            help="How long its last run must have closed before; 24h unless given.",
            metavar="DURATION",
        ),
    ] = None,
    reason: AuditReason = "",
) -> None:
    """Retire a version that nothing needs any more: its workers get no more tasks."""
    wanted = _version(version)
    wait = None if grace is None else _grace(grace)
    client = await session.connect()
    found = await client.operator.retire_worker_version(
        wanted, grace=wait, reason=reason, rpc_timeout=session.call_timeout
    )
    if session.out.is_json:
        session.out.document(_plain(found))
    else:
        session.out.line(f"{version} is retired.")


@connected(app, "override")
async def override(
    session: Session,
    workflow_id: WorkflowId,
    version: Annotated[
        str | None,
        typer.Argument(metavar="DEPLOYMENT.BUILD", help="Pins it to this.", show_default=False),
    ] = None,
    auto_upgrade: Annotated[
        bool, typer.Option("--auto-upgrade", help="It follows the current version.")
    ] = False,
    unset: Annotated[bool, typer.Option("--unset", help="As its code says.")] = False,
    run_id: RunId = None,
    reason: AuditReason = "",
) -> None:
    """Move one open run: to a version, to the current one, or back to what its code says."""
    from perdure.common import AutoUpgradeVersioningOverride, PinnedVersioningOverride

    if (version is not None) + auto_upgrade + unset != 1:
        raise UsageError("give a version, --auto-upgrade or --unset")
    wanted: VersioningOverride | None = None
    if version is not None:
        wanted = PinnedVersioningOverride(_version(version))
    elif auto_upgrade:
        wanted = AutoUpgradeVersioningOverride()
    client = await session.connect()
    await client.operator.update_workflow_versioning_override(
        workflow_id, wanted, run_id=run_id, reason=reason, rpc_timeout=session.call_timeout
    )


def _since(retirable: datetime) -> str:
    return "yes" if retirable <= datetime.now(UTC) else f"from {shown_instant(retirable)}"


def _version(text: str) -> WorkerDeploymentVersion:
    from perdure.common import WorkerDeploymentVersion

    try:
        return WorkerDeploymentVersion.from_canonical_string(text)
    except ValueError:
        raise UsageError(f"not a version (DEPLOYMENT.BUILD): {text!r}") from None


def _target(text: str, flag: str, is_set: bool) -> tuple[str, str | None]:
    """Deployment and build id; None when the flag says that there is none."""
    if not is_set:
        version = _version(text)
        return version.deployment_name, version.build_id
    if "." in text:
        raise UsageError(f"with {flag} give the deployment alone")
    return text, None


def _grace(text: str) -> timedelta:
    return timedelta(0) if text in ("0", "0s") else parse_duration(text)


def _row(deployment: WorkerDeployment, found: WorkerVersion) -> tuple[Any, ...]:
    return (
        found.version.to_canonical_string(),
        found.status.name,
        _share(deployment, found.version.build_id),
        found.pinned_runs,
        found.upgrading_runs,
        ", ".join(found.task_queues),
    )


def _share(deployment: WorkerDeployment, build_id: str) -> str:
    """Of what is routed: new runs, and those that upgrade."""
    ramping = deployment.ramping_percentage if deployment.ramping_build_id else 0
    if build_id == deployment.ramping_build_id:
        return f"{ramping:g} %"
    return f"{100 - ramping:g} %" if build_id == deployment.current_build_id else "-"


def _print_deployment(session: Session, found: WorkerDeployment) -> None:
    if session.out.is_json:
        session.out.document(_plain(found))
        return
    facts: dict[str, Any] = {
        "deployment": found.name,
        "current": found.current_build_id or "(workers without a version)",
    }
    if found.ramping_build_id:
        facts["ramping"] = f"{found.ramping_build_id}, {found.ramping_percentage:g} %"
    for one in found.versions:
        facts[f"version {one.version.build_id}"] = (
            f"{one.status.name}, {one.pinned_runs} pinned, {one.upgrading_runs} upgrading"
        )
    session.out.fields(facts)


def _plain(found: Any) -> Any:
    return to_jsonable(found, lambda payload: payload)

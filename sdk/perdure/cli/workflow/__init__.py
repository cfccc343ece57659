"""`perdure workflow`: starting, listing, looking at one, acting on one."""

from perdure.cli.workflow import acting, listing, looking, starting, updating
from perdure.cli.workflow.group import app

__all__ = ["acting", "app", "listing", "looking", "starting", "updating"]

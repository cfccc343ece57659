"""`perdure workflow`: starting, listing, looking at one, acting on one."""

from perdure.cli.workflow import acting, listing, looking, operating, starting, updating
from perdure.cli.workflow.group import app

__all__ = ["acting", "app", "listing", "looking", "operating", "starting", "updating"]

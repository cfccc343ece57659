"""`perdure job`: making jobs, listing, looking at one, acting on one or many."""

from perdure.cli.job import acting, creating, listing, looking
from perdure.cli.job.group import app

__all__ = ["acting", "app", "creating", "listing", "looking"]

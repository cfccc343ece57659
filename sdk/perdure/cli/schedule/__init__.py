"""`perdure schedule`: when it fires, making one, looking at it, acting on it."""

from perdure.cli.schedule import acting, defining, looking, previewing
from perdure.cli.schedule.group import app

__all__ = ["acting", "app", "defining", "looking", "previewing"]

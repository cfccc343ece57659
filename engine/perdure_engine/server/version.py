"""Which Perdure this is."""

from __future__ import annotations

import importlib.metadata


def perdure_version() -> str:
    try:
        return importlib.metadata.version("perdure")
    except importlib.metadata.PackageNotFoundError:
        return "from source"  # a checkout on the path, not installed

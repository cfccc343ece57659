"""From an archive's address to what holds it."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from perdure_engine.store.archive.folder import FolderObjects
from perdure_engine.store.archive.objects import Objects


def is_address(url: str) -> bool:
    """file:///folder or s3://bucket/prefix. What is written in it but a path may be a secret: it has none."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    if parts.query or parts.fragment or "@" in parts.netloc:
        return False
    if parts.scheme == "file":
        return not parts.netloc and len(parts.path) > 1
    return parts.scheme == "s3" and bool(parts.netloc)


def objects_at(url: str) -> Objects:
    """Raises ModuleNotFoundError when the address needs the extra `s3`."""
    parts = urlsplit(url)
    if parts.scheme == "file":
        return FolderObjects(Path(unquote(parts.path)))
    from perdure_engine.store.archive.bucket import BucketObjects

    return BucketObjects(url)

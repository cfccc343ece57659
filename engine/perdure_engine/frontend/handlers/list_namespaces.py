"""ListNamespaces: all of them, by name."""

from __future__ import annotations

from perdure_engine.frontend.frontend import Frontend
from perdure_engine.ports.store import NamespaceRow


async def list_namespaces(frontend: Frontend) -> list[NamespaceRow]:
    return await frontend.namespaces.list()

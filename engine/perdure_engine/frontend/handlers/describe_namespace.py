"""DescribeNamespace: as the store has it now, with the token that an update needs."""

from __future__ import annotations

from perdure_engine.frontend.frontend import Frontend
from perdure_engine.ports.store import NamespaceRow


async def describe_namespace(frontend: Frontend, name: str) -> NamespaceRow:
    return await frontend.namespaces.describe(name)

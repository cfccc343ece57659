"""What a plug-in may change of a client that is just being connected."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypedDict

from perdure._client.interceptors import Interceptor
from perdure._wire.connection import Connection
from perdure.common import QueryRejectCondition
from perdure.converter import DataConverter

ServiceClient = Connection
"""A connection to an engine, of no namespace yet."""


class ClientConfig(TypedDict):
    """What a client is made of: the arguments of `Client`."""

    service_client: ServiceClient
    namespace: str
    identity: str | None
    data_converter: DataConverter
    interceptors: Sequence[Interceptor]
    plugins: Sequence[Plugin]
    default_workflow_query_reject_condition: QueryRejectCondition | None


@dataclass
class ConnectConfig:
    """What a connection is made of."""

    target_host: str
    lazy: bool = False


class Plugin:
    """Of a client; override what is of interest. One that is a `perdure.worker.Plugin` too is used
    by every worker of that client. Use `perdure.plugin.SimplePlugin` for what it can do."""

    def name(self) -> str:
        """For people."""
        return f"{type(self).__module__}.{type(self).__qualname__}"

    def configure_client(self, config: ClientConfig) -> ClientConfig:
        """Returns what the client is to be made of; called in the order of the plug-ins."""
        return config

    async def connect_service_client(
        self,
        config: ConnectConfig,
        next: Callable[[ConnectConfig], Awaitable[ServiceClient]],
    ) -> ServiceClient:
        """Connects, by `next`; the first plug-in is the outermost."""
        return await next(config)


def connected_by(
    plugins: Sequence[Plugin], connect: Callable[[ConnectConfig], Awaitable[ServiceClient]]
) -> Callable[[ConnectConfig], Awaitable[ServiceClient]]:
    """`connect`, inside of all plug-ins."""

    def inside(
        plugin: Plugin, next: Callable[[ConnectConfig], Awaitable[ServiceClient]]
    ) -> Callable[[ConnectConfig], Awaitable[ServiceClient]]:
        return lambda config: plugin.connect_service_client(config, next)

    for plugin in reversed(plugins):
        connect = inside(plugin, connect)
    return connect

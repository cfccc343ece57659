"""`perdure dev`: an embedded PostgreSQL and all rooms in one process, on loopback.

The data folder holds

    postgres/    the embedded PostgreSQL's own folder; its lock keeps a second `perdure dev` out
    nodes        ids of nodes that ran here and may not have given their leases back
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from perdure_engine.server import running, schema
from perdure_engine.server.config import LOOPBACK, Config
from perdure_engine.server.embedded import EmbeddedPostgres, EmbeddedPostgresError
from perdure_engine.server.errors import StartError
from perdure_engine.server.node import Node
"""rest"""

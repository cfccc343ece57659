"""host:port, and which of them is free."""

from __future__ import annotations

import socket

EVERYWHERE = frozenset({"", "0.0.0.0", "::"})
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


def join(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def reachable(host: str, port: int) -> str:
    """Where others find a listener on `host`: by this machine's name if it listens everywhere."""
    return join(socket.gethostname() if host in EVERYWHERE else host, port)


def free_port(host: str) -> int:
    """A port that nobody listens on. It is not kept: who takes it meanwhile is found at the bind."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port


def allowed_hosts(setting: str, host: str) -> frozenset[str]:
    """What `http.allowed_hosts` says of a listener on `host`: names as a Host header has them. Empty: any."""
    if setting.strip() == "*" or (not setting.strip() and host not in LOOPBACK_NAMES):
        return frozenset()
    names = [name.strip() for name in setting.split(",") if name.strip()] or LOOPBACK_NAMES
    return frozenset(f"[{name}]" if ":" in name and name[0] != "[" else name for name in names)

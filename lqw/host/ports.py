"""Ports: a free one, and the proof that who answers on it is who was started."""

from __future__ import annotations

import contextlib
import socket

import psutil

__all__ = ["free_port", "owns_listener", "port_taken"]

LOOPBACK = "127.0.0.1"


def free_port() -> int:
    """Return a port nobody listens on now; the engine may still lose a race for it and then fails to start."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def port_taken(port: int) -> bool:
    """Return whether somebody accepts connections on *port*: a stale server would be "ready" in milliseconds."""
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex((LOOPBACK, port)) == 0


def owns_listener(pid: int, port: int) -> bool:
    """Return whether *pid* or a descendant of it holds the listening socket of *port*."""
    try:
        root = psutil.Process(pid)
        family = [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return False
    for member in family:
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            for connection in member.net_connections(kind="tcp"):
                if connection.status == psutil.CONN_LISTEN and connection.laddr and connection.laddr.port == port:
                    return True
    return False

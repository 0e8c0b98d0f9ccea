"""Ports: a free one, and proof of who listens on it."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from lqw.host.supervise import note, tree

__all__ = ["free_port", "listening_inodes", "socket_owners", "who_listens", "wrong_listener"]

_LISTEN = "0A"


def free_port() -> int:
    """Return a port of 127.0.0.1 that nobody listens on, chosen by the kernel from its ephemeral range."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def listening_inodes(port: int) -> set[int]:
    """Return the inodes of *all* sockets that listen on *port*, IPv4 and IPv6.

    All of them: with ``SO_REUSEPORT`` two servers can share a port, and the kernel would deal requests to both.
    """
    found: set[int] = set()
    for table in ("tcp", "tcp6"):
        try:
            lines = Path("/proc/self/net", table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if fields[3] == _LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
                found.add(int(fields[9]))
    return found


def socket_owners(pid: int) -> set[int]:
    """Return the inodes of the sockets *pid* holds; empty when they may not be read."""
    folder = f"/proc/{pid}/fd"
    found: set[int] = set()
    try:
        entries = os.listdir(folder)  # noqa: PTH208 - half the cost of iterdir
    except OSError:
        return found
    for entry in entries:
        try:
            target = os.readlink(f"{folder}/{entry}")  # noqa: PTH115 - as above
        except OSError:
            continue
        if target.startswith("socket:["):
            found.add(int(target[8:-1]))
    return found


def who_listens(port: int) -> list[int]:
    """Return the pids, as far as they may be seen, that hold a listening socket of *port*."""
    inodes = listening_inodes(port)
    if not inodes:
        return []
    pids = (int(entry) for entry in os.listdir("/proc") if entry.isdigit())  # noqa: PTH208
    return sorted(pid for pid in pids if socket_owners(pid) & inodes)


def wrong_listener(port: int, pid: int) -> str | None:
    """Return why the listener of *port* is not the process tree of *pid* alone; None when it is.

    A server left over from a killed run answers "ready" in milliseconds; its numbers would be another binary's.
    """
    inodes = listening_inodes(port)
    if not inodes:
        return f"nobody listens on port {port}"
    owned = socket_owners(pid)
    if inodes <= owned:
        return None
    for member in tree(pid):
        owned |= socket_owners(member)
    foreign = inodes - owned
    if not foreign:
        return None
    others = [str(note(each)) for each in who_listens(port) if socket_owners(each) & foreign]
    return f"port {port} is served by {', '.join(others) or 'a process this user cannot see'}, not by pid {pid}"

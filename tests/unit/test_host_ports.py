"""Ports: who answers is who was started."""

import os
import socket
import subprocess
import sys

import pytest

from lqw.host.ports import free_port, listening_inodes, who_listens, wrong_listener

SERVE = """
import socket, sys, time
s = socket.socket(socket.AF_INET6 if sys.argv[2] == "6" else socket.AF_INET)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
s.bind(("::1" if sys.argv[2] == "6" else "127.0.0.1", int(sys.argv[1]))); s.listen()
print("up", flush=True); time.sleep(60)
"""


@pytest.fixture
def serve():
    servers = []

    def run(port, family="4"):
        server = subprocess.Popen([sys.executable, "-c", SERVE, str(port), family], stdout=subprocess.PIPE)
        servers.append(server)
        assert server.stdout.readline() == b"up\n"
        return server.pid

    yield run
    for server in servers:
        server.kill()
        server.wait()
        server.stdout.close()


def test_a_free_port_can_be_listened_on_and_nobody_does():
    port = free_port()
    assert listening_inodes(port) == set()
    assert who_listens(port) == []
    with socket.create_server(("127.0.0.1", port)):
        assert who_listens(port) == [os.getpid()]


def test_a_connected_socket_is_no_listener():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            assert len(listening_inodes(port)) == 1


@pytest.mark.parametrize("family", ["4", "6"])
def test_the_process_that_was_started_is_the_right_listener(serve, family):
    port = free_port()
    pid = serve(port, family)
    assert wrong_listener(port, pid) is None
    assert wrong_listener(port, os.getpid()) is None  # our child: a part of our tree


def test_nobody_listens():
    assert wrong_listener(free_port(), os.getpid()).startswith("nobody listens on port ")


def test_a_stale_server_is_named(serve):
    port = free_port()
    stale, other = serve(port), serve(free_port())
    assert f"served by pid {stale} python" in wrong_listener(port, other)


def test_two_servers_that_share_a_port_are_not_one(serve):
    port = free_port()
    ours, stale = serve(port), serve(port)
    problem = wrong_listener(port, ours)
    assert f"pid {stale} " in problem
    assert problem.endswith(f"not by pid {ours}")

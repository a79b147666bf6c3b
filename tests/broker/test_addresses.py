"""Hosts with two addresses: the second one is tried after any failure of the first."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import faults
from klamm.testing import DevBroker

SOURCE = Path(__file__).resolve().parents[1] / "support" / "addresses.c"
# As long as the address that the dev broker advertises, which a proxy replaces.
HOST = "kafka.tst"

# Sends a record, reads it, and asks the cluster. The library has to be loaded before the program starts.
PROGRAM = """
import sys, klamm
servers, config = sys.argv[1], eval(sys.argv[2])
with klamm.Producer(servers, **config) as producer:
    print(producer.send("t", b"v").result(20).offset)
with klamm.Consumer(servers, **config) as consumer:
    consumer.assign([klamm.TopicPartition("t", 0, 0)])
    print(len(consumer.poll(timeout=20)))
with klamm.Admin(servers, **config) as admin:
    print(admin.list_topics(timeout=20))
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    if sys.platform != "linux" or not shutil.which("cc"):
        pytest.skip("the host is a library for Linux, made by a C compiler")
    path = tmp_path_factory.mktemp("addresses") / "addresses.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", path, SOURCE, "-ldl"], check=True)
    return path


def run(library, servers, **config):
    config = {"socket_connection_setup_timeout_ms": 1_000, **config}
    environment = os.environ | {"LD_PRELOAD": str(library)}
    command = [sys.executable, "-c", PROGRAM, servers, repr(config)]
    done = subprocess.run(command, check=False, env=environment, capture_output=True, text=True, timeout=100)
    return done.stdout.split("\n"), done.stderr


class First:
    """The first address of the host, on the port of the broker."""

    def __init__(self, fault, port):
        self._held = []
        if fault == "refuses":
            return
        self._held.append(socket.create_server(("127.0.0.2", port), backlog=0 if fault == "drops" else 64))
        if fault == "drops":
            # The queue of the listener is full, so the kernel drops further connection attempts.
            for _ in range(4):
                self._held.append(socket.socket())
                self._held[-1].setblocking(False)
                self._held[-1].connect_ex(("127.0.0.2", port))
            return
        threading.Thread(target=self._accept, args=(fault,), daemon=True).start()

    def _accept(self, fault):
        try:
            while True:
                connection, _ = self._held[0].accept()
                if fault == "silent":
                    self._held.append(connection)
                    continue
                if fault == "garbage":
                    connection.recv(100)
                    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                connection.close()
        except OSError:
            return

    def close(self):
        for each in self._held:
            each.close()


@pytest.mark.parametrize("fault", ["refuses", "hangs up", "silent", "garbage", "drops"])
@pytest.mark.parametrize("tls", [False, True], ids=["plain", "TLS"])
def test_the_second_address_is_tried_after_any_failure_of_the_first(library, fault, tls):
    def advertise(data):
        return data if tls else data.replace(b"127.0.0.1", HOST.encode())

    with DevBroker(tls=tls) as broker, faults.Proxy(broker.bootstrap_servers, advertise) as proxy:
        port = int(broker.bootstrap_servers.rsplit(":", 1)[1]) if tls else proxy.port
        first = First(fault, port)
        config = {"security_protocol": "SSL", "ssl_ca_location": broker.ca_location} if tls else {}
        if tls:
            config["ssl_endpoint_identification_algorithm"] = "none"  # the certificate is for localhost
        output, errors = run(library, f"{HOST}:{port}", **config)
        first.close()
    assert output[:2] == ["0", "1"], errors
    assert "Traceback" not in errors


def test_an_error_names_the_address_that_failed(library):
    with faults.closed_port() as address:
        port = address.rsplit(":", 1)[1]
        _, errors = run(library, f"{HOST}:{port}", delivery_timeout_ms=1_000)
    assert f"127.0.0.1:{port}" in errors or f"127.0.0.2:{port}" in errors
    assert f"{HOST}:{port}" in errors

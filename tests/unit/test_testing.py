"""`klamm.testing`: the broker in the process and its fixture."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

import klamm
from klamm.errors import ConfigError
from klamm.testing import DevBroker


def test_the_fixture_is_a_running_broker(klamm_broker):
    with klamm.Producer(klamm_broker.bootstrap_servers) as producer:
        assert producer.send("t", b"v").result(10).offset == 0


def test_a_broker_runs_from_start_to_stop():
    broker = DevBroker(brokers=2)
    assert broker.bootstrap_servers == ""
    assert repr(broker) == "<klamm.testing.DevBroker (not running)>"
    assert broker.start() is broker
    broker.start()
    addresses = broker.bootstrap_servers.split(",")
    assert len(addresses) == 2
    assert repr(broker) == f"<klamm.testing.DevBroker at {','.join(addresses)}>"
    broker.stop()
    broker.stop()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(addresses[0].rsplit(":", 1)[1])))


def test_a_broker_takes_the_port_it_is_given():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with DevBroker(port=port) as broker:
        assert broker.bootstrap_servers == f"127.0.0.1:{port}"
        with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{port}"):
            DevBroker(port=port).start()


def test_topics_have_the_partitions_asked_for():
    with DevBroker(default_partitions=5) as broker, klamm.Producer(broker.bootstrap_servers) as producer:
        assert producer.partitions_for("made-by-asking") == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("options", [{"brokers": 0}, {"brokers": -1}, {"default_partitions": 0}])
def test_a_cluster_that_cannot_be_is_refused(options):
    with pytest.raises(ConfigError, match="at least one"):
        DevBroker(**options).start()


def test_a_program_that_wants_a_broker_needs_no_pytest():
    program = "import klamm.testing, sys; print('pytest' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"

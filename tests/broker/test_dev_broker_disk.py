"""A dev broker with a data directory, and processes that are killed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import stat
import subprocess
import sys

import pytest

import klamm
from klamm.errors import ConfigError
from klamm.testing import DevBroker


def read(servers, topic):
    tp = klamm.TopicPartition(topic, 0)
    with klamm.Consumer(servers) as consumer:
        end = consumer.end_offsets([tp])[tp]
        consumer.assign([klamm.TopicPartition(topic, 0, 0, end)])
        return [record.value for record in consumer]


def test_everything_is_there_again(tmp_path):
    tp = klamm.TopicPartition("t", 0)
    with DevBroker(data_dir=tmp_path, fsync=True) as broker:
        with klamm.Admin(broker.bootstrap_servers) as admin:
            admin.create_topics({"t": klamm.NewTopic(configs={"max.message.bytes": "5000"})})
            admin.alter_group_offsets("g", {tp: 1})
        with klamm.Producer(broker.bootstrap_servers) as producer:
            producer.send("t", b"before").result(timeout=20)
    with DevBroker(data_dir=tmp_path, brokers=2) as broker:
        with klamm.Admin(broker.bootstrap_servers) as admin:
            assert admin.describe_configs("topic", "t")["max.message.bytes"].value == "5000"
            assert admin.group_offsets("g") == {tp: 1}
        with klamm.Producer(broker.bootstrap_servers) as producer:
            assert producer.send("t", b"after").result(timeout=20).offset == 1
        assert read(broker.bootstrap_servers, "t") == [b"before", b"after"]


def test_a_process_that_is_killed_has_kept_what_it_acknowledged(tmp_path):
    command = [sys.executable, "-m", "klamm", "dev-broker", "--json", "--data-dir", str(tmp_path)]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    acknowledged = 0
    for _ in range(3):
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
            try:
                servers = json.loads(process.stdout.readline())["bootstrap_servers"]
                found = read(servers, "t") if acknowledged else []
                assert found[:acknowledged] == [b"%d" % n for n in range(acknowledged)]
                acknowledged = len(found)
                producer = klamm.Producer(servers, linger_ms=0, delivery_timeout_ms=1000, request_timeout_ms=500)
                sent = [producer.send("t", b"%d" % (acknowledged + n), partition=0) for n in range(2000)]
                sent[200].result(timeout=20)
                process.send_signal(signal.SIGKILL)  # with requests in flight
                process.wait(20)
                with contextlib.suppress(klamm.errors.KafkaTimeoutError):
                    producer.close(timeout=0)
                acknowledged += sum(delivery.done() and delivery.exception(timeout=0) is None for delivery in sent)
            finally:
                process.kill()
    assert acknowledged > 600


def test_only_the_user_can_read_the_data_and_a_link_does_not_redirect_it(tmp_path):
    journal, target = tmp_path / "klamm-dev-broker.journal", tmp_path / "target"
    journal.touch(mode=0o644)
    with DevBroker(data_dir=tmp_path):
        assert stat.S_IMODE(journal.stat().st_mode) == 0o600
    journal.rename(target)
    journal.symlink_to(target)
    with pytest.raises(ConfigError, match="is a symbolic link"):
        DevBroker(data_dir=tmp_path).start()


def test_configurations_of_nodes_and_groups_survive(tmp_path):
    for is_first in (True, False):
        with DevBroker(data_dir=tmp_path) as broker, klamm.Admin(broker.bootstrap_servers) as admin:
            if is_first:
                admin.create_topics({"t": klamm.NewTopic()})
                admin.alter_configs("broker", "1", {"log.retention.ms": 60_000})
                admin.alter_configs("group", "g", {"share.isolation.level": "read_committed"})
            assert admin.describe_configs("broker", "1")["log.retention.ms"].value == "60000"
            assert admin.describe_configs("topic", "t")["retention.ms"].value == "60000"
            assert admin.describe_configs("group", "g")["share.isolation.level"].value == "read_committed"


def test_two_clusters_cannot_have_one_directory(tmp_path):
    with DevBroker(data_dir=tmp_path), pytest.raises(ConfigError, match="in use"):
        DevBroker(data_dir=tmp_path).start()
    (tmp_path / "klamm-dev-broker.journal").write_bytes(b"something else altogether, by somebody")
    with pytest.raises(ConfigError, match="not written by a dev broker"):
        DevBroker(data_dir=tmp_path).start()


def test_old_brokers_keep_nothing(tmp_path):
    with pytest.raises(ConfigError, match="keep data in memory only"):
        DevBroker(data_dir=tmp_path, as_version="0.7.2").start()

"""Rebootstrapping: the cluster has moved to other addresses, or sends its clients back to the bootstrap list."""

from __future__ import annotations

import socket
from contextlib import suppress

import pytest

import klamm
from klamm.errors import KafkaError, OtherClusterError
from klamm.testing import DevBroker
from reading import read_values
from settled import until


def free_port():
    """Return a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_a_cluster_that_moved_as_a_whole_is_found_by_the_bootstrap_list(style, tmp_path):
    """KIP-899: all known brokers are gone, and a bootstrap address leads to the new ones."""
    later = free_port()
    with DevBroker(brokers=2, data_dir=tmp_path) as before:
        servers = f"{before.bootstrap_servers},127.0.0.1:{later}"
        with klamm.Admin(servers) as admin:
            admin.create_topics({"t": klamm.NewTopic(partitions=2)})
        producer = style.producer(servers, delivery_timeout_ms=60_000, metadata_recovery_strategy="rebootstrap")
        consumer = style.consumer(servers)
        consumer.assign([klamm.TopicPartition("t", 0, 0)])
        assert producer.send("t", b"before", partition=0).offset == 0
        assert [record.value for record in consumer.poll(timeout=20)] == [b"before"]
    with producer, consumer:
        producer.send_nowait("t", b"between", partition=0)
        with DevBroker(brokers=2, data_dir=tmp_path, port=later):
            assert producer.send("t", b"after", partition=0).offset == 2
            assert read_values(consumer, 2) == [b"between", b"after"]


def test_a_cluster_may_send_its_clients_back_to_the_bootstrap_list(style):
    """KIP-1102."""
    with DevBroker(brokers=2) as broker:
        with klamm.Admin(broker.bootstrap_servers) as admin:
            admin.create_topics({"t": klamm.NewTopic(partitions=4)})
        with style.producer(broker.bootstrap_servers, metadata_max_age_ms=200) as producer:
            for partition in range(4):
                producer.send("t", b"before", partition=partition)
            broker.fail_next("Metadata", error="REBOOTSTRAP_REQUIRED", times=2)
            asked = len(broker.requests("Metadata"))
            until(lambda: len(broker.requests("Metadata")) > asked + 2)
            for partition in range(4):
                assert producer.send("t", b"after", partition=partition).offset == 1


def test_another_cluster_at_the_same_address_gets_nothing_and_gives_nothing(style):
    with DevBroker() as before:
        servers, port = before.bootstrap_servers, int(before.bootstrap_servers.rsplit(":", 1)[1])
        producer, transactional = style.producer(servers), style.producer(servers, transactional_id="x")
        reader, member = style.consumer(servers), style.consumer(servers, "g", ["t"], auto_offset_reset="earliest")
        admin = style.admin(servers)
        assert producer.send("t", b"before").offset == 0
        transactional.init_transactions()
        reader.assign([klamm.TopicPartition("t", 0, 0)])
        assert [record.value for record in reader.poll(timeout=20)] == [b"before"]
        assert [record.value for record in member.poll(timeout=20)] == [b"before"]
        assert admin.list_topics() == ["t"]
    with DevBroker(port=port) as after:
        with klamm.Producer(after.bootstrap_servers) as own:
            for _ in range(100):
                own.send_nowait("t", b"after")
        with pytest.raises(OtherClusterError, match="belongs to cluster"):
            producer.send("t", b"stray")
        with pytest.raises(OtherClusterError, match="belongs to cluster"):
            admin.list_topics(timeout=20)
        for consumer in (reader, member):
            with pytest.raises(OtherClusterError, match="belongs to cluster"):
                until(lambda consumer=consumer: consumer.poll(timeout=1))
        for client in (producer, transactional, reader, member):
            with suppress(KafkaError):  # a member cannot commit any more
                client.close(0)
        admin.close()
        with klamm.Consumer(after.bootstrap_servers) as consumer, klamm.Admin(after.bootstrap_servers) as own:
            end = consumer.end_offsets([klamm.TopicPartition("t", 0)])
            assert [*end.values()] == [100]
            assert not own.list_groups()


def test_the_same_cluster_at_the_same_address_is_taken_up_again(style, tmp_path):
    with DevBroker(data_dir=tmp_path) as before:
        servers, port = before.bootstrap_servers, int(before.bootstrap_servers.rsplit(":", 1)[1])
        producer = style.producer(servers)
        assert producer.send("t", b"before").offset == 0
    with DevBroker(data_dir=tmp_path, port=port), producer:
        assert producer.send("t", b"after").offset == 1

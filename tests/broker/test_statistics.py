"""`stats_cb` and `statistics.interval.ms`: JSON in the form of librdkafka, from the client's own thread."""

from __future__ import annotations

import json
import logging
import threading

import confluent_kafka
import pytest

import klamm
from klamm.errors import ArgumentError, ConfigError
from klamm.testing import DevBroker
from settled import until


class Reports:
    """A `stats_cb` that keeps what it gets."""

    def __init__(self):
        self.texts = []

    def __call__(self, text):
        self.texts.append(text)

    def last(self, holds=lambda _: True):
        """Wait for a report for which a condition holds."""
        until(lambda: self.texts and holds(json.loads(self.texts[-1])))
        return json.loads(self.texts[-1])


def shape(value, path=""):
    """Return the paths of all keys. Names of brokers, topics and partitions are `*`."""
    if not isinstance(value, dict):
        return {path}
    parts = path.split(".")
    named = parts[-1] in {"brokers", "topics", "partitions", "toppars", "req"}
    return {path} | {p for key, each in value.items() for p in shape(each, f"{path}.{'*' if named else key}")}


def test_a_producer_reports_what_librdkafka_reports(dev_broker, topic):
    theirs = Reports()
    peer = confluent_kafka.Producer(
        {"bootstrap.servers": dev_broker.bootstrap_servers, "statistics.interval.ms": 50, "stats_cb": theirs}
    )
    peer.produce(topic, b"v")
    peer.flush(20)
    until(lambda: peer.poll(0.1) is not None and theirs.texts)
    ours = Reports()
    config = {"bootstrap.servers": dev_broker.bootstrap_servers, "statistics.interval.ms": 50, "stats_cb": ours}
    with klamm.Producer(config) as producer:
        producer.send(topic, b"v" * 100).result(20)
        report = ours.last(lambda report: report["txmsgs"])
    missing = shape(json.loads(theirs.texts[-1])) - shape(report)
    assert {path for path in missing if ".req.*" not in path} <= {""}
    assert (report["client_id"], report["type"]) == ("klamm", "producer")
    assert report["name"].startswith("klamm#producer-")
    assert report["txmsgs"] == 1
    assert report["tx"] >= 3
    assert report["time"] > 1_700_000_000
    assert report["topics"][topic]["batchcnt"]["sum"] == 1
    partition = report["topics"][topic]["partitions"]["0"]
    leader = next(broker for broker in report["brokers"].values() if broker["nodeid"] == partition["leader"])
    assert leader["state"] == "UP"
    assert leader["name"] == f"{leader['nodename']}/{leader['nodeid']}"
    assert leader["connects"] == 1
    assert 0 < leader["rtt"]["p50"] <= leader["rtt"]["p99_99"]
    assert leader["rtt"]["cnt"] >= 1
    assert leader["int_latency"]["cnt"] == 1
    assert f"{topic}-0" in leader["toppars"]


def test_a_consumer_reports_offsets_lag_and_its_group(dev_broker, topic):
    with klamm.Producer(dev_broker.bootstrap_servers) as producer:
        producer.send_many(topic, [b"v" * 100] * 100)
    reports = Reports()
    with klamm.Consumer(
        dev_broker.bootstrap_servers,
        topic,
        [topic],
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        statistics_interval_ms=50,
        stats_cb=reports,
        client_id="me",
    ) as consumer:
        assert len(consumer.poll(20, 10)) == 10

        def lag(report):
            return report["topics"].get(topic, {}).get("partitions", {}).get("0", {}).get("consumer_lag")

        report = reports.last(lambda report: lag(report) == 90)
        partition = report["topics"][topic]["partitions"]["0"]
        assert (partition["lo_offset"], partition["hi_offset"], partition["committed_offset"]) == (0, 100, -1)
        assert (partition["fetch_state"], partition["desired"]) == ("active", True)
        assert report["rxmsgs"] >= 10
        consumer.commit()
        report = reports.last(lambda report: report["topics"][topic]["partitions"]["0"]["committed_offset"] == 10)
        assert report["topics"][topic]["partitions"]["0"]["consumer_lag_stored"] == 90
        assert report["cgrp"]["assignment_size"] == 1
        assert report["cgrp"]["rebalance_cnt"] == 1
        assert report["cgrp"]["state"] == "up"
        assert report["name"].startswith("me#consumer-")


@pytest.mark.parametrize("kind", [klamm.Admin, klamm.AsyncAdmin, klamm.AsyncProducer, klamm.AsyncConsumer])
def test_every_client_reports(dev_broker, kind):
    reports = Reports()
    client = kind(dev_broker.bootstrap_servers, statistics_interval_ms=20, stats_cb=reports)
    assert reports.last()["client_id"] == "klamm"
    client._close(*[0] * (kind is klamm.AsyncProducer), *[0, None, False] * (kind is klamm.AsyncConsumer))


def test_share_consumers_report(dev_broker, topic):
    reports = Reports()
    with klamm.ShareConsumer(dev_broker.bootstrap_servers, topic, statistics_interval_ms=20, stats_cb=reports):
        assert reports.last()["type"] == "consumer"


def test_a_function_that_raises_is_logged_once_and_called_again(dev_broker, caplog):
    calls = []

    def fail(text):
        calls.append(text)
        raise ValueError("no dashboard")

    with (
        caplog.at_level(logging.ERROR, logger="klamm.statistics"),
        klamm.Admin(dev_broker.bootstrap_servers, statistics_interval_ms=20, stats_cb=fail) as admin,
    ):
        until(lambda: len(calls) >= 3)
        admin.list_topics()
    assert len([each for each in caplog.records if "stats_cb" in each.getMessage()]) == 1


def test_a_function_that_blocks_holds_up_nothing(dev_broker, topic):
    entered, leave = threading.Event(), threading.Event()

    def block(_):
        entered.set()
        leave.wait(60)

    with klamm.Producer(dev_broker.bootstrap_servers, statistics_interval_ms=20, stats_cb=block) as producer:
        assert entered.wait(20)
        producer.send(topic, b"v").result(20)
        producer.flush(20)
    leave.set()


def test_without_an_interval_nothing_is_reported(dev_broker):
    before = set(threading.enumerate())
    with klamm.Admin(dev_broker.bootstrap_servers, stats_cb=print) as admin:
        assert set(threading.enumerate()) <= before  # threads of other tests may end now
        admin.list_topics()


def test_reports_end_with_the_client():
    reports = Reports()
    with DevBroker() as dev:
        admin = klamm.Admin(dev.bootstrap_servers, statistics_interval_ms=20, stats_cb=reports)
        reports.last()
        admin.close()
        until(lambda: not any(thread.name == "klamm-statistics" for thread in threading.enumerate()))


def test_wrong_settings_are_refused():
    with pytest.raises(ArgumentError, match="stats_cb"):
        klamm.Producer("127.0.0.1:1", stats_cb="print")
    with pytest.raises(ConfigError, match="statistics"):
        klamm.Producer("127.0.0.1:1", statistics_interval_ms=-1)

"""`klamm mirror`: copies from a dev broker that emulates Kafka 0.6 or 0.7 into both kinds of brokers."""

from __future__ import annotations

import json
import re

import pytest

import klamm
from cli_process import klamm as command
from cli_process import started
from klamm import legacy
from klamm.testing import DevBroker
from old_broker import VERSIONS, OldBroker, old_broker


@pytest.fixture(params=VERSIONS)
def old(request):
    with old_broker(request.param) as running:
        yield running


def mirror(old, broker, topic, *arguments):
    ends = ["--from", f"{old.protocol}://{old.bootstrap_servers}/old", "--to", f"{broker.bootstrap_servers}/{topic}"]
    return command("mirror", *ends, "--json", *arguments)


def copied(broker, topic):
    tps = [klamm.TopicPartition(topic, number) for number in range(2)]
    with klamm.Consumer(broker.bootstrap_servers, isolation_level="read_committed") as consumer:
        ends = consumer.end_offsets(tps)
        consumer.assign([klamm.TopicPartition(topic, p.partition, 0, ends[p]) for p in tps if ends[p]])
        return [(r.partition, r.value, r.key, dict(r.headers)) for r in consumer]


def test_a_topic_is_copied_once_and_a_second_run_continues(old, broker, topic):
    values = [b"v%d" % number for number in range(100)]
    for number, value in enumerate(values):
        old.fill([value], number % 2)
    result = mirror(old, broker, topic, "--fetch-size", "100")
    assert (result.returncode, result.stderr) == (0, b"")
    done = json.loads(result.stdout)
    assert (done["topic"], done["records"]) == (topic, 100)
    assert json.loads(mirror(old, broker, topic).stdout)["records"] == 0
    more = [b"more" * 100, b"last"]
    old.fill(more, 0, compression="none" if old.magic == 0 else "gzip")
    assert json.loads(mirror(old, broker, topic).stdout)["records"] == 2
    found = copied(broker, topic)
    assert sorted(value for _, value, _, _ in found) == sorted(values + more)
    assert all(key is None for _, _, key, _ in found)
    with legacy.Consumer07(old.bootstrap_servers) as consumer:
        for partition, value, _, headers in found:
            assert headers["source.broker"] == old.bootstrap_servers.encode()
            assert int(headers["source.partition"]) == partition
            messages = consumer.fetch("old", partition, int(headers["source.offset"])).messages
            assert messages[int(headers.get("source.index", 0))].payload == value
        assert json.loads(mirror(old, broker, topic).stdout)["offsets"] == {
            str(partition): consumer.latest("old", partition) for partition in range(2)
        }


def test_a_missing_topic_is_an_error_and_a_wrong_form_is_wrong_usage(old, broker, topic):
    result = mirror(old, broker, topic)
    assert result.returncode == 1
    assert b"has no messages in topic 'old'" in result.stderr
    for arguments in (["--from", "0.8://a:1/t", "--to", "b:2/t"], ["--from", "0.7://a:1/t", "--to", "b:2"]):
        assert command("mirror", *arguments).returncode == 2


def test_following_copies_what_comes_later(old, broker, topic):
    old.fill([b"first"], 0)
    ends = ["--from", f"{old.protocol}://{old.bootstrap_servers}/old", "--to", f"{broker.bootstrap_servers}/{topic}"]
    with started("mirror", *ends, "--follow"):  # noqa: SIM117 - it outlives the consumer
        with klamm.Consumer(
            broker.bootstrap_servers,
            isolation_level="read_committed",
            topics=[topic],
            group_id=topic,
            auto_offset_reset="earliest",
        ) as consumer:
            assert next(iter(consumer)).value == b"first"
            old.fill([b"second"], 1)
            assert next(iter(consumer)).value == b"second"


def test_a_copy_says_what_it_has_copied(old, broker, topic):
    old.fill([b"one", b"three"], 0)
    ends = ["--from", f"{old.protocol}://{old.bootstrap_servers}/old", "--to", f"{broker.bootstrap_servers}/{topic}"]
    for records, size in (("2 records", "8 bytes"), ("0 records", "0 bytes")):
        result = command("mirror", *ends)
        assert (result.returncode, result.stderr) == (0, b"")
        said = rf"copied {records} \({size}\) of \d partitions? from old to {topic} in \d+\.\d\d s\n"
        assert re.fullmatch(said, result.stdout.decode())


def test_each_client_gets_the_options_that_it_has_so_that_large_messages_fit(broker, topic):
    with klamm.Admin(broker.bootstrap_servers) as admin:
        admin.create_topics({topic: klamm.NewTopic(configs={"max.message.bytes": "4000000"})})
    given = {
        "max.request.size": "4000000",
        "acks": "all",
        "compression.type": "gzip",
        "isolation.level": "read_committed",
        "client.id": "mirror",
    }
    with DevBroker(as_version="0.7.1") as running:
        old = OldBroker("0.7", running.bootstrap_servers)
        old.fill([b"v" * 1_500_000], 0)
        result = mirror(old, broker, topic, *(word for item in given.items() for word in ("-X", "=".join(item))))
    assert (result.returncode, result.stderr) == (0, b"")
    assert json.loads(result.stdout)["records"] == 1


@pytest.mark.parametrize(
    ("option", "reason"),
    [
        ("isolation.levle=x", b"did you mean isolation.level?"),
        ("share.acquire.mode=x", b"no client of this command has it"),
        ("transactional.id=x", b"a restarted copy needs the same ID"),
        ("group.id=x", b"cannot be set"),
    ],
)
def test_options_of_no_client_are_refused(option, reason):
    with old_broker("0.7.2") as old:
        old.fill([b"v"], 0)
        ends = ["--from", f"0.7://{old.bootstrap_servers}/old", "--to", "127.0.0.1:1/t"]
        result = command("mirror", *ends, "-X", option)
    assert result.returncode == 2
    assert reason in result.stderr


def test_following_continues_when_the_old_broker_is_back(broker, topic):
    with DevBroker(as_version="0.7.2") as running:
        old = OldBroker("0.7", running.bootstrap_servers)
        old.fill([b"first"], 0)
        ends = ["--from", f"0.7://{old.bootstrap_servers}/old", "--to", f"{broker.bootstrap_servers}/{topic}"]
        with (
            started("mirror", *ends, "--follow") as process,
            klamm.Consumer(
                broker.bootstrap_servers,
                isolation_level="read_committed",
                topics=[topic],
                group_id=topic,
                auto_offset_reset="earliest",
            ) as consumer,
        ):
            assert next(iter(consumer)).value == b"first"
            running.kill(1)
            assert b"the copy continues when the old broker responds" in process.stderr.readline()
            running.start(1)
            old.fill([b"second"], 0)
            assert next(iter(consumer)).value == b"second"
            assert process.poll() is None

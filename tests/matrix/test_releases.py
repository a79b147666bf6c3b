"""The same program against each release of Kafka: supported features work, and others raise an error with the
release.
"""

from __future__ import annotations

import contextlib
import subprocess
import threading
import time

import pytest

import klamm
from kafka_release import own_consumer
from settled import until

confluent_kafka = pytest.importorskip("confluent_kafka")

CODECS = {"none": "0.8.0", "gzip": "0.8.0", "snappy": "0.8.0", "lz4": "0.8.2", "zstd": "2.1"}
RECORDS = [
    (b"key", b"value"),
    (None, b"no key"),
    (b"tombstone", None),
    (b"", b""),
    *((b"k%d" % i, b"line %d, much like the others " % i * 5) for i in range(200)),
]


def write(release, topic, records=RECORDS, **config):
    """Send records to partition 0 in a few batches, and wait for all of them."""
    with klamm.Producer(release.servers, linger_ms=20, **config) as producer:
        sent = [producer.send(topic, value, key=key, partition=0) for key, value in records]
        return [one.result(timeout=30) for one in sent]


def read(release, topic, start=0, **config):
    """Return the records of partition 0 up to its end."""
    topic_partition = klamm.TopicPartition(topic, 0)
    with klamm.Consumer(release.servers, **config) as consumer:
        end = consumer.end_offsets([topic_partition])[topic_partition]
        consumer.assign([klamm.TopicPartition(topic, 0, start, end)])
        return list(consumer)


@pytest.mark.feature("records")
@pytest.mark.parametrize("codec", CODECS)
def test_records_come_back(release, topic, codec):
    with release.needs(CODECS[codec]):
        sent = write(release, topic, compression_type=codec)
        assert [one.offset for one in sent] == list(range(len(RECORDS)))
        found = read(release, topic)
        assert [(r.key, r.value) for r in found] == RECORDS
        assert [r.offset for r in found] == list(range(len(RECORDS)))
        # From the middle of what was compressed together.
        assert [r.offset for r in read(release, topic, start=100)] == list(range(100, len(RECORDS)))


@pytest.mark.feature("confluent-kafka reads what klamm wrote")
@pytest.mark.parametrize("codec", CODECS)
def test_confluent_kafka_reads_them(release, topic, codec):
    with release.needs(CODECS[codec]):
        write(release, topic, compression_type=codec)
        settings = release.confluent(**{"group.id": "g", "enable.auto.commit": False, "check.crcs": True})
        consumer = confluent_kafka.Consumer(settings)
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        found = []
        while len(found) < len(RECORDS):
            messages = consumer.consume(len(RECORDS) - len(found), timeout=20)
            assert messages, f"only {len(found)} records came"
            assert [message.error() for message in messages if message.error()] == []
            found += messages
        consumer.close()
        assert [(m.key(), m.value()) for m in found] == RECORDS


@pytest.mark.feature("Kafka's own consumer of the release reads what klamm wrote")
def test_the_consumer_of_the_release_reads_them(release, topic):
    # With no key, or no value, that of 0.8.0 ends.
    records = [(k, v) for k, v in RECORDS if release.has("0.8.1") or (k is not None and v is not None)]
    codecs = [codec for codec, since in CODECS.items() if release.has(since)]
    for codec in codecs:
        write(release, topic, records, compression_type=codec)
    expected = [b"\t".join(b"null" if part is None else part for part in record) for record in records] * len(codecs)
    command = own_consumer(release.version, release.bootstrap_servers, topic, len(expected))
    ended = subprocess.run(command, capture_output=True, timeout=100, check=False)
    # Some print first what they think of an option.
    assert ended.stdout.split(b"\n")[:-1][-len(expected) :] == expected, ended.stderr.decode()[-3000:]


@pytest.mark.feature("klamm reads what confluent-kafka wrote")
@pytest.mark.parametrize("codec", CODECS)
def test_klamm_reads_what_confluent_kafka_wrote(release, topic, codec):
    if not release.has(CODECS[codec]):
        release.result = "–"
        return
    with klamm.Producer(release.servers) as maker:
        maker.partitions_for(topic)  # librdkafka may wait for half a minute and more for one that it made on 0.8.0
    settings = release.confluent(**{"compression.type": codec, "linger.ms": 20})
    producer = confluent_kafka.Producer(settings)
    for key, value in RECORDS:
        producer.produce(topic, value, key, partition=0)
    assert producer.flush(30) == 0
    assert [(r.key, r.value) for r in read(release, topic)] == RECORDS


@pytest.mark.feature("timestamps")
def test_timestamps_are_kept(release, topic):
    with klamm.Producer(release.servers) as producer, release.needs("0.10.0"):
        sent = producer.send(topic, b"v", partition=0, timestamp_ms=1_234_567).result(timeout=30)
        assert sent.timestamp_ms == 1_234_567
        assert [r.timestamp_ms for r in read(release, topic)] == [1_234_567]


@pytest.mark.feature("headers")
def test_headers_are_kept(release, topic):
    with klamm.Producer(release.servers, linger_ms=50) as producer:
        plain = producer.send(topic, b"plain", partition=1)
        with release.needs("0.11.0"):
            producer.send(topic, b"v", partition=0, headers=[("h", b"1")]).result(timeout=30)
            assert [r.headers for r in read(release, topic)] == [[("h", b"1")]]
        # What goes with it in one request, and needs nothing, arrives.
        assert plain.result(timeout=30).offset == 0


@pytest.mark.feature("idempotence on demand")
def test_idempotence_is_kept_if_asked_for(release, topic):
    with release.needs("0.11.0"):
        write(release, topic, enable_idempotence=True)
        assert len(read(release, topic)) == len(RECORDS)


@pytest.mark.feature("logs kept in an older format")
def test_idempotence_is_off_where_the_log_does_not_support_it(release, topic):
    if not release.has("0.11.0") or release.has("3.0"):
        release.result = "–"
        return
    with klamm.Admin(release.servers) as admin:
        older = {"message.format.version": "0.10.0"}
        admin.create_topics({topic: klamm.NewTopic(partitions=1, replication_factor=1, configs=older)})
    write(release, topic)
    assert [(r.key, r.value) for r in read(release, topic)] == RECORDS
    with pytest.raises(klamm.errors.UnsupportedForMessageFormatError):
        write(release, topic, enable_idempotence=True)


@pytest.mark.feature("transactions")
def test_transactions_are_read_when_committed(release, topic):
    with release.needs("0.11.0"):
        with klamm.Producer(release.servers, transactional_id=topic) as producer:
            with producer.transaction() as tx:
                tx.send(topic, b"kept", partition=0)
            with contextlib.suppress(ZeroDivisionError), producer.transaction() as tx:
                tx.send(topic, b"dropped", partition=0)
                raise ZeroDivisionError
        topic_partition = klamm.TopicPartition(topic, 0, 0)
        with klamm.Consumer(release.servers, isolation_level="read_committed") as consumer:
            consumer.assign([topic_partition])
            found = []
            until(lambda: found.extend(consumer.poll(timeout=1)) or found)
            assert [r.value for r in found] == [b"kept"]


@pytest.mark.feature("read_committed")
def test_everything_is_committed_where_there_are_no_transactions(release, topic):
    write(release, topic)
    assert len(read(release, topic, isolation_level="read_committed")) == len(RECORDS)


@pytest.mark.feature("acks 0, 1, all")
def test_acknowledgements_are_what_was_asked_for(release, topic):
    for acks in (0, 1, "all"):
        with klamm.Producer(release.servers, acks=acks) as producer:
            producer.send(topic, b"v", partition=0).result(timeout=30)
    until(lambda: len(read(release, topic)) == 3)


@pytest.mark.feature("acks of 2 and more")
def test_acks_of_more_brokers_are_what_0_8_takes(release, topic):
    with klamm.Producer(release.servers, acks=2, retries=0, request_timeout_ms=2_000) as producer:
        sent = producer.send(topic, b"v", partition=0)
        if release.has("0.9.0"):
            release.result = "refused"
            with pytest.raises(klamm.errors.InvalidRequiredAcksError):
                sent.result(timeout=30)
        else:
            # It waits for a copy that this topic is not to have, or sees that it need not.
            late = (klamm.errors.RequestTimedOutError, klamm.errors.KafkaTimeoutError)
            with contextlib.suppress(klamm.errors.NotEnoughReplicasError, *late):
                assert sent.result(timeout=30).offset == 0


@pytest.mark.feature("positions: start, end, seek")
def test_positions(release, topic):
    write(release, topic)
    topic_partition = klamm.TopicPartition(topic, 0)
    with klamm.Consumer(release.servers, auto_offset_reset="earliest") as consumer:
        assert consumer.beginning_offsets([topic_partition]) == {topic_partition: 0}
        assert consumer.end_offsets([topic_partition]) == {topic_partition: len(RECORDS)}
        consumer.assign([topic_partition])
        assert consumer.position(topic_partition) == 0
        consumer.seek(topic_partition, 7)
        found = []
        until(lambda: found.extend(consumer.poll(timeout=1)) or found)
        assert found[0].offset == 7
        consumer.seek_to_end([topic_partition])
        assert consumer.position(topic_partition) == len(RECORDS)


@pytest.mark.feature("positions by time")
def test_positions_by_time(release, topic):
    write(release, topic)
    topic_partition = klamm.TopicPartition(topic, 0)
    with klamm.Consumer(release.servers) as consumer, release.needs("0.10.1"):
        assert consumer.offsets_for_times({topic_partition: 0})[topic_partition][0] == 0


@pytest.mark.feature("messages larger than the fetch size")
def test_a_message_larger_than_the_fetch_size_is_read(release, topic):
    large = bytes(300_000)
    write(release, topic, [(None, b"small"), (None, large), (None, b"after")])
    assert [len(r.value) for r in read(release, topic, max_partition_fetch_bytes=10_000)] == [5, len(large), 5]


@pytest.mark.feature("messages larger than every limit")
def test_a_message_larger_than_every_limit_is_an_error_or_read(release, topic):
    write(release, topic, [(None, bytes(300_000))])
    with contextlib.ExitStack() as stack:
        if not release.has("0.10.1"):
            release.result = "error"
            stack.enter_context(pytest.raises(klamm.errors.BrokerError, match=r"fetch\.max\.bytes"))
        found = read(release, topic, max_partition_fetch_bytes=10_000, fetch_max_bytes=100_000)
        assert len(found) == 1


@pytest.mark.feature("committed offsets")
def test_committed_offsets(release, topic):
    write(release, topic)
    topic_partition = klamm.TopicPartition(topic, 0)
    config = {"group_id": topic, "enable_auto_commit": False, "auto_offset_reset": "earliest"}
    with release.needs("0.8.1"):
        with klamm.Consumer(release.servers, **config) as consumer:
            consumer.assign([topic_partition])
            assert consumer.committed([topic_partition])[topic_partition] is None
            consumer.commit({topic_partition: 42})
        with klamm.Consumer(release.servers, **config) as consumer:
            assert consumer.committed([topic_partition])[topic_partition] == 42
            consumer.assign([topic_partition])
            found = []
            until(lambda: found.extend(consumer.poll(timeout=1)) or found)
            assert found[0].offset == 42


@pytest.mark.feature("committed offsets with a time of their own")
def test_commits_have_the_time_that_was_given(release, topic):
    """A commit time of 1970 is older than any retention."""
    new, old = (klamm.TopicPartition(topic, number) for number in range(2))
    now_ms = int(time.time() * 1000)
    offsets = {new: klamm.OffsetAndMetadata(7, timestamp_ms=now_ms), old: klamm.OffsetAndMetadata(7, timestamp_ms=1)}
    with klamm.Producer(release.servers) as maker:
        maker.partitions_for(topic)
    with klamm.Consumer(release.servers, group_id=topic) as consumer:
        if not release.has("0.8.2") or release.has("4.0"):
            release.result = "until 3.9" if release.has("4.0") else "from 0.8.2"
            with pytest.raises(klamm.errors.UnsupportedVersionError, match="version 1 of OffsetCommit is needed"):
                consumer.commit(offsets)
            return
        consumer.commit(offsets)
        if release.has("0.9.0"):
            until(lambda: consumer.committed([new, old]) == {new: 7, old: None})
            return
        # 0.8.2 does not look for old ones as often as it is told.
        kept = [
            klamm.TopicPartition("__consumer_offsets", number, 0)
            for number in consumer.partitions_for("__consumer_offsets")
        ]
        consumer.assign(kept)
        given = {time_ms.to_bytes(8, "big") for time_ms in (now_ms, 1)}  # the last that a kept offset has
        times = set()
        until(lambda: times.update((r.value or b"")[-8:] for r in consumer.poll(1)) or times >= given)


@pytest.mark.feature("groups")
def test_two_members_share_a_topic(release, topic):
    write(release, topic)
    config = {"group_id": topic, "topics": [topic], "auto_offset_reset": "earliest", "heartbeat_interval_ms": 300}
    with contextlib.ExitStack() as members, release.needs("0.9.0"):
        pair = [members.enter_context(klamm.Consumer(release.servers, **config)) for _ in range(2)]
        found = []

        def shared():
            for member in pair:
                found.extend(member.poll(timeout=0.2))
            return all(len(member.assignment()) == 1 for member in pair)

        until(shared)
        until(lambda: shared() and len({r.offset for r in found}) == len(RECORDS))
        assert {tp for member in pair for tp in member.assignment()} == {
            klamm.TopicPartition(topic, 0),
            klamm.TopicPartition(topic, 1),
        }
        for member in pair:
            member.commit()


@pytest.mark.feature("topics: list")
def test_topics_are_listed(release, topic):
    write(release, topic)
    with klamm.Admin(release.servers) as admin:
        assert topic in admin.list_topics()
        # Asking creates none, not even where brokers create what they are asked about.
        with pytest.raises(klamm.errors.UnknownTopicOrPartitionError):
            admin.describe_topics([f"{topic}-missing"])
        assert f"{topic}-missing" not in admin.list_topics()


@pytest.mark.feature("topics: create")
def test_topics_are_created(release, topic):
    with klamm.Admin(release.servers) as admin, release.needs("0.10.1"):
        admin.create_topics({topic: klamm.NewTopic(partitions=3, replication_factor=1)})
        assert len(admin.describe_topics([topic])[topic].partitions) == 3


@pytest.mark.feature("topics: delete")
def test_topics_are_deleted(release, topic):
    write(release, topic)
    with klamm.Admin(release.servers) as admin, release.needs("0.10.1"):
        admin.delete_topics([topic])
        until(lambda: topic not in admin.list_topics())


@pytest.mark.feature("groups: list and describe")
def test_groups_are_listed(release, topic):
    write(release, topic)
    with (
        klamm.Admin(release.servers) as admin,
        release.needs("0.9.0"),
        klamm.Consumer(release.servers, group_id=topic, topics=[topic]) as member,
    ):
        until(lambda: member.poll(timeout=0.2) is not None and member.assignment())
        assert topic in [group.group for group in admin.list_groups()]
        assert len(admin.describe_groups([topic])[topic].members) == 1


@pytest.mark.feature("topic settings")
def test_settings_are_read(release, topic):
    write(release, topic)
    with klamm.Admin(release.servers) as admin, release.needs("0.11.0"):
        assert "retention.ms" in admin.describe_configs("topic", topic)


@pytest.mark.feature("many threads")
def test_threads_share_a_client_while_the_release_is_found_out(release, topic):
    write(release, topic, [(None, b"first")])
    with klamm.Producer(release.servers) as producer:
        sent = []
        threads = [
            threading.Thread(target=lambda: sent.append(producer.send(topic, b"v", partition=0))) for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(one.result(timeout=30).offset for one in sent) == list(range(1, 9))

"""Offsets of a group in a transaction: their metadata, permission to commit, and the state after a rejection."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

import klamm
from conftest import BROKERS
from klamm.errors import BrokerError, ConfigError, KafkaError, KafkaTimeoutError, TransactionAbortedError
from klamm.testing import DevBroker
from settled import wait_until_settled

kafka = pytest.importorskip("kafka")


@pytest.fixture(scope="module", params=BROKERS)
def broker(request):
    """Each broker, with both transaction protocols."""
    return request.getfixturevalue(BROKERS[request.param][0])


def make(broker, topic, partitions=1):
    with klamm.Admin(broker.bootstrap_servers) as admin:
        admin.create_topics({topic: klamm.NewTopic(partitions=partitions)})


def enter(style, transaction):
    return style.wait((getattr(transaction, "__aenter__", None) or transaction.__enter__)())


def kept(broker, group, tp):
    """Return the committed offset, text and leader epoch, as kafka-python reads them.

    confluent-kafka may read beyond the end of the text, which librdkafka does not end with a NUL.
    """
    admin = kafka.KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    try:
        partition = kafka.TopicPartition(tp.topic, tp.partition)
        found = admin.list_group_offsets({group: [partition]})[group][partition]
    finally:
        admin.close()
    return found.offset, found.metadata, found.leader_epoch


def test_offsets_keep_a_text_and_the_epoch_of_their_leader(style, broker, topic):
    make(broker, topic)
    tp, group = klamm.TopicPartition(topic, 0), f"group-{topic}"
    with style.producer(broker.bootstrap_servers, transactional_id=f"tx-{topic}") as producer:
        tx = producer.client.transaction()
        enter(style, tx)
        given = klamm.OffsetAndMetadata(7, "seven so far", 0)
        style.wait(tx.commit_offsets(klamm.GroupMetadata(group), {tp: given}))
        style.wait(tx.commit())
    wait_until_settled(broker.bootstrap_servers, topic)
    assert kept(broker, group, tp) == (7, "seven so far", 0)
    with klamm.Consumer(broker.bootstrap_servers, group_id=group) as consumer:
        found = consumer.committed_metadata([tp])[tp]
        assert (found.offset, found.metadata) == (7, "seven so far")
    with klamm.Admin(broker.bootstrap_servers) as admin:
        assert admin.group_offsets(group) == {tp: 7}


def test_offsets_of_what_was_polled_have_the_epoch_of_their_leader(style, broker, topic):
    make(broker, topic)
    tp, group = klamm.TopicPartition(topic, 0), f"group-{topic}"
    with klamm.Producer(broker.bootstrap_servers) as producer:
        producer.send_many(topic, [b"v"] * 10)
    config = {"group_id": group, "enable_auto_commit": False}
    with (
        style.consumer(broker.bootstrap_servers, **config) as consumer,
        style.producer(broker.bootstrap_servers, transactional_id=f"tx-{topic}") as producer,
    ):
        consumer.assign([klamm.TopicPartition(topic, 0, 0)])
        assert len(consumer.poll(timeout=20)) == 10
        tx = producer.client.transaction()
        enter(style, tx)
        style.wait(tx.commit_offsets(consumer.client))
        style.wait(tx.commit())
    assert kept(broker, group, tp) == (10, "", 0)


def test_an_offset_that_cannot_be_and_a_text_that_is_too_long_end_in_an_abort_at_worst(style, broker, topic):
    make(broker, topic)
    tp, group = klamm.TopicPartition(topic, 0), klamm.GroupMetadata(f"group-{topic}")
    with style.producer(broker.bootstrap_servers, transactional_id=f"tx-{topic}") as producer:
        tx = producer.client.transaction()
        enter(style, tx)
        with pytest.raises(ConfigError, match="cannot be -1"):
            style.wait(tx.commit_offsets(group, {tp: -1}))
        with pytest.raises(BrokerError, match="OFFSET_METADATA_TOO_LARGE"):
            style.wait(tx.commit_offsets(group, {tp: klamm.OffsetAndMetadata(7, "x" * 5_000)}))
        with pytest.raises(TransactionAbortedError, match="OFFSET_METADATA_TOO_LARGE"):
            style.wait(tx.commit())
        enter(style, tx)
        style.wait(tx.commit_offsets(group, {tp: 8}))
        style.wait(tx.commit())
    with klamm.Consumer(broker.bootstrap_servers, group_id=group.group_id) as consumer:
        assert consumer.committed([tp]) == {tp: 8}


def settle(members):
    """Poll until each member has a partition, and return their group metadata."""
    while not all(member.assignment() for member in members):
        for member in members:
            member.poll(timeout=0.05)
    return [member.group_metadata() for member in members]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_former_member_cannot_commit_and_only_loses_its_transaction(style, broker, topic, protocol):
    make(broker, topic, partitions=2)
    group = f"group-{topic}"
    config = {"group_id": group, "topics": [topic], "enable_auto_commit": False, "group_protocol": protocol}
    with ExitStack() as stack:
        first = stack.enter_context(klamm.Consumer(broker.bootstrap_servers, **config))
        (alone,) = settle([first])
        second = stack.enter_context(klamm.Consumer(broker.bootstrap_servers, **config))
        now, other = settle([first, second])
        assert now.generation_id > alone.generation_id
        # One that has had its owner since the old generation may be committed with it yet (KIP-1251).
        (tp,) = second.assignment()
        second.close()
        with style.producer(broker.bootstrap_servers, transactional_id=f"tx-{topic}") as producer:
            tx = producer.client.transaction()
            for zombie, refusal in [(alone, "ILLEGAL_GENERATION|STALE_MEMBER_EPOCH"), (other, "UNKNOWN_MEMBER_ID")]:
                enter(style, tx)
                style.wait(tx.send(topic, b"of a zombie", partition=tp.partition))
                with pytest.raises(BrokerError, match=refusal):
                    style.wait(tx.commit_offsets(zombie, {tp: 1}))
                with pytest.raises(TransactionAbortedError, match=refusal):
                    style.wait(tx.commit())
            (now,) = settle([first])
            while True:  # the group may still be on its way to its next generation
                enter(style, tx)
                style.wait(tx.send(topic, b"of a member", partition=tp.partition))
                try:
                    style.wait(tx.commit_offsets(now, {tp: 2}))
                except BrokerError:
                    style.wait(tx.abort())
                    first.poll(timeout=0.05)
                    now = first.group_metadata()
                    continue
                style.wait(tx.commit())
                break
        assert first.committed([tp]) == {tp: 2}
    wait_until_settled(broker.bootstrap_servers, topic)
    with klamm.Consumer(broker.bootstrap_servers, isolation_level="read_committed") as reader:
        ends = reader.end_offsets([tp])
        reader.assign([klamm.TopicPartition(topic, tp.partition, 0, ends[tp])])
        assert [record.value for record in reader] == [b"of a member"]


# Requests of which each protocol's transactions consist. Where nothing is there to abort yet, the request is sent again.
STEPS = {
    "4.4": ["InitProducerId", "Produce", "TxnOffsetCommit", "EndTxn"],
    "3.9": ["InitProducerId", "AddPartitionsToTxn", "Produce", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn"],
}


@pytest.mark.parametrize(("release", "api"), [(release, api) for release, apis in STEPS.items() for api in apis])
def test_an_abortable_error_aborts_the_transaction_and_the_next_one_works(style, release, api):
    """TRANSACTION_ABORTABLE (KIP-890, KIP-1050) means that an abort is enough, in response to any request."""
    tp, group = klamm.TopicPartition("t", 0), klamm.GroupMetadata("g")

    def attempt(offset):
        """Write a transaction that fails, abort it, and return the error."""
        tx = producer.client.transaction()
        enter(style, tx)
        tx.send_nowait("t", b"%d" % offset)
        try:
            style.wait(tx.commit_offsets(group, {tp: offset}))
        except KafkaError as error:  # of the offsets, or of the record, whose response may come first
            broker.fail_next("EndTxn", error="TRANSACTION_ABORTABLE")
            style.wait(tx.abort())
            broker.clear_faults()
            return error
        try:
            style.wait(tx.commit())
        except TransactionAbortedError as error:
            return error

    with DevBroker(as_version=release) as broker:
        make(broker, "t")
        with style.producer(broker.bootstrap_servers, transactional_id="tx") as producer:
            broker.fail_next(api, error="TRANSACTION_ABORTABLE")
            error = attempt(1)
            if api == "InitProducerId":
                assert error is None
            else:
                assert "TRANSACTION_ABORTABLE" in str(error)
            assert attempt(2) is None
        wait_until_settled(broker.bootstrap_servers, "t")
        with klamm.Consumer(broker.bootstrap_servers, group_id="g", isolation_level="read_committed") as reader:
            assert reader.committed([tp]) == {tp: 2}
            reader.assign([klamm.TopicPartition("t", 0, 0, reader.end_offsets([tp])[tp])])
            values = [record.value for record in reader]
        assert values == ([b"1", b"2"] if error is None else [b"2"])


def test_a_broker_that_wants_nothing_aborted_is_not_asked_again_at_once(style):
    with DevBroker() as broker:
        broker.fail_next("InitProducerId", error="TRANSACTION_ABORTABLE", times=None)
        config = {"transactional_id": "tx", "max_block_ms": 1_000}
        with style.producer(broker.bootstrap_servers, **config) as producer:
            with pytest.raises(KafkaTimeoutError, match="TRANSACTION_ABORTABLE"):
                producer.init_transactions()
            asked = sum(request.api == "InitProducerId" for request in broker.requests())
            assert 1 < asked < 20
            broker.clear_faults()
            producer.init_transactions()

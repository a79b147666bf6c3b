"""Commits of delivered records: never beyond finished records or the position of the consumer."""

from __future__ import annotations

from contextlib import suppress

import pytest

import klamm
from klamm import TopicPartition
from klamm.testing import DevBroker
from settled import until

WAIT_S = 20


@pytest.fixture
def one(broker, topic):
    """A topic with one partition."""
    with klamm.Admin(broker.bootstrap_servers) as admin:
        admin.create_topics({topic: klamm.NewTopic()})
    return topic


def member(style, broker, topic, **config):
    config = {"auto_offset_reset": "earliest", "fetch_max_wait_ms": 100, **config}
    return style.consumer(broker.bootstrap_servers, group_id=f"group-{topic}", topics=[topic], **config)


def committed(broker, topic):
    with klamm.Admin(broker.bootstrap_servers) as admin:
        return admin.group_offsets(f"group-{topic}").get(TopicPartition(topic, 0))


def test_a_marker_after_the_delivered_record_does_not_count_it_as_handled(style, broker, one):
    tp = TopicPartition(one, 0)
    with (
        klamm.Producer(broker.bootstrap_servers, transactional_id=one) as producer,
        member(style, broker, one) as consumer,
    ):
        with producer.transaction() as tx:
            for number in range(5):
                tx.send(one, b"%d" % number).result(WAIT_S)
            for record in consumer:
                if record.offset == 4:
                    break
        # The loop was left with the last record in hand, and now only the marker is read.
        until(lambda: consumer.position(tp) == 6)
        consumer.close()
        assert committed(broker, one) == 4


def test_an_aborted_transaction_after_a_failed_batch_does_not_count_it_as_handled(style, broker, one):
    tp = TopicPartition(one, 0)
    with klamm.Producer(broker.bootstrap_servers) as producer:
        producer.send_many(one, [b"%d" % number for number in range(5)])
    with suppress(ZeroDivisionError), member(style, broker, one, isolation_level="read_committed") as consumer:
        assert len(consumer.poll(WAIT_S)) == 5
        with (
            suppress(KeyError),
            klamm.Producer(broker.bootstrap_servers, transactional_id=one) as producer,
            producer.transaction() as tx,
        ):
            tx.send(one, b"aborted").result(WAIT_S)
            raise KeyError
        until(lambda: consumer.position(tp) == 7)
        raise ZeroDivisionError
    assert committed(broker, one) == 0


def test_the_commit_after_the_last_record_includes_the_marker_after_it(style, broker, one):
    tp = TopicPartition(one, 0)
    with klamm.Producer(broker.bootstrap_servers, transactional_id=one) as producer, producer.transaction() as tx:
        tx.send_many(one, [b"%d" % number for number in range(5)])
    with member(style, broker, one) as consumer:
        assert len(consumer.poll(WAIT_S)) == 5
        until(lambda: consumer.position(tp) == 6)
    assert committed(broker, one) == 6


def test_what_was_sought_back_for_is_committed_too(style, broker, one):
    tp = TopicPartition(one, 0)
    with klamm.Producer(broker.bootstrap_servers) as producer:
        producer.send_many(one, [b"%d" % number for number in range(100)])
    for start, count, end in ((0, 100, 100), (10, 40, 50)):
        with member(style, broker, one) as consumer:
            until(lambda: consumer.assignment() or consumer.poll(0.1))
            consumer.seek(tp, start)
            left = count
            while left:
                left -= len(consumer.poll(WAIT_S, left))
        assert committed(broker, one) == end


@pytest.mark.parametrize("what", ["cut", "made anew"])
def test_commit_does_not_go_beyond_where_the_consumer_went_back_to(what):
    names = ("changed", "kept")
    tps = {name: TopicPartition(name, 0) for name in names}
    with DevBroker() as broker, klamm.Admin(broker.bootstrap_servers) as admin:
        admin.create_topics({name: klamm.NewTopic() for name in names})
        with klamm.Producer(broker.bootstrap_servers) as producer:
            for number in range(10):
                producer.send("changed", b"%d" % number).result(WAIT_S)
        config = {"enable_auto_commit": False, "auto_offset_reset": "earliest", "metadata_max_age_ms": 100}
        with klamm.Consumer(
            broker.bootstrap_servers, group_id="g", allow_auto_create_topics=False, **config
        ) as consumer:
            consumer.assign(list(tps.values()))
            left = 10
            while left:
                left -= len(consumer.poll(WAIT_S))
            with klamm.Producer(broker.bootstrap_servers) as producer:
                producer.send_many("kept", [b"%d" % number for number in range(100)])
            # Records wait in the consumer from now on.
            assert next(iter(consumer)).topic == "kept"
            if what == "cut":
                broker.truncate("changed", 0, 5)
            else:
                admin.delete_topics(["changed"])
                admin.create_topics({"changed": klamm.NewTopic()})
            end = consumer.end_offsets([tps["changed"]])[tps["changed"]]
            until(lambda: consumer.position(tps["changed"]) == end)
            consumer.commit()
        assert admin.group_offsets("g") == {tps["changed"]: end, tps["kept"]: 1}

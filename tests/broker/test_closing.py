"""Ends of consumers and producers by an exception: what is committed, and that the member leaves its group in time."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import subprocess
import sys
import threading
import time

import pytest

import klamm
from klamm import TopicPartition
from klamm.errors import ArgumentError, KafkaTimeoutError
from klamm.testing import DevBroker
from log_lines import collected
from settled import configure_group, until

WAIT_S = 20


@pytest.fixture
def ten(broker, topic):
    """A topic with ten records in one partition."""
    with klamm.Admin(broker.bootstrap_servers) as admin:
        admin.create_topics({topic: klamm.NewTopic()})
    with klamm.Producer(broker.bootstrap_servers) as producer:
        producer.send_many(topic, [b"%d" % n for n in range(10)])
    return topic


def member(style, broker, topic, **config):
    config = {"auto_offset_reset": "earliest", **config}
    return style.consumer(broker.bootstrap_servers, group_id=topic, topics=[topic], **config)


def committed(broker, topic):
    with klamm.Admin(broker.bootstrap_servers) as admin:
        return admin.group_offsets(topic).get(TopicPartition(topic, 0))


def members(broker, group):
    with klamm.Admin(broker.bootstrap_servers) as admin:
        return admin.describe_groups([group])[group].members


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, asyncio.CancelledError, RuntimeError])
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_an_exception_in_a_block_commits_what_is_finished_and_leaves_the_group(style, broker, ten, kind, protocol):
    with contextlib.suppress(kind), member(style, broker, ten, group_protocol=protocol) as consumer:
        for record in consumer:
            if record.offset == 7:
                raise kind
    assert committed(broker, ten) == 7
    assert members(broker, ten) == []


def test_a_cancelled_task_commits_what_is_finished_and_leaves_the_group(broker, ten):
    async def read(reached):
        config = {"group_id": ten, "topics": [ten], "auto_offset_reset": "earliest"}
        async with klamm.AsyncConsumer(broker.bootstrap_servers, **config) as consumer:
            async for record in consumer:
                if record.offset == 9:
                    reached.set()

    async def main():
        reached = asyncio.Event()
        task = asyncio.create_task(read(reached))
        await asyncio.wait_for(reached.wait(), WAIT_S)
        await asyncio.sleep(0)  # the loop asks for the record after the last
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert committed(broker, ten) == 10
    assert members(broker, ten) == []


def test_a_close_without_a_timeout_leaves_the_group(style, broker, ten):
    consumer = member(style, broker, ten)
    assert len(consumer.poll(WAIT_S)) == 10
    consumer.close(timeout=0)
    assert committed(broker, ten) == 10
    assert members(broker, ten) == []


@pytest.mark.parametrize("api", ["OffsetCommit", "LeaveGroup"])
def test_close_timeout_bounds_the_end_of_a_block(style, api):
    with DevBroker() as dev:
        with klamm.Producer(dev.bootstrap_servers) as producer:
            producer.send_many("t", [b"v"] * 10, partition=0)
        dev.fault(api, "delay", seconds=60, times=None)
        began = time.monotonic()
        with contextlib.suppress(KeyboardInterrupt), member(style, dev, "t", close_timeout=0.3) as consumer:
            next(iter(consumer))
            next(iter(consumer))
            began = time.monotonic()
            raise KeyboardInterrupt
        assert time.monotonic() - began < 10
        dev.clear_faults()


@pytest.mark.parametrize("api", ["OffsetCommit", "LeaveGroup"])
def test_a_close_without_a_timeout_is_bounded(style, api):
    with DevBroker() as dev:
        with klamm.Producer(dev.bootstrap_servers) as producer:
            producer.send_many("t", [b"v"] * 10, partition=0)
        dev.fault(api, "delay", seconds=60, times=None)
        with contextlib.suppress(KafkaTimeoutError), member(style, dev, "t", default_close_timeout_ms=300) as consumer:
            assert len(consumer.poll(WAIT_S)) == 10
            began = time.monotonic()
        assert time.monotonic() - began < 10
        dev.clear_faults()


def test_a_close_without_a_timeout_is_bounded_for_a_share_consumer(style):
    with DevBroker() as dev:
        consumer = style.share_consumer(dev.bootstrap_servers, "g", ["t"], default_close_timeout_ms=300)
        with klamm.Producer(dev.bootstrap_servers) as producer:
            producer.send_many("t", [b"v"] * 10, partition=0)
        consumer.poll(1)
        dev.fault("ShareGroupHeartbeat", "delay", seconds=60, times=None)
        began = time.monotonic()
        with contextlib.suppress(KafkaTimeoutError):
            consumer.close()
        assert time.monotonic() - began < 10
        dev.clear_faults()


@pytest.mark.parametrize(
    ("protocol", "api"),
    [("classic", "LeaveGroup"), ("consumer", "ConsumerGroupHeartbeat"), ("share", "ShareGroupHeartbeat")],
)
def test_a_close_that_does_not_leave_the_group_in_time_logs_it(style, protocol, api):
    with DevBroker() as dev, collected() as lines:
        with klamm.Producer(dev.bootstrap_servers) as producer:
            producer.send("t", b"v", partition=0).result(WAIT_S)
        if protocol == "share":
            consumer = style.share_consumer(dev.bootstrap_servers, "g", ["t"])
        else:
            consumer = style.consumer(dev.bootstrap_servers, "g", ["t"], group_protocol=protocol)
        lines.find("is a member of group", WAIT_S)
        dev.fault(api, "delay", seconds=60, times=None)
        consumer.close(timeout=0.3)
        lines.find('did not confirm in time that the client left group "g"', level=logging.WARNING)
        dev.clear_faults()


def test_a_close_that_does_not_end_the_transaction_in_time_logs_it():
    with DevBroker() as dev, collected() as lines:
        producer = klamm.Producer(dev.bootstrap_servers, transactional_id="x")
        producer.transaction().__enter__().send_nowait("t", b"v")
        producer.flush(WAIT_S)
        dev.fault("EndTxn", "delay", seconds=60, times=None)
        with contextlib.suppress(KafkaTimeoutError):
            producer.close(timeout=0.3)
        lines.find('ended in a transaction of transactional id "x"', level=logging.WARNING)
        dev.clear_faults()


@pytest.mark.parametrize("way", ["close", "with"])
def test_a_close_without_a_timeout_names_the_records_of_each_topic_that_it_drops(style, way, caplog):
    with DevBroker() as dev:
        dev.fault("Produce", "delay", seconds=60, times=None)
        error = r"^3 records were still in flight when the producer was closed after 0\.3 s: 2 in topic a, 1 in topic b"
        producer = style.producer(dev.bootstrap_servers, default_close_timeout_ms=300)
        began = time.monotonic()
        producer.send_many("a", [b"v"] * 2)
        producer.send_many("b", [b"v"])
        with caplog.at_level("WARNING"), pytest.raises(KafkaTimeoutError, match=error):
            producer.close() if way == "close" else producer.__exit__(None, None, None)
        assert time.monotonic() - began < 10
        warning = (
            "3 records were not acknowledged before the producer ended, and may be lost: 2 in topic a, 1 in topic b"
        )
        until(lambda: sum(warning in record.getMessage() for record in caplog.records) == 1)
        dev.clear_faults()


def test_the_leave_is_sent_even_if_the_commit_takes_all_the_time(style):
    with DevBroker() as dev:
        with klamm.Producer(dev.bootstrap_servers) as producer:
            producer.send_many("t", [b"v"] * 10, partition=0)
        dev.fail_next("OffsetCommit", error="COORDINATOR_LOAD_IN_PROGRESS", times=None)
        with contextlib.suppress(KeyboardInterrupt), member(style, dev, "t", close_timeout=0.3) as consumer:
            assert len(consumer.poll(WAIT_S)) == 10
            consumer.poll(0)
            raise KeyboardInterrupt
        until(lambda: dev.requests("LeaveGroup"))


READER = """
import signal, sys, klamm
signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
servers, topic, closing = sys.argv[1:]
with klamm.Consumer(servers, group_id=topic, topics=[topic], auto_offset_reset="earliest",
                    auto_commit_interval_ms=3_600_000, close_timeout=float(closing)) as consumer:
    for record in consumer:
        if record.offset == 9:
            consumer.poll(0)
            print("read", flush=True)
"""


@contextlib.contextmanager
def reader(broker, topic, close_timeout=2.0):
    """A process that has read ten records and waits for more."""
    command = [sys.executable, "-c", READER, broker.bootstrap_servers, topic, str(close_timeout)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        assert process.stdout.readline() == b"read\n"
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_commits_what_is_finished_and_leaves_the_group(broker, ten, number):
    with reader(broker, ten) as process:
        process.send_signal(number)
        assert process.wait(WAIT_S) in (-signal.SIGINT, 130, 3)
    assert committed(broker, ten) == 10
    assert members(broker, ten) == []


def test_a_second_interrupt_skips_the_close(topic):
    with DevBroker() as dev:
        with klamm.Producer(dev.bootstrap_servers) as producer:
            producer.send_many(topic, [b"v"] * 10, partition=0)
        dev.fault("OffsetCommit", "delay", seconds=600, times=None)
        with reader(dev, topic, close_timeout=600) as process:
            process.send_signal(signal.SIGINT)
            until(lambda: dev.requests("OffsetCommit"))
            process.send_signal(signal.SIGINT)
            assert process.wait(WAIT_S) in (-signal.SIGINT, 130)
        dev.clear_faults()


def test_a_second_cancellation_skips_the_close():
    async def main(dev):
        async def read():
            config = {"group_id": "t", "topics": ["t"], "auto_offset_reset": "earliest", "close_timeout": 600}
            async with klamm.AsyncConsumer(dev.bootstrap_servers, **config) as consumer:
                assert len(await consumer.poll(WAIT_S)) == 10
                await consumer.poll(0)
                raise asyncio.CancelledError

        task = asyncio.create_task(read())
        await asyncio.to_thread(until, lambda: dev.requests("OffsetCommit"))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, WAIT_S)

    with DevBroker() as dev:
        with klamm.Producer(dev.bootstrap_servers) as producer:
            producer.send_many("t", [b"v"] * 10, partition=0)
        dev.fault("OffsetCommit", "delay", seconds=600, times=None)
        runner = threading.Thread(target=asyncio.run, args=(main(dev),))
        runner.start()
        runner.join(WAIT_S)
        assert not runner.is_alive()  # the thread of the close has ended as well
        dev.clear_faults()


def test_a_listener_that_raises_does_not_keep_the_member_in_its_group(style, broker, ten):
    class Raises(klamm.RebalanceListener):
        def revoked(self, _partitions):
            raise ZeroDivisionError

    consumer = style.consumer(broker.bootstrap_servers, group_id=ten, auto_offset_reset="earliest")
    consumer.subscribe([ten], on_rebalance=Raises())
    assert len(consumer.poll(WAIT_S)) == 10
    with pytest.raises(ZeroDivisionError):
        consumer.close()
    assert committed(broker, ten) == 10
    assert members(broker, ten) == []


def closed_in_finally(consumer, poll):
    try:
        poll(consumer)
    finally:
        consumer.close()


def closed_by_closing(consumer, poll):
    with contextlib.closing(consumer):
        poll(consumer)


def closed_by_exit_stack(consumer, poll):
    with contextlib.ExitStack() as stack:
        stack.callback(consumer.close)
        poll(consumer)


def closed_by_a_context_manager(consumer, poll):
    @contextlib.contextmanager
    def managed():
        try:
            yield
        finally:
            consumer.close()

    with managed():
        poll(consumer)


def closed_in_except(consumer, poll):
    try:
        poll(consumer)
    except ZeroDivisionError:
        consumer.close()
        raise


@pytest.mark.parametrize(
    "close",
    [closed_in_finally, closed_by_closing, closed_by_exit_stack, closed_by_a_context_manager, closed_in_except],
)
@pytest.mark.parametrize("fails", [True, False], ids=["raises", "succeeds"])
def test_a_close_during_an_exception_does_not_commit_the_batch_that_failed(style, broker, ten, close, fails):
    def poll(consumer):
        assert len(consumer.poll(WAIT_S, 4)) == 4
        assert len(consumer.poll(WAIT_S, 4)) == 4
        if fails:
            raise ZeroDivisionError

    consumer = member(style, broker, ten)
    with contextlib.suppress(ZeroDivisionError):
        close(consumer, poll)
    consumer.close()  # closed_in_except does not close without an exception
    assert committed(broker, ten) == (4 if fails else 8)
    assert members(broker, ten) == []


def test_a_close_commits_what_was_polled_while_an_older_exception_is_handled(style, broker, ten):
    try:
        {}["missing"]
    except KeyError:
        consumer = member(style, broker, ten)
        assert len(consumer.poll(WAIT_S)) == 10
        consumer.close()
    assert committed(broker, ten) == 10


@pytest.mark.parametrize(("commit", "expected"), [(None, 4), (False, 4), (True, 8)])
def test_the_argument_commit_decides_about_a_close_during_an_exception(style, broker, ten, commit, expected):
    consumer = member(style, broker, ten, auto_commit_interval_ms=3_600_000)
    with contextlib.suppress(ZeroDivisionError):
        try:
            assert len(consumer.poll(WAIT_S, 4)) == 4
            consumer.commit()
            assert len(consumer.poll(WAIT_S, 4)) == 4
            raise ZeroDivisionError
        finally:
            consumer.close(commit=commit)
    assert committed(broker, ten) == expected


def test_a_close_with_commit_false_commits_nothing(style, broker, ten):
    consumer = member(style, broker, ten, auto_commit_interval_ms=3_600_000)
    assert len(consumer.poll(WAIT_S, 4)) == 4
    assert len(consumer.poll(WAIT_S, 4)) == 4
    consumer.close(commit=False)
    assert committed(broker, ten) is None
    assert members(broker, ten) == []


def test_commit_has_to_be_a_bool(style, broker):
    for make in style.consumer, style.share_consumer:
        with make(broker.bootstrap_servers, group_id="g") as consumer, pytest.raises(ArgumentError, match="commit"):
            consumer.close(commit="no")


@pytest.mark.parametrize(("end", "expected"), [("1 / 0", 0), ("pass", 10)])
def test_a_close_by_atexit_does_not_commit_the_batch_whose_exception_ended_the_program(broker, ten, end, expected):
    program = f"""
import atexit, klamm
consumer = klamm.Consumer({broker.bootstrap_servers!r}, group_id={ten!r}, topics=[{ten!r}], auto_offset_reset="earliest")
atexit.register(consumer.close)
assert len(consumer.poll({WAIT_S})) == 10
{end}
"""
    subprocess.run([sys.executable, "-c", program], stderr=subprocess.DEVNULL, timeout=60, check=False)
    assert committed(broker, ten) == expected


@pytest.fixture
def group(broker, ten):
    """A share group that starts at the beginning of topics."""
    with klamm.Admin(broker.bootstrap_servers) as admin:
        configure_group(admin, ten, {"share.auto.offset.reset": "earliest"})
    return ten


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, asyncio.CancelledError])
def test_a_share_consumer_leaves_its_group_after_an_exception(style, broker, group, kind):
    with (
        contextlib.suppress(kind),
        style.share_consumer(broker.bootstrap_servers, group_id=group, topics=[group]) as consumer,
    ):
        for record in consumer:
            if record.offset == 4:
                raise kind
    assert members(broker, group) == []
    with klamm.ShareConsumer(broker.bootstrap_servers, group_id=group, topics=[group]) as consumer:
        assert [record.offset for record in consumer.poll(WAIT_S)] == [4, 5, 6, 7, 8, 9]


@pytest.mark.parametrize("commit", [True, False])
def test_a_share_consumer_that_is_closed_accepts_only_what_is_finished(style, broker, group, commit):
    consumer = style.share_consumer(broker.bootstrap_servers, group_id=group, topics=[group])
    with contextlib.suppress(ZeroDivisionError):
        try:
            for record in consumer:
                if record.offset == 4:
                    raise ZeroDivisionError
        finally:
            consumer.close(commit=commit)
    first = 4 if commit else 0
    with klamm.ShareConsumer(broker.bootstrap_servers, group_id=group, topics=[group]) as consumer:
        assert [record.offset for record in consumer.poll(WAIT_S)] == list(range(first, 10))


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, asyncio.CancelledError, RuntimeError])
def test_an_exception_in_a_block_of_a_producer_loses_no_record(style, broker, topic, kind):
    with contextlib.suppress(kind), style.producer(broker.bootstrap_servers, linger_ms=100) as producer:
        for _ in range(100):
            producer.send_nowait(topic, b"v")
        raise kind
    assert klamm.read_table(broker.bootstrap_servers, topic).num_rows == 100


def test_an_interrupt_in_a_transaction_aborts_it(broker, topic):
    with (
        contextlib.suppress(KeyboardInterrupt),
        klamm.Producer(broker.bootstrap_servers, transactional_id=topic) as producer,
        producer.transaction() as tx,
    ):
        tx.send(topic, b"v").result(WAIT_S)
        raise KeyboardInterrupt
    # An open transaction would hold back the records after it for a minute.
    with klamm.Producer(broker.bootstrap_servers) as producer:
        producer.send(topic, b"after", partition=0).result(WAIT_S)
    with klamm.Consumer(broker.bootstrap_servers, isolation_level="read_committed") as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        assert [record.value for record in consumer.poll(WAIT_S)] == [b"after"]


def test_an_unsubscribe_during_an_exception_does_not_commit_the_batch_that_failed(style, broker, ten):
    with member(style, broker, ten) as consumer, contextlib.suppress(ZeroDivisionError):
        try:
            assert len(consumer.poll(WAIT_S, 4)) == 4
            assert len(consumer.poll(WAIT_S, 4)) == 4
            raise ZeroDivisionError
        finally:
            consumer.unsubscribe()
    assert committed(broker, ten) == 4

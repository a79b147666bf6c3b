"""Clients of Kafka 0.7 when programs raise, ZooKeeper goes away, a broker is silent, or members cannot read each other."""

from __future__ import annotations

import contextlib
import threading
import types
from itertools import count

import pytest

import klamm
from chaos_proxy import ChaosProxy
from jvm_member import JvmMember, streams_of
from kafka_broker import KafkaUnavailable
from klamm import legacy
from klamm.errors import ConfigError, KafkaError, KafkaTimeoutError, NetworkError
from klamm.testing import DevBroker
from legacy_groups import SESSION, bounded, eventually, fill, member, owners, payloads, read
from zookeeper_server import RealZooKeeper

kazoo_client = pytest.importorskip("kazoo.client")

# kazoo forgets to close the pipe of a connection whose session has ended.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

_names = count(1)


@pytest.fixture(scope="module")
def zookeeper():
    try:
        running = RealZooKeeper().start()
    except KafkaUnavailable as why:
        pytest.skip(f"no ZooKeeper: {why}")
    yield running
    running.__exit__()


@pytest.fixture
def mortal():
    """Provide a ZooKeeper that the test may kill, with a dev broker of two partitions."""
    try:
        own = RealZooKeeper().start()
    except KafkaUnavailable as why:
        pytest.skip(f"no ZooKeeper: {why}")
    with (
        own,
        DevBroker(as_version="0.7.2", default_partitions=2, zookeeper=own.hosts) as broker,
    ):
        own.broker = broker
        yield own


@pytest.fixture(scope="module")
def broker(zookeeper):
    with DevBroker(brokers=2, as_version="0.7.2", default_partitions=2, zookeeper=zookeeper.hosts) as running:
        yield running


@pytest.fixture
def tree(zookeeper):
    client = kazoo_client.KazooClient(zookeeper.hosts)
    client.start(30)
    yield client
    client.stop()
    client.close()


@pytest.fixture
def topic():
    return f"t{next(_names)}"


@pytest.fixture
def group():
    return f"g{next(_names)}"


class ProgramError(Exception):
    """What the programs of these tests raise."""


# Ways in which a consumer ends.


def ends_in_with(consumer, error):
    with consumer:
        assert len(consumer.poll(20, 3)) == 3
        assert len(consumer.poll(20, 5)) == 5
        raise error


def ends_in_finally(consumer, error):
    try:
        assert len(consumer.poll(20, 3)) == 3
        assert len(consumer.poll(20, 5)) == 5
        raise error
    finally:
        consumer.close()


def ends_in_closing(consumer, error):
    with contextlib.closing(consumer):
        assert len(consumer.poll(20, 3)) == 3
        assert len(consumer.poll(20, 5)) == 5
        raise error


def ends_in_exit_stack(consumer, error):
    with contextlib.ExitStack() as stack:
        stack.callback(consumer.close)
        assert len(consumer.poll(20, 3)) == 3
        assert len(consumer.poll(20, 5)) == 5
        raise error


def ends_in_loop(consumer, error):
    with consumer:
        for number, _ in enumerate(consumer, start=1):
            if number == 4:
                raise error


@pytest.mark.usefixtures("broker")
@pytest.mark.parametrize("ends", [ends_in_with, ends_in_finally, ends_in_closing, ends_in_exit_stack, ends_in_loop])
@pytest.mark.parametrize("error", [ProgramError, KeyboardInterrupt, GeneratorExit])
def test_a_program_that_raises_commits_only_what_it_had_finished(zookeeper, topic, group, ends, error):
    sent = fill(zookeeper, topic)
    with contextlib.suppress(error):
        ends(member(zookeeper, group, topic), error)
    with member(zookeeper, group, topic) as following:
        assert len(read([following], 37)) == 37
        assert following.poll(0.3) == []
    assert len(sent) == 40


# Ways in which a program ends in the middle of the second batch, without an exception that `close` could see. Each
# returns the number of messages of this batch that the group must deliver again.


def polls(consumer):
    assert len(consumer.poll(20, 3)) == 3
    return consumer.poll(20, 5)


def closes_after_a_caught_exception(consumer):
    with contextlib.suppress(ProgramError):
        for number, _ in enumerate(polls(consumer)):
            if number == 2:
                raise ProgramError
    consumer.close()
    return 5


def closes_after_it_stopped(consumer):
    for number, _ in enumerate(polls(consumer)):
        if number == 2:
            break
    consumer.close()
    return 5


def closes_in_the_loop(consumer):
    for number, _ in enumerate(polls(consumer)):
        if number == 2:
            consumer.close()
    return 5


def closes_in_another_thread(consumer):
    for number, _ in enumerate(polls(consumer)):
        if number == 2:
            closing = threading.Thread(target=consumer.close)
            closing.start()
            closing.join()
    return 5


def closes_after_a_failed_write(consumer):
    batch = [message.payload for message in polls(consumer)]
    with contextlib.suppress(ProgramError):
        raise ProgramError(batch)
    consumer.close()
    return 5


def leaves_a_with_block_in_the_middle(consumer):
    with consumer:
        batch = polls(consumer)
        assert len([message.payload for message in batch]) == 5  # the program only looks at the messages
        for number, _ in enumerate(batch):
            if number == 2:
                break
    return 3


def leaves_a_generator_in_the_middle(consumer):
    def messages():
        while True:
            yield from polls(consumer)

    with consumer:
        for number, _ in enumerate(messages()):
            if number == 2:
                break
    return 3


def leaves_a_with_block_with_a_batch_that_it_has_not_read(consumer):
    with consumer:
        polls(consumer)
    return 5


def leaves_a_with_block_after_a_whole_batch(consumer):
    with consumer:
        for _ in polls(consumer):
            pass
    return 0


def closes_with_commit(consumer):
    polls(consumer)
    consumer.close(commit=True)
    return 0


@pytest.mark.usefixtures("broker")
@pytest.mark.parametrize(
    "ends",
    [
        closes_after_a_caught_exception,
        closes_after_it_stopped,
        closes_in_the_loop,
        closes_in_another_thread,
        closes_after_a_failed_write,
        leaves_a_with_block_in_the_middle,
        leaves_a_generator_in_the_middle,
        leaves_a_with_block_with_a_batch_that_it_has_not_read,
        leaves_a_with_block_after_a_whole_batch,
        closes_with_commit,
    ],
)
def test_a_program_that_stops_in_a_batch_gets_unfinished_messages_again(zookeeper, topic, group, ends):
    fill(zookeeper, topic)
    again = ends(member(zookeeper, group, topic))
    with member(zookeeper, group, topic) as following:
        assert len(read([following], 32 + again)) == 32 + again
        assert following.poll(0.3) == []


@pytest.mark.usefixtures("broker")
@pytest.mark.parametrize(("commit", "rest"), [(False, 40), (None, 35), (True, 32)])
def test_close_takes_what_to_commit(zookeeper, topic, group, commit, rest):
    fill(zookeeper, topic)
    consumer = member(zookeeper, group, topic)
    with contextlib.suppress(ProgramError):
        try:
            assert len(consumer.poll(20, 5)) == 5
            assert len(consumer.poll(20, 3)) == 3
            raise ProgramError
        finally:
            consumer.close(commit=commit)
    with member(zookeeper, group, topic) as following:
        assert len(read([following], rest)) == rest
        assert following.poll(0.3) == []


@pytest.mark.usefixtures("broker")
def test_a_loop_that_was_left_early_does_not_finish_its_last_message(zookeeper, topic, group):
    fill(zookeeper, topic)
    consumer = member(zookeeper, group, topic)
    for number, _ in enumerate(consumer):
        if number == 3:
            break
    consumer.close()
    with member(zookeeper, group, topic) as consumer:
        for _ in consumer:
            break
    with member(zookeeper, group, topic) as following:
        assert len(read([following], 37)) == 37
        assert following.poll(0.3) == []


def test_the_error_of_the_program_is_not_replaced_by_that_of_the_close():
    with DevBroker(as_version="0.7.2") as broker:
        producer = legacy.Producer07(broker.bootstrap_servers, batch_messages=10, timeout=5)
        with pytest.raises(ProgramError), producer:  # noqa: PT012 - the exit is what raised
            producer.send("t", b"v")
            broker.kill(1)
            raise ProgramError


def test_a_producer_continues_without_zookeeper_and_refreshes_when_it_returns(mortal):
    with legacy.Producer07(zookeeper=mortal.hosts, timeout=3) as producer:
        producer.send("t", b"first")
        eventually(lambda: len(producer._registry.partitions("t")) == 2)
        mortal.kill()
        for number in range(20):
            assert bounded(lambda n=number: producer.send("t", b"%d" % n, partition=n % 2)) is None
        error = bounded(lambda: producer.send("other", b"v"))
        assert isinstance(error, KafkaTimeoutError)
        assert "/brokers/topics/other" in str(error)
        producer.flush(confirm=True)
        mortal.start()
        with legacy.Producer07(mortal.broker.bootstrap_servers) as another:
            another.send("third", b"v", partition=1)
        # The connection may take longer than the timeout of a lookup.
        eventually(lambda: bounded(lambda: producer._registry.partitions("third")) == [(1, 0), (1, 1)])
        eventually(lambda: not isinstance(bounded(lambda: producer.send("third", b"v")), Exception))
    with legacy.Consumer07(mortal.broker.bootstrap_servers) as consumer:
        found = [m.payload for number in (0, 1) for m in consumer.messages("t", number, 0)]
    assert sorted(found) == sorted([b"first", *(b"%d" % number for number in range(20))])


def test_a_zookeeper_that_is_silent_stops_no_producer_and_no_close(mortal):
    with ChaosProxy() as proxy:
        proxy.target = mortal.hosts
        producer = legacy.Producer07(zookeeper=proxy.address, timeout=3)
        producer.send("t", b"first")
        offsets = legacy.ZooKeeperOffsets(proxy.address, "g", timeout=0.5)
        proxy.silent = True
        proxy.half_open()
        for number in range(5):
            assert bounded(lambda n=number: producer.send("t", b"%d" % n)) is None
        for call in (offsets.read, lambda: offsets.write({klamm.TopicPartition("t", 0): 1})):
            assert isinstance(bounded(call), (KafkaTimeoutError, NetworkError))
        assert isinstance(bounded(lambda: legacy.Producer07(zookeeper=proxy.address, timeout=0.5)), NetworkError)
        assert bounded(producer.close) is None
        assert bounded(offsets.close) is None


@pytest.mark.parametrize(
    "connect",
    [
        lambda hosts: member(types.SimpleNamespace(hosts=hosts), "g", "t"),
        lambda hosts: legacy.Producer07(zookeeper=hosts),
        lambda hosts: legacy.ZooKeeperOffsets(hosts, "g"),
    ],
    ids=["member", "producer", "offsets"],
)
def test_clients_make_no_long_pauses_between_attempts_to_reach_zookeeper(mortal, connect):
    with ChaosProxy() as proxy:
        proxy.target = mortal.hosts
        with connect(proxy.address):
            mortal.kill()
            first = proxy.connections
            eventually(lambda: proxy.connections >= first + 12)  # takes minutes if the pauses double


def test_a_failed_member_that_zookeeper_does_not_release_can_be_closed(mortal, monkeypatch):
    with ChaosProxy() as proxy:
        proxy.target = mortal.hosts
        consumer = legacy.GroupConsumer07(proxy.address, "g", ["t"], session_timeout=4)
        proxy.silent = True
        monkeypatch.setattr(consumer, "_process_inputs", lambda: 1 / 0)
        eventually(lambda: consumer._failure is not None)
        assert "ZeroDivisionError" in str(bounded(consumer.close))
        # The session ends in the background. An exception in its thread would fail this test.
        for thread in threading.enumerate():
            if thread.name == "klamm-zookeeper-close":
                thread.join(60)
                assert not thread.is_alive()


def test_offsets_of_0_8_are_read_within_the_timeout(mortal):
    with legacy.ZooKeeperOffsets(mortal.hosts, "g", timeout=0.5) as offsets:
        offsets.write({klamm.TopicPartition("t", 0): 1})
        mortal.kill()
        assert isinstance(bounded(offsets.read), (KafkaTimeoutError, NetworkError))
        assert isinstance(
            bounded(lambda: offsets.write({klamm.TopicPartition("t", 0): 2})), (KafkaTimeoutError, NetworkError)
        )
        mortal.start()
        # A write that has timed out may still be done.
        eventually(lambda: bounded(offsets.read) in [{klamm.TopicPartition("t", 0): n} for n in (1, 2)])


def test_a_dev_broker_works_while_its_zookeeper_is_away(mortal):
    broker = mortal.broker
    node = broker.add_node()
    mortal.kill()
    assert bounded(lambda: broker.kill(node)) is None
    assert bounded(broker.add_node) == 3
    mortal.start()
    with legacy.Producer07(zookeeper=mortal.hosts) as producer:
        eventually(lambda: producer._registry.partitions("new") == [(1, 0), (3, 0)])


def test_a_new_topic_keeps_partition_0_of_the_brokers_that_have_not_registered_it(zookeeper, topic, tree):
    tree.ensure_path(f"/{topic}")
    hosts = f"{zookeeper.hosts}/{topic}"
    with (
        DevBroker(brokers=3, as_version="0.7.2", default_partitions=2, zookeeper=hosts) as broker,
        legacy.Producer07(zookeeper=hosts) as producer,
    ):
        assert producer._registry.partitions("t") == [(1, 0), (2, 0), (3, 0)]
        producer.send("t", b"first", partition=1)
        eventually(lambda: producer._registry.partitions("t") == [(1, 0), (2, 0), (2, 1), (3, 0)])
        for number in range(60):
            producer.send("t", b"%d" % number)
        producer.flush(confirm=True)
        eventually(lambda: len(producer._registry.partitions("t")) == 6)
        # A broker that dies leaves the pool. When it is back, only what it registers is in it.
        broker.kill(3)
        eventually(lambda: len(producer._registry.partitions("t")) == 4)


def test_commit_raises_if_zookeeper_did_not_store_the_offsets(mortal):
    fill_one(mortal, 40)
    consumer = member(mortal, "g", "t", session_timeout=SESSION)
    assert len(read([consumer], 40)) == 40
    mortal.kill()
    error = bounded(lambda: consumer.commit(0.3))
    assert isinstance(error, KafkaError)
    # Later the session is over, so that the offsets may be those of another member.
    eventually(lambda: not consumer.assignment())
    error = bounded(lambda: consumer.commit(10))
    assert isinstance(error, NetworkError)
    assert "t/1-0" in str(error)
    mortal.start()
    assert len(read([consumer], 40)) == 40
    assert bounded(consumer.commit) is None
    assert bounded(consumer.close) is None
    with member(mortal, "g", "t") as following:
        assert read([following], 1, 2) == []


def test_a_lost_session_without_messages_is_nothing_to_report(mortal):
    fill_one(mortal, 4)
    consumer = member(mortal, "g", "t")
    eventually(lambda: len(consumer.assignment()) == 2)
    mortal.kill()
    eventually(lambda: not consumer.assignment())
    assert bounded(consumer.commit) is None
    assert bounded(consumer.close) is None


def fill_one(zookeeper, n):
    with legacy.Producer07(zookeeper.broker.bootstrap_servers) as producer:
        for number in range(n):
            producer.send("t", b"%d" % number, partition=number % 2)
        producer.flush(confirm=True)


def test_commit_waits_while_zookeeper_restarts(mortal):
    fill_one(mortal, 10)
    consumer = member(mortal, "g", "t", session_timeout=4.0)
    assert len(read([consumer], 10)) == 10
    mortal.kill()
    with pytest.raises(KafkaTimeoutError):
        consumer.commit(0.1)
    mortal.start()
    result = bounded(lambda: consumer.commit(20))
    if result is not None:  # a slow machine: the session ended, and commit says so
        assert isinstance(result, NetworkError)
    consumer.close()


@pytest.fixture
def silence(broker):
    """Provide a function that makes node 2 accept requests and never answer, until the test ends."""

    def change(silent=True):
        if silent:
            broker.fault(None, "delay", seconds=3600, times=None, node=2)
        else:
            broker.clear_faults()

    yield change
    change(False)


def test_a_silent_broker_does_not_delay_the_messages_of_others(zookeeper, broker, topic, group, silence):
    sent = fill(zookeeper, topic)
    silence()
    with member(zookeeper, group, topic, timeout=600) as consumer:
        found = payloads(read([consumer], 21))
        assert len(found) == 21
        assert set(found) < set(sent)
        with legacy.Producer07(broker.bootstrap_servers.split(",")[0]) as producer:
            for number in range(5):
                producer.send(topic, b"more%d" % number, partition=0)
                assert payloads(read([consumer], 1)) == [b"more%d" % number]


def test_a_silent_broker_is_reported_and_read_again_when_it_answers(zookeeper, broker, topic, group, silence):
    sent = fill(zookeeper, topic)
    silence()
    with member(zookeeper, group, topic, timeout=0.5) as consumer:
        found, errors = [], []

        def poll():
            try:
                found.extend(consumer.poll(0.2))
            except KafkaTimeoutError as error:
                errors.append(error)
            return len(found)

        eventually(lambda: poll() == 21 and errors)
        assert broker.bootstrap_servers.split(",")[1] in str(errors[0])
        silence(False)
        eventually(lambda: poll() == 40)
        assert payloads(found) == sent


def test_a_producer_confirms_with_all_brokers_even_if_one_is_silent():
    with DevBroker(brokers=2, as_version="0.7.2") as broker:
        first, second = broker.bootstrap_servers.split(",")
        producer = legacy.Producer07([first, second], timeout=0.5)
        for number in range(40):  # each goes to any of the two
            producer.send("t", b"%d" % number)
        broker.fault(None, "delay", seconds=3600, times=None, node=1)
        with pytest.raises(KafkaTimeoutError, match=first):
            producer.flush(confirm=True)
        assert producer.unconfirmed == 0
        assert [r.node for r in broker.requests("MultiFetch")] == [2]
        producer.close()


@pytest.mark.usefixtures("broker")
def test_white_and_blacklists_are_rewritten_as_in_java(zookeeper, tree, topic, group):
    fill(zookeeper, f"{topic}a", 4)
    fill(zookeeper, f"{topic}b", 4)
    with member(zookeeper, group, whitelist=f' "{topic}a , {topic}b" ', consumer_id="w") as consumer:
        eventually(lambda: len(consumer.assignment()) == 8)
        assert tree.get(f"/consumers/{group}/ids/{group}_w")[0] == f"*1*{topic}a|{topic}b".encode()
    with member(zookeeper, f"{group}b", blacklist=f"'(?!{topic}).*, {topic}a'", consumer_id="b") as consumer:
        eventually(lambda: {tp[0] for tp in consumer.assignment()} == {f"{topic}b"})
        assert tree.get(f"/consumers/{group}b/ids/{group}b_b")[0] == f"!1!(?!{topic}).*|{topic}a".encode()


@pytest.mark.usefixtures("broker")
@pytest.mark.parametrize(
    "data", ["*2*{topic},other", "*1*  {topic}.{{0}}x | {topic} ", '{{ "{topic}": 2 }}', "!1!other"]
)
def test_a_jvm_member_and_klamm_share_all_partitions(zookeeper, tree, topic, group, data):
    fill(zookeeper, topic)
    data = data.format(topic=topic)
    with member(zookeeper, group, topic, consumer_id="k") as consumer:
        eventually(lambda: len(consumer.assignment()) == 4)
        other = JvmMember(tree, group, "j", data)
        eventually(lambda: other.rebalance(streams_of))
        eventually(lambda: len(owners(tree, group, topic)) == 4)
        shares = {owner.rpartition("-")[0] for owner in owners(tree, group, topic).values()}
        assert shares == {f"{group}_k", f"{group}_j"}
        other.leave()
        eventually(lambda: len(consumer.assignment()) == 4)


@pytest.mark.usefixtures("broker")
@pytest.mark.parametrize(
    "data", [r"*1*[^a&&b]", r"*1*\p{javaLowerCase}", "!1!t{1|2}", '{ "version": 1, "subscription": {} }', ""]
)
def test_a_registration_that_cannot_be_read_is_an_error_and_leaves_nothing_unread(zookeeper, tree, topic, group, data):
    sent = fill(zookeeper, topic)
    with member(zookeeper, group, topic) as consumer:
        eventually(lambda: len(consumer.assignment()) == 4)
        other = JvmMember(tree, group, "j", data)
        found, errors = [], []

        def poll():
            try:
                found.extend(consumer.poll(0.1, 7))
            except KafkaError as error:
                errors.append(error)
            return errors and len(found) >= 40

        eventually(poll)
        assert f"{group}_j" in str(errors[0])
        assert repr(data) in str(errors[0])
        assert len(consumer.assignment()) == 4
        assert payloads(found) == sent
        other.leave()
        assert consumer.poll(0.5) == []


def test_expressions_that_java_or_python_cannot_read_are_refused():
    for expression in ("t{1,2}", "(?P<n>t)", "*", "[a", r"\p{IsLatin}", "a\nb", "(?x)a b"):
        for option in ("whitelist", "blacklist"):
            with pytest.raises(ConfigError, match="invalid regular expression"):
                legacy.GroupConsumer07("127.0.0.1:1", "g", **{option: expression})
    for topics in ({"t": 0}, ['a"b'], ["a/b"], [""]):
        with pytest.raises(ConfigError):
            legacy.GroupConsumer07("127.0.0.1:1", "g", topics)
    with pytest.raises(ConfigError, match="consumer_id"):
        legacy.GroupConsumer07("127.0.0.1:1", "g", ["t"], consumer_id="a/b")


def test_a_chroot_that_does_not_exist_is_a_config_error(zookeeper, tree, topic):
    hosts = f"{zookeeper.hosts}/mistyped"
    for make in (
        lambda: legacy.GroupConsumer07(hosts, "g", ["t"]),
        lambda: legacy.Producer07(zookeeper=hosts),
        lambda: legacy.ZooKeeperOffsets(hosts, "g"),
    ):
        with pytest.raises(ConfigError, match="has no node /mistyped"):
            make()
    tree.ensure_path(f"/{topic}")
    with legacy.GroupConsumer07(f"{zookeeper.hosts}/{topic}", "g", ["t"], timeout=0.5) as consumer:

        def poll():
            try:
                return bool(consumer.poll(0.1))
            except ConfigError as error:
                assert "no broker has ever registered" in str(error)  # noqa: PT017 - which call raises is open
                return True

        eventually(poll)


@pytest.mark.usefixtures("broker")
def test_a_second_member_with_the_same_id_is_reported_and_joins_when_the_first_leaves(zookeeper, topic, group):
    fill(zookeeper, topic, 4)
    first = member(zookeeper, group, topic, consumer_id="same")
    eventually(lambda: len(first.assignment()) == 4)
    with member(zookeeper, group, topic, consumer_id="same") as second:

        def poll():
            try:
                second.poll(0.1)
            except KafkaError as error:
                return f"{group}_same" in str(error) and "consumer_id" in str(error.hint)

        eventually(poll)
        first.close()
        eventually(lambda: len(second.assignment()) == 4)


def test_topics_that_are_not_ascii_need_an_option():
    with DevBroker(as_version="0.7.2") as broker:
        with legacy.Producer07(broker.bootstrap_servers) as producer:
            with pytest.raises(ConfigError, match="not ASCII"):
                producer.send("ünï", b"v")
            producer.send("uni", b"v")
        with legacy.Producer07(broker.bootstrap_servers, unicode_topics=True) as producer:
            producer.send("ünï", b"v", partition=0)
            producer.flush(confirm=True)
        with legacy.Consumer07(broker.bootstrap_servers) as consumer:
            assert [m.payload for m in consumer.messages("ünï", 0, 0)] == [b"v"]

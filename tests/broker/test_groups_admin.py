"""Group administration on both brokers, with members of confluent-kafka and after they have left."""

from __future__ import annotations

import json
from contextlib import closing

import pytest

import klamm
from cli_process import klamm as command
from klamm.errors import (
    ArgumentError,
    ConfigError,
    GroupIdNotFoundError,
    GroupSubscribedToTopicError,
    KafkaTimeoutError,
    NonEmptyGroupError,
    UnknownMemberIdError,
)
from klamm.testing import DevBroker
from settled import until

confluent_kafka = pytest.importorskip("confluent_kafka")
PARTITIONS = 3


@pytest.fixture
def filled(broker, topic):
    """A topic with ten records in each of its partitions."""
    with klamm.Admin(broker.bootstrap_servers) as admin:
        admin.create_topics({topic: klamm.NewTopic(partitions=PARTITIONS)})
    with klamm.Producer(broker.bootstrap_servers) as producer:
        for partition in range(PARTITIONS):
            producer.send_many(topic, [b"v"] * 10, partition=partition)
    return topic


@pytest.fixture
def admin(style, broker):
    """An admin client of either style."""
    with style.admin(broker.bootstrap_servers) as client:
        yield client


def member(broker, topic, **config):
    """A member of another client that owns all partitions."""
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": topic, "client.id": "other"}
    joined = confluent_kafka.Consumer(settings | {name.replace("_", "."): value for name, value in config.items()})
    joined.subscribe([topic])

    def has_all():
        joined.poll(0.1)
        return len(joined.assignment()) == PARTITIONS

    until(has_all)
    return joined


def partitions_of(topic):
    return [klamm.TopicPartition(topic, partition) for partition in range(PARTITIONS)]


def test_a_group_with_a_member(admin, broker, filled):
    with closing(member(broker, filled, group_instance_id="static", partition_assignment_strategy="roundrobin")):
        found = admin.describe_groups([filled])[filled]
        assert (found.group, found.type, found.protocol_type) == (filled, "classic", "consumer")
        assert (found.state, found.assignor) == ("Stable", "roundrobin")
        assert found.coordinator in {node.id for node in admin.describe_cluster().brokers}
        (one,) = found.members
        assert (one.client_id, one.instance_id, one.topics) == ("other", "static", [filled])
        assert one.assigned == partitions_of(filled)
        assert (one.target, one.topic_pattern) == (None, None)
        assert "127.0.0.1" in one.host
        assert one.member_id.startswith("static-")

        listed = {listing.group: listing for listing in admin.list_groups()}
        assert listed[filled] == klamm.GroupListing(filled, "consumer", "Stable", "classic")
        assert filled in [listing.group for listing in admin.list_groups(states=["Stable"], types=["classic"])]
        assert filled not in [listing.group for listing in admin.list_groups(states=["Empty"])]
        assert filled not in [listing.group for listing in admin.list_groups(types=["consumer"])]

        with pytest.raises(NonEmptyGroupError, match="delete group") as caught:
            admin.delete_groups([filled])
        assert "stop them" in caught.value.hint
        with pytest.raises(UnknownMemberIdError) as caught:
            admin.alter_group_offsets(filled, {klamm.TopicPartition(filled, 0): 5})
        assert "stop them" in caught.value.hint


def test_offsets_and_lag_of_a_group_without_members(admin, filled):
    one, other, last = partitions_of(filled)
    admin.alter_group_offsets(filled, {one: 3, other: klamm.OffsetAndMetadata(10, "text")})
    assert admin.group_offsets(filled) == {one: 3, other: 10}
    assert admin.group_lag(filled) == {one: 7, other: 0, last: None}
    admin.alter_group_offsets(filled, {last: 0})
    assert admin.group_lag(filled) == {one: 7, other: 0, last: 10}
    found = admin.describe_groups([filled])[filled]
    assert (found.state, found.members) == ("Empty", [])

    admin.delete_group_offsets(filled, [other, last])
    assert admin.group_offsets(filled) == {one: 3}
    admin.delete_groups([filled])
    assert admin.group_offsets(filled) == {}
    assert admin.group_lag(filled) == {}
    assert filled not in [listing.group for listing in admin.list_groups()]


def test_what_a_member_commits_is_seen(admin, broker, filled):
    with closing(member(broker, filled, auto_offset_reset="earliest", enable_auto_commit=False)) as joined:
        joined.commit(offsets=[confluent_kafka.TopicPartition(filled, 1, 4)], asynchronous=False)
        one, other, last = partitions_of(filled)
        assert admin.group_lag(filled) == {one: None, other: 6, last: None}
        with pytest.raises(GroupSubscribedToTopicError) as caught:
            admin.delete_group_offsets(filled, partitions_of(filled)[1:2])
        assert (caught.value.topic, caught.value.partition) == (filled, 1)


def test_a_group_that_has_committed_nothing_has_the_partitions_of_its_members(admin, broker, filled):
    with closing(member(broker, filled, auto_offset_reset="earliest", enable_auto_commit=False)):
        assert admin.group_lag(filled) == dict.fromkeys(partitions_of(filled))


def test_lag_counts_no_records_that_retention_has_deleted(admin, broker, run, filled):
    one, other, last = partitions_of(filled)
    admin.alter_group_offsets(filled, {one: 3, other: 10})
    admin.delete_records({one: 8, other: 10, last: 10})
    assert admin.group_lag(filled) == {one: 2, other: 0, last: None}
    (group,) = run("describe", filled, "--json")["groups"]
    found = [(part["partition"], part["current_offset"], part["lag"]) for part in group["partitions"]]
    assert found == [(0, 3, 2), (1, 10, 0), (2, None, None)]
    top = json.loads(command("top", "-b", broker.bootstrap_servers, "--json", "--interval", "0.1").stdout)
    assert [each["lag"] for each in top["groups"] if each["group"] == filled] == [2]


def test_the_lag_of_a_topic_that_is_gone_is_unknown(admin, filled):
    first = partitions_of(filled)[0]
    admin.alter_group_offsets(filled, {first: 3})
    admin.delete_topics([filled])
    # Brokers forget what was committed of it a moment later.
    assert admin.group_lag(filled).get(first) is None


def test_a_group_that_is_not_there(admin, topic):
    with pytest.raises(GroupIdNotFoundError, match=topic):
        admin.describe_groups([topic])
    with pytest.raises(GroupIdNotFoundError, match=topic):
        admin.delete_groups([topic])
    assert admin.group_offsets(topic) == {}


def test_groups_that_can_be_deleted_are_whatever_becomes_of_the_others(admin, topic):
    groups = [f"{topic}-{number}" for number in range(3)]
    admin.create_topics({topic: klamm.NewTopic(partitions=1)})
    for group in groups[::2]:
        admin.alter_group_offsets(group, {klamm.TopicPartition(topic, 0): 0})
    with pytest.raises(GroupIdNotFoundError, match=groups[1]):
        admin.delete_groups(groups)
    assert not {listing.group for listing in admin.list_groups()} & set(groups)


def test_wrong_arguments(admin, topic):
    with pytest.raises(ArgumentError, match="groups have to be a list, not str"):
        admin.describe_groups(topic)
    with pytest.raises(ConfigError, match="-3"):
        admin.alter_group_offsets(topic, {klamm.TopicPartition(topic, 0): -3})
    admin.alter_group_offsets(topic, {})
    admin.delete_group_offsets(topic, [])
    assert admin.describe_groups([]) == {}


def test_a_group_of_the_new_protocol(broker, style, topic):
    with style.admin(broker.bootstrap_servers) as admin:
        admin.create_topics({topic: klamm.NewTopic(partitions=PARTITIONS)})
        with closing(member(broker, topic, group_protocol="consumer")):
            found = admin.describe_groups([topic])[topic]
            assert (found.type, found.protocol_type, found.state) == ("consumer", "consumer", "Stable")
            assert found.assignor == "uniform"
            (one,) = found.members
            assert (one.client_id, one.topics, one.assigned) == ("other", [topic], partitions_of(topic))
            assert one.target == one.assigned
            assert topic in [listing.group for listing in admin.list_groups(types=["consumer"])]
            with pytest.raises(NonEmptyGroupError):
                admin.delete_groups([topic])
            with pytest.raises(UnknownMemberIdError):
                admin.alter_group_offsets(topic, {klamm.TopicPartition(topic, 0): 5})
        until(lambda: not admin.describe_groups([topic])[topic].members)
        admin.alter_group_offsets(topic, {klamm.TopicPartition(topic, 0): 0})
        assert admin.group_offsets(topic)[klamm.TopicPartition(topic, 0)] == 0
        admin.delete_groups([topic])


@pytest.fixture
def cluster():
    """Separate nodes, for a test that injects faults."""
    with DevBroker(brokers=3) as running:
        with klamm.Admin(running.bootstrap_servers) as admin:
            admin.create_topics({"t": klamm.NewTopic(partitions=2)})
            admin.alter_group_offsets("g", {FIRST: 3})
        with klamm.Producer(running.bootstrap_servers) as producer:
            producer.send_many("t", [b"v"] * 5, partition=0)
        yield running


FIRST = klamm.TopicPartition("t", 0)
CALLS = {
    "ListGroups": lambda admin: [each.group for each in admin.list_groups()] == ["g"],
    "DescribeGroups": lambda admin: admin.describe_groups(["g"])["g"].state == "Empty",
    "OffsetFetch": lambda admin: admin.group_offsets("g") == {FIRST: 3},
    "OffsetCommit": lambda admin: admin.alter_group_offsets("g", {FIRST: 4}) is None,
    "OffsetDelete": lambda admin: admin.delete_group_offsets("g", [FIRST]) is None,
    "ListOffsets": lambda admin: admin.group_lag("g")[FIRST] == 2,
    "DeleteGroups": lambda admin: admin.delete_groups(["g"]) is None,
}


@pytest.mark.parametrize("api", CALLS)
@pytest.mark.parametrize("action", ["drop", "lose_answer", "cut"])
def test_a_lost_connection_is_made_again(cluster, api, action):
    with klamm.Admin(cluster.bootstrap_servers) as admin:
        cluster.fault(api, action, times=2)
        assert CALLS[api](admin)
    assert len(cluster.requests(api)) >= 3


@pytest.mark.parametrize("api", [api for api in CALLS if api not in {"ListGroups", "ListOffsets"}])
@pytest.mark.parametrize("error", ["NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS"])
def test_a_coordinator_that_moves_is_found_again(cluster, api, error):
    with klamm.Admin(cluster.bootstrap_servers) as admin:
        before = len(cluster.requests("FindCoordinator"))
        cluster.fail_next(api, error=error)
        assert CALLS[api](admin)
    looked_up = len(cluster.requests("FindCoordinator")) - before
    assert looked_up == (1 if error == "COORDINATOR_LOAD_IN_PROGRESS" else 2)


@pytest.mark.parametrize("api", ["ConsumerGroupDescribe", "ShareGroupDescribe", "StreamsGroupDescribe"])
def test_a_type_of_group_that_brokers_have_switched_off_has_no_groups(cluster, api):
    with klamm.Admin(cluster.bootstrap_servers) as admin:
        cluster.fail_next(api, error="UNSUPPORTED_VERSION", times=None)
        for call in (lambda: admin.describe_groups(["missing"]), lambda: admin.remove_group_members("missing")):
            with pytest.raises(GroupIdNotFoundError, match="describe group 'missing'"):
                call()
        assert admin.group_lag("missing") == {}
        assert admin.describe_groups(["g"])["g"].state == "Empty"


def test_a_coordinator_that_dies_is_followed(cluster):
    with klamm.Admin(cluster.bootstrap_servers) as admin:
        coordinator = admin.describe_groups(["g"])["g"].coordinator
        cluster.kill(coordinator)
        found = admin.describe_groups(["g"])["g"]
        assert found.state == "Empty"
        assert found.coordinator != coordinator
        assert [each.group for each in admin.list_groups()] == ["g"]


@pytest.mark.parametrize("api", CALLS)
def test_what_does_not_get_better_ends_in_time_and_says_why(cluster, api):
    with klamm.Admin(cluster.bootstrap_servers, default_api_timeout_ms=500) as admin:
        error = "LEADER_NOT_AVAILABLE" if api == "ListOffsets" else "COORDINATOR_LOAD_IN_PROGRESS"
        cluster.fail_next(api, error=error, times=None)
        with pytest.raises(KafkaTimeoutError, match=error):
            CALLS[api](admin)


def test_of_a_partition_without_a_leader_the_lag_is_unknown(cluster):
    with klamm.Admin(cluster.bootstrap_servers) as admin:
        admin.create_topics({"spread": klamm.NewTopic(partitions=3, replication_factor=1)})
        spread = partitions_of("spread")
        with klamm.Producer(cluster.bootstrap_servers) as producer:
            for tp in spread:
                producer.send_many("spread", [b"v"] * 10, partition=tp.partition)
        admin.alter_group_offsets("g", dict.fromkeys(spread, 4))
        assert {tp: admin.group_lag("g")[tp] for tp in [FIRST, *spread]} == {FIRST: 2} | dict.fromkeys(spread, 6)
        dead = admin.describe_topics(["spread"])["spread"].partitions[1].leader
        cluster.kill(dead)
        before = len(cluster.requests("ListOffsets"))
        lag = admin.group_lag("g")
        assert {tp: lag[tp] for tp in spread} == {spread[0]: 6, spread[1]: None, spread[2]: 6}
        assert len(cluster.requests("ListOffsets")) - before <= 4
        described = json.loads(command("groups", "describe", "g", "--json", "-b", cluster.bootstrap_servers).stdout)
        ends = {
            part["partition"]: part["end_offset"]
            for part in described["groups"][0]["partitions"]
            if part["topic"] == "spread"
        }
        assert ends == {0: 10, 1: None, 2: 10}
        with (
            klamm.Consumer(cluster.bootstrap_servers, default_api_timeout_ms=1_000) as consumer,
            pytest.raises(KafkaTimeoutError, match="spread-1"),
        ):
            consumer.end_offsets(spread)


@pytest.fixture
def run(broker):
    """Return a function that runs `klamm groups` on the broker. With --json it returns the printed object."""

    def call(*arguments, code=0):
        result = command("groups", *arguments, "-b", broker.bootstrap_servers)
        assert result.returncode == code, result.stderr.decode()
        if code:
            return result.stderr.decode().splitlines()
        return json.loads(result.stdout) if "--json" in arguments else result.stdout.decode().splitlines()

    return call


def offsets(printed):
    return [(part["current_offset"], part["new_offset"]) for part in printed["partitions"]]


def test_the_command_describes_a_group_with_a_member(run, broker, filled):
    with closing(member(broker, filled, auto_offset_reset="earliest", enable_auto_commit=False)) as joined:
        joined.commit(offsets=[confluent_kafka.TopicPartition(filled, 1, 4)], asynchronous=False)
        (group,) = run("describe", filled, "--json")["groups"]
        (who,) = group["members"]
        assert (group["group"], group["state"], group["type"]) == (filled, "Stable", "classic")
        assert who["assigned"] == [[filled, partition] for partition in range(PARTITIONS)]
        assert group["partitions"] == [
            {
                "topic": filled,
                "partition": partition,
                "current_offset": current,
                "end_offset": 10,
                "lag": lag,
                "member_id": who["member_id"],
                "host": who["host"],
                "client_id": "other",
            }
            for partition, current, lag in [(0, None, None), (1, 4, 6), (2, None, None)]
        ]
        head, columns, *rows = run("describe", filled)
        assert head.startswith(f"{filled}: Stable, classic, range, coordinator ")
        assert head.endswith(", 1 member")
        assert columns.split() == ["topic", "partition", "current", "end", "lag", "member", "host", "client", "id"]
        assert rows[1].split() == [filled, "1", "4", "10", "6", who["member_id"], who["host"], "other"]
        listed = {each["group"]: each for each in run("list", "--json")["groups"]}
        assert listed[filled] == {"group": filled, "type": "classic", "protocol_type": "consumer", "state": "Stable"}
        assert filled not in "".join(run("list", "--state", "Empty"))
        error, hint = run("reset-offsets", filled, "--to-earliest", code=1)
        assert "in use" in error
        assert "stop" in hint
        error, hint = run("delete", filled, "--yes", code=1)
        assert "NON_EMPTY_GROUP" in error
        assert "stop" in hint


@pytest.mark.parametrize(
    ("to", "new"),
    [
        (("--to-earliest",), [0, 0]),
        (("--to-latest",), [10, 10]),
        (("--to-offset", "7"), [7, 7]),
        (("--to-offset", "70"), [10, 10]),
        (("--shift-by", "2"), [6, 10]),
        (("--shift-by=-5",), [0, 4]),
        (("--to-datetime", "2020-01-01T00:00:00Z"), [0, 0]),
        (("--to-datetime", "2100-01-01"), [10, 10]),
    ],
)
def test_the_command_resets_offsets_with_the_option_for_it(run, broker, filled, to, new):
    first, second, _ = partitions_of(filled)
    with klamm.Admin(broker.bootstrap_servers) as admin:
        admin.alter_group_offsets(filled, {first: 4, second: 9})
        dry = run("reset-offsets", filled, *to, "--json")
        assert (dry["group"], dry["executed"]) == (filled, False)
        assert offsets(dry) == [(4, new[0]), (9, new[1])]
        assert "--execute" in run("reset-offsets", filled, *to)[-1]
        assert admin.group_offsets(filled) == {first: 4, second: 9}
        done = run("reset-offsets", filled, *to, "--execute", "--json")
        assert done == dry | {"executed": True}
        assert admin.group_offsets(filled) == {first: new[0], second: new[1]}


def test_the_command_resets_what_is_named(run, filled):
    assert "--topic" in run("reset-offsets", filled, "--to-latest", code=1)[1]
    only = run("reset-offsets", filled, "--to-offset", "3", "--topic", f"{filled}:0,2", "--execute", "--json")
    assert offsets(only) == [(None, 3), (None, 3)]
    twice = run("reset-offsets", filled, "--to-latest", "--topic", f"{filled}:0", "--topic", f"{filled}:1", "--json")
    assert offsets(twice) == [(3, 10), (None, 10)]
    every = run("reset-offsets", filled, "--to-latest", "--topic", filled, "--json")
    assert offsets(every) == [(3, 10), (None, 10), (3, 10)]
    assert "no committed offset" in run("reset-offsets", filled, "--shift-by", "1", "--topic", filled, code=1)[0]
    assert "no partition 7" in run("reset-offsets", filled, "--to-latest", "--topic", f"{filled}:7", code=1)[0]
    assert run("delete", filled, "--yes") == [f"deleted {filled}"]
    assert run("delete", filled, "--yes", code=1)[0].endswith("GROUP_ID_NOT_FOUND (69)")

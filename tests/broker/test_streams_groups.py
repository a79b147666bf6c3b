"""Streams groups with members of Kafka Streams (KIP-1071)."""

from __future__ import annotations

import json

import pytest

import klamm
from cli_process import klamm as command
from java_members import streams_members
from klamm import TopicPartition
from klamm.admin import StreamsSubtopology
from klamm.errors import GroupIdNotFoundError, NonEmptyGroupError, UnknownMemberIdError
from running import or_skip
from settled import until

RECORDS = 20


@pytest.fixture
def counted(real_kafka, topic):
    """A topic with two partitions, whose records the members of a group of the same name count."""
    servers = real_kafka.bootstrap_servers
    with klamm.Admin(servers) as admin:
        admin.create_topics({topic: klamm.NewTopic(2), f"{topic}-counts": klamm.NewTopic(1)}, wait=True)
        with klamm.Producer(servers) as producer:
            for number in range(RECORDS):
                producer.send(topic, b"v%d" % (number % 5), partition=number % 2)
        yield admin, servers


def run(servers, line, *more, code=0):
    result = command(*line.split(), *more, "-b", servers)
    assert result.returncode == code, result.stderr.decode()
    return json.loads(result.stdout) if code == 0 else result.stderr.decode()


def test_a_group_of_kafka_streams_is_described_reset_and_deleted(counted, style, topic):
    admin, servers = counted
    repartition, changelog = f"{topic}-counts-repartition", f"{topic}-counts-changelog"
    both = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    with or_skip(streams_members(servers, topic, topic)):
        until(lambda: sum(admin.group_offsets(topic).get(tp, 0) for tp in both) == RECORDS)
        until(lambda: all(len(each.tasks.active) == 2 for each in admin.describe_groups([topic])[topic].members))
        with style.admin(servers) as client:
            group = client.describe_groups([topic])[topic]
            (listed,) = (each for each in client.list_groups(types=["streams"]) if each.group == topic)
            with pytest.raises(NonEmptyGroupError):
                client.delete_groups([topic])
            with pytest.raises(UnknownMemberIdError):
                client.alter_group_offsets(topic, {both[0]: 0})
        assert (listed.state, group.type, group.state, group.assignor) == ("Stable", "streams", "Stable", "sticky")
        assert group.topology == [
            StreamsSubtopology("0", [topic], [repartition], [], []),
            StreamsSubtopology("1", [], [], [changelog], [repartition]),
        ]
        assert len(group.members) == 2
        assert len({each.process_id for each in group.members}) == 1
        tasks = [(part, number) for each in group.members for part, of in each.tasks.active.items() for number in of]
        assert sorted(tasks) == [("0", 0), ("0", 1), ("1", 0), ("1", 1)]
        assert all(each.tasks == each.target_tasks and each.epoch == group.epoch for each in group.members)
        assigned = [tp for each in group.members for tp in each.assigned]
        assert sorted(assigned) == sorted(TopicPartition(name, n) for name in (topic, repartition) for n in (0, 1))
        (described,) = run(servers, f"streams-groups describe {topic} --json")["groups"]
        assert [each["id"] for each in described["topology"]] == ["0", "1"]
        assert {each["member_id"] for each in described["members"]} == {each.member_id for each in group.members}
        assert "NON_EMPTY_GROUP" in run(servers, f"streams-groups delete {topic} --yes", code=1)
        assert "is of type streams, not share" in run(servers, f"share-groups describe {topic}", code=1)
    until(lambda: admin.describe_groups([topic])[topic].state == "Empty")
    assert admin.describe_groups([topic])[topic].members == []
    run(servers, f"streams-groups reset-offsets {topic} --to-earliest --topic {topic} --execute --json")
    assert [admin.group_offsets(topic)[tp] for tp in both] == [0, 0]
    run(servers, f"streams-groups delete-offsets {topic} {topic} --yes --json")
    assert set(admin.group_offsets(topic)) == {TopicPartition(repartition, n) for n in (0, 1)}
    run(servers, f"streams-groups delete {topic} --yes --json")
    with pytest.raises(GroupIdNotFoundError):
        admin.describe_groups([topic])

"""Consumers that subscribe to a pattern of topic names."""

from __future__ import annotations

import pytest

import klamm
from klamm.errors import UnknownTopicOrPartitionError
from settled import until


def test_a_leader_with_a_pattern_leads_members_whose_topics_are_not_there(broker, topic):
    with klamm.Admin(broker.bootstrap_servers) as admin:
        admin.create_topics({topic: klamm.NewTopic(partitions=2)})
    config = {"group_id": topic, "allow_auto_create_topics": False, "heartbeat_interval_ms": 300}
    with (
        klamm.Consumer(broker.bootstrap_servers, **config) as leader,
        klamm.Consumer(broker.bootstrap_servers, **config) as other,
    ):
        leader.subscribe(pattern=f"{topic}.*")
        until(lambda: not leader.poll(0.1) and len(leader.assignment()) == 2)
        other.subscribe([f"{topic}-missing"])

        def is_settled() -> bool:
            for member in (leader, other):
                member.poll(0.1)
            group = admin.describe_groups([topic])[topic]
            return group.state == "Stable" and len(group.members) == 2 and len(leader.assignment()) == 2

        with klamm.Admin(broker.bootstrap_servers) as admin:
            until(is_settled)


def test_a_missing_topic_raises_beside_a_pattern_too(broker, topic):
    with klamm.Consumer(broker.bootstrap_servers, allow_auto_create_topics=False) as consumer:
        consumer.subscribe(pattern=f"{topic}.*")
        with pytest.raises(UnknownTopicOrPartitionError):
            consumer.end_offsets([klamm.TopicPartition(f"{topic}-missing", 0)])

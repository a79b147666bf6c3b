"""Compares `klamm.assignors` with the Java client, and checks invalid arguments."""

from __future__ import annotations

import pytest

import golden
from klamm.assignors import Member, assign, user_data
from klamm.errors import ArgumentError, ConfigError
from klamm.record import TopicPartition

GROUPS = golden.lines("assignors.jsonl.gz")
TOPIC = {"t": [[0], [1], [2], [0]]}


def group(case):
    members = [
        Member(
            m["id"],
            m["topics"],
            owned=[TopicPartition(*tp) for tp in m["owned"]],
            generation=m["generation"],
            instance_id=m["group_instance_id"],
            rack=m["rack"],
            user_data=None if m["user_data"] is None else bytes.fromhex(m["user_data"]),
        )
        for m in case["members"]
    ]
    return case["topics"], members, {node["id"]: node["rack"] for node in case["nodes"]}


def plain(assignment):
    return {member: sorted((p.topic, p.partition) for p in tps) for member, tps in assignment.items()}


def java(case, which="assignment"):
    return {member: sorted(map(tuple, tps)) for member, tps in case[which].items()}


@pytest.mark.parametrize("name", ["range", "roundrobin"])
def test_partitions_go_where_java_has_them_go(name):
    cases = [case for case in GROUPS if case["assignor"] == name]
    assert len(cases) == 60
    for case in cases:
        assert plain(assign(name, *group(case))) == java(case), case["id"]


@pytest.mark.parametrize("name", ["sticky", "cooperative-sticky"])
def test_no_partition_is_assigned_twice_or_to_a_member_that_does_not_subscribe(name):
    for case in GROUPS:
        if case["assignor"] != name:
            continue
        topics, members, nodes = group(case)
        found = plain(assign(name, topics, members, nodes))
        given = [tp for tps in found.values() for tp in tps]
        assert len(given) == len(set(given))
        assert all(topic in member.topics for member in members for topic, _ in found[member.id])
        if name == "sticky":
            wanted = {topic for member in members for topic in member.topics}
            assert len(given) == sum(len(topics[topic]) for topic in wanted & set(topics))


def test_a_member_keeps_what_it_says_it_had():
    owned = [TopicPartition("t", 2), TopicPartition("t", 3)]
    for name in "sticky", "cooperative-sticky":
        members = [Member("a", ["t"]), Member("b", ["t"], owned=owned, generation=4)]
        assert assign(name, TOPIC, members)["b"] == owned


def test_what_two_say_they_had_stays_with_the_first_of_them_that_still_wants_it():
    owned = [TopicPartition("t", 3)]
    for name in "sticky", "cooperative-sticky":
        claims = [
            Member(one, topics, owned=owned, generation=4) for one, topics in (("a", []), ("b", ["t"]), ("c", ["t"]))
        ]
        found = assign(name, TOPIC, [*claims, Member("d", ["t"])])
        assert owned[0] in found["b"], name


def test_the_first_round_of_cooperative_sticky_only_revokes():
    owned = [TopicPartition("t", partition) for partition in range(4)]
    members = [Member("a", ["t"], owned=owned, generation=4), Member("b", ["t"])]
    found = assign("cooperative-sticky", TOPIC, members)
    assert found == {"a": owned[:2], "b": []}
    next_members = [Member(name, ["t"], owned=tps, generation=5) for name, tps in found.items()]
    assert assign("cooperative-sticky", TOPIC, next_members) == {"a": owned[:2], "b": owned[2:]}


def test_user_data_is_that_of_the_java_client():
    assert user_data("range") is None
    assert user_data("sticky") is None
    assert user_data("sticky", [TopicPartition("t", 1)], 5) == bytes.fromhex("00000001000174000000010000000100000005")
    assert user_data("cooperative-sticky", generation=20) == bytes.fromhex("00000014")


def test_racks_come_first_where_they_are_known():
    members = [Member("a", ["t"], rack="x"), Member("b", ["t"], rack="y")]
    topics = {"t": [[1], [0], [1], [0]]}
    found = plain(assign("range", topics, members, nodes={0: "x", 1: "y"}))
    assert found == {"a": [("t", 1), ("t", 3)], "b": [("t", 0), ("t", 2)]}
    assert plain(assign("range", topics, members)) == {"a": [("t", 0), ("t", 1)], "b": [("t", 2), ("t", 3)]}


def test_wrong_input_says_what_is_wrong():
    with pytest.raises(ConfigError, match="stikcy") as caught:
        assign("stikcy", TOPIC, [])
    assert "cooperative-sticky" in caught.value.hint
    with pytest.raises(ConfigError, match="same id"):
        assign("range", TOPIC, [Member("a", ["t"]), Member("a", ["t"])])
    for member, says in (
        (Member("a", "t"), "the topics of a have to be a list, not str"),
        (Member("a", [5]), "one of the topics of a has to be a str, not int"),
        (Member("a", ["t"], owned=[("t", 1)]), "is not a TopicPartition"),
        (Member("a", ["t"], generation="1"), "generation of a has to be an int, not str"),
        (Member("a", ["t"], rack=1), "rack of a has to be a str, not int"),
        (Member("a", ["t"], user_data="text"), "user_data is a str"),
        (Member(5, ["t"]), "the id of a member has to be a str, not int"),
        ("a", "members have to be a list of Member, and 'a' is not a Member"),
    ):
        with pytest.raises(ArgumentError, match=says):
            assign("range", TOPIC, [member])
    with pytest.raises(ConfigError, match="number of a partition cannot be 1099511627776"):
        assign("range", TOPIC, [Member("a", ["t"], owned=[TopicPartition("t", 1 << 40)])])
    for topics, says in (
        (5, "topics have to be a dict, not int"),
        ({5: []}, "a topic has to be a str, not int"),
        ({"t": 5}, "the partitions of t have to be a list, not int"),
        ({"t": [[0], 1]}, "the nodes of t-1 have to be a list, not int"),
        ({"t": [["0"]]}, "a node of t-0 has to be an int, not str"),
    ):
        with pytest.raises(ArgumentError, match=says):
            assign("range", topics, [])
    with pytest.raises(ArgumentError, match="members have to be a list, not int"):
        assign("range", TOPIC, 5)
    with pytest.raises(ArgumentError, match="the rack of node 0 has to be a str, not int"):
        assign("range", TOPIC, [], {0: 5})
    with pytest.raises(ArgumentError, match="generation has to be an int, not str"):
        user_data("sticky", [], "1")

"""The commands about clusters, topics, settings, rules, users and partitions, against both brokers."""

from __future__ import annotations

import json

import pytest

import klamm
from cli_process import klamm as command
from klamm.testing import DevBroker


@pytest.fixture
def run(broker):
    """Return a function that runs a command. With --json it returns the printed object, otherwise lines of cells."""
    return runner(broker.bootstrap_servers)


def runner(servers):
    def call(line, *more, code=0, stdin=b""):
        result = command(*line.split(), *more, "-b", servers, stdin=stdin)
        assert result.returncode == code, result.stderr.decode()
        if code:
            return result.stderr.decode()
        printed = result.stdout.decode()
        return json.loads(printed) if "--json" in line else [each.split("\t") for each in printed.splitlines()]

    return call


@pytest.fixture
def three():
    """A command on a dev broker with three nodes on three racks, and its address."""
    with DevBroker(brokers=3, racks=["a", "b", "c"]) as broker:
        call = runner(broker.bootstrap_servers)
        call.servers = broker.bootstrap_servers
        yield call


def test_the_cluster_is_described(run, topic):
    run(f"topics create {topic} --partitions 2")
    found = run("cluster describe --json")
    assert {"id", "host", "port", "rack", "is_fenced"} == set(found["brokers"][0])
    (mine,) = [each for each in found["topics"] if each["name"] == topic]
    assert (mine["partitions"], mine["under_replicated"], mine["internal"]) == (2, 0, False)
    assert [topic, "2", str(mine["replication_factor"]), "0", "false"] in run("cluster describe")


def test_versions_of_apis_and_coordinators_are_printed(run):
    broker = run("cluster api-versions --json")["brokers"][0]
    assert broker["apis"]["Metadata"]["max"] >= 12
    assert run("cluster coordinators g --json")["coordinators"][0]["name"] == "g"


def test_topics_are_checked_created_and_extended(run, topic):
    assert run(f"topics create {topic} --partitions 2 --dry-run") == [[f"valid {topic}"]]
    assert [topic] not in run("topics list")
    run(f"topics create {topic} --partitions 2")
    run(f"topics create {topic} --if-not-exists")
    assert run(f"topics list --matching {topic}") == [[topic]]
    assert run("topics list --matching nothing-at-all") == []
    run(f"topics add-partitions {topic} --total 3 --dry-run")
    run(f"topics add-partitions {topic} --total 3")
    (found,) = run(f"topics describe {topic} --configs --json")["topics"]
    assert (len(found["partitions"]), found["configs"]) == (3, {})
    assert found["topic_id"]
    assert run(f"topics describe {topic} --unavailable --json") == {"topics": []}
    assert run(f"topics describe {topic} --under-min-isr --json") == {"topics": []}
    run(f"configs alter topic {topic} --set min.insync.replicas={len(found['partitions'][0]['isr'])}")
    assert len(run(f"topics describe {topic} --at-min-isr --json")["topics"][0]["partitions"]) == 3
    assert [each["topic"] for each in run(f"topics sizes {topic} --json")["topics"]] == [topic]
    run(f"topics delete {topic} --yes")
    run(f"topics delete {topic} --yes --if-exists")


def test_replicas_are_put_on_brokers(three):
    three("topics create t --replicas 3:1,1:2")
    (found,) = three("topics describe t --json")["topics"]
    assert [part["replicas"] for part in found["partitions"]] == [[3, 1], [1, 2]]


def test_settings_are_changed(run, topic):
    run(f"topics create {topic}")

    def overridden():
        (resource,) = run(f"configs describe topic {topic} --json")["resources"]
        return {each["name"]: each["value"] for each in resource["configs"] if each["source"] == "topic"}

    run(f"configs alter topic {topic} --set retention.ms=5000 --append cleanup.policy=compact")
    assert overridden() == {"retention.ms": "5000", "cleanup.policy": "delete,compact"}
    run(f"configs alter topic {topic} --delete retention.ms --subtract cleanup.policy=delete --dry-run")
    assert overridden() == {"retention.ms": "5000", "cleanup.policy": "delete,compact"}
    run(f"configs alter topic {topic} --delete retention.ms --subtract cleanup.policy=delete")
    assert overridden() == {"cleanup.policy": "compact"}
    run(f"configs alter topic {topic} --replace-all --set retention.ms=7000 --dry-run")
    assert overridden() == {"cleanup.policy": "compact"}
    run(f"configs alter topic {topic} --replace-all --set retention.ms=7000 --yes")
    assert overridden() == {"retention.ms": "7000"}
    assert "INVALID_CONFIG" in run(f"configs alter topic {topic} --set retention.ms=soon", code=1)
    every = run(f"configs describe topic {topic} --all --docs --json")["resources"][0]["configs"]
    assert len(every) > 20
    assert {"type": "topic", "name": topic} in run("configs list --type topic --json")["resources"]


def test_records_are_deleted_and_offsets_looked_up(run, topic, tmp_path):
    run(f"topics create {topic} --partitions 2")
    run(f"produce {topic} --partition 0", stdin=b"a\nb\nc\n")

    def offsets(at):
        return [each["offset"] for each in run(f"offsets {topic} --at {at} --json")["partitions"]]

    assert offsets("latest") == [3, 0]
    assert offsets("@0") == [0, None]
    assert offsets("@-1h") == [0, None]
    run(f"records delete {topic}:0=1 --dry-run")
    assert offsets("earliest") == [0, 0]
    assert run(f"records delete {topic}:0=1 --yes --json")["partitions"] == [
        {"topic": topic, "partition": 0, "first_offset": 1}
    ]
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"partitions": [{"topic": topic, "partition": 0, "offset": -1}], "version": 1}))
    run(f"records delete --from-file {plan} --yes")
    assert offsets("earliest") == [3, 0]
    assert "OFFSET_OUT_OF_RANGE" in run(f"records delete {topic}:0=9 --yes", code=1)


def test_rules_are_added_listed_and_removed():
    with DevBroker(super_users=["ANONYMOUS"]) as broker:
        run = runner(broker.bootstrap_servers)
        added = run("acls add --topic t --group g --principal User:alice --consumer --json")["added"]
        assert [(each["resource"], each["operation"]) for each in added] == [
            ("topic", "read"),
            ("topic", "describe"),
            ("group", "read"),
        ]
        run("acls add --topic logs- --prefixed --principal User:bob --operation write --deny --host 10.0.0.1")
        assert len(run("acls list --json")["rules"]) == 4
        (rule,) = run("acls list --topic logs-eu --pattern match --json")["rules"]
        assert rule == {
            "resource": "topic",
            "name": "logs-",
            "pattern": "prefixed",
            "principal": "User:bob",
            "host": "10.0.0.1",
            "operation": "write",
            "permission": "deny",
        }
        line = "acls remove --topic t --principal User:alice --operation read"
        assert run(f"{line} --dry-run") == [["would remove allow User:alice from *: read topic 't'"]]
        assert len(run(f"{line} --yes --json")["removed"]) == 1
        assert run(f"{line} --yes --json")["removed"] == []
        assert len(run("acls list --principal User:alice --json")["rules"]) == 2


def test_quotas_are_changed(run, topic):
    user = f"--user {topic}"
    dry = run(f"quotas alter {user} --set producer_byte_rate=1048576 --dry-run")
    assert dry == [["would set producer_byte_rate to 1048576"]]
    run(f"quotas alter {user} --set producer_byte_rate=1000 --set request_percentage=50.5")

    def quotas():
        return [each["quotas"] for each in run(f"quotas describe {user} --json")["entities"]]

    def until_known(expected):
        for _ in range(100):  # a broker learns of a change after the controller has made it
            if quotas() == expected:
                return
        assert quotas() == expected

    until_known([{"producer_byte_rate": 1000.0, "request_percentage": 50.5}])
    (found,) = run(f"quotas describe {user} --json")["entities"]
    assert (found["user"], found["client_id"], found["ip"]) == (topic, None, None)
    run(f"quotas alter {user} --delete producer_byte_rate --delete request_percentage")
    until_known([])


def test_users_are_made_and_deleted_without_showing_passwords(run, topic):
    assert "the password is empty" in run(f"users set-password {topic}", code=2)
    run(f"users set-password {topic} --mechanism SCRAM-SHA-512 --iterations 5000", stdin=b"s3cret\n")

    def users():
        return run("users list --json")["users"]

    expected = {"user": topic, "mechanism": "SCRAM-SHA-512", "iterations": 5000}
    for _ in range(100):
        if expected in users():
            break
    assert expected in users()
    run(f"users delete {topic} --mechanism SCRAM-SHA-512 --yes")
    for _ in range(100):
        if expected not in users():
            break
    assert expected not in users()


def test_tokens_of_brokers_without_a_key_are_refused():
    with DevBroker(sasl={"PLAIN": {"me": "pw"}}) as broker:
        login = ["security.protocol=SASL_PLAINTEXT", "sasl.mechanism=PLAIN", "sasl.username=me", "sasl.password=pw"]
        options = [word for each in login for word in ("-X", each)]
        for line in ("create", "list", "renew YWJj --period 1h", "expire YWJj --yes"):
            result = command("tokens", *line.split(), *options, "-b", broker.bootstrap_servers)
            assert result.returncode == 1
            assert b"DELEGATION_TOKEN_AUTH_DISABLED" in result.stderr
        assert command("tokens", "renew", "not base64", "-b", broker.bootstrap_servers).returncode == 2


def test_a_plan_is_made_executed_and_verified(three, tmp_path):
    three("topics create t --replicas 1:2,1:2,1:2,1:2,1:2,1:2")
    plan, before = tmp_path / "plan.json", tmp_path / "before.json"
    made = three(f"reassign plan t --current {before} --json")
    plan.write_text(json.dumps(made))
    leaders = [part["replicas"][0] for part in made["partitions"]]
    assert sorted(leaders) == [1, 1, 2, 2, 3, 3]
    assert "differs" in command("reassign", "verify", str(plan), "-b", three.servers).stdout.decode()
    assert all("would move" in cells[0] for cells in three(f"reassign execute {plan} --dry-run"))
    done = three(f"reassign execute {plan} --yes --throttle 1000000 --json")
    assert [part["previous"] for part in done["partitions"]] == [[1, 2]] * 6
    assert three(f"reassign verify {plan} --json")["finished"]
    (resource,) = three("configs describe topic t --json")["resources"]
    assert not [each for each in resource["configs"] if "throttled" in each["name"]]
    assert three("reassign list --json") == {"partitions": []}
    three(f"reassign execute {before} --yes --wait")
    assert three(f"reassign verify {before} --json")["finished"]
    assert "no partition is being moved" in three("reassign cancel --yes", code=1)


def test_a_throttled_plan_may_name_a_broker_that_is_down(tmp_path):
    """A partition often moves because its broker is gone. A broker changes its own limits, so this one cannot."""
    with DevBroker(brokers=3) as broker:
        run = runner(broker.bootstrap_servers)
        run("topics create t --replicas 1:3")
        broker.kill(3)
        plan = tmp_path / "plan.json"
        plan.write_text(json.dumps({"partitions": [{"topic": "t", "partition": 0, "replicas": [1, 2]}]}))
        run(f"reassign execute {plan} --yes --throttle 1000")
        assert run(f"reassign verify {plan} --json")["finished"]
        (resource,) = run("configs describe topic t --json")["resources"]
        assert not [each for each in resource["configs"] if "throttled" in each["name"]]


@pytest.mark.parametrize("racks", [{1: "a", 2: "a", 3: "b", 4: "b"}, {1: None, 2: None, 3: None, 4: None}])
def test_a_plan_spreads_leaders_replicas_and_racks(racks):
    from klamm.cli.reassign import spread

    plan = spread({klamm.TopicPartition("t", number): 2 for number in range(8)}, racks)
    for broker in racks:
        assert sum(replicas[0] == broker for replicas in plan.values()) == 2
        assert sum(broker in replicas for replicas in plan.values()) == 4
    for replicas in plan.values():
        assert len(set(replicas)) == 2
        assert None in racks.values() or len({racks[broker] for broker in replicas}) == 2


def test_leaders_are_elected(three):
    three("topics create t --replicas 2:1")
    assert three("elect t --json")["partitions"] == [{"topic": "t", "partition": 0, "elected": False}]
    assert three("elect --all --unclean --dry-run") == [["would elect unclean leaders of all partitions"]]


def test_directories_features_and_the_quorum_are_described(run, topic):
    run(f"topics create {topic}")
    brokers = run(f"log-dirs describe {topic} --json")["brokers"]
    assert {each["topic"] for broker in brokers for path in broker["log_dirs"] for each in path["replicas"]} == {topic}
    features = {each["name"]: each for each in run("features describe --json")["features"]}
    assert features["metadata.version"]["finalized"] > 0
    quorum = run("quorum describe --json")
    assert quorum["leader"] in [each["id"] for each in quorum["voters"]]
    # The dev broker does not have the API.
    assert "_VERSION" in run("features upgrade metadata.version=1000 --yes", code=1)


def test_a_new_filter_selects_partitions_without_replicas(three):
    three("topics create t --replicas 1:2")
    with klamm.Admin(three.servers) as admin:
        assert admin.describe_topics(["t"])["t"].partitions[0].isr == [1, 2]
    assert three("topics describe --under-replicated --json") == {"topics": []}

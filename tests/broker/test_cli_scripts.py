"""The commands of klamm and Kafka's own scripts show and read the same, on the same cluster."""

from __future__ import annotations

import json
import re

import pytest

import klamm
from cli_process import klamm as command
from java_tools import java_tool
from klamm.testing import DevBroker


@pytest.fixture
def run(broker):
    """Return a function that runs a command of klamm with --json."""

    def call(line, stdin=b""):
        result = command(*line.split(), "--json", "-b", broker.bootstrap_servers, stdin=stdin)
        assert result.returncode == 0, result.stderr.decode()
        return json.loads(result.stdout)

    return call


@pytest.fixture
def script(broker):
    """Return a function that runs a script of Kafka."""
    return lambda name, *arguments: java_tool(name, broker.bootstrap_servers, *arguments)


@pytest.fixture
def filled(run, topic):
    """A topic with two partitions of three records."""
    run(f"topics create {topic} --partitions 2")
    for partition in (0, 1):
        run(f"produce {topic} --partition {partition}", stdin=b"a\nb\nc\n")
    return topic


def test_offsets_are_the_same(run, script, filled):
    printed = script("GetOffsets", "--topic", filled).split()
    ours = [f"{each['topic']}:{each['partition']}:{each['offset']}" for each in run(f"offsets {filled}")["partitions"]]
    assert ours == sorted(printed) == [f"{filled}:0:3", f"{filled}:1:3"]


def test_files_with_offsets_of_groups_are_read_by_both(run, script, filled, tmp_path, broker):
    group, file = f"{filled}-group", tmp_path / "offsets.csv"
    run(f"groups reset-offsets {group} --topic {filled} --to-offset 2 --execute")
    exported = command("groups", "reset-offsets", group, "--to-current", "--export", "-b", broker.bootstrap_servers)
    theirs = script(
        "ConsumerGroups", "--group", group, "--reset-offsets", "--to-current", "--all-topics", "--export", "--dry-run"
    )
    assert sorted(theirs.replace('"', "").split()) == exported.stdout.decode().split()
    file.write_text(theirs.replace(",2", ",1"))
    run(f"groups reset-offsets {group} --from-file {file} --execute")
    described = script("ConsumerGroups", "--describe", "--group", group)
    rows = [line.split() for line in described.splitlines() if line.startswith(group)]
    assert sorted((row[1], row[2], row[3], row[4], row[5]) for row in rows) == [
        (filled, str(partition), "1", "3", "2") for partition in (0, 1)
    ]
    ours = run(f"groups describe {group}")["groups"][0]["partitions"]
    assert [(each["current_offset"], each["end_offset"], each["lag"]) for each in ours] == [(1, 3, 2)] * 2
    file.write_bytes(exported.stdout)
    script("ConsumerGroups", "--group", group, "--reset-offsets", "--from-file", str(file), "--execute")
    (first, second) = run(f"groups describe {group}")["groups"][0]["partitions"]
    assert (first["current_offset"], second["current_offset"]) == (2, 2)


def test_plans_are_read_by_both(script, filled, tmp_path, broker):
    made = command("reassign", "plan", filled, "-b", broker.bootstrap_servers)
    plan, topics = tmp_path / "plan.json", tmp_path / "topics.json"
    plan.write_bytes(made.stdout)
    done = command("reassign", "execute", str(plan), "--yes", "--wait", "-b", broker.bootstrap_servers)
    assert done.returncode == 0, done.stderr.decode()
    verified = script("Reassign", "--reassignment-json-file", str(plan), "--verify")
    assert verified.count("is completed") == 2
    topics.write_text(json.dumps({"topics": [{"topic": filled}], "version": 1}))
    nodes = ",".join(
        map(str, {broker for part in json.loads(made.stdout)["partitions"] for broker in part["replicas"]})
    )
    generated = script("Reassign", "--topics-to-move-json-file", str(topics), "--broker-list", nodes, "--generate")
    plan.write_text(generated.strip().splitlines()[-1])
    dry = command("reassign", "execute", str(plan), "--dry-run", "-b", broker.bootstrap_servers)
    assert dry.stdout.decode().count(f"would move {filled}-") == 2


def test_sizes_of_logs_are_the_same(run, script, filled):
    printed = script("LogDirs", "--describe", "--topic-list", filled)
    theirs = {
        (each["broker"], part["partition"]): part["size"]
        for each in json.loads(next(line for line in printed.splitlines() if line.startswith("{")))["brokers"]
        for path in each["logDirs"]
        for part in path["partitions"]
    }
    ours = {
        (each["broker"], f"{replica['topic']}-{replica['partition']}"): replica["size"]
        for each in run(f"log-dirs describe {filled}")["brokers"]
        for path in each["log_dirs"]
        for replica in path["replicas"]
    }
    assert ours == theirs


def test_the_quorum_and_features_are_the_same(run, script):
    status = script("MetadataQuorum", "describe", "--status")
    quorum = run("quorum describe")
    assert re.search(r"LeaderId:\s+(\d+)", status)[1] == str(quorum["leader"])
    assert re.search(r"LeaderEpoch:\s+(\d+)", status)[1] == str(quorum["leader_epoch"])
    printed = script("Features", "describe")
    theirs = set(re.findall(r"Feature: (\S+)", printed))
    assert theirs == {each["name"] for each in run("features describe")["features"]}


def test_transactions_and_producers_are_the_same(run, script, filled, broker):
    with (
        klamm.Producer(broker.bootstrap_servers, transactional_id=filled) as producer,
        producer.transaction() as transaction,
    ):
        transaction.send(filled, b"x", partition=0).result(30)
        (ours,) = run(f"transactions describe {filled}")["transactions"]
        found = script("Transactions", "describe-producers", "--topic", filled, "--partition", "0")
        listed = run(f"transactions producers {filled}:0")["partitions"][0]["producers"]
        theirs = {line.split()[0]: line.split()[-1] for line in found.strip().splitlines()[1:]}
        open_from = {str(each["producer_id"]): str(each["transaction_start_offset"]) for each in listed}
        assert {key: value for key, value in theirs.items() if value != "None"} == {
            key: value for key, value in open_from.items() if value != "None"
        }
        assert str(ours["producer_id"]) in theirs
    listing = script("Transactions", "list")
    row = next(line.split() for line in listing.splitlines() if line.startswith((f"{filled} ", f"{filled}\t")))
    (mine,) = [each for each in run("transactions list")["transactions"] if each["transactional_id"] == filled]
    assert str(mine["producer_id"]) in row
    assert str(mine["coordinator"]) in row


def test_rules_are_the_same():
    with DevBroker(super_users=["ANONYMOUS"]) as broker:
        servers = broker.bootstrap_servers

        def run(line):
            result = command(*line.split(), "--json", "-b", servers)
            assert result.returncode == 0, result.stderr.decode()
            return json.loads(result.stdout)

        run("acls add --topic t --group g --principal User:alice --consumer")
        listed = java_tool("Acls", servers, "--list", "--principal", "User:alice")
        theirs = set(re.findall(r"operation=(\w+)", listed))
        assert theirs == {"READ", "DESCRIBE"}
        assert listed.count("principal=User:alice") == 3
        java_tool(
            "Acls",
            servers,
            "--add",
            "--allow-principal",
            "User:bob",
            "--producer",
            "--topic",
            "p-",
            "--resource-pattern-type",
            "prefixed",
        )
        ours = {
            (each["name"], each["pattern"], each["operation"])
            for each in run("acls list --principal User:bob")["rules"]
        }
        assert ours == {("p-", "prefixed", operation) for operation in ("write", "describe", "create")}
        run("acls add --topic q --principal User:carol --producer")
        operations = {each["operation"] for each in run("acls list --principal User:carol")["rules"]}
        assert operations == {operation for _, _, operation in ours}

"""Commands that only Apache Kafka can answer: features, nodes, voters, and the files of its log directory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli_process import klamm as command
from kafka_broker import RealKafka
from kafka_cluster import KafkaCluster
from running import or_skip
from settled import until


@pytest.fixture(scope="module")
def kafka():
    """A node of Apache Kafka, whose log directory the tests read."""
    with or_skip(RealKafka()) as node:
        yield node


def run(servers, line, *more, code=0, stdin=b""):
    result = command(*line.split(), *more, "-b", servers, stdin=stdin)
    assert result.returncode == code, result.stderr.decode()
    return result.stderr.decode() if code else result.stdout


def test_features_change_and_return(kafka):
    servers = kafka.bootstrap_servers

    def finalized():
        features = json.loads(run(servers, "features describe --json"))["features"]
        return next(each["finalized"] for each in features if each["name"] == "share.version")

    before = finalized()
    run(servers, "features downgrade share.version=1 --dry-run")
    assert finalized() == before
    # The brokers learn of a change a moment after the controller.
    run(servers, "features downgrade share.version=1 --yes")
    until(lambda: finalized() == 1)
    run(servers, f"features upgrade share.version={before} --yes")
    until(lambda: finalized() == before)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("cluster unregister --broker 77 --yes", "BROKER_ID_NOT_REGISTERED"),
        ("cluster unregister --controller 77 --yes", "CONTROLLER_ID_NOT_REGISTERED"),
        ("quorum add-voter 9 AAAAAAAAAAAAAAAAAAAAAQ --endpoint CONTROLLER://localhost:1 --yes", "UNSUPPORTED_VERSION"),
        ("quorum remove-voter 9 AAAAAAAAAAAAAAAAAAAAAQ --yes", "UNSUPPORTED_VERSION"),
        ("streams-groups describe none", "GROUP_ID_NOT_FOUND"),
    ],
)
def test_what_does_not_exist_is_an_error(kafka, line, code):
    assert code in run(kafka.bootstrap_servers, line, code=1)


def test_files_of_the_log_directory_are_decoded(kafka):
    servers = kafka.bootstrap_servers
    run(servers, "topics create t --partitions 1")
    run(servers, "produce t --transactional-id x", stdin=b"a\nb\n")
    run(servers, "consume t --group g -c 2")

    def dump(pattern):
        files = [path for path in Path(kafka._directory.name).rglob(pattern) if path.stat().st_size]
        assert files, pattern
        found = command("dump", "--records", *map(str, files))
        assert found.returncode == 0, found.stdout[-2000:] + found.stderr
        return [json.loads(line) for line in found.stdout.splitlines()]

    assert [each["value"] for each in dump("t-0/*.log") if "value" in each] == ["a", "b"]
    commits = [each for each in dump("__consumer_offsets-*/*.log") if each.get("type") == "OffsetCommit"]
    assert [(each["group"], each["topic"], each["value"]["offset"]) for each in commits][-1] == ("g", "t", 2)

    def last_state():
        found = [each for each in dump("__transaction_state-*/*.log") if each.get("type") == "Transaction"]
        return found[-1]["value"]["state"]

    until(lambda: last_state() == "CompleteCommit")
    metadata = dump("__cluster_metadata-0/*.log")
    assert "t" in [each["name"] for each in metadata if each.get("type") == "TopicRecord"]
    assert not [each for each in metadata if str(each.get("type", "")).startswith("type ")]
    assert dump("__cluster_metadata-0/*.checkpoint")


@pytest.fixture
def three_nodes():
    """The address of three nodes of Apache Kafka."""
    with or_skip(KafkaCluster()) as cluster:
        yield cluster.bootstrap_servers


def test_a_throttled_move_is_followed_cancelled_and_made_again(three_nodes, tmp_path):
    servers = three_nodes
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"partitions": [{"topic": "t", "partition": 0, "replicas": [1, 3]}]}))

    def throttled():
        (resource,) = json.loads(run(servers, "configs describe topic t --json"))["resources"]
        return {each["name"]: each["value"] for each in resource["configs"] if "throttled" in each["name"]}

    run(servers, "topics create t --replicas 1:2")
    run(servers, "perf produce t --records 5000 --size 1000")
    run(servers, f"reassign execute {plan} --yes --throttle 10000")
    (moving,) = json.loads(run(servers, "reassign list --json"))["partitions"]
    assert (moving["adding"], moving["removing"]) == ([3], [2])
    expected = {
        "leader.replication.throttled.replicas": "0:1,0:2",
        "follower.replication.throttled.replicas": "0:3",
    }
    until(lambda: throttled() == expected)
    state = command("reassign", "verify", str(plan), "--json", "-b", servers)
    assert (state.returncode, json.loads(state.stdout)["partitions"][0]["state"]) == (1, "moving")
    run(servers, "reassign cancel --yes")
    assert json.loads(run(servers, "reassign list --json")) == {"partitions": []}
    until(lambda: throttled() == {})
    run(servers, f"reassign execute {plan} --yes --wait")
    assert json.loads(run(servers, f"reassign verify {plan} --json"))["finished"]

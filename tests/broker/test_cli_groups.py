"""The commands about groups, transactions and records in other forms, against both brokers."""

from __future__ import annotations

import json

import pytest

import klamm
from cli_process import klamm as command
from klamm import protocol
from klamm.admin import ConfigChange, ConfigOperation, ConfigResource
from settled import until


@pytest.fixture
def run(broker):
    """Return a function that runs a command. With --json it returns the printed objects, otherwise the text."""

    def call(line, *more, code=0, stdin=b""):
        result = command(*line.split(), *more, "-b", broker.bootstrap_servers, stdin=stdin)
        assert result.returncode == code, result.stderr.decode()
        if code:
            return result.stderr.decode()
        printed = result.stdout.decode()
        return [json.loads(each) for each in printed.splitlines()] if "--json" in line.split() else printed

    return call


@pytest.fixture
def filled(run, topic):
    """A topic with two partitions of five records, whose offsets its group has committed: 2 and 3."""
    run(f"topics create {topic} --partitions 2")
    for partition in (0, 1):
        run(f"produce {topic} --partition {partition}", stdin=b"a\nb\nc\nd\ne\n")
    run(f"groups reset-offsets {topic} --topic {topic}:0 --to-offset 2 --execute")
    run(f"groups reset-offsets {topic} --topic {topic}:1 --to-offset 3 --execute")
    return topic


def committed(run, group):
    (found,) = run(f"groups reset-offsets {group} --to-current --json")
    return [part["current_offset"] for part in found["partitions"]]


def test_offsets_are_exported_and_imported(run, filled, tmp_path):
    exported = run(f"groups reset-offsets {filled} --to-current --export")
    assert exported == f"{filled},0,2\n{filled},1,3\n"
    assert f"\nreset 2 partitions of group {filled}\n" in run(f"groups reset-offsets {filled} --to-latest --execute")
    assert committed(run, filled) == [5, 5]
    file = tmp_path / "offsets.csv"
    file.write_text(exported)
    run(f"groups reset-offsets {filled} --from-file {file} --execute")
    assert committed(run, filled) == [2, 3]
    file.write_text(f"other,{filled},0,1\n{filled},{filled},1,4\n")
    run(f"groups reset-offsets {filled} --from-file {file} --execute")
    assert committed(run, filled) == [2, 4]
    file.write_text("nonsense\n")
    assert ":1: 'nonsense' is not topic,partition,offset" in run(
        f"groups reset-offsets {filled} --from-file {file}", code=2
    )


def test_offsets_are_reset_by_duration(run, filled):
    (found,) = run(f"groups reset-offsets {filled} --by-duration PT1H --json")
    assert (found["executed"], [part["new_offset"] for part in found["partitions"]]) == (False, [0, 0])
    (found,) = run(f"groups reset-offsets {filled} --by-duration 0s --dry-run --json")
    assert [part["new_offset"] for part in found["partitions"]] == [5, 5]
    assert committed(run, filled) == [2, 3]


def test_offsets_of_a_group_are_deleted(run, filled):
    run(f"groups delete-offsets {filled} {filled}:0 --dry-run")
    assert committed(run, filled) == [2, 3]
    run(f"groups delete-offsets {filled} {filled}:0 --yes")
    assert committed(run, filled) == [3]


def test_members_are_removed_from_a_group(broker, run, filled):
    with klamm.Consumer(
        broker.bootstrap_servers, filled, [filled], group_instance_id="static", enable_auto_commit=False
    ) as consumer:
        while not consumer.assignment():
            consumer.poll(0.1)
        assert run(f"groups remove-members {filled} --dry-run") == f"would remove all members from group {filled}\n"
        (done,) = run(f"groups remove-members {filled} --instance static --yes --json")
        assert done == {"group": filled, "removed": ["static"]}
        (described,) = run(f"groups describe {filled} --json")[0]["groups"]
        assert described["members"] == []


def test_a_consumer_of_a_share_group_acknowledges_what_it_prints(run, topic):
    run(f"topics create {topic} --partitions 1")
    altered = run(f"configs alter group {topic} --set share.auto.offset.reset=earliest")
    assert altered == f"altered 1 setting of group {topic}\n"
    run(f"produce {topic}", stdin=b"a\nb\nc\n")
    assert run(f"consume {topic} --share {topic} -c 2") == "a\nb\n"
    assert run(f"consume {topic} --share {topic} -c 1") == "c\n"
    assert {"group": topic, "state": "Empty"} in run("share-groups list --json")[0]["groups"]
    (described,) = run(f"share-groups describe {topic} --json")[0]["groups"]
    (part,) = described["partitions"]
    assert (part["topic"], part["partition"], part["lag"]) == (topic, 0, 0)  # brokers store the start offset later
    run(f"share-groups reset-offsets {topic} --to-earliest --execute")
    assert run(f"consume {topic} --share {topic} -c 3") == "a\nb\nc\n"
    run(f"share-groups delete-offsets {topic} {topic} --yes")
    assert "is of type share, not streams" in run(f"streams-groups describe {topic}", code=1)
    run(f"share-groups delete {topic} --yes")
    assert "--share and --exit exclude each other" in run(f"consume {topic} --share {topic} --exit", code=2)


def test_topics_are_read_by_name_and_by_pattern(run, topic):
    for name in ("x", "y"):
        run(f"topics create {topic}-{name}")
        run(f"produce {topic}-{name}", stdin=name.encode() + b"\n")
    assert sorted(run(f"consume {topic}-x {topic}-y -e").split()) == ["x", "y"]
    assert sorted(run(f"consume --matching {topic}-[xz] -e").split()) == ["x"]
    assert sorted(run(f"consume --matching {topic}-. --group {topic} --max 2").split()) == ["x", "y"]
    assert f"did you mean {topic}-x?" in run(f"consume {topic}-xx -e", code=1)
    assert "no topic matches" in run("consume --matching none-at-all", code=1)
    assert run(f"consume {topic}-x --from @-1h -e") == "x\n"
    assert run(f"consume {topic}-x --idle 500ms") == "x\n"


def test_what_consume_prints_as_json_goes_back_in(broker, run, topic):
    for name in ("from", "to"):
        run(f"topics create {topic}-{name} --partitions 2")
    with klamm.Producer(broker.bootstrap_servers) as producer:
        for number in range(20):
            producer.send_nowait(
                f"{topic}-from",
                None if number == 3 else b"\xff%d" % number,
                key=None if number == 4 else b"k%d" % number,
                partition=number % 2,
                timestamp_ms=1_700_000_000_000 + number,
                headers=[("h", b"\xfe"), ("h", None), ("n", b"")],
            )

    def records(name):
        found = run(f"consume {topic}-{name} -e --json")
        return sorted(
            ({key: value for key, value in each.items() if key != "topic"} for each in found),
            key=lambda each: (each["partition"], each["offset"]),
        )

    printed = command("consume", f"{topic}-from", "-e", "--json", "-b", broker.bootstrap_servers).stdout
    run(f"produce {topic}-to --json-lines --keep-partitions", stdin=printed)
    assert records("to") == records("from")
    assert len(records("to")) == 20


def test_a_transaction_is_all_or_nothing(run, topic, tmp_path):
    run(f"topics create {topic}")
    good, bad = tmp_path / "good", tmp_path / "bad"
    good.write_bytes(b'{"value": "1"}\n{"value": "2"}\n')
    bad.write_bytes(b'{"value": "3"}\nnonsense\n')
    committed_only = f"consume {topic} -e -X isolation.level=read_committed"
    run(f"produce {topic} {good} --json-lines --transactional-id {topic}")
    assert run(committed_only) == "1\n2\n"
    assert "is not JSON" in run(f"produce {topic} {good} {bad} --json-lines --transactional-id {topic}", code=1)
    assert run(committed_only) == "1\n2\n"
    run(f"produce {topic} --transactional-id {topic} --transaction-size 1", stdin=b"4\n5\n")
    assert run(committed_only) == "1\n2\n4\n5\n"
    (found,) = run(f"transactions describe {topic} --json")[0]["transactions"]
    assert found["state"] == "CompleteCommit"
    assert topic in [each["transactional_id"] for each in run("transactions list --json")[0]["transactions"]]


def test_files_and_other_delimiters(run, topic, tmp_path):
    run(f"topics create {topic}")
    file = tmp_path / "whole"
    file.write_bytes(b"two\nlines\n")
    run(f"produce {topic} {file} --whole-files --key f")
    run(f"produce {topic} -D |", stdin=b"a|b\n|c")
    assert run(f"consume {topic} -e -f", r"%K %S\n") == "1 10\n-1 1\n-1 2\n-1 1\n"


def test_an_open_transaction_is_seen_and_terminated(broker, run, topic):
    run(f"topics create {topic} --partitions 1")
    with klamm.Producer(broker.bootstrap_servers, transactional_id=topic) as producer:
        transaction = producer.transaction().__enter__()
        transaction.send(topic, b"open").result(30)
        (part,) = run(f"transactions producers {topic} --json")[0]["partitions"]
        assert part["producers"][0]["transaction_start_offset"] == 0
        (open_one,) = run(f"transactions describe {topic} --json")[0]["transactions"]
        assert (open_one["state"], open_one["partitions"]) == ("Ongoing", [{"topic": topic, "partition": 0}])
        # Its coordinator knows it, so that it does not hang.
        assert run(f"transactions find-hanging {topic} --json") == [{"hanging": []}]
        assert "no open transaction" in run(f"transactions abort {topic}:0 --start-offset 7 --yes", code=1)
        run(f"transactions terminate {topic} --yes")
        with pytest.raises(klamm.KafkaError):
            transaction.commit()


def test_a_transaction_that_no_coordinator_knows_hangs_and_is_aborted(real_kafka, topic):
    """Only brokers that do not check producers (before Kafka 3.6, or with this setting) let it hang. The dev broker checks."""
    servers = real_kafka.bootstrap_servers

    def run(line):
        result = command(*line.split(), "--json", "-b", servers)
        return result.returncode, json.loads(result.stdout)

    check = ConfigResource("broker", "")
    verification = "transaction.partition.verification.enable"
    with klamm.Admin(servers) as admin:
        admin.create_topics({topic: klamm.NewTopic(partitions=1)})
        admin.incremental_alter_configs({check: [ConfigChange(verification, False)]})
        try:
            until(lambda: hang(admin, topic) == 0)
        finally:
            admin.incremental_alter_configs({check: [ConfigChange(verification, None, ConfigOperation.DELETE)]})
    code, found = run(f"transactions find-hanging {topic} --max-timeout 1s")
    (one,) = found["hanging"]
    assert code == 1
    assert (one["topic"], one["partition"], one["producer_id"], one["transactional_id"]) == (topic, 0, 4242, None)
    abort = f"transactions abort {topic}:0 --start-offset {one['start_offset']}"
    assert "abort the transaction of producer 4242" in run(f"{abort} --dry-run")[1]["changes"][0]
    assert run(f"{abort} --yes")[0] == 0
    assert run(f"transactions find-hanging {topic} --max-timeout 1s") == (0, {"hanging": []})


def hang(admin, topic):
    """Write a transactional batch of a producer ID that no coordinator knows, and return the error code."""
    record = protocol.BatchRecord(timestamp=1_000_000_000_000, value=b"hangs")
    batch = protocol.encode_batch([record], producer_id=4242, producer_epoch=0, base_sequence=0, transactional=True)
    data = [{"name": topic, "partitionData": [{"index": 0, "records": batch}]}]
    fields = {"acks": -1, "timeoutMs": 1000, "transactionalId": "gone", "topicData": data}
    leader = admin.describe_topics([topic])[topic].partitions[0].leader
    response = admin._call("Produce", fields, leader, 5.0, (3, 11)).result()
    return response["responses"][0]["partitionResponses"][0]["errorCode"]

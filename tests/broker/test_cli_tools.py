"""The commands `perf`, `verify`, `dump`, and `mirror` between current clusters."""

from __future__ import annotations

import json
import struct

import pytest

import klamm
from cli_process import klamm as command
from cli_process import started
from klamm import protocol
from klamm.testing import DevBroker
from settled import until


def run(line, servers=None, code=0, stdin=b""):
    result = command(*line.split(), *(["-b", servers] if servers else []), stdin=stdin)
    assert result.returncode == code, result.stderr.decode()
    return [json.loads(each) for each in result.stdout.splitlines()]


def test_throughput_and_latency_are_measured(broker, topic):
    run(f"topics create {topic} --partitions 2 --json", broker.bootstrap_servers)
    (sent,) = run(f"perf produce {topic} --records 1000 --size 50 --json", broker.bootstrap_servers)
    assert (sent["records"], sent["bytes"], sent["latency_ms"]["measured"]) == (1000, 50_000, 1000)
    latency = sent["latency_ms"]
    assert latency["p50"] <= latency["p90"] <= latency["p99"] <= latency["p99.9"] <= latency["max"]
    (paced,) = run(f"perf produce {topic} --records 100 --rate 200 --json", broker.bootstrap_servers)
    assert paced["seconds"] >= 0.49
    (read,) = run(f"perf consume {topic} --json", broker.bootstrap_servers)
    assert (read["records"], read["bytes"]) == (1100, 60_000)
    (both,) = run(f"perf end-to-end {topic} --records 5 --json", broker.bootstrap_servers)
    assert both["latency_ms"]["measured"] == 5
    assert run(f"perf produce {topic}-none --records 1", broker.bootstrap_servers, code=1) == []


def test_a_latency_counts_from_when_the_record_was_due():
    with DevBroker() as broker, klamm.Admin(broker.bootstrap_servers) as admin:
        admin.create_topics({"t": klamm.NewTopic(partitions=1)})
        broker.fault("Produce", "delay", seconds=1.0)
        (found,) = run("perf produce t --records 50 --rate 100 --json", broker.bootstrap_servers)
        # One slow request delays all records behind it.
        assert found["latency_ms"]["p50"] > 250


def test_a_topic_is_verified(broker, topic):
    run(f"topics create {topic} --partitions 2 --json", broker.bootstrap_servers)
    with klamm.Producer(broker.bootstrap_servers, transactional_id=topic) as producer:
        for number in range(3):
            with producer.transaction() as transaction:
                transaction.send_nowait(topic, b"%d" % number, partition=0, timestamp_ms=1_700_000_000_000 - number)
    (found,) = run(f"verify {topic} --json", broker.bootstrap_servers)
    first, second = found["partitions"]
    assert found["ok"]
    # Each commit takes an offset, and the last one is after the last record.
    assert (first["records"], first["end"], first["missing_offsets"], first["out_of_order"]) == (3, 6, 2, 2)
    assert (second["records"], second["error"]) == (0, None)


def test_a_damaged_batch_is_found():
    with DevBroker() as broker:
        run("topics create t --partitions 2 --json", broker.bootstrap_servers)
        # Nearly every bit of the response is one of the records.
        run("produce t --partition 0", broker.bootstrap_servers, stdin=b"a" * 100_000)
        broker.fault("Fetch", "corrupt", times=None)
        (found,) = run("verify t:0 --idle 2s --json", broker.bootstrap_servers, code=1)
        assert not found["ok"]
        assert found["partitions"][0]["error"]


@pytest.fixture
def clusters():
    """Two dev brokers, with a topic of two partitions in the first."""
    with DevBroker() as old, DevBroker() as new:
        run("topics create t --partitions 2 --json", old.bootstrap_servers)
        yield old.bootstrap_servers, new.bootstrap_servers


def records(servers, topic):
    found = run(f"consume {topic} -e --json -X isolation.level=read_committed", servers)
    return sorted(
        (each["partition"], int(next(h["value"] for h in each["headers"] if h["name"] == "klamm.source.offset")), each)
        for each in found
    )


def test_a_topic_is_copied_once_with_everything(clusters):
    old, new = clusters
    with klamm.Producer(old) as producer:
        for number in range(100):
            producer.send_nowait(
                "t",
                None if number == 7 else b"v%d" % number,
                key=b"k%d" % number,
                partition=number % 2,
                timestamp_ms=1_700_000_000_000 + number,
                headers=[("h", b"x"), ("n", None)],
            )
    line = f"mirror --from {old}/t --to {new}/copy --json"
    (first,) = run(line)
    assert (first["records"], first["offsets"]) == (100, {"0": 50, "1": 50})
    assert run(line)[0]["records"] == 0
    said = command("mirror", "--from", f"{old}/t", "--to", f"{new}/copy").stdout.decode()
    assert said.startswith("copied 0 records (0 bytes) of 2 partitions from t to copy in ")
    run("produce t --partition 0", old, stdin=b"later\n")
    assert run(line)[0]["records"] == 1
    copied = records(new, "copy")
    assert [(partition, offset) for partition, offset, _ in copied] == [
        (partition, offset) for partition in (0, 1) for offset in range(51 - partition)
    ]
    record = copied[3][2]
    assert (record["key"], record["value"], record["timestamp_ms"]) == ("k6", "v6", 1_700_000_000_006)
    assert record["headers"][:2] == [{"name": "h", "value": "x"}, {"name": "n", "value": None}]


def test_a_killed_copy_continues_without_repeating_a_record(clusters):
    old, new = clusters
    run("perf produce t --records 40000 --size 10 --json", old)
    with (
        started("mirror", "--from", f"{old}/t", "--to", f"{new}/copy", "--follow") as process,
        klamm.Admin(new) as admin,
    ):
        until(lambda: "copy" in admin.list_topics() and sum_of_ends(admin) > 0)
        process.kill()
        process.wait()
    run(f"mirror --from {old}/t --to {new}/copy --json")
    offsets = [(partition, offset) for partition, offset, _ in records(new, "copy")]
    assert len(offsets) == 40_000
    assert len(set(offsets)) == 40_000


def sum_of_ends(admin):
    partitions = [klamm.TopicPartition("copy", number) for number in (0, 1)]
    found = admin.list_offsets(dict.fromkeys(partitions, klamm.admin.OffsetSpec.LATEST))
    return sum(each.offset for each in found.values())


def test_offsets_of_groups_are_translated(clusters):
    old, new = clusters
    for _ in range(3):
        run("produce t --partition 0 --transactional-id x --transaction-size 1", old, stdin=b"a\nb\n")
    line = f"mirror --from {old}/t --to {new}/copy --group g --json"
    for wanted in (0, 2, 3, 100):
        run(f"groups reset-offsets g --topic t:0 --to-offset {wanted} --execute --json", old)
        run(line)
        rest = (
            command("consume", "copy", "--group", "g", "--idle", "2s", "-f", "%h\n", "-b", new).stdout.decode().split()
        )
        expected = [offset for _, offset, _ in records(new, "copy") if offset >= wanted]
        assert [int(each.partition("klamm.source.offset=")[2]) for each in rest] == expected


def test_a_target_with_fewer_partitions_is_refused(clusters):
    old, new = clusters
    run("topics create copy --partitions 1 --json", new)
    result = command("mirror", "--from", f"{old}/t", "--to", f"{new}/copy")
    assert result.returncode == 1
    assert b"has 1 partition, and the source has 2" in result.stderr


def segment(folder, *batches):
    folder.mkdir()
    path = folder / "00000000000000000010.log"
    path.write_bytes(b"".join(batches))
    return path


def test_a_segment_is_printed(tmp_path):
    records_of = [protocol.BatchRecord(offset=10 + n, timestamp=5, key=b"k", value=b"\xff") for n in range(2)]
    good = protocol.encode_batch(records_of, keep_offsets=True)
    damaged = bytearray(good)
    damaged[-1] ^= 1
    path = segment(tmp_path / "t-0", good, bytes(damaged), good[:-3])
    first, second, third = run(f"dump {path}", code=1)
    assert (first["position"], first["size"], first["base_offset"], first["count"]) == (0, len(good), 10, 2)
    assert (second["position"], "error" in second) == (len(good), True)
    assert third["error"] == "the last batch is incomplete"
    path.write_bytes(good + good[:11])
    assert run(f"dump {path}", code=1)[1]["error"] == "the last batch is incomplete"
    path.write_bytes(good + bytes(100))
    _, *found = run(f"dump {path} --records")
    assert [(each["offset"], each["value"], each["value_encoding"]) for each in found] == [
        (10, "/w==", "base64"),
        (11, "/w==", "base64"),
    ]


def test_indexes_and_snapshots_are_printed(tmp_path):
    index = tmp_path / "00000000000000000100.index"
    index.write_bytes(struct.pack(">iiii", 5, 0, 9, 4096) + bytes(16))
    assert [(each["offset"], each["position"]) for each in run(f"dump {index}")] == [(105, 0), (109, 4096)]
    times = tmp_path / "00000000000000000100.timeindex"
    times.write_bytes(struct.pack(">qiqi", 1000, 5, 900, 9))
    first, second = run(f"dump {times}", code=1)
    assert (first["offset"], second["error"]) == (105, "the timestamps decrease")
    aborted = tmp_path / "00000000000000000100.txnindex"
    aborted.write_bytes(struct.pack(">hqqqq", 0, 7, 100, 105, 106))
    assert run(f"dump {aborted}")[0]["producer_id"] == 7
    body = struct.pack(">i", 1) + struct.pack(">qhiqiqiq", 7, 1, 2, 105, 0, 1000, 3, -1)
    snapshot = tmp_path / "00000000000000000106.snapshot"
    snapshot.write_bytes(struct.pack(">hI", 1, protocol.crc32c(body)) + body)
    head, producer = run(f"dump {snapshot}")
    assert (head["producers"], producer["producer_id"], producer["last_offset"]) == (1, 7, 105)
    snapshot.write_bytes(struct.pack(">hI", 1, 5) + body)
    assert "checksum" in run(f"dump {snapshot}", code=1)[0]["error"]


def text(value):
    return struct.pack(">h", len(value)) + value


def test_records_of_brokers_are_decoded(tmp_path):
    offset = (
        struct.pack(">h", 1) + text(b"g") + text(b"t") + struct.pack(">i", 3),
        struct.pack(">hqi", 3, 42, 1) + text(b"meta") + struct.pack(">q", 1000),
    )
    transaction = (
        struct.pack(">h", 0) + text(b"id"),
        struct.pack(">hqhib", 0, 7, 1, 60_000, 1)
        + struct.pack(">i", 1)
        + text(b"t")
        + struct.pack(">iiqq", 1, 3, 11, 12),
    )
    topic_record = (None, b"\x01\x02\x00\x02t" + bytes(16) + b"\x00")

    def dump(folder, key, value):
        batch = protocol.encode_batch([protocol.BatchRecord(key=key, value=value)])
        path = segment(tmp_path / folder, batch)
        return run(f"dump {path}")[1]

    found = dump("__consumer_offsets-3", *offset)
    assert (found["type"], found["group"], found["topic"], found["partition"]) == ("OffsetCommit", "g", "t", 3)
    assert found["value"] == {
        "version": 3,
        "offset": 42,
        "leader_epoch": 1,
        "metadata": "meta",
        "commit_timestamp_ms": 1000,
    }
    assert dump("__consumer_offsets-4", offset[0], None)["value"] is None
    found = dump("__transaction_state-1", *transaction)
    assert (found["transactional_id"], found["value"]["state"]) == ("id", "Ongoing")
    assert found["value"]["partitions"] == [{"topic": "t", "partitions": [3]}]
    found = dump("__cluster_metadata-0", *topic_record)
    assert (found["type"], found["name"]) == ("TopicRecord", "t")


def test_a_file_of_another_kind_is_refused(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("x")
    result = command("dump", str(path))
    assert result.returncode == 2
    assert b"has no known ending" in result.stderr

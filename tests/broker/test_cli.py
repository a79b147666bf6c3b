"""The command `klamm` against both brokers, as a process of its own."""

from __future__ import annotations

import json
import signal
import socket

import pytest

from cli_process import interrupt, klamm, started
from klamm import Admin
from klamm.legacy import Consumer07

LINES = b"plain\nkey:with key\n\xff\xfe:\x00binary\r\n\nlast without newline"


@pytest.fixture
def filled(broker, topic):
    """Fill a topic of one partition with `LINES`, and return a function that runs a command on its cluster."""

    def run(*arguments, **options):
        return klamm(*arguments, "-b", broker.bootstrap_servers, **options)

    assert run("topics", "create", topic, "--partitions", "1").returncode == 0
    assert run("produce", topic, stdin=LINES).returncode == 0
    return run


def objects(result):
    """Parse what a command printed, one JSON object a line."""
    assert result.returncode == 0, result.stderr.decode()
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_lines_arrive_byte_for_byte(filled, topic):
    assert filled("consume", topic, "-e").stdout == LINES + b"\n"


def test_json_carries_bytes_exactly(filled, topic):
    records = objects(filled("consume", topic, "--exit", "--json"))
    assert [record["offset"] for record in records] == list(range(5))
    assert [record["value"] for record in records] == [
        "plain",
        "key:with key",
        "//46AGJpbmFyeQ0=",
        "",
        "last without newline",
    ]
    assert [record.get("value_encoding") for record in records] == [None, None, "base64", None, None]
    assert all(record["key"] is None and record["topic"] == topic and record["partition"] == 0 for record in records)


def test_keys_headers_and_null_values_arrive(filled, topic):
    sent = filled(
        "produce",
        topic,
        "--key-separator",
        ":",
        "--header",
        "a=1",
        "--header",
        "b=",
        "--null-value",
        "gone",
        "--json",
        stdin=b"k:v\nk:gone\n",
    )
    assert objects(sent)[0] | {"seconds": 0} == {"topic": topic, "records": 2, "bytes": 5, "seconds": 0}
    records = objects(filled("consume", topic, "--from", "-2", "-e", "--json"))
    assert [(record["key"], record["value"]) for record in records] == [("k", "v"), ("k", None)]
    assert records[0]["headers"] == [{"name": "a", "value": "1"}, {"name": "b", "value": ""}]


@pytest.mark.parametrize(
    ("offset", "instead"),
    [("1795675721", "@1795675721000"), ("1795675721123", "@1795675721123"), ("1000", None), ("3", None)],
)
def test_an_offset_that_looks_like_a_time_gets_a_hint(filled, topic, offset, instead):
    written = filled("consume", topic, "--from", offset, "-e").stderr.decode()
    assert (f"write {instead}" in written) if instead else ("hint" not in written)


def test_keys_arrive_from_many_files(filled, topic, tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(
            b"".join(b"%s%d\tvalue %d\n" % (name.encode(), number, number) for number in range(5000))
        )
    sent = filled(
        "produce",
        topic,
        str(tmp_path / "a"),
        "--key-separator",
        r"\t",
        "--compression",
        "lz4",
        str(tmp_path / "b"),
        "--json",
    )
    assert objects(sent)[0]["records"] == 10_000
    read = filled("consume", topic, "--from", "5", "-e", "--format", r"%k\t%v\n").stdout
    assert read == (tmp_path / "a").read_bytes() + (tmp_path / "b").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "offsets"),
    [
        (("--from", "earliest", "--to", "end"), [0, 1, 2, 3, 4]),
        (("--from", "3", "-e"), [3, 4]),
        (("--from", "-2", "-e"), [3, 4]),
        (("--from", "1", "--to", "3"), [1, 2]),
        (("--from", "1", "--max", "2"), [1, 2]),
        (("--from", "latest", "-e"), []),
        (("--from", "@0", "-e"), [0, 1, 2, 3, 4]),
        (("--from", "@2100-01-01", "-e"), []),
        (("--to", "@2100-01-01T00:00:00Z"), [0, 1, 2, 3, 4]),
    ],
)
def test_a_range_of_offsets_is_printed(filled, topic, arguments, offsets):
    result = filled("consume", topic, *arguments, "--format", r"%o\n")
    assert result.returncode == 0, result.stderr.decode()
    assert [int(line) for line in result.stdout.split()] == offsets


def test_a_missing_partition_is_an_error(filled, topic):
    result = filled("consume", topic, "--partition", "4", "-e")
    assert (result.returncode, result.stderr) == (
        1,
        f"klamm: topic '{topic}' has no partition 4\n  hint: use one of its partitions: 0\n".encode(),
    )


def test_topics_are_created_listed_described_and_deleted(broker, topic):
    def run(*arguments):
        return klamm("topics", *arguments, "-b", broker.bootstrap_servers)

    assert objects(run("create", topic, "--partitions", "3", "--config", "retention.ms=3600000", "--json")) == [
        {"created": [topic]}
    ]
    assert topic in objects(run("list", "--json"))[0]["topics"]
    assert topic in run("list").stdout.decode().splitlines()
    described = objects(run("describe", topic, "--json"))[0]["topics"][0]
    assert (described["name"], described["internal"]) == (topic, False)
    for number, part in enumerate(described["partitions"]):
        assert (part["partition"], part["begin_offset"], part["end_offset"]) == (number, 0, 0)
        assert part["leader"] in part["replicas"]
        assert part["isr"] == part["replicas"]
    table = run("describe", topic).stdout.decode().splitlines()
    assert table[0].split() == ["topic", "partition", "leader", "replicas", "isr", "begin", "end"]
    assert len(table) == 4
    assert run("create", f"{topic}-2").stdout.decode() == f"created {topic}-2\n"
    # What cannot be done for one is said, and done for the others.
    some = run("delete", f"{topic}-1", topic, f"{topic}-2", "--yes")
    assert some.returncode == 1
    assert some.stdout.decode() == f"deleted {topic}\ndeleted {topic}-2\n"
    assert f"{topic}-1" in some.stderr.decode()
    gone = run("delete", topic, "--json", "--yes")
    assert (gone.returncode, json.loads(gone.stdout)) == (1, {"deleted": []})
    assert topic not in objects(run("list", "--json"))[0]["topics"]


def test_describe_shows_offsets(filled, topic):
    (part,) = objects(filled("topics", "describe", topic, "--json"))[0]["topics"][0]["partitions"]
    assert (part["begin_offset"], part["end_offset"]) == (0, 5)


def test_a_topic_that_exists_is_one_line(filled, topic):
    result = filled("topics", "create", topic)
    assert result.returncode == 1
    assert_one_error(result.stderr, topic)


def test_consuming_an_unknown_topic_is_an_error_and_creates_nothing(broker, topic):
    result = klamm("consume", topic, "-e", "-b", broker.bootstrap_servers)
    assert result.returncode == 1
    assert_one_error(result.stderr, topic)
    assert topic not in klamm("topics", "list", "-b", broker.bootstrap_servers).stdout.decode().split()


def test_an_unknown_setting_is_one_line(broker, topic):
    result = klamm("consume", topic, "-b", broker.bootstrap_servers, "-X", "fetch.min.byte=1")
    assert result.returncode == 2
    assert_one_error(result.stderr, "fetch.min.byte", "did you mean fetch.min.bytes?")


def test_a_member_of_a_group_starts_at_the_committed_offset(broker, filled, topic):
    group = f"{topic}-readers"
    first = filled("consume", topic, "--group", group, "--max", "2")
    assert (first.returncode, first.stdout.splitlines()) == (0, [b"plain", b"key:with key"])
    # A warning may come before it: Kafka creates the topic of the offsets for its first group.
    assert f"klamm: assigned: {topic}-0" in first.stderr.decode().splitlines()
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        assert list(admin.group_offsets(group).values()) == [2]
    assert len(objects(filled("consume", topic, "--group", group, "--max", "3", "--json"))) == 3
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        assert list(admin.group_offsets(group).values()) == [5]


@pytest.mark.parametrize("name", ["group.id", "group_id"])
def test_a_group_as_a_setting_is_an_error_and_commits_nothing(broker, filled, topic, name):
    group = f"{topic}-readers"
    assert filled("consume", topic, "--group", group, "--max", "3").returncode == 0
    refused = filled("consume", topic, "-X", f"{name}={group}", "-X", "enable.auto.commit=true", "--max", "1")
    assert (refused.returncode, refused.stdout) == (2, b"")
    assert b"--group" in refused.stderr
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        assert list(admin.group_offsets(group).values()) == [3]


@pytest.mark.parametrize("option", [("--partition", "0"), ("--to", "3"), ("-e",), ("--from", "3")])
def test_a_member_of_a_group_does_not_choose_what_it_reads(filled, topic, option):
    refused = filled("consume", topic, "--group", "readers", *option)
    assert (refused.returncode, refused.stdout) == (2, b"")
    assert_one_error(refused.stderr, "--group")


@pytest.mark.usefixtures("filled")
def test_ctrl_c_ends_a_consumer_at_once(broker, topic):
    with started("consume", topic, "-b", broker.bootstrap_servers) as process:
        assert process.stdout.readline() == b"plain\n"
        code, seconds, printed = interrupt(process)
    assert (code, printed) == (130, b"")
    assert seconds < 10


@pytest.mark.parametrize("kind", ["topics", "groups"])
def test_describe_shows_what_exists_before_the_error_of_what_is_missing(broker, filled, topic, kind):
    name = topic if kind == "topics" else f"{topic}-readers"
    if kind == "groups":
        assert filled("consume", topic, "--group", name, "--max", "1").returncode == 0
    described = klamm(kind, "describe", f"{name}-missing", name, "-b", broker.bootstrap_servers, "--json")
    assert described.returncode == 1
    assert [next(iter(each.values())) for each in json.loads(described.stdout)[kind]] == [name]
    assert_one_error(described.stderr, f"{name}-missing")


def test_settings_are_shown_before_the_error_of_a_missing_topic(filled, topic):
    described = filled("configs", "describe", "topic", f"{topic}-missing", topic, "--json")
    assert described.returncode == 1
    assert [each["name"] for each in json.loads(described.stdout)["resources"]] == [topic]
    assert_one_error(described.stderr, f"{topic}-missing")


def test_sigterm_ends_a_member_which_commits(broker, filled, topic):
    group = f"{topic}-readers"
    only_at_the_end = ("-X", "auto.commit.interval.ms=600000")
    with started("consume", topic, "-b", broker.bootstrap_servers, "--group", group, *only_at_the_end) as process:
        lines = [process.stdout.readline() for _ in range(5)]
        assert filled("produce", topic, stdin=b"last\n").returncode == 0
        lines.append(process.stdout.readline())
        code, _, _ = interrupt(process, signal.SIGTERM)
    assert code == 143
    assert (lines[0], lines[5]) == (b"plain\n", b"last\n")
    with Admin(broker.bootstrap_servers) as admin:
        # Not the last record if the signal arrives before the next poll.
        assert list(admin.group_offsets(group).values()) in ([5], [6])


def test_ctrl_c_ends_a_producer_that_waits_for_lines(broker, filled, topic):
    with started("produce", topic, "-b", broker.bootstrap_servers) as process:
        process.stdin.write(b"typed\n")
        process.stdin.flush()
        # Arrived: so it is the next line that the producer waits for.
        assert filled("consume", topic, "--from", "5", "--max", "1").stdout == b"typed\n"
        code, seconds, printed = interrupt(process)
    assert (code, printed) == (130, b"")
    assert seconds < 10


@pytest.mark.usefixtures("filled")
def test_a_consumer_ends_when_its_output_is_closed(broker, topic):
    with started("consume", topic, "-b", broker.bootstrap_servers) as process:
        assert process.stdout.readline() == b"plain\n"
        process.stdout.close()
        assert process.wait(timeout=30) == 0
        assert process.stderr.read() == b""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_dev_broker_runs_until_a_signal_stops_it(number):
    with started("dev-broker", "--brokers", "2", "--racks", "a,b", "--partitions", "3", "--json") as process:
        announced = json.loads(process.stdout.readline())
        servers = announced["bootstrap_servers"]
        assert announced["brokers"] == 2
        assert klamm("produce", "auto", "-b", servers, stdin=b"x\n").returncode == 0
        described = objects(klamm("topics", "describe", "auto", "-b", servers, "--json"))[0]["topics"][0]
        assert len(described["partitions"]) == 3
        with Admin(servers) as admin:
            assert [node.rack for node in admin.describe_cluster().brokers] == ["a", "b"]
        code, _, printed = interrupt(process, number)
    assert (code, printed) == (0, b"")


def test_the_dev_broker_asks_for_certificates_and_passwords():
    login = ["--client-auth", "--sasl", "SCRAM-SHA-256=me:sec:ret", "--sasl", "OAUTHBEARER"]
    with started("dev-broker", *login, "--json") as process:
        announced = json.loads(process.stdout.readline())
        settings = {key: value for key, value in announced.items() if key.startswith("ssl.")}
        settings |= {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-256", "sasl.username": "me"}
        options = [part for key, value in settings.items() for part in ("-X", f"{key}={value}")]
        send = ["produce", "t", "-b", announced["bootstrap_servers"], *options]
        assert klamm(*send, "-X", "sasl.password=sec:ret", stdin=b"x\n").returncode == 0
        refused = klamm(*send, "-X", "sasl.password=other", stdin=b"x\n")
        assert refused.returncode == 1
        assert_one_error(refused.stderr, "authentication with SCRAM-SHA-256")
        assert interrupt(process)[0] == 0


def test_the_dev_broker_has_super_users():
    with started("dev-broker", "--super-user", "admin") as process:
        servers = process.stdout.readline().decode().strip()
        refused = klamm("produce", "t", "-b", servers, stdin=b"x\n")
        assert refused.returncode == 1
        assert_one_error(refused.stderr, "AUTHORIZATION_FAILED")
        assert interrupt(process)[0] == 0


def test_the_dev_broker_can_be_an_older_kafka():
    with started("dev-broker", "--as-version", "0.7.2", "--partitions", "2") as process:
        with Consumer07(process.stdout.readline().decode().strip()) as consumer:
            assert consumer.latest("t", 1) == 0
        assert interrupt(process)[0] == 0
    result = klamm("dev-broker", "--as-version", "0.5")
    assert result.returncode == 2
    assert_one_error(result.stderr, "0.6.1, 0.7.0, 0.7.1, 0.7.2, draft")


def test_the_dev_broker_prints_its_address_alone():
    with started("dev-broker", "--no-auto-create") as process:
        servers = process.stdout.readline().decode().strip()
        result = klamm("produce", "absent", "-b", servers, "-X", "max.block.ms=500", stdin=b"x\n")
        assert result.returncode == 1
        assert_one_error(result.stderr, "absent")
        assert interrupt(process)[0] == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("produce", "t", "-X", "max.block.ms=500"),
        ("consume", "t", "-X", "default.api.timeout.ms=500"),
        ("topics", "list", "-X", "default.api.timeout.ms=500"),
    ],
)
def test_a_refused_connection_is_one_line(arguments):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        result = klamm(*arguments, "-b", address, stdin=b"x\n", timeout=30)
    assert result.returncode == 1
    first, *last = result.stderr.decode().splitlines()
    assert first == f"klamm: cannot connect to {address}: Connection refused; retrying"
    assert_one_error("\n".join(last).encode(), address)


def assert_one_error(printed: bytes, *names: str) -> None:
    """Check the form of an error: one line that contains the given names, and at most one hint."""
    message, *hint = printed.decode().splitlines()
    assert message.startswith("klamm: ")
    assert all(name in message for name in names), message
    assert len(hint) <= 1
    assert all(line.startswith("  ") for line in hint)

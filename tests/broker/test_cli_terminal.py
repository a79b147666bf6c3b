"""The command `klamm` in a terminal: progress, sizes, questions, Ctrl+C, failures of connections."""

from __future__ import annotations

import codecs
import json
import socket
import uuid

import pytest

from cli_process import klamm, started
from klamm import Admin, Consumer, NewTopic, Producer
from terminal import Terminal


@pytest.fixture
def long_topic(broker, topic):
    """A topic with a name of 60 characters."""
    name = f"{topic}-{'x' * (59 - len(topic))}"
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topics({name: NewTopic(partitions=2)})
    return name


@pytest.fixture
def nowhere():
    """An address that refuses connections."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{unused.getsockname()[1]}"


def test_a_wide_terminal_shows_a_frame(broker, long_topic):
    with Terminal("topics", "describe", long_topic, "-b", broker.bootstrap_servers, columns=140) as terminal:
        assert terminal.end() == 0
        assert any("│" in line and long_topic in line for line in terminal.lines)


def test_a_narrow_terminal_keeps_names_whole(broker, long_topic):
    with Terminal("topics", "describe", long_topic, "-b", broker.bootstrap_servers, columns=72, rows=40) as terminal:
        assert terminal.end() == 0
        assert sum(long_topic in line for line in terminal.lines) == 2
        assert not any("…" in line for line in terminal.lines)


def test_no_color_has_no_colours(broker, long_topic):
    line = ("topics", "describe", long_topic, "-b", broker.bootstrap_servers)
    with Terminal(*line, columns=140, env={"NO_COLOR": "1"}) as terminal:
        assert terminal.end() == 0
        assert b"\x1b[3" not in terminal.raw


def test_a_deletion_asks_and_takes_no_for_an_answer(broker, topic):
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topics({topic: NewTopic(partitions=1)})
        for answer, code in (("n", 1), ("y", 0)):
            with Terminal("topics", "delete", topic, "-b", broker.bootstrap_servers) as terminal:
                terminal.until(lambda lines: any("continue? [y/N]" in line for line in lines))
                assert any(f"will delete topic {topic}" in line for line in terminal.lines)
                assert topic in admin.list_topics()
                terminal.type(f"{answer}\n")
                assert terminal.end() == code
        assert topic not in admin.list_topics()


def test_ctrl_c_ends_a_question_and_changes_nothing(broker, topic):
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topics({topic: NewTopic(partitions=1)})
        with Terminal("topics", "delete", topic, "-b", broker.bootstrap_servers) as terminal:
            terminal.until(lambda lines: any("continue? [y/N]" in line for line in lines))
            assert terminal.interrupt() < 1
            assert terminal.process.returncode == 130
        assert topic in admin.list_topics()


def test_without_a_terminal_a_deletion_needs_yes(broker, topic):
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topics({topic: NewTopic(partitions=1)})
        refused = klamm("topics", "delete", topic, "-b", broker.bootstrap_servers)
        assert refused.returncode == 2
        assert (
            refused.stderr.decode().splitlines()[-1].startswith("klamm: the command needs a confirmation; pass --yes")
        )
        dry = klamm("topics", "delete", topic, "-b", broker.bootstrap_servers, "--dry-run")
        assert (dry.returncode, dry.stdout.decode()) == (0, f"would delete topic {topic} and all its records\n")
        assert topic in admin.list_topics()
        assert klamm("topics", "delete", topic, "-b", broker.bootstrap_servers, "--yes").returncode == 0
        assert topic not in admin.list_topics()


@pytest.mark.parametrize("line", [("topics", "list"), ("consume", "t"), ("produce", "t"), ("groups", "list")])
def test_a_refused_connection_is_shown_at_once_with_a_spinner(nowhere, line):
    with Terminal(*line, "-b", nowhere) as terminal:
        refused = f"klamm: cannot connect to {nowhere}: Connection refused; retrying"
        assert terminal.until(lambda lines: refused in lines)
        terminal.until(lambda lines: lines[-1].endswith("waiting for a broker"))
        assert terminal.interrupt() < 1
        assert terminal.process.returncode == 130
        assert not any("waiting for a broker" in each for each in terminal.lines)


def test_deleting_an_unknown_topic_is_a_short_error(broker, topic):
    result = klamm("topics", "delete", f"{topic}-none", "--yes", "-b", broker.bootstrap_servers, timeout=5)
    assert result.returncode == 1
    assert b"UNKNOWN_TOPIC_OR_PARTITION" in result.stderr


def until_shown(terminal, text):
    return terminal.until(lambda lines: any(text in line for line in lines))


def test_progress_is_shown_and_survives_a_resize(broker, topic):
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topics({topic: NewTopic(partitions=1)})
    line = ("perf", "produce", topic, "--records", "100000", "--rate", "200", "-b", broker.bootstrap_servers)
    with Terminal(*line, columns=120) as terminal:
        until_shown(terminal, "records")
        assert any(f"produce {topic}" in each for each in terminal.lines)
        terminal.resize(24, 60)
        terminal.raw = b""
        terminal.until(lambda _: len(terminal.raw) > 300)
        assert terminal.process.poll() is None
        assert terminal.interrupt() < 1
        assert terminal.process.returncode == 130
        # The bar is gone, and nothing is left of it.
        assert not any("━" in each for each in terminal.lines)
        assert not any("Traceback" in each for each in terminal.lines)


def test_ctrl_c_ends_a_consumer_in_a_terminal(broker, topic):
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topics({topic: NewTopic(partitions=1)})
    klamm("produce", topic, "-b", broker.bootstrap_servers, stdin=b"first\n")
    for options in ((), ("--group", topic)):
        with Terminal("consume", topic, *options, "-b", broker.bootstrap_servers) as terminal:
            until_shown(terminal, "first")
            assert terminal.interrupt() < 1
            assert terminal.process.returncode == 130


def test_a_password_is_not_shown():
    with Terminal("users", "set-password", "me", "-b", "127.0.0.1:1") as terminal:
        until_shown(terminal, "password of me:")
        terminal.type("s3cret\n")
        until_shown(terminal, "again:")
        terminal.type("other\n")
        assert terminal.end() == 2
        assert "the passwords differ" in terminal.lines[-1]
        assert b"s3cret" not in terminal.raw


@pytest.mark.parametrize(
    "line", [("topics", "describe"), ("consume", "-e"), ("configs", "describe", "broker", "--all")]
)
def test_a_pipe_that_is_closed_early_is_success(broker, topic, line):
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topics({topic: NewTopic(partitions=1)})
    klamm("produce", topic, "-b", broker.bootstrap_servers, stdin=b"x\n" * 100_000)
    more = () if "configs" in line else (topic,)
    with started(*line, *more, "-b", broker.bootstrap_servers) as process:
        process.stdout.close()
        assert process.wait(timeout=30) == 0
        assert process.stderr.read() == b""


HOSTILE = "\x1b]0;pwned\x07\x1b[2J\x1b[31mX\x9b31m\x7f\u202eY"
"""A text that sets the title, clears the screen, changes the colour, and reverses the direction of text."""
SHOWN = r"\u001b]0;pwned\u0007\u001b[2J\u001b[31mX\u009b31m\u007f\u202eY"


@pytest.fixture
def hostile(broker, topic):
    """A record and a group whose fields contain escape sequences. Returns the name of the group."""
    group = f"{uuid.uuid4()}{HOSTILE}"
    with (
        Producer(broker.bootstrap_servers) as producer,
        Consumer(
            broker.bootstrap_servers, group, [topic], auto_offset_reset="earliest", client_id=f"c{HOSTILE}"
        ) as member,
    ):
        producer.send(topic, HOSTILE.encode() + b"\x9b1m", key=HOSTILE.encode(), headers={HOSTILE: b"h"}).result(20)
        assert member.poll(20)
        member.commit()
        yield group


def assert_harmless(raw):
    # Also fails for bytes that are not UTF-8. The command may still run, so the last character can be incomplete.
    text = codecs.getincrementaldecoder("utf-8")().decode(raw)
    assert not [part for part in ("\x07", "\x1b]", "\x1b[31mX", "\x9b", "\x7f", "\u202e") if part in text]


@pytest.mark.parametrize(
    "line",
    [
        ("groups", "list"),
        ("groups", "list", "--json"),
        ("groups", "describe", "GROUP"),
        ("groups", "describe", "GROUP-none"),
        ("groups", "delete", "GROUP", "--yes"),
        ("groups", "delete", "GROUP", "--dry-run"),
        ("consume", "TOPIC", "--from", "GROUP"),
        ("consume", "TOPIC", "--exit"),
        ("consume", "TOPIC", "--exit", "--json"),
        ("consume", "TOPIC", "--exit", "--format", "%k %v %h\\n"),
        ("consume", "GROUP", "--exit"),
    ],
    ids=" ".join,
)
def test_escape_sequences_of_others_do_not_reach_a_terminal(broker, topic, hostile, line):
    words = [word.replace("TOPIC", topic).replace("GROUP", hostile) for word in line]
    with Terminal(*words, "-b", broker.bootstrap_servers, columns=250) as terminal:
        terminal.end()
        assert_harmless(terminal.raw)
        assert b"pwned" in terminal.raw


@pytest.mark.usefixtures("hostile")
def test_json_with_escape_sequences_is_valid_on_a_terminal(broker, topic):
    with Terminal("consume", topic, "--exit", "--json", "-b", broker.bootstrap_servers) as terminal:
        assert terminal.end() == 0
        assert json.loads(terminal.raw)["key"] == HOSTILE


@pytest.mark.usefixtures("hostile")
def test_top_shows_escape_sequences_escaped(broker):
    with Terminal("top", "--interval", "0.2", "-b", broker.bootstrap_servers, columns=250, rows=300) as terminal:
        until_shown(terminal, SHOWN)
        assert_harmless(terminal.raw)


@pytest.mark.usefixtures("hostile")
def test_a_pipe_and_the_option_raw_get_the_bytes_of_records(broker, topic):
    line = ("consume", topic, "--exit", "-b", broker.bootstrap_servers)
    value = HOSTILE.encode() + b"\x9b1m"
    assert klamm(*line).stdout == value + b"\n"
    with Terminal(*line, "--raw") as terminal:
        assert terminal.end() == 0
        assert terminal.raw == value + b"\r\n"

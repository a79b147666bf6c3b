"""The command line without a broker: arguments, positions, formats, lines, errors."""

from __future__ import annotations

import argparse
import ast
import base64
import io
import json
import re
import subprocess
import sys
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest

import klamm.cli
from klamm.cli import build_parser, main
from klamm.cli.clients import client_config, closing
from klamm.cli.command_line import MODULES, NAMES, named, parse
from klamm.cli.lines import split_lines
from klamm.cli.options import duration, pair
from klamm.cli.output import CommandError, Output, counted, print_error
from klamm.cli.positions import Kind, Position, parse_position, resolve
from klamm.cli.record_format import parse_format, record_fields, render_json, render_value
from klamm.cli.records_in import Batch, NewRecord, parser, split_keys
from klamm.errors import CombinedError, DeliveryError, KafkaError


@dataclass
class Row:
    """The fields of a record, for tests without a broker."""

    key: bytes | None = b"k"
    value: bytes | None = b"v"
    topic: str = "t"
    partition: int = 3
    offset: int = 42
    timestamp_ms: int = 1_700_000_000_000
    headers: list[tuple[str, bytes | None]] = field(default_factory=list)


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("earliest", Position(Kind.EARLIEST)),
        ("latest", Position(Kind.LATEST)),
        ("end", Position(Kind.LATEST)),
        ("0", Position(Kind.OFFSET, 0)),
        ("1500", Position(Kind.OFFSET, 1500)),
        ("-10", Position(Kind.LAST, 10)),
        ("@1700000000000", Position(Kind.TIME, 1_700_000_000_000)),
        ("@1969-12-31T23:59:59.999Z", Position(Kind.TIME, 0)),
        ("@2026-05-01T12:00:00Z", Position(Kind.TIME, 1_777_636_800_000)),
        ("@2026-05-01T14:00:00.250+02:00", Position(Kind.TIME, 1_777_636_800_250)),
    ],
)
def test_a_position_has_five_forms(text, position):
    assert parse_position(text) == position
    assert parse(["consume", "t", "--from", text]).start == position
    assert parse(["consume", "t", f"--to={text}"]).stop == position


@pytest.mark.parametrize("text", ["", "-", "@", "first", "1.5", "+1", "--1", "@yesterday", "@12:00", "\u0663"])
def test_other_text_is_not_a_position(text):
    with pytest.raises(argparse.ArgumentTypeError):
        parse_position(text)


@pytest.mark.parametrize(
    ("position", "offset"),
    [
        (Position(Kind.EARLIEST), 10),
        (Position(Kind.LATEST), 20),
        (Position(Kind.OFFSET, 15), 15),
        (Position(Kind.OFFSET, 3), 10),
        (Position(Kind.OFFSET, 99), 20),
        (Position(Kind.LAST, 4), 16),
        (Position(Kind.LAST, 99), 10),
    ],
)
def test_a_position_is_limited_to_existing_offsets(position, offset):
    assert resolve(position, begin=10, end=20) == offset


def test_a_time_without_a_later_record_is_the_end():
    assert resolve(Position(Kind.TIME, 5), begin=10, end=20, at_time=None) == 20
    assert resolve(Position(Kind.TIME, 5), begin=10, end=20, at_time=12) == 12


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("%k=%v", b"k=v"),
        (r"%t/%p@%o\n", b"t/3@42\n"),
        (r"%T\t%h\r\0", b"1700000000000\ta=1,b=\r\0"),
        (r"100%% \\ \x41\x00", b"100% \\ A\0"),
        (r"%s %S %K %R", b"v 1 1 \0\0\0\x01"),
        ("é", "é".encode()),
        ("", b""),
    ],
)
def test_a_format_writes_a_record(text, written):
    assert parse_format(text)(Row(headers=[("a", b"1"), ("b", None)])) == written


@pytest.mark.parametrize("text", ["%", "%z", "tail %", "\\", r"\q", r"\x4"])
def test_an_unknown_directive_is_an_error(text):
    with pytest.raises(argparse.ArgumentTypeError):
        parse_format(text)


def test_null_key_and_value_write_nothing():
    row = Row(key=None, value=None)
    assert parse_format("%k|%v|%K|%S")(row) == b"||-1|-1"
    assert render_value(row) == b"\n"


def test_values_are_written_byte_for_byte():
    assert render_value(Row(value=b"\xff\r\0")) == b"\xff\r\0\n"


def test_json_has_text_as_text():
    row = Row(key="schlüssel".encode(), value=b'line\n"2"')
    fields = json.loads(render_json(row))
    assert (fields["key"], fields["value"]) == ("schlüssel", 'line\n"2"')
    assert not any(name.endswith("_encoding") for name in fields)
    assert render_json(row).count(b"\n") == 1


def test_json_has_other_bytes_as_base64_and_says_so():
    fields = record_fields(Row(key=b"\xff\x00", value=None, headers=[("h", b"\xfe"), ("n", None)]))
    assert (fields["key"], fields["key_encoding"]) == ("/wA=", "base64")
    assert fields["value"] is None
    assert fields["headers"] == [
        {"name": "h", "value": "/g==", "value_encoding": "base64"},
        {"name": "n", "value": None},
    ]


@pytest.mark.parametrize(
    ("chunks", "lines"),
    [
        ([], []),
        ([b"\n"], [b""]),
        ([b"a\nb"], [b"a", b"b"]),
        ([b"a\nb\n"], [b"a", b"b"]),
        ([b"a\r\n\xff\0\n\n"], [b"a\r", b"\xff\0", b""]),
        ([b"a", b"b", b"\nc", b"\n"], [b"ab", b"c"]),
        ([b"a", b"\n", b"\n", b"b"], [b"a", b"", b"b"]),
    ],
)
def test_lines_are_separated_by_newlines(chunks, lines):
    assert [line for batch in split_lines(chunks) for line in batch] == lines


@pytest.mark.parametrize(
    ("chunks", "parts"),
    [
        ([b"a||b", b"|", b"|c|", b"|"], [b"a", b"b", b"c"]),
        ([b"a|", b"x"], [b"a|x"]),
    ],
)
def test_a_delimiter_may_be_split_between_chunks(chunks, parts):
    assert [part for batch in split_lines(chunks, delimiter=b"||") for part in batch] == parts


def test_lines_may_begin_with_headers():
    args = parse(
        ["produce", "t", "--header-separator", r"\t", "--key-separator", ":", "--null-value", "", "--header", "z=9"]
    )
    assert parser(args)([b"a:1,b:x\tk:v", b"\tk:"]) == [
        NewRecord(b"k", b"v", [("z", b"9"), ("a", b"1"), ("b", b"x")]),
        NewRecord(b"k", None, [("z", b"9")]),
    ]
    for line in (b"no tab", b"a\tv", b":1\tv"):
        with pytest.raises(CommandError, match="header"):
            parser(args)([line])


def test_json_lines_are_what_consume_prints():
    row = Row(key=b"\xff", value=None, headers=[("h", b"\xfe"), ("na\udce4b", None), ("h", b"1")])
    line = render_json(row)
    plain, kept = (
        parser(parse(["produce", "t", "--json-lines", *more]))([line]) for more in ((), ("--keep-partitions",))
    )
    assert plain == [NewRecord(b"\xff", None, row.headers, None, row.timestamp_ms)]
    assert kept == [NewRecord(b"\xff", None, row.headers, 3, row.timestamp_ms)]


def test_json_lines_may_have_json_as_values_and_an_object_of_headers():
    lines = [b'{"value": {"a": [1, "\xc3\xa9"]}, "headers": {"x": "y"}}', b"", b'{"value": 5, "key": null}']
    assert parser(parse(["produce", "t", "--json-lines"]))(lines) == [
        NewRecord(None, '{"a": [1, "é"]}'.encode(), [("x", b"y")]),
        NewRecord(None, b"5", []),
    ]


@pytest.mark.parametrize(
    "line",
    [
        "nonsense",
        "[1]",
        '{"value": "x", "value_encoding": "base64"}',
        '{"value": "x", "value_encoding": "hex"}',
        '{"value": "x", "headers": [{"value": "x"}]}',
        '{"value": "x", "headers": 5}',
        '{"value": "x", "headers": [5]}',
        '{"value": "x", "timestamp_ms": "soon"}',
        '{"key": "k", "valeu": "x"}',
    ],
)
def test_other_lines_are_not_records(line):
    with pytest.raises(CommandError, match="a line is not"):
        parser(parse(["produce", "t", "--json-lines"]))([line.encode()])


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("90s", 90_000),
        ("15m", 900_000),
        ("2h", 7_200_000),
        ("7d", 604_800_000),
        ("250ms", 250),
        ("1h30m", 5_400_000),
        ("PT1H30M", 5_400_000),
        ("P1DT1.5S", 86_401_500),
    ],
)
def test_a_duration_has_units(text, milliseconds):
    assert duration(text) == milliseconds


@pytest.mark.parametrize("text", ["", "5", "m", "P", "PT", "1x", "-5m", "1.5h"])
def test_other_text_is_not_a_duration(text):
    with pytest.raises(argparse.ArgumentTypeError):
        duration(text)


def test_a_line_without_end_is_refused_before_it_fills_the_memory():
    read = []

    def endless():
        while True:
            read.append(1)
            yield b"x" * 100

    with pytest.raises(CommandError, match="longer than 1,000 bytes"):
        list(split_lines(endless(), limit=1000))
    assert len(read) == 11


def test_the_key_ends_at_the_first_separator():
    batch = split_keys([b"k:v:w", b":v", b"k:", b"none", b""], b":")
    assert batch == Batch([b"v:w", b"v", b"", b"none", b""], [b"k", b"", b"k", None, None])


def test_without_a_separator_there_are_no_keys():
    assert split_keys([b"k:v"], None) == Batch([b"k:v"], None)


def test_a_separator_may_be_a_tab_or_any_text():
    assert parse(["produce", "t", "--key-separator", r"\t"]).key_separator == b"\t"
    assert parse(["produce", "t", "--key-separator", "=>"]).key_separator == b"=>"


def test_headers_repeat_and_keep_their_order():
    args = parse(["produce", "t", "--header", "a=1", "--header", "a=x=y", "--header", "b="])
    assert args.headers == [("a", b"1"), ("a", b"x=y"), ("b", b"")]


@pytest.mark.parametrize("text", ["", "a", "=v"])
def test_a_pair_needs_a_name_and_a_sign(text):
    with pytest.raises(argparse.ArgumentTypeError):
        pair(text)


def test_files_may_come_before_and_after_options():
    args = parse(["produce", "t", "a", "-b", "h:1", "b", "-"])
    assert (args.topic, args.files) == ("t", ["a", "b", "-"])


@pytest.mark.parametrize(
    ("line", "same"),
    [
        ("topics -b h:1 describe t", "topics describe -b h:1 t"),
        ("-b h:1 topics --json list", "topics list -b h:1 --json"),
        ("groups -b list -X client.id=delete describe g", "groups describe -b list -X client.id=delete g"),
        (
            "groups --to-offset 5 --execute reset-offsets g --topic t",
            "groups reset-offsets g --topic t --to-offset 5 --execute",
        ),
        ("-X topics=1 consume t -b h:1", "consume t -b h:1 -X topics=1"),
    ],
)
def test_options_may_come_before_a_command_and_its_action(line, same):
    assert parse(line.split()) == parse(same.split())


@pytest.mark.parametrize("line", ["topics -b h:1", "topics -b h:1 descrbe t", "topics -b list"])
def test_options_without_an_action_list_the_actions(line, capsys):
    with pytest.raises(SystemExit):
        main(line.split())
    assert "error: one of these is required: list, " in capsys.readouterr().err


def test_a_client_setting_overrides_the_commands_own():
    args = parse(["produce", "t", "-b", "h:1", "--acks", "1", "-X", "acks=all", "-X", "sasl.password=a=b"])
    config = client_config(args, acks=args.acks, compression_type=args.compression)
    assert config == {"bootstrap.servers": "h:1", "acks": "all", "sasl.password": "a=b"}


@pytest.mark.parametrize(
    "line",
    [
        "nonsense",
        "topics",
        "topics list extra",
        "produce",
        "produce t --acks 2",
        "produce t --key-separator=",
        "produce t f --unknown",
        "consume t --from nowhere",
        "consume t --format %z",
        "consume t --json --format %v",
        "consume t --max 0",
        "consume t --partition -1",
        "dev-broker --brokers 0",
        "demo extra",
    ],
)
def test_wrong_usage_exits_2_and_says_what_is_wrong(line, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(line.split())
    assert stopped.value.code == 2
    assert "error: " in capsys.readouterr().err


def test_a_missing_file_is_one_line(tmp_path, capsys):
    assert main(["produce", "t", str(tmp_path / "none.txt")]) == 1
    assert capsys.readouterr().err == f"klamm: {tmp_path / 'none.txt'}: No such file or directory\n"


def test_an_error_is_one_line_and_its_hint_another(capsys):
    error = KafkaError("tried this\n  there")
    error.hint = "do that"
    print_error(error)
    assert capsys.readouterr().err == "klamm: tried this there\n  hint: do that\n"


def test_of_many_errors_the_first_is_printed_and_the_rest_counted(capsys):
    some = DeliveryError(2, [KafkaError("a"), KafkaError("b")])
    print_error(CombinedError({"x": some, "y": KafkaError("c")}))
    assert capsys.readouterr().err.startswith("klamm: a (and 2 more)\n")


def test_a_table_in_a_pipe_has_tabs_and_plain_numbers(capsys):
    Output().table(("name", "lines", "mb", "ok"), [("a", 12345, 1.5, True), ("two\twords\n", None, 22.25, False)])
    assert capsys.readouterr().out == "name\tlines\tmb\tok\na\t12345\t1.50\ttrue\ntwo words \t-\t22.25\tfalse\n"


def test_with_json_text_goes_to_standard_error(capsys):
    output = Output(json=True)
    output.say("working")
    output.result({"é": 1})
    assert capsys.readouterr() == ('{"é": 1}\n', "working\n")


class Client:
    """A client whose close fails."""

    def __init__(self):
        self.closed = []

    def close(self, timeout=None):
        self.closed.append(timeout)
        raise KafkaError("not all was sent")


def test_an_error_is_reported_before_errors_of_closing():
    client = Client()
    with pytest.raises(KeyboardInterrupt), closing(client):
        raise KeyboardInterrupt
    assert client.closed == [0.5]


def test_after_success_closing_waits_and_may_fail():
    client = Client()
    with pytest.raises(KafkaError, match="not all"), closing(client):
        pass
    assert client.closed == [None]


def test_help_loads_nothing_slow():
    program = "import sys, klamm.cli; klamm.cli.build_parser(); print(*sys.modules)"
    assert not {"rich", "shtab", "pyarrow", "pyspark", "asyncio", "subprocess", "tempfile"} & loaded_by(program)


def loaded_by(program):
    """Return the modules that a program has imported when it prints their names as its last line."""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    return set(ran.stdout.splitlines()[-1].split())


def test_the_version_loads_neither_the_parser_nor_a_command():
    loaded = loaded_by("import sys, klamm.cli; klamm.cli.main(['--version']); print(*sys.modules)")
    assert {name for name in loaded if name.startswith("klamm")} == {"klamm", "klamm._klamm", "klamm.cli"}
    assert not {"argparse", "dataclasses", "importlib.metadata", "logging", "re", "typing"} & loaded


@pytest.mark.parametrize("line", ["users list", "-F topics users list", "configs alter topic topics"])
def test_a_command_loads_the_modules_of_the_named_commands_only(line):
    loaded = loaded_by(
        f"import sys; from klamm.cli.command_line import build_parser, named; build_parser(named({line.split()})); print(*sys.modules)"
    )
    homes = {f"klamm.cli.{MODULES.get(name, name.replace('-', '_'))}" for name in NAMES}
    assert loaded & homes == {f"klamm.cli.{word}" for word in line.split() if word in NAMES}


@pytest.mark.parametrize("line", ["", "--help", "-h topics", "nonsense topics", "-b localhost:9092"])
def test_a_command_line_without_a_known_command_has_all_commands(line):
    assert named(line.split()) is NAMES


def test_header_names_that_are_not_utf8_are_written_as_their_bytes():
    headers = [("na\udce4b", b"1"), ("plain", None)]
    assert parse_format("%h")(Row(headers=headers)) == b"na\xe4b=1,plain="
    assert json.loads(render_json(Row(headers=headers)))["headers"] == [
        {"name": base64.b64encode(b"na\xe4b").decode(), "name_encoding": "base64", "value": "1"},
        {"name": "plain", "value": None},
    ]


def test_the_help_lists_each_command_in_one_group():
    parser = build_parser()
    groups = [part for part in parser.format_help().split("\n\n") if "\n  " in part]
    lines = [line.split()[0] for part in groups for line in part.splitlines()[1:] if re.match(r"  [a-z]", line)]
    assert groups[0].startswith("records:\n  produce ")
    assert sorted(lines) == sorted(parser.parts) == sorted(NAMES)


@pytest.mark.parametrize(("number", "text"), [(0, "0 brokers"), (1, "1 broker"), (4321, "4,321 brokers")])
def test_a_number_has_a_noun_in_the_singular_or_plural(number, text):
    assert counted(number, "broker") == text


def test_messages_count_with_the_right_form_of_the_noun():
    """A number in a message is followed by a noun only through `counted`, except for constants and units of limits."""
    plural = re.compile(
        r" (more |older )?(brokers|bytes|files|lines|members|packages|partitions|records|replicas|rows|topics)\b(?!/)"
    )
    wrong = []
    for path in Path(klamm.cli.__file__).parent.rglob("*.py"):
        for text in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for value, after in pairwise(getattr(text, "values", ()) if isinstance(text, ast.JoinedStr) else ()):
                if (
                    isinstance(value, ast.FormattedValue)
                    and isinstance(after, ast.Constant)
                    and plural.match(after.value)
                ):
                    wrong.append(f"{path.name}:{value.lineno}: {ast.unparse(value.value)}{after.value}")
    assert [line for line in wrong if not re.search(r": (NODES|PARTITIONS|limit|length) ", line)] == []


@pytest.mark.parametrize(
    ("is_terminal", "environment", "has_color"),
    [
        (True, {}, True),
        (True, {"NO_COLOR": ""}, True),
        (True, {"NO_COLOR": "1"}, False),
        (True, {"TERM": "dumb"}, False),
        (False, {}, False),
    ],
)
def test_the_first_words_of_errors_and_hints_have_a_color_on_a_terminal(
    is_terminal, environment, has_color, monkeypatch
):
    stream = io.StringIO()
    stream.isatty = lambda: is_terminal
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert main(["config", "show", "--profile", "a\x1b[5mb"]) == 2
    with pytest.raises(SystemExit):
        main(["nonsense"])
    plain = re.sub(r"\x1b\[(1;31|0)m", "", stream.getvalue())
    assert (plain != stream.getvalue()) is has_color
    assert ("\x1b" in plain) is not is_terminal, "control characters are escaped on terminals alone"
    assert plain.startswith("klamm: ")
    assert "\nklamm: error: unknown command 'nonsense'; " in plain

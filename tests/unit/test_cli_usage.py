"""Wrong command lines: each is one line that says what is wrong and what to do, and exit code 2."""

from __future__ import annotations

import logging
import re
import threading

import pytest

from cli_process import klamm
from klamm.cli.watch import Warnings

NOWHERE = "-b 127.0.0.1:1"

WRONG = {
    "nonsense": "unknown command 'nonsense'",
    "prodce": "did you mean produce?",
    "topcs list": "did you mean topics?",
    "topics": "ACTION",
    "topics lst": "did you mean list?",
    "topics list extra": "too many arguments: extra",
    "topics list --internl": "did you mean --internal?",
    "consume t --count 1": "unknown option --count; see `klamm consume --help`",
    "consume t --form earliest": "unknown option --form; did you mean --format?",
    "topics list --matching (": "not a regular expression",
    "topics create": "TOPIC",
    "topics create t --partitions 0": "must be at least 1",
    "topics create t --partitions many": "whole number",
    "topics create t --replicas 1:x": "whole number",
    "topics create t --config retention.ms": "must have the form KEY=VALUE",
    "topics delete": "TOPIC",
    f"topics delete t {NOWHERE}": "--yes",
    "topics add-partitions t": "--total",
    "topics describe --unavailable --under-replicated": "not allowed with",
    "produce": "TOPIC",
    "produce t --acks 2": "'2' must be one of: 0, 1, all;",
    "produce t --compression gzpi": "must be one of: none, gzip, snappy, lz4, zstd; did you mean gzip?",
    "consume t --from start": "; did you mean earliest?",
    "consume t --from latst": "; did you mean latest?",
    "decode --as reqest 00": "did you mean request?",
    "produce t --compression rar": "'rar'",
    "produce t --key-separator=": "must not be empty",
    "produce t f --unknown": "unknown option --unknown",
    "produce t --header a": "must have the form KEY=VALUE",
    "produce t --partition -1": "whole number",
    "produce t --keep-partitions": "--keep-partitions needs --json-lines",
    "produce t --transaction-size 5": "--transaction-size needs --transactional-id",
    "produce t --json-lines --key-separator :": "exclude each other",
    "produce t --json-lines --whole-files": "not allowed with",
    "produce t --key a --key-separator :": "exclude each other",
    "produce t -X linger.ms=soon": "linger.ms",
    "consume": "needs either topics or --matching",
    "consume t --matching t": "needs either topics or --matching",
    "consume --matching [": "not a regular expression",
    "consume t --from nowhere": "must be one of",
    "consume t --from @yesterday": "must be a time",
    "consume t --from @-5x": "must be a duration",
    "consume t -f %z": "unknown directive %z",
    r"consume t -f \q": r"unknown escape \q",
    "consume t --json -f %v": "not allowed with",
    "consume t --max 0": "must be at least 1",
    "consume t --idle 5": "must be a duration",
    "dev-broker --port 99999": "must be a port of at most 65535",
    "consume t --group g --share s": "not allowed with",
    "consume t --group g --partition 0": "exclude each other",
    "consume t --group g -e": "exclude each other",
    "consume t --group g --from 5": "must be earliest or latest",
    "consume t --share s --from latest": "exclude each other",
    "consume t -X group.id=g": "use --group NAME",
    "consume t -X fetch.min.byte=1": "did you mean fetch.min.bytes?",
    "consume t -X novalue": "must have the form KEY=VALUE",
    "consume t -b host:port": "host:port",
    "consume t -F no-such-file.properties": "No such file",
    "consume t --profile no-such-profile": "has no profile 'no-such-profile'",
    "groups describ": "did you mean describe?",
    "groups reset-offsets g": "one of the arguments",
    "groups reset-offsets g --to-earliest --to-latest": "not allowed with",
    "groups reset-offsets g --to-offset -3": "whole number",
    "groups reset-offsets g --to-earliest --topic t:": "must have the form TOPIC or TOPIC:0,1",
    "groups reset-offsets g --by-duration soon": "must be a duration",
    "groups reset-offsets g --to-latest --execute --dry-run": "not allowed with",
    "configs describe topik": "'topik'",
    f"configs alter topic t {NOWHERE}": "there is nothing to change",
    f"configs alter topic t --replace-all --append a=b {NOWHERE}": "--replace-all goes only with --set",
    f"acls add --topic t --operation read {NOWHERE}": "a rule needs a principal",
    f"acls add --topic t --principal alice --operation read {NOWHERE}": "a principal has a type and a name",
    f"acls add --principal User:a --operation read {NOWHERE}": "a rule needs a resource",
    f"acls add --principal User:a --topic t {NOWHERE}": "a rule needs an operation",
    "acls add --operation raed": "must be one of",
    f"quotas alter --set a=1 {NOWHERE}": "quotas need an entity",
    f"quotas alter --user a {NOWHERE}": "there is nothing to change",
    "quotas alter --user a --set a=b": "must have the form NAME=NUMBER",
    "users set-password u --mechanism PLAIN": "'PLAIN'",
    "tokens renew $": "the HMAC is not base64",
    f"elect {NOWHERE}": "needs either partitions or --all",
    f"elect t --all {NOWHERE}": "needs either partitions or --all",
    "offsets t --at noon": "must be one of",
    "records delete t=5": "must have the form TOPIC:0",
    f"records delete {NOWHERE}": "there is nothing to delete",
    "reassign execute no-such-plan.json": "cannot read no-such-plan.json",
    "reassign plan t --brokers 1,x": "whole number",
    "transactions abort t:0": "--start-offset",
    "transactions abort t --start-offset 1": "must have the form TOPIC:0",
    "features upgrade metadata.version": "must have the form KEY=VALUE",
    "quorum add-voter 1 d --endpoint host": "must have the form NAME://HOST:PORT",
    "cluster unregister": "one of the arguments",
    "completion tcsh": "'tcsh'",
    "config chek": "did you mean check?",
    "mirror --from kafka://a/b": "must have the form",
    "decode --as nothing": "'nothing'",
    "dev-broker --brokers 0": "must be at least 1",
    "dev-broker --sasl PLAIN=me": "must have the form MECHANISM=USER:PASSWORD",
    "demo extra": "too many arguments: extra",
}


def test_there_are_enough():
    assert len(WRONG) >= 60


@pytest.mark.parametrize("line", WRONG)
def test_a_wrong_line_is_one_line_and_exit_code_2(line, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    result = klamm(*line.split(" ")) if line else klamm()
    printed = result.stderr.decode()
    assert result.returncode == 2, printed
    assert result.stdout == b""
    # A question comes before the error of a missing answer.
    *before, last = printed.splitlines()
    assert all(each.startswith(("will ", "continue? ")) for each in before), printed
    assert WRONG[line] in last
    assert re.match(r"klamm( [a-z-]+)*: ", last)
    # What to do: a hint, or where to read on.
    assert ";" in last or "see `klamm" in last or "must" in last


def test_the_command_alone_prints_its_help():
    alone = klamm()
    assert alone.returncode == 0
    assert alone.stdout == klamm("--help").stdout
    assert alone.stderr in (b"", "")


def test_a_warning_is_printed_once_in_ten_minutes(capsys):
    handler = Warnings(threading.Thread())
    for seconds, text in [(0, "gone"), (1, "gone"), (2, "back"), (599, "gone"), (601, "gone"), (700, "gone")]:
        record = logging.LogRecord("klamm.network", logging.WARNING, "", 0, text, None, None)
        record.created = 1_700_000_000.0 + seconds
        handler.emit(record)
    assert capsys.readouterr().err.split() == [
        word for text in ("gone", "back", "gone") for word in f"klamm: warning: {text}".split()
    ]
    assert list(handler.printed) == ["warning: gone"], "it does not grow"

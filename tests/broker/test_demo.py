"""`klamm demo` from end to end: exact counts, detection of a wrong count, and clean-up."""

from __future__ import annotations

import json
import os
import signal
import uuid
from pathlib import Path

import pytest

from cli_process import interrupt, klamm, started
from klamm.cli.command_line import parse
from klamm.cli.demo import flow
from klamm.cli.demo.corpus import Corpus, Count, find_corpus
from klamm.cli.output import Output

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

MARK = "KLAMM_TEST_MARK"


@pytest.fixture
def source(tmp_path):
    """Three packages: source code, text that is not UTF-8, and a file without lines."""
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "cart.py").write_bytes(
        b"class Cart:\n    def add(self, item):\n        self.items.append(item)\n"
    )
    (tmp_path / "shop" / "till.py").write_bytes(b"total = total + price\n\n\nprint(total)")
    (tmp_path / "notes.txt").write_bytes(b"caf\xe9\r\n\x00\n")
    (tmp_path / "empty.py").write_bytes(b"")
    return tmp_path


def test_the_demo_is_exact(broker, source):
    result = klamm("demo", "--bootstrap", broker.bootstrap_servers, "--input", str(source), "--json", timeout=240)
    assert result.returncode == 0, result.stderr.decode()
    found = json.loads(result.stdout)
    assert found["exact"] is True
    assert found["expected"] == found["found"] == {"records": 9, "bytes": 105}
    assert {name: (package["records"], package["bytes"]) for name, package in found["packages"].items()} == {
        "shop": (7, 99),
        "notes.txt": (2, 6),
    }
    assert found["packages"]["shop"]["identifiers"][0] == "total"
    assert [stage["stage"] for stage in found["stages"]] == ["produce", "pipeline", "read back"]
    topics = klamm("topics", "list", "-b", broker.bootstrap_servers).stdout.decode().split()
    assert not {found["source_topic"], found["result_topic"]} & set(topics)


class Miscounted(Corpus):
    """Counts one record and five bytes that were not produced."""

    def batches(self):
        yield from super().batches()
        self.counts["shop"] += Count(1, 5)


def test_a_count_that_differs_is_shown_and_exits_1(dev_broker, source, capfd):
    args = parse(["demo", "--bootstrap", dev_broker.bootstrap_servers, "--input", str(source)])
    assert flow.run(args, Output(), Miscounted(find_corpus(str(source)).sources)) == 1
    printed = capfd.readouterr().out
    assert "NOT exact: 10 records and 110 bytes on disk, 9 records and 105 bytes from the pipeline" in printed
    assert "shop: 8 lines and 104 bytes on disk, 7 lines and 99 bytes from the pipeline" in printed


@pytest.mark.parametrize("stage", ["2/4 produce", "3/4 pipeline", "    Spark "])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs Linux's /proc to find what is left")
def test_a_signal_ends_the_demo_at_once_and_leaves_no_process(stage, number):
    mark = uuid.uuid4().hex
    with started("demo", "--input", "-", env=os.environ | {MARK: mark}) as process:
        if stage != "2/4 produce":
            process.stdin.write(b"one line\n")
            process.stdin.close()
            process.stdin = None
        for line in process.stdout:
            if line.decode().startswith(stage):
                break
        assert marked(mark), "the demo itself is marked"
        code, seconds, printed = interrupt(process, number)
        assert (code, printed) == (128 + number, b"")
        assert seconds < 10
        assert marked(mark) == []


def marked(mark: str) -> list[str]:
    """List the processes that carry this run's mark in their environment."""
    found = []
    for environment in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"{MARK}={mark}".encode() in environment.read_bytes():
                found.append((environment.parent / "cmdline").read_text())
        except OSError:
            continue
    return found

"""The example pipeline: its counts equal those of the input, to the byte."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import klamm
from klamm.examples import source_lines

pytestmark = [pytest.mark.spark, pytest.mark.limits]

# A copy of loghub, which is not part of the project.
LOGHUB = os.environ.get("KLAMM_LOGHUB")


def produce_lines(kafka, topic, files):
    """Send the lines of files, without their line ends, keyed by name."""
    with klamm.Producer(kafka.bootstrap) as producer:
        for name, content in files.items():
            lines = split(content)
            producer.send_many(topic, lines, keys=[name.encode()] * len(lines))
        producer.flush(timeout=60)


def split(content):
    r"""Split at b"\n" only: b"\r" belongs to its line. Text after the last line end is a line, unless it is empty."""
    lines = content.split(b"\n")
    return lines if lines[-1] else lines[:-1]


@pytest.fixture
def topics(kafka, topic):
    """Create a topic for lines and one for results."""
    source, result = f"{topic}-lines", f"{topic}-packages"
    kafka.create(source, partitions=4)
    kafka.create(result, partitions=2)
    return source, result


def test_a_package_gets_its_lines_bytes_and_words(kafka, topics, tmp_path):
    source, result = topics
    files = {
        "json/decoder.py": "def décode(text):\n\n    return scan(text, text)\n".encode(),
        "json/tool.py": b"import scan",
        "abc.py": b"\xff\xfe not text\n",
        "README": b"\n\n",
    }
    produce_lines(kafka, source, files)
    done = source_lines.run(kafka.spark, kafka.bootstrap, source, result, str(tmp_path))
    assert done["input_rows"] == 7
    packages = source_lines.results(kafka.bootstrap, result)
    assert {name: (row["lines"], row["bytes"]) for name, row in packages.items()} == {
        "json": (4, 18 + 0 + 27 + 11),
        "abc": (1, 11),
        "README": (2, 0),
    }
    assert packages["json"]["identifiers"][:2] == ["text", "scan"]
    assert "import" not in packages["json"]["identifiers"]


def test_later_lines_are_added_to_the_totals(kafka, topics, tmp_path):
    source, result = topics
    for _ in range(2):
        produce_lines(kafka, source, {"a/b.py": b"one\ntwo\n" * 10, "c.py": b"three\n"})
        source_lines.run(kafka.spark, kafka.bootstrap, source, result, str(tmp_path), rows_per_batch=15)
    packages = source_lines.results(kafka.bootstrap, result)
    assert {name: (row["lines"], row["bytes"]) for name, row in packages.items()} == {"a": (40, 120), "c": (2, 10)}


@pytest.mark.skipif(LOGHUB is None, reason="KLAMM_LOGHUB names no copy of loghub")
def test_the_logs_of_sixteen_systems_are_counted_exactly(kafka, topics, tmp_path):
    """
    Real log lines from loghub, https://github.com/logpai/loghub: Jieming Zhu, Shilin He, Pinjia He, Jinyang Liu, Michael R. Lyu. Loghub: A
    Large Collection of System Log Datasets for AI-driven Log Analytics. ISSRE, 2023. Free for research under the LICENSE in their folder.

    The files have 31,987 line ends, and 13 of them do not end with one: 32,000 lines.
    """
    source, result = topics
    files = {path.name.removesuffix("_2k.log"): path.read_bytes() for path in sorted(Path(LOGHUB).glob("*_2k.log"))}
    produce_lines(kafka, source, files)
    done = source_lines.run(kafka.spark, kafka.bootstrap, source, result, str(tmp_path), rows_per_batch=10_000)
    assert done["input_rows"] == sum(len(split(content)) for content in files.values()) == 32_000
    packages = source_lines.results(kafka.bootstrap, result)
    # Bytes of the lines and one for each line end are the bytes of the file.
    assert {name: (row["lines"], row["bytes"]) for name, row in packages.items()} == {
        name: (len(split(content)), len(content) - content.count(b"\n")) for name, content in files.items()
    }

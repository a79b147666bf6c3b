"""Runs the examples of the README and of the pages about Spark as they are, except for addresses and one topic."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import klamm
from klamm.spark.stream import ADMISSION_CONTROL

if TYPE_CHECKING:
    from conftest import Broker, Registry

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
EXAMPLES = re.findall(
    r"^## ([^\n]+)\n(?:(?!^## ).)*?^```python\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL
)
MOVED = ("how-to/exactly-once", "registry", "registry-columns", "reference/protocol")
"""Pages whose first program runs with the README's."""
NAMES = ("spark", "spark-decoding", "spark-writing", "spark-operations")
PAGES = "".join((ROOT / "docs" / f"{name}.md").read_text() for name in NAMES)
PAGE = re.findall(r"^```python\n(.*?)^```", PAGES, re.MULTILINE | re.DOTALL)


@pytest.mark.usefixtures("spark")
def test_every_example_runs(
    broker: Broker, dev_registry: Registry, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    titles = []
    pages = [(name, (ROOT / "docs" / f"{name}.md").read_text()) for name in MOVED]
    first = [(name, re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)[0]) for name, page in pages]
    for title, code in EXAMPLES + first:
        here = code.replace("localhost:9092", broker.bootstrap_servers)
        here = here.replace("http://localhost:8081", dev_registry.url).replace("typed-orders", topic)
        exec(compile(here, title, "exec"), {"__name__": "__main__"})  # noqa: S102 - our own pages
        titles.append(title)
    assert titles == ["A first program, with its own cluster", "Asyncio", "Arrow", "Spark", "Tests", *MOVED]
    output = capsys.readouterr().out
    assert "stored in greetings-0 at offset 0" in output
    assert "b'started'" in output
    assert "{'offset': [0, 1], 'value': [b'1', b'2']}" in output
    assert re.search(r"\| +2\|", output)
    assert "Order(id=7, note='fragile')" in output
    assert "[b'A', b'B', b'C']" in output
    assert "fragile" in output.partition("note: [[")[2]


@pytest.mark.usefixtures("spark")
def test_the_pages_about_spark_run(dev_broker: Broker, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    names: dict[str, object] = {}
    for code in PAGE:
        here = code.replace("localhost:9092", dev_broker.bootstrap_servers)
        for name in ("checkpoint", "checkpoint-once", "checkpoint-totals", "progress.jsonl"):
            here = here.replace(f'"{name}"', repr(str(tmp_path / name)))
        exec(compile(here, "docs/spark*.md", "exec"), names)  # noqa: S102 - our own pages
    output = capsys.readouterr().out
    assert len(re.findall(r"bell\| +3\|", output)) == 3  # twice from the value, and once after a registry's five bytes
    lag = "0" if ADMISSION_CONTROL else "(0|None)"  # not every release before 4.2 asks where topics end
    assert re.search(f"'records': 1, 'bytes': 30, 'lag': {lag}", output)
    *_, batch = (tmp_path / "progress.jsonl").read_text().splitlines()
    assert json.loads(batch)["query"] == "orders"
    for topic in ("orders-copy", "orders-once"):
        copied = klamm.read_table(dev_broker.bootstrap_servers, topic, isolation_level="read_committed")
        assert copied.column("key").to_pylist() == [b"7"]
    totals = klamm.read_table(dev_broker.bootstrap_servers, "totals", isolation_level="read_committed")
    assert totals.select(["key", "value"]).to_pylist() == [{"key": b"7", "value": b"1"}]

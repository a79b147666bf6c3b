"""The README's examples run as they stand there, one after the other, but for the address of the broker."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Broker

README = Path(__file__).parents[2] / "README.md"
EXAMPLES = re.findall(r"^## (.+?)\n.*?^```python\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.usefixtures("spark")
def test_every_example_runs(broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    titles = []
    for title, code in EXAMPLES:
        here = code.replace("localhost:9092", broker.bootstrap_servers)
        exec(compile(here, f"README.md, {title}", "exec"), {"__name__": "__main__"})  # noqa: S102 - our own README
        titles.append(title)
    assert titles[:6] == ["Produce", "Consume", "Asyncio", "Exactly once", "Arrow", "Spark"]
    said = capsys.readouterr().out
    assert "greetings-0 at offset 0" in said
    assert "b'hello 9999'" in said
    assert "b'started'" in said
    assert "behind by" in said
    assert "count(1)" in said

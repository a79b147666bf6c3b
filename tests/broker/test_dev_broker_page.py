"""Runs the recipes of docs/dev-broker.md unchanged."""

from __future__ import annotations

import asyncio
import inspect
import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "dev-broker.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^## (.*?)$|^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
HEAD = BLOCKS[0][1]


def recipes():
    title = ""
    for heading, code in BLOCKS[1:]:
        title = heading or title
        if code:
            yield pytest.param(code, id=re.sub(r"\W+", "-", title))


def test_there_are_ten_of_them():
    assert len(list(recipes())) >= 10


@pytest.mark.parametrize("code", list(recipes()))
def test_a_recipe_works(code, request):
    names: dict[str, object] = {}
    exec(compile(HEAD + "\n" * 3 + code, "docs/dev-broker.md", "exec"), names)  # noqa: S102 - our own page
    for name, found in list(names.items()):
        if name.startswith("test_"):
            fixtures = [request.getfixturevalue(fixture) for fixture in inspect.signature(found).parameters]
            found(*fixtures)
    if "main" in names:
        asyncio.run(names["main"]())

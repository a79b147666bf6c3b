"""Reads the tables of docs/reference/error-handling.md, which say what klamm does after each error code."""

from __future__ import annotations

import re
from pathlib import Path

from klamm._klamm import error_codes

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "error-handling.md"
CODES = {name: retriable for code, name, retriable, _ in error_codes() if code}
"""Whether each error code is retriable."""


def documented(section: str, api: str | None = None) -> dict[str, str]:
    """Return what klamm does after each error code, by a section or by its part about an API."""
    chapter = PAGE.read_text(encoding="utf-8").split(f"\n## {section}\n")[1].split("\n## ")[0]
    named = re.findall(r'"(\w+ codes)" (?:are|is) ([^."]+)', chapter)
    members = {words.lower(): re.findall(r"`([A-Z_]+)`", names) for words, names in named}
    members["retriable codes"] = [code for code, is_retriable in CODES.items() if is_retriable]
    members["all other codes"] = list(CODES)
    actions: dict[str, str] = {}
    part = chapter if api is None else chapter.split(f"\n### {api}\n")[1].split("\n### ")[0]
    for row in part.splitlines():
        if not row.startswith("|"):
            continue
        codes, action, *_ = (*(cell.strip() for cell in row.strip("|").split("|")), "")
        for code in re.findall(r"`([A-Z_]+)`", codes) if "`" in codes else members.get(codes, []):
            assert code in CODES
            actions.setdefault(code, action)
    return actions

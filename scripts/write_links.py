"""Writes the README's links for package pages, where relative links lead nowhere: `python3 scripts/write_links.py`.

The address comes from `Source` in `[project.urls]` of pyproject.toml. Without this setting, the links stay relative.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"\]\((?:https://[^)\s]*/blob/main/)?(?!https?://|#)([^)\s]+)\)")


def absolute(text: str, source: str) -> str:
    """Return Markdown in which links to files of the repository start with the address of the repository."""
    return LINK.sub(lambda link: f"]({source}/blob/main/{link[1]})", text)


if __name__ == "__main__":
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    if source := project.get("urls", {}).get("Source"):
        readme = ROOT / "README.md"
        readme.write_text(absolute(readme.read_text(encoding="utf-8"), source), encoding="utf-8")

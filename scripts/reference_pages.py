"""Prepares docstrings for the reference pages of the documentation site.

griffe reads the docstrings, and `zensical.toml` names this file as a griffe extension. The extension marks the examples
in docstrings as code, and drops names that a module only imports.
"""

from __future__ import annotations

import re
import textwrap
from typing import Any

import griffe

EXAMPLE = re.compile(r"^( *)Example:\n((?:\1 +\S.*\n?|[ \t]*\n)+)", re.MULTILINE)


def fenced(match: re.Match[str]) -> str:
    """Turn a section Example with an indented program into a section Examples with a fenced code block."""
    indent = match[1] + "    "
    code = textwrap.indent(textwrap.dedent(match[2]).strip("\n"), indent)
    return f"{match[1]}Examples:\n{indent}```python\n{code}\n{indent}```\n"


class Reference(griffe.Extension):
    """The griffe extension. Griffe calls the methods for each object and each module that it has read."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Mark the example of a docstring as code."""
        if obj.docstring:
            obj.docstring.value = EXAMPLE.sub(fenced, obj.docstring.value)

    def on_module(self, *, mod: griffe.Module, **_: Any) -> None:
        """Drop members that are not in `__all__`. In a module without `__all__`, drop imported names and attributes."""
        for name, member in list(mod.members.items()):
            if mod.exports is None:
                dropped = member.is_alias or member.is_attribute
            else:
                dropped = name not in mod.exports and (member.is_alias or not member.is_module)
            if dropped and not name.startswith("_"):
                del mod.members[name]

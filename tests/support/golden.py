"""Reads the golden vectors of `tests/vectors` and converts messages from and to their JSON form."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent.parent / "vectors"


def lines(name: str) -> list[dict[str, Any]]:
    """Yield the objects of a file with one JSON object a line."""
    path = FOLDER / name
    text = gzip.decompress(path.read_bytes()).decode() if name.endswith(".gz") else path.read_text()
    return [json.loads(line) for line in text.splitlines()]


def document(name: str) -> Any:
    """Return the content of a JSON file."""
    return json.loads((FOLDER / name).read_text())


def to_json(value: Any) -> Any:
    """Return a decoded message in the form of the vectors: bytes as base64."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, list):
        return [to_json(item) for item in value]
    if isinstance(value, dict):
        return {key: to_json(item) for key, item in value.items()}
    return value


def from_json(value: Any, like: Any) -> Any:
    """Do the inverse. JSON does not distinguish bytes from text, so `like` is a value of the right types."""
    if isinstance(like, bytes):
        return base64.b64decode(value)
    if isinstance(value, list):
        return [from_json(item, other) for item, other in zip(value, like, strict=True)]
    if isinstance(value, dict):
        return {key: from_json(item, like[key]) for key, item in value.items()}
    return value

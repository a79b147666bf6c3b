"""Reads and writes JSON text without loss: each line that a command prints is JSON (RFC 8259), and numbers stay exact.

Numbers with a fraction or an exponent become `Decimal`, never a float. JSON has no NaN and no infinities: like proto-JSON
and Avro's JSON, they become the strings "NaN", "Infinity" and "-Infinity". Bytes become base64, and times ISO 8601.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import re
from decimal import Decimal
from typing import Any

NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
_SURROGATE = re.compile("[\ud800-\udfff]")


def loads(text: str | bytes) -> Any:
    """Parse JSON text. A number with a fraction or an exponent becomes a `Decimal`.

    Raises:
        ValueError: The text is not JSON, is nested too deep, or has a number that is out of range.
    """
    try:
        return json.loads(text, parse_float=_number)
    except RecursionError:
        raise ValueError("the text is nested too deep") from None


def dumps(value: Any, separators: tuple[str, str] = (", ", ": ")) -> str:
    """Return the JSON text of a value on one line. A `Decimal` becomes a number."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, default=_plain, separators=separators)
    except ValueError:  # a number that `json` cannot write
        text = _text(value, *separators)
    if not text.isascii():
        # A string can have half of a surrogate pair, which UTF-8 cannot encode.
        text = _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
    return text


def finite(value: float) -> float | str:
    """Return a float, or the name of NaN or an infinity."""
    return NOT_FINITE.get(str(value), value)


def _number(text: str) -> Decimal:
    try:
        return Decimal(text)
    except ArithmeticError:
        raise ValueError(f"the number {text[:60]} is out of range") from None


def _text(value: Any, comma: str, colon: str) -> str:
    if isinstance(value, dict):
        fields = (f"{json.dumps(key, ensure_ascii=False)}{colon}{_text(value[key], comma, colon)}" for key in value)
        return f"{{{comma.join(fields)}}}"
    if isinstance(value, (list, tuple)):
        return f"[{comma.join(_text(item, comma, colon) for item in value)}]"
    if isinstance(value, Decimal):
        return str(value) if value.is_finite() else f'"{value}"'
    return json.dumps(finite(value) if isinstance(value, float) else value, ensure_ascii=False, default=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        raise ValueError("json writes a Decimal only as a float")  # noqa: TRY004 - as `json` does for NaN
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode("ascii")
    return value.isoformat() if isinstance(value, (dt.date, dt.time)) else str(value)

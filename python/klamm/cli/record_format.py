r"""Formats the records of `klamm consume`, by a format string or as JSON.

| directive | output |
|---|---|
| %k %v | bytes of key and value; nothing for null |
| %s | the same as %v, for users of kcat |
| %K %S | sizes of key and value in bytes; -1 for null |
| %R | size of the value as a big-endian integer of 4 bytes; -1 for null |
| %t %p %o | topic, partition, offset |
| %T | timestamp in milliseconds since 1970; -1 if the record has none |
| %h | headers as name=value, separated by commas |
| %% | a percent sign |
| \n \t \r \0 \\ \xHH | the byte |
"""

from __future__ import annotations

import argparse
import base64
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import klamm
from klamm.cli.json_text import dumps

if TYPE_CHECKING:
    from collections.abc import Iterable

Render = Callable[[klamm.Record], bytes]
"""Function that returns the output for one record."""


def parse_format(text: str) -> Render:
    """Compile a format string into a function. Raise `ArgumentTypeError` for an invalid format string."""
    parts: list[bytes | Render] = []
    for match in TOKEN.finditer(text):
        directive, escape, literal = match["directive"], match["escape"], match["literal"]
        if directive is not None:
            if directive not in DIRECTIVES:
                known = " ".join(f"%{name}" for name in DIRECTIVES)
                raise argparse.ArgumentTypeError(f"unknown directive %{directive}; use {known}")
            parts.append(DIRECTIVES[directive])
        elif escape is not None:
            parts.append(parse_escape(escape))
        else:
            parts.append(literal.encode("utf-8", "surrogateescape"))

    def render(record: klamm.Record) -> bytes:
        return b"".join(part if isinstance(part, bytes) else part(record) for part in parts)

    return render


def parse_escape(escape: str) -> bytes:
    """Return the byte that an escape stands for. `escape` is the text after the backslash."""
    if len(escape) > 1:
        return bytes.fromhex(escape[1:])
    if escape not in ESCAPES:
        raise argparse.ArgumentTypeError(rf"unknown escape \{escape}; use \n \t \r \0 \\ \xHH")
    return ESCAPES[escape]


def render_value(record: klamm.Record) -> bytes:
    """Return the value of a record and a newline. This is the default format."""
    return (record.value or b"") + b"\n"


def render_json(record: klamm.Record) -> bytes:
    """Return a record as one JSON object and a newline."""
    return dumps(record_fields(record)).encode() + b"\n"


def record_fields(record: klamm.Record) -> dict[str, Any]:
    """Return a record as a dict for JSON. Bytes that are not UTF-8 become base64, with a field `*_encoding`."""
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        **text_field("key", record.key),
        **text_field("value", record.value),
        "headers": header_fields(record.headers),
    }


def text_field(name: str, data: bytes | None) -> dict[str, str | None]:
    """Return a dict with one field, whose key is `name` and whose value is the bytes as text.

    Bytes that are not UTF-8 become base64, and the dict gets a field `{name}_encoding`.
    """
    if data is None:
        return {name: None}
    try:
        return {name: bytes(data).decode("utf-8")}
    except UnicodeDecodeError:
        return {name: base64.b64encode(data).decode("ascii"), f"{name}_encoding": "base64"}


def header_fields(headers: Iterable[tuple[str, bytes | None]]) -> list[dict[str, str | None]]:
    """Return headers as dicts for JSON. Names and values that are not UTF-8 become base64."""
    return [{**text_field("name", name_bytes(name)), **text_field("value", value)} for name, value in headers]


def name_bytes(name: str) -> bytes:
    """Return the original bytes of a header's name. The text has surrogate escapes for bytes that are not UTF-8."""
    return name.encode("utf-8", "surrogateescape")


def render_headers(record: klamm.Record) -> bytes:
    """Return the headers, as `%h` prints them."""
    return b",".join(name_bytes(name) + b"=" + (value or b"") for name, value in record.headers)


def size(data: bytes | None) -> int:
    """Return the number of bytes, or -1 for null."""
    return -1 if data is None else len(data)


TOKEN = re.compile(r"%(?P<directive>.|$)|\\(?P<escape>x[0-9a-fA-F]{2}|.|$)|(?P<literal>[^%\\]+)", re.DOTALL)

DIRECTIVES: dict[str, Render] = {
    "k": lambda record: record.key or b"",
    "v": lambda record: record.value or b"",
    "s": lambda record: record.value or b"",
    "K": lambda record: b"%d" % size(record.key),
    "S": lambda record: b"%d" % size(record.value),
    "R": lambda record: size(record.value).to_bytes(4, "big", signed=True),
    "t": lambda record: record.topic.encode(),
    "p": lambda record: b"%d" % record.partition,
    "o": lambda record: b"%d" % record.offset,
    "T": lambda record: b"%d" % record.timestamp_ms,
    "h": render_headers,
    "%": lambda _: b"%",
}

ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}

r"""How `klamm consume` writes a record: the format string, and JSON.

| directive | written |
|---|---|
| %k %v | key and value, their bytes as they are; nothing for null |
| %t %p %o | topic, partition, offset |
| %T | timestamp, milliseconds since 1970; -1 when the record has none |
| %h | headers as name=value, separated by commas |
| %% | a percent sign |
| \n \t \r \0 \\ \xHH | the byte |
"""

from __future__ import annotations

import argparse
import base64
import json
import re
from collections.abc import Callable
from typing import Any

import klamm

Render = Callable[[klamm.Record], bytes]
"""Write one record."""


def parse_format(text: str) -> Render:
    """Compile a format string; raises the error argparse reports."""
    parts: list[bytes | Render] = []
    for match in TOKEN.finditer(text):
        directive, escape, literal = match["directive"], match["escape"], match["literal"]
        if directive is not None:
            if directive not in DIRECTIVES:
                known = " ".join(f"%{name}" for name in DIRECTIVES)
                raise argparse.ArgumentTypeError(f"%{directive} is not a directive; there are {known}")
            parts.append(DIRECTIVES[directive])
        elif escape is not None:
            parts.append(parse_escape(escape))
        else:
            parts.append(literal.encode("utf-8", "surrogateescape"))

    def render(record: klamm.Record) -> bytes:
        return b"".join(part if isinstance(part, bytes) else part(record) for part in parts)

    return render


def parse_escape(escape: str) -> bytes:
    """Turn what stands behind a backslash into a byte."""
    if len(escape) > 1:
        return bytes.fromhex(escape[1:])
    if escape not in ESCAPES:
        raise argparse.ArgumentTypeError(rf"\{escape} is not an escape; there are \n \t \r \0 \\ \xHH")
    return ESCAPES[escape]


def render_value(record: klamm.Record) -> bytes:
    """Write the value and a newline: the default."""
    return (record.value or b"") + b"\n"


def render_json(record: klamm.Record) -> bytes:
    """Write one JSON object on a line of its own."""
    return json.dumps(record_fields(record), ensure_ascii=False).encode() + b"\n"


def record_fields(record: klamm.Record) -> dict[str, Any]:
    """Describe a record in JSON's types; bytes that are not UTF-8 become base64 and say so in `*_encoding`."""
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        **text_field("key", record.key),
        **text_field("value", record.value),
        "headers": [{"name": name, **text_field("value", value)} for name, value in record.headers],
    }


def text_field(name: str, data: bytes | None) -> dict[str, str | None]:
    """Write bytes under `name`."""
    if data is None:
        return {name: None}
    try:
        return {name: bytes(data).decode("utf-8")}
    except UnicodeDecodeError:
        return {name: base64.b64encode(data).decode("ascii"), f"{name}_encoding": "base64"}


def render_headers(record: klamm.Record) -> bytes:
    """Write the headers of `%h`."""
    return b",".join(name.encode() + b"=" + (value or b"") for name, value in record.headers)


TOKEN = re.compile(r"%(?P<directive>.|$)|\\(?P<escape>x[0-9a-fA-F]{2}|.|$)|(?P<literal>[^%\\]+)", re.DOTALL)

DIRECTIVES: dict[str, Render] = {
    "k": lambda record: record.key or b"",
    "v": lambda record: record.value or b"",
    "t": lambda record: record.topic.encode(),
    "p": lambda record: b"%d" % record.partition,
    "o": lambda record: b"%d" % record.offset,
    "T": lambda record: b"%d" % record.timestamp_ms,
    "h": render_headers,
    "%": lambda _: b"%",
}

ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}

r"""Turns the input of `klamm produce` into records.

The input is lines, lines with keys and headers, JSON objects, or whole files. `parser` returns a function that turns a
list of lines, or of other parts of a file, into records. Lines without headers become a `Batch` of values and keys,
because the producer can send a batch in one call.
"""

from __future__ import annotations

import argparse
import base64
import binascii
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from klamm.cli.json_text import dumps, loads
from klamm.cli.options import encoded
from klamm.cli.output import CommandError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

Headers = list[tuple[str, "bytes | None"]]


@dataclass(frozen=True)
class Batch:
    """Values and keys of lines. `keys` is None if all keys are null."""

    values: Sequence[bytes | None]
    keys: Sequence[bytes | None] | None = None


@dataclass(frozen=True)
class NewRecord:
    """A record to send. `partition` and `timestamp_ms` are None if the producer chooses them."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    partition: int | None = None
    timestamp_ms: int | None = None


Parse = Callable[["Sequence[bytes]"], "Batch | list[NewRecord]"]


def parser(args: argparse.Namespace) -> Parse:
    """Return the function that turns lines into records, according to the options of the command line."""
    if args.json_lines:
        typed = {field for field in ("key", "value") if getattr(args, f"{field}_format")}
        return lambda lines: [json_record(line, args, typed) for line in lines if line.strip()]
    if args.header_separator is not None or args.headers or args.null_key is not None:
        return lambda lines: list(plain_records(lines, args))

    def split(lines: Sequence[bytes]) -> Batch:
        batch = split_keys(lines, args.key_separator)
        if args.null_value is None:
            return batch
        return Batch([None if value == args.null_value else value for value in batch.values], batch.keys)

    return split


def split_keys(lines: Sequence[bytes], separator: bytes | None) -> Batch:
    """Split each line into key and value; a line without the separator gets a null key."""
    if separator is None:
        return Batch(lines)
    values: list[bytes] = []
    keys: list[bytes | None] = []
    for line in lines:
        key, found, value = line.partition(separator)
        values.append(value if found else line)
        keys.append(key if found else None)
    return Batch(values, keys)


def plain_records(lines: Iterable[bytes], args: argparse.Namespace) -> Iterator[NewRecord]:
    """Yield a record for each line. The headers come from `--header`, and from the start of the line if it has headers."""
    for line in lines:
        headers = list(args.headers)
        rest = line
        if args.header_separator is not None:
            text, found, rest = line.partition(args.header_separator)
            if not found:
                raise CommandError(
                    f"a line has no headers: {shown(line)}",
                    "each line must be HEADERS, the text of --header-separator, and the rest",
                )
            headers += line_headers(text)
        key, value = None, rest
        if args.key_separator is not None:
            before, found, after = rest.partition(args.key_separator)
            key, value = (before, after) if found else (None, rest)
        yield NewRecord(None if key == args.null_key else key, None if value == args.null_value else value, headers)


def line_headers(text: bytes) -> Headers:
    """Parse `name:value,name:value`, the format of kafka-console-producer."""
    headers: Headers = []
    for part in text.split(b",") if text else ():
        name, colon, value = part.partition(b":")
        if not (name and colon):
            raise CommandError(
                f"a header has no name or value: {shown(part)}", "write headers as name:value,name:value"
            )
        headers.append((name.decode("utf-8", "surrogateescape"), value))
    return headers


def json_record(line: bytes, args: argparse.Namespace, typed: Collection[str] = ()) -> NewRecord:
    """Parse a JSON object into a record. `klamm consume --json` prints records in the same format.

    `typed` names the fields that have a schema. They become JSON text, also if they are strings.
    """
    try:
        fields = loads(line)
    except ValueError as error:
        raise CommandError(
            f"a line is not JSON ({error}): {shown(line)}", "each line must be one JSON object"
        ) from None
    if not isinstance(fields, dict):
        raise CommandError(f"a line is not a JSON object: {shown(line)}", "each line must be one JSON object")
    if "value" not in fields:  # a misspelled name would otherwise delete the key in a compacted topic
        raise CommandError(f"a line is not a record (no field 'value'): {shown(line)}", "write null for no value")
    headers = fields.get("headers") or []
    try:
        pairs = (
            [(name, content(headers, name)) for name in headers]
            if isinstance(headers, dict)
            else [(name_of(each), content(each, "value")) for each in headers]
        )
        timestamp = fields.get("timestamp_ms")
        return NewRecord(
            content(fields, "key", is_typed="key" in typed),
            content(fields, "value", is_typed="value" in typed),
            [*pairs, *args.headers],
            int(fields["partition"]) if args.keep_partitions else None,
            int(timestamp) if timestamp is not None and int(timestamp) >= 0 else None,
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        why = f"no field {error}" if isinstance(error, KeyError) else str(error)
        raise CommandError(
            f"a line is not a record ({why}): {shown(line)}",
            "each line must have the form that `klamm consume --json` prints",
        ) from None


def content(fields: dict[str, Any], name: str, *, is_typed: bool = False) -> bytes | None:
    """Return a field of an object as bytes, or None for null. Typed values, and all but strings, become JSON text."""
    value = fields.get(name)
    encoding = fields.get(f"{name}_encoding")
    if value is None:
        return None
    if encoding == "base64":
        try:
            return base64.b64decode(value, validate=True)
        except binascii.Error as error:
            raise ValueError(f"{name} is not base64: {error}") from None
    if encoding is not None:
        raise ValueError(f"unknown encoding {encoding!r} of {name}")
    return value.encode() if isinstance(value, str) and not is_typed else dumps(value).encode()


def name_of(header: dict[str, Any]) -> str:
    """Return the name of a header. In JSON objects, header names that are not UTF-8 are encoded as base64."""
    name = content(header, "name")
    if name is None:
        raise ValueError("a header has no name")
    return name.decode("utf-8", "surrogateescape")


def shown(line: bytes) -> str:
    """Return the beginning of a line as quoted text, for error messages."""
    return repr(line[:60].decode("utf-8", "replace"))


def separator(text: str) -> bytes:
    r"""Parse a separator, with the escapes `\n`, `\t` and `\0`."""
    parsed = encoded(text.replace(r"\n", "\n").replace(r"\t", "\t").replace(r"\0", "\0"))
    if not parsed:
        raise argparse.ArgumentTypeError("the separator must not be empty")
    return parsed

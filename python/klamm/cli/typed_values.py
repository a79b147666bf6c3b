"""Decodes and encodes keys and values with schemas of a registry, for `klamm consume`, `klamm produce` and `klamm decode`.

The commands print and read values as JSON, in the form that `json_text` describes. `klamm.registry` has the serializers.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import klamm
from klamm.cli.json_text import dumps, loads
from klamm.cli.output import CommandError, UsageError, describe
from klamm.cli.record_format import record_fields, render_json
from klamm.cli.records_in import Batch
from klamm.cli.schemas import TYPES, add_registry, opened, read_schema
from klamm.errors import DeserializationError, KafkaError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Sequence

    from klamm.cli.record_format import Render
    from klamm.cli.records_in import NewRecord, Parse
    from klamm.registry import Schema, SchemaRegistry
    from klamm.registry.subjects import Field

    Decode = Callable[..., Any]

FIELDS: tuple[Field, ...] = ("key", "value")
OPTIONS = {"key": "--key-format", "value": "--value"}


def add_reading(parser: argparse.ArgumentParser) -> None:
    """Add `--key-format`, `--value` and the options of the registry to a command that prints records."""
    for field in FIELDS:
        parser.add_argument(
            OPTIONS[field],
            dest=f"{field}_format",
            choices=TYPES,
            help=f"decode the {field} with its schema, and print JSON",
        )
    parser.add_argument(
        "--skip-errors",
        action="store_true",
        help="if a key or value cannot be decoded, print the error on standard error, and continue with the next record; "
        "errors of the registry still end the command",
    )
    add_registry(parser, required=False)


def add_writing(parser: argparse.ArgumentParser) -> None:
    """Add `--key-format`, `--value`, and the options for schemas and the registry to a command that sends lines."""
    for field in FIELDS:
        parser.add_argument(
            OPTIONS[field],
            dest=f"{field}_format",
            choices=TYPES,
            help=f"read the {field} as JSON, and encode it with a schema",
        )
    parser.add_argument(
        "--schema",
        metavar="FILE|latest",
        help="schema of the value: a file, or latest for the latest schema of the subject TOPIC-value",
    )
    parser.add_argument(
        "--key-schema",
        metavar="FILE|latest",
        help="schema of the key: a file, or latest for the latest schema of the subject TOPIC-key",
    )
    for field, option in zip(FIELDS, ("--key-message", "--message"), strict=True):
        parser.add_argument(
            option,
            dest=f"{field}_message",
            metavar="NAME",
            help=f"name of the Protobuf message type of the {field}, such as shop.Order (default: the first of the schema)",
        )
    add_registry(parser, required=False)


def reading(args: argparse.Namespace, render: Render) -> Render:
    """Return a function that decodes a record and then prints the record."""
    formats = {field: getattr(args, f"{field}_format") for field in FIELDS}
    if not any(formats.values()):
        if args.skip_errors:
            raise UsageError("--skip-errors needs --value or --key-format", "without a format, no record is decoded")
        return render
    client = opened(args)
    decoders = {field: _decoder(client, kind) for field, kind in formats.items() if kind}

    def decoded(record: klamm.Record) -> bytes:
        found = {field: _decoded(decode, field, record) for field, decode in decoders.items()}
        if render is render_json:
            shown: dict[str, Any] = {field: plain for field, (plain, _) in found.items()}
            fields: dict[str, Any] = {**record_fields(record), **shown}
            for field in shown:
                fields.pop(f"{field}_encoding", None)
            return dumps(fields).encode() + b"\n"
        parts: dict[str, Any] = {"key": record.key, "value": record.value}
        parts.update({field: data for field, (_, data) in found.items()})
        return render(
            klamm.Record(
                record.topic,
                record.partition,
                record.offset,
                record.timestamp_ms,
                parts["key"],
                parts["value"],
                record.headers,
                record.timestamp_type,
            )
        )

    return decoded


def _decoded(decode: Decode, field: Field, record: klamm.Record) -> tuple[Any, bytes | None]:
    """Return the decoded key or value of a record, and its JSON text."""
    data = getattr(record, field)
    if data is None:
        return None, None
    try:
        plain = decode(data, record.topic, field, record.headers)
    except KafkaError as cause:
        error = DeserializationError(field, record)
        error.message, error.hint = f"{error.message}: {describe(cause)}", cause.hint
        raise error from cause
    return plain, dumps(plain).encode()


def is_bad_record(error: DeserializationError) -> bool:
    """Return whether the record is the cause of an error, and not the registry or the network."""
    from klamm.registry.errors import SchemaError, SchemaNotFoundError

    return isinstance(error.__cause__, (SchemaError, SchemaNotFoundError))


def _decoder(client: SchemaRegistry, kind: str) -> Decode:
    """Return a function that decodes a key or value into what JSON can express."""
    from klamm import registry
    from klamm.cli import typed_formats
    from klamm.registry.errors import SchemaError

    if kind == "avro":
        return typed_formats.AvroToJson(client).deserialize
    if kind == "json":
        return typed_formats.JsonToJson(client).deserialize
    from google.protobuf import json_format

    messages = registry.ProtobufDeserializer(client)

    def decode(*arguments: Any) -> Any:
        message = messages.deserialize(*arguments)
        try:
            pool = message.DESCRIPTOR.file.pool
            return json_format.MessageToDict(message, preserving_proto_field_name=True, descriptor_pool=pool)
        except (json_format.SerializeToJsonError, TypeError, ValueError) as error:
            raise SchemaError(f"the message has no JSON form: {error}") from None

    return decode


def add_decoding(parser: argparse.ArgumentParser) -> None:
    """Add `--value`, `--schema` and the options of the registry to `klamm decode`."""
    parser.add_argument(
        "--value",
        dest="value_format",
        choices=TYPES,
        help="decode the input as a value that starts with the ID of a registered schema; each line of hex or base64 text "
        "is one value",
    )
    parser.add_argument("--schema", metavar="FILE", help="with --value, decode with the schema in this file")
    add_registry(parser, required=False)


def decode_values(args: argparse.Namespace, values: Iterable[bytes]) -> int:
    """Print values that start with a schema ID as JSON. Return 1 if a value cannot be decoded, otherwise 0."""
    from klamm.registry import SchemaRegistry
    from klamm.registry.framing import read

    schema = None if args.schema is None else read_schema(args.schema, args.value_format, [])
    # With a schema file, `_remember` puts the schema into the client's cache, so that the client sends no request.
    client = opened(args) if schema is None else SchemaRegistry("http://schema.invalid")
    decode, failed = _decoder(client, args.value_format), 0
    for data in values:
        try:
            frame = read(data, None, has_indexes=args.value_format == "protobuf")
            if schema is not None:
                _remember(client, frame.schema, schema)
            found: dict[str, Any] = {"schema": frame.schema, "value": decode(data, "")}
        except KafkaError as error:
            found, failed = {"error": str(error)}, 1
        print(dumps(found), flush=True)
    return failed


def _remember(client: SchemaRegistry, key: int | str | bytes, schema: Schema) -> None:
    from klamm.registry import RegisteredSchema

    if isinstance(key, int):
        client._cache.put(("id", key, ""), RegisteredSchema(schema, key))  # noqa: SLF001
    elif isinstance(key, str):
        client._cache.put(("guid", key, ""), RegisteredSchema(schema, -1, guid=key))  # noqa: SLF001


def writing(args: argparse.Namespace, parse: Parse) -> Parse:
    """Return a function that parses lines into records, and then encodes the keys and values that have a schema."""
    encoders = _encoders(args)
    if not encoders:
        return parse

    from klamm.registry.framing import without_framing

    if args.key is not None and "key" in encoders:
        args.key = encoders["key"](args.key)

    def encode(field: Field, data: bytes | None) -> bytes | None:
        return data if data is None or field not in encoders else encoders[field](data)

    def parsed(lines: Sequence[bytes]) -> Batch | list[NewRecord]:
        found = parse(lines)
        if isinstance(found, Batch):
            keys = None if found.keys is None else [encode("key", key) for key in found.keys]
            return Batch([encode("value", value) for value in found.values], keys)
        return [
            replace(each, key=encode("key", each.key), value=encode("value", each.value), headers=kept(each.headers))
            for each in found
        ]

    def kept(headers: Any) -> Any:
        """Return the headers without those that contain the schema ID of an earlier key or value."""
        for field in encoders:
            headers = without_framing(headers, field)
        return headers

    return parsed


def _encoders(args: argparse.Namespace) -> dict[str, _Encoder]:
    encoders: dict[str, _Encoder] = {}
    for field, schema in zip(FIELDS, (args.key_schema, args.schema), strict=True):
        kind = getattr(args, f"{field}_format")
        if kind is not None:
            encoders[field] = _Encoder(args, field, kind, schema)
        elif schema is not None:
            raise CommandError(f"a schema of the {field} needs {OPTIONS[field]}", "pass avro, json or protobuf")
    return encoders


class _Encoder:
    """Parses JSON text, and serializes the result with a schema."""

    def __init__(self, args: argparse.Namespace, field: Field, kind: str, schema: str | None) -> None:
        from klamm.registry import SchemaError

        if schema is None:
            option = "--schema" if field == "value" else "--key-schema"
            raise CommandError(f"{OPTIONS[field]} {kind} needs {option}", f"pass {option} FILE, or {option} latest")
        self._field: Field = field
        self._topic = args.topic
        self._registry = opened(args)
        self._convert: Callable[[Any], Any] = lambda value: value
        is_latest = schema == "latest"
        found = self._latest(f"{args.topic}-{field}") if is_latest else read_schema(schema, kind, [])
        self._message = getattr(args, f"{field}_message")
        try:
            self._serializer = self._made(kind, found, is_latest)
        except SchemaError as error:
            where = f"subject {args.topic}-{field}" if is_latest else schema
            raise CommandError(f"{where}: {describe(error)}", error.hint) from None

    def _latest(self, subject: str) -> Schema:
        from klamm.registry import SchemaNotFoundError

        try:
            return self._registry.get_version(subject).schema
        except SchemaNotFoundError as error:
            error.hint = error.hint or f"pass the schema as a file, or `klamm schemas register {subject} FILE`"
            raise

    def _made(self, kind: str, schema: Any, is_latest: bool) -> Any:
        from klamm import registry
        from klamm.waiting import run

        references = run(self._registry._resolve(schema))  # noqa: SLF001
        if schema.type != TYPES[kind]:
            names = {name: key for key, name in TYPES.items()}
            hint = f"pass {OPTIONS[self._field]} {names[schema.type]}"
            raise CommandError(f"the schema is of type {schema.type}, not {TYPES[kind]}", hint)
        options = {"use_latest_version": is_latest}
        if kind == "avro":
            from klamm.cli.avro_json import AvroJson
            from klamm.registry.avro import parse

            form = AvroJson(parse(schema, references))
            return registry.AvroSerializer(self._registry, schema, to_dict=form.read, **options)  # type: ignore[arg-type]
        if kind == "json":
            from klamm.cli.typed_formats import JsonFromText

            serializer = JsonFromText(self._registry, schema, **options)  # type: ignore[arg-type]
            serializer._parse(schema, references)  # noqa: SLF001 - raises for an invalid schema
            return serializer
        from google.protobuf import message_factory

        from klamm.cli.typed_formats import message_of
        from klamm.registry.protobuf import parse_schema

        message = message_factory.GetMessageClass(parse_schema(schema, references).chosen(self._message))
        self._convert = partial(message_of, message)
        return registry.ProtobufSerializer(self._registry, message, **options)  # type: ignore[arg-type]

    def __call__(self, line: bytes) -> bytes:
        try:
            value = loads(line)
        except ValueError as error:
            shown = line[:60].decode("utf-8", "replace")
            raise CommandError(f"the {self._field} {shown!r} is not JSON: {error}") from None
        encoded: bytes = self._serializer.serialize(self._convert(value), self._topic, self._field)
        return encoded

"""`klamm schemas`: lists, prints, registers, checks and deletes the schemas of a registry.

`klamm.registry` sends the requests.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from klamm.cli.options import add_confirmation, add_json, add_repeated, pair
from klamm.cli.output import CommandError

if TYPE_CHECKING:
    from collections.abc import Callable

    from klamm.cli.options import Commands
    from klamm.cli.output import Output
    from klamm.registry import Reference, RegisteredSchema, Schema, SchemaRegistry

TYPES = {"avro": "AVRO", "json": "JSON", "protobuf": "PROTOBUF"}
SUFFIXES = {".proto": "protobuf", ".json": "json"}
"""Type of the schema in a file with this suffix. Files with other suffixes contain Avro schemas."""
LEVELS = ("NONE", "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE")


def add(commands: Commands) -> None:
    """Declare the command and its actions."""
    parser = commands.add_parser(
        "schemas",
        help="list, print, register, check and delete schemas of a registry",
        description="List, print, register, check and delete the schemas of a registry, and set compatibility levels.",
    )
    parts = parser.add_subparsers(title="actions", metavar="ACTION", required=True)

    part = parts.add_parser(
        "list", help="print subjects", description="Print the subjects, or the versions of one subject."
    )
    part.add_argument("subject", metavar="SUBJECT", nargs="?", help="print the versions of this subject")
    part.add_argument("--deleted", action="store_true", help="include soft-deleted subjects and versions")
    _add_common(part, list_subjects, "print one JSON object")

    part = parts.add_parser("get", help="print a schema", description="Print the text of a schema.")
    part.add_argument("subject", metavar="SUBJECT|ID", help="a subject, or the ID of a schema")
    part.add_argument("number", metavar="VERSION", nargs="?", default="latest", help="a version (default: latest)")
    _add_common(part, get, "print one JSON object, with all that `register` needs for a copy")

    part = parts.add_parser("register", help="register a schema", description="Register a schema as a new version.")
    _add_schema(part)
    part.add_argument(
        "--normalize", action="store_true", help="let the registry normalize schemas before it compares them"
    )
    _add_common(part, register, "print one JSON object, with the ID")

    part = parts.add_parser(
        "check",
        help="check whether a schema is compatible",
        description="Check whether a schema is compatible with a subject. The exit code is 1 if the schema is not compatible.",
    )
    _add_schema(part)
    part.add_argument("--version", dest="against", metavar="VERSION", help="check only against this version")
    _add_common(part, check, "print one JSON object, with compatible and messages")

    part = parts.add_parser(
        "delete", help="delete a subject or one version", description="Delete a subject, or one version of a subject."
    )
    part.add_argument("subject", metavar="SUBJECT", help="the subject")
    part.add_argument("number", metavar="VERSION", nargs="?", help="delete only this version")
    part.add_argument(
        "--permanent",
        action="store_true",
        help="delete permanently; consumers can no longer decode records of the deleted schemas",
    )
    add_confirmation(part)
    _add_common(part, delete, "print one JSON object, with the deleted versions")

    part = parts.add_parser(
        "config",
        help="print or set the compatibility level",
        description="Print or set the compatibility level of a subject, or of the whole registry.",
    )
    part.add_argument("subject", metavar="SUBJECT", nargs="?", help="a subject (default: the whole registry)")
    part.add_argument("--set", dest="level", metavar="LEVEL", type=level, help=f"one of {', '.join(LEVELS)}")
    _add_common(part, config, "print one JSON object")


def add_registry(parser: argparse._ActionsContainer, *, required: bool) -> None:
    """Add `--registry`, and `-R` for every other setting of the registry client."""
    parser.add_argument(
        "--registry",
        metavar="URL",
        default=os.environ.get("KLAMM_SCHEMA_REGISTRY"),
        help=f"address of the schema registry{'' if required else ', for keys and values with schemas'} "
        "(default: $KLAMM_SCHEMA_REGISTRY)",
    )
    add_repeated(
        parser,
        "-R",
        "registry_config",
        "KEY=VALUE",
        "set an option of the registry client, such as basic.auth.user.info=USER:PASSWORD",
        parse=pair,
    )


def opened(args: argparse.Namespace) -> SchemaRegistry:
    """Return a registry client with the options of the command line."""
    from klamm.registry import SchemaRegistry

    config = dict(args.registry_config)
    url = args.registry or config.pop("url", None)
    if not url:
        raise CommandError("no schema registry is given", "pass --registry URL, or set KLAMM_SCHEMA_REGISTRY")
    return SchemaRegistry({"url": url, **config})


def read_schema(path: str, kind: str | None, references: list[Reference]) -> Schema:
    """Read a schema from a file, or from standard input.

    The file contains the text of the schema, or the output of `klamm schemas get --json`.
    """
    from klamm.registry import Schema

    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise CommandError(f"{path}: the file is not UTF-8 text", "pass a file with the text of a schema") from None
    fetched = _fetched(text)
    if fetched is not None:
        return fetched
    kind = kind or SUFFIXES.get(Path(path).suffix, "avro")
    return Schema(text, TYPES[kind], references)  # type: ignore[arg-type]


def _fetched(text: str) -> Schema | None:
    """Return the schema in the output of `klamm schemas get --json`, or None if the text is another text."""
    from klamm.registry import Schema

    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict) or fields.get("type") not in TYPES.values() or "schema" not in fields:
        return None
    return Schema.from_json({**fields, "schemaType": fields["type"]})


def level(text: str) -> str:
    """Parse a compatibility level."""
    if text.upper() not in LEVELS:
        raise argparse.ArgumentTypeError(f"{text!r} must be one of {', '.join(LEVELS)}")
    return text.upper()


def reference(text: str) -> Reference:
    """Parse a reference, `NAME=SUBJECT:VERSION`."""
    from klamm.registry import Reference

    name, target = pair(text)
    subject, _, version = target.rpartition(":")
    if not (subject and version.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} must have the form NAME=SUBJECT:VERSION")
    return Reference(name, subject, int(version))


def list_subjects(args: argparse.Namespace, output: Output) -> int:
    """Print all subjects, or the versions of one subject."""
    with opened(args) as registry:
        if args.subject is not None:
            versions = registry.versions(args.subject, deleted=args.deleted)
            lines, found = [str(version) for version in versions], {"subject": args.subject, "versions": versions}
        else:
            subjects = registry.subjects(deleted=args.deleted)
            lines, found = subjects, {"subjects": subjects}
    return output.result_or_lines(found, *lines)


def get(args: argparse.Namespace, output: Output) -> int:
    """Print a schema."""
    with opened(args) as registry:
        if args.subject.isdigit() and args.number == "latest":
            found = registry.get_by_id(int(args.subject))
        else:
            found = registry.get_version(args.subject, _version(args.number))
    return output.result_or_lines(_fields(found), found.schema.text)


def register(args: argparse.Namespace, output: Output) -> int:
    """Register a schema."""
    schema = read_schema(args.file, args.type, args.references)
    with opened(args) as registry:
        found = registry.register(args.subject, schema, normalize=args.normalize)
    return output.result_or_lines(_fields(found), f"registered schema {found.id} for subject {args.subject}")


def check(args: argparse.Namespace, output: Output) -> int:
    """Check whether a schema is compatible."""
    schema = read_schema(args.file, args.type, args.references)
    with opened(args) as registry:
        found = registry.check(args.subject, schema, None if args.against is None else _version(args.against))
    reasons = list(found.messages)
    lines = ["compatible"] if found.is_compatible else ["not compatible", *reasons]
    output.result_or_lines({"compatible": found.is_compatible, "messages": reasons}, *lines)
    return 0 if found.is_compatible else 1


def delete(args: argparse.Namespace, output: Output) -> int:
    """Delete a subject, or one version of a subject."""
    subject_text = (
        f"subject {args.subject}" if args.number is None else f"version {args.number} of subject {args.subject}"
    )
    if not output.confirmed(args, [f"delete {subject_text}{' for good' if args.permanent else ''}"]):
        return 0
    with opened(args) as registry:
        if args.number is None:
            deleted = registry.delete_subject(args.subject, permanent=args.permanent)
        else:
            deleted = [registry.delete_version(args.subject, _version(args.number), permanent=args.permanent)]
    lines = [f"deleted version {version} of subject {args.subject}" for version in deleted]
    return output.result_or_lines({"subject": args.subject, "deleted": deleted}, *lines)


def config(args: argparse.Namespace, output: Output) -> int:
    """Print or set the compatibility level."""
    with opened(args) as registry:
        if args.level is not None:
            registry.set_config(args.level, args.subject)
        level = registry.get_config(args.subject)["compatibilityLevel"]
    return output.result_or_lines({"subject": args.subject, "compatibility": level}, level)


def _version(text: str) -> int | str:
    if text == "latest":
        return text
    if not text.isdigit():
        raise CommandError(f"{text!r} is not a version", "pass a number, or latest")
    return int(text)


def _fields(found: RegisteredSchema) -> dict[str, Any]:
    return {
        "id": found.id,
        "subject": found.subject,
        "version": found.version,
        "type": found.schema.type,
        "schema": found.schema.text,
        "references": [vars(each) for each in found.schema.references],
        "metadata": found.schema.metadata,
        "ruleSet": found.schema.rule_set,
    }


def _add_schema(part: argparse.ArgumentParser) -> None:
    part.add_argument("subject", metavar="SUBJECT", help="the subject, such as orders-value")
    part.add_argument(
        "file", metavar="FILE", help="file with the schema, or with the output of `get --json`; - is standard input"
    )
    part.add_argument(
        "--type",
        choices=TYPES,
        help="type of the schema (default: protobuf for .proto, json for .json, otherwise avro)",
    )
    add_repeated(
        part,
        "--reference",
        "references",
        "NAME=SUBJECT:VERSION",
        "a registered schema to which the new schema refers",
        parse=reference,
    )


def _add_common(part: argparse.ArgumentParser, run: Any, json_text: str) -> None:
    add_registry(part, required=True)
    add_json(part, json_text)
    part.set_defaults(run=partial(_run, run))


def _run(action: Callable[[argparse.Namespace, Output], int], args: argparse.Namespace, output: Output) -> int:
    from klamm.registry import SchemaNotFoundError

    try:
        return action(args, output)
    except SchemaNotFoundError as error:
        error.hint = (
            error.hint or "`klamm schemas list` prints the subjects, and `klamm schemas list SUBJECT` the versions"
        )
        raise

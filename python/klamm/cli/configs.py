"""`klamm configs`: shows and changes the settings of topics, brokers, groups and client metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

import klamm
from klamm.admin import ConfigChange, ConfigOperation, ConfigResource, ConfigSource
from klamm.cli.clients import admin_config
from klamm.cli.options import add_common, add_confirmation, add_repeated, pair
from klamm.cli.output import UsageError, counted
from klamm.cli.values import as_json

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from klamm.admin import ConfigEntry
    from klamm.cli.options import Commands
    from klamm.cli.output import Output

KINDS = ("topic", "broker", "broker-logger", "group", "client-metrics")
DEFAULTS = {ConfigSource.DEFAULT}


def add(commands: Commands) -> None:
    """Declare the command and its actions."""
    parser = commands.add_parser(
        "configs",
        help="show and change settings of topics, brokers and groups",
        description="Show and change the settings of topics, brokers, groups and client metrics.",
    )
    parts = parser.add_subparsers(title="actions", metavar="ACTION", required=True)

    part = parts.add_parser(
        "describe",
        help="print settings",
        description="Print the settings that differ from their defaults. With --all, print all settings.",
    )
    add_resource(part, "*")
    part.add_argument("--all", action="store_true", help="also print settings with default values")
    part.add_argument("--docs", action="store_true", help="also print the description of each setting (Kafka 2.6)")
    add_common(part, describe, "print one JSON object, with the resources and their settings", controllers=True)

    part = parts.add_parser(
        "alter",
        help="change settings",
        description="Change the given settings. Without --replace-all, other settings keep their values.",
    )
    add_resource(part, "+")
    for option, text in (
        ("set", "set a setting"),
        ("append", "append items to a setting that is a list"),
        ("subtract", "remove items from a setting that is a list"),
    ):
        add_repeated(part, f"--{option}", option, "KEY=VALUE", text, parse=pair)
    add_repeated(part, "--delete", "delete", "KEY", "reset a setting to its default")
    part.add_argument("--replace-all", action="store_true", help="reset all settings that --set does not set")
    add_confirmation(part)
    add_common(part, alter, "print one JSON object, with the altered resources", controllers=True)

    part = parts.add_parser(
        "list",
        help="print resources that have settings",
        description="Print the resources that have settings (Kafka 4.1).",
    )
    part.add_argument(
        "--type",
        dest="kinds",
        choices=KINDS,
        action="append",
        default=[],
        help="print only resources of this type; may be repeated",
    )
    add_common(part, list_resources, "print one JSON object, with the resources")


def add_resource(part: argparse.ArgumentParser, nargs: str) -> None:
    """Add the arguments that name resources."""
    part.add_argument("kind", metavar="TYPE", choices=KINDS, help=f"type of the resources: {', '.join(KINDS)}")
    text = 'names of topics or groups, or IDs of brokers; "" stands for the defaults of all brokers'
    default: list[str] = []
    part.add_argument(
        "names",
        metavar="NAME",
        nargs=nargs,
        default=default,
        help=f"{text} (default: all)" if nargs == "*" else text,
    )


def describe(args: argparse.Namespace, output: Output) -> int:
    """Print settings."""
    with klamm.Admin(admin_config(args)) as admin:
        names = args.names or all_names(admin, args.kind)
        resources = [ConfigResource(args.kind, name) for name in names]
        described = (
            output.found(lambda: admin.describe_resources(resources, documentation=args.docs)) if resources else {}
        )
    shown = {resource: chosen(entries, every=args.all) for resource, entries in described.items()}
    listed = [
        {"type": resource.kind, "name": resource.name, "configs": as_json(entries)}
        for resource, entries in shown.items()
    ]
    docs = ("description",) if args.docs else ()
    rows = [
        (
            resource.name or "(defaults)",
            entry.name,
            "[hidden]" if entry.sensitive else entry.value,
            entry.source.name.lower().replace("_", " "),
            *((entry.documentation,) if args.docs else ()),
        )
        for resource, entries in shown.items()
        for entry in entries
    ]
    return output.result_or_table({"resources": listed}, (args.kind, "setting", "value", "source", *docs), rows)


def all_names(admin: klamm.Admin, kind: str) -> list[str]:
    """Return the names of all resources of a type."""
    if kind == "topic":
        return admin.list_topics()
    if kind in ("broker", "broker-logger"):
        return [str(node.id) for node in admin.describe_cluster().brokers]
    if kind == "group":
        return [each.group for each in admin.list_groups()]
    return admin.list_client_metrics_resources()


def chosen(entries: Mapping[str, ConfigEntry], *, every: bool) -> list[ConfigEntry]:
    """Return the settings, sorted by name. Without `every`, leave out settings that have their default values."""
    return [entry for _, entry in sorted(entries.items()) if every or entry.source not in DEFAULTS]


def alter(args: argparse.Namespace, output: Output) -> int:
    """Change settings."""
    changes = [
        *(ConfigChange(key, value) for key, value in args.set),
        *(ConfigChange(key, value, ConfigOperation.APPEND) for key, value in args.append),
        *(ConfigChange(key, value, ConfigOperation.SUBTRACT) for key, value in args.subtract),
        *(ConfigChange(key, None, ConfigOperation.DELETE) for key in args.delete),
    ]
    if not changes and not args.replace_all:
        raise UsageError("there is nothing to change", "pass --set, --append, --subtract or --delete")
    if args.replace_all and (args.append or args.subtract or args.delete):
        raise UsageError("--replace-all goes only with --set", "leave out --append, --subtract and --delete")
    resources = [ConfigResource(args.kind, name) for name in args.names]
    with klamm.Admin(admin_config(args)) as admin:
        if args.replace_all:
            changes_by_resource = {resource: dict(args.set) for resource in resources}
            lines = [f"replace all settings of {resource.kind} {resource.name!r}" for resource in resources]
            if not output.confirmed(args, lines):
                admin.replace_configs(changes_by_resource, validate_only=True)
                return 0
            admin.replace_configs(changes_by_resource)
            done = "replaced all settings"
        else:
            by_resource = dict.fromkeys(resources, changes)
            if args.dry_run:
                admin.incremental_alter_configs(by_resource, validate_only=True)
                output.confirmed(args, [line(resource, change) for resource in resources for change in changes])
                return 0
            admin.incremental_alter_configs(by_resource)
            done = f"altered {counted(len(changes), 'setting')}"
    lines = [f"{done} of {resource.kind} {resource.name}" for resource in resources]
    return output.result_or_lines({"altered": as_json(resources)}, *lines)


def line(resource: ConfigResource, change: ConfigChange) -> str:
    """Return a line that describes a change, for `--dry-run`."""
    return (
        f"{change.operation.name.lower()} {change.name} {change.value or ''}".rstrip()
        + f" of {resource.kind} {resource.name!r}"
    )


def list_resources(args: argparse.Namespace, output: Output) -> int:
    """Print the resources that have settings."""
    with klamm.Admin(admin_config(args)) as admin:
        resources = admin.list_config_resources(args.kinds)
    listed = [{"type": each.kind, "name": each.name} for each in resources]
    return output.result_or_table({"resources": listed}, ("type", "name"), [tuple(each.values()) for each in listed])

"""`klamm quotas`: shows and changes quotas of users, client IDs and IP addresses."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import klamm
from klamm.admin import QuotaEntity, QuotaName
from klamm.cli.clients import admin_config
from klamm.cli.options import add_common, add_repeated, pair
from klamm.cli.output import UsageError

if TYPE_CHECKING:
    from klamm.cli.options import Commands
    from klamm.cli.output import Output

PARTS = ("user", "client_id", "ip")


def add(commands: Commands) -> None:
    """Declare the command and its actions."""
    parser = commands.add_parser(
        "quotas",
        help="show and change quotas of users, clients and addresses",
        description="Show and change quotas of users, client IDs and IP addresses (Kafka 2.6).",
    )
    parts = parser.add_subparsers(title="actions", metavar="ACTION", required=True)

    part = parts.add_parser(
        "describe",
        help="print quotas",
        description="Print the quotas of entities. An entity is a user, a client ID, a user and a client ID together, "
        "or an IP address. Print only entities that match all given options (default: all entities).",
    )
    add_entity(part, "--any-")
    part.add_argument(
        "--strict", action="store_true", help="leave out entities with a part that no option names, such as a client ID"
    )
    add_common(part, describe, "print one JSON object, with the quotas")

    part = parts.add_parser(
        "alter",
        help="change quotas",
        description="Change quotas of one entity: a user, a client ID, an IP address, or a user and a client ID. "
        "A quota keeps its value if neither --set nor --delete names it.",
    )
    add_entity(part, None)
    add_repeated(part, "--set", "set", "NAME=NUMBER", "set a quota, such as producer_byte_rate=1048576", parse=number)
    add_repeated(part, "--delete", "delete", "NAME", "remove a quota")
    part.add_argument("--dry-run", action="store_true", help="only check whether the quotas can be changed")
    add_common(part, alter, "print one JSON object, with the entity and its changes")


def add_entity(part: argparse.ArgumentParser, wildcard: str | None) -> None:
    """Add the options that name the user, the client ID and the IP address of an entity."""
    for name in PARTS:
        option = name.replace("_", "-")
        group = part.add_mutually_exclusive_group()
        group.add_argument(f"--{option}", dest=name, metavar="NAME", help=f"quotas of this {option.replace('-', ' ')}")
        group.add_argument(
            f"--default-{option}",
            dest=name,
            action="store_const",
            const=QuotaName.DEFAULT,
            help=f"default quotas, which apply to every {option.replace('-', ' ')} without quotas",
        )
        if wildcard:
            group.add_argument(
                f"{wildcard}{option}",
                dest=name,
                action="store_const",
                const=QuotaName.ANY,
                help=f"quotas of any {option.replace('-', ' ')}",
            )


def number(text: str) -> tuple[str, float]:
    """Parse `name=number` into a name and a float."""
    name, value = pair(text)
    try:
        return name, float(value)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} must have the form NAME=NUMBER") from None


def entity(args: argparse.Namespace) -> QuotaEntity:
    """Return the entity that the options name."""
    return QuotaEntity(args.user, args.client_id, args.ip)


def named(part: str | QuotaName | None) -> str | None:
    """Return an entity's user, client ID or address as text. `QuotaName.DEFAULT` becomes `<default>`, as in Kafka."""
    return "<default>" if part is QuotaName.DEFAULT else part.value if isinstance(part, QuotaName) else part


def describe(args: argparse.Namespace, output: Output) -> int:
    """Print quotas."""
    with klamm.Admin(admin_config(args)) as admin:
        found = admin.describe_client_quotas(entity(args), strict=args.strict)
    entities = [([named(getattr(each, part)) for part in PARTS], quotas) for each, quotas in found.items()]
    entities.sort(key=lambda each: list(map(str, each[0])))
    listed = [{**dict(zip(PARTS, names, strict=True)), "quotas": quotas} for names, quotas in entities]
    rows = [(*names, name, value) for names, quotas in entities for name, value in sorted(quotas.items())]
    return output.result_or_table({"entities": listed}, ("user", "client id", "ip", "quota", "value"), rows)


def alter(args: argparse.Namespace, output: Output) -> int:
    """Change quotas."""
    changes: dict[str, float | None] = {**dict(args.set), **dict.fromkeys(args.delete)}
    if entity(args) == QuotaEntity():
        raise UsageError("quotas need an entity", "pass --user, --client-id, --ip, or a --default- option")
    if not changes:
        raise UsageError("there is nothing to change", "pass --set NAME=NUMBER or --delete NAME")
    with klamm.Admin(admin_config(args)) as admin:
        admin.alter_client_quotas({entity(args): changes}, validate_only=args.dry_run)
    parts = {part: named(getattr(args, part)) for part in PARTS}
    would, remove = ("would ", "remove") if args.dry_run else ("", "removed")
    lines = [
        f"{would}{remove} {name}" if value is None else f"{would}set {name} to {value:.15g}"
        for name, value in changes.items()
    ]
    return output.result_or_lines({**parts, "changes": changes, "dry_run": args.dry_run}, *lines)

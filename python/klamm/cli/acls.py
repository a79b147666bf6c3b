"""`klamm acls`: lists, adds and removes access rules, as kafka-acls does."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import klamm
from klamm.admin import AclBinding, AclFilter, AclOperation, AclPatternType, AclPermission, AclResource
from klamm.cli.clients import admin_config
from klamm.cli.options import add_common, add_confirmation, add_repeated
from klamm.cli.output import UsageError
from klamm.cli.values import dashed, member_of

if TYPE_CHECKING:
    import argparse

    from klamm.cli.options import Commands
    from klamm.cli.output import Output

CLUSTER_NAME = "kafka-cluster"
RESOURCES = {
    "topic": AclResource.TOPIC,
    "group": AclResource.GROUP,
    "transactional_id": AclResource.TRANSACTIONAL_ID,
    "token": AclResource.DELEGATION_TOKEN,
    "user": AclResource.USER,
}
PRODUCER = (AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.CREATE)
CONSUMER = (AclOperation.READ, AclOperation.DESCRIBE)


def add(commands: Commands) -> None:
    """Declare the command and its actions."""
    parser = commands.add_parser(
        "acls",
        help="list, add and remove access rules",
        description="List, add and remove access rules (ACLs).",
    )
    parts = parser.add_subparsers(title="actions", metavar="ACTION", required=True)

    part = parts.add_parser(
        "list", help="print rules", description="Print the rules that match all given options (default: all rules)."
    )
    add_resources(part)
    add_rule(part, "principals", "print only rules of this principal, such as User:alice")
    part.add_argument(
        "--pattern",
        type=member_of(AclPatternType),
        default=AclPatternType.ANY,
        metavar="TYPE",
        help="type of the rules' name pattern: literal, prefixed, match (every rule that applies to the name) or any "
        "(default: any)",
    )
    add_common(part, list_rules, "print one JSON object, with the rules", controllers=True)

    for name, run, text in (("add", create, "Add rules"), ("remove", remove, "Remove rules")):
        part = parts.add_parser(
            name,
            help=text.lower(),
            description=f"{text} for each combination of principal, operation, host and resource.",
        )
        add_resources(part)
        add_rule(part, "principals", "a principal, such as User:alice")
        part.add_argument("--deny", action="store_true", help="deny the operations (default: allow them)")
        part.add_argument(
            "--prefixed",
            action="store_true",
            help="apply the rules to all resources whose names start with the given names",
        )
        part.add_argument(
            "--producer",
            action="store_true",
            help="the operations that a producer needs: write, describe and create for --topic; write and describe for "
            "--transactional-id",
        )
        part.add_argument(
            "--consumer",
            action="store_true",
            help="the operations that a consumer needs: read and describe for --topic; read for --group",
        )
        add_confirmation(part)
        participle = "added" if name == "add" else "removed"
        add_common(part, run, f"print one JSON object, with the {participle} rules", controllers=True)


def add_resources(part: argparse.ArgumentParser) -> None:
    """Add the options that name resources, such as `--topic`."""
    for name in RESOURCES:
        option = name.replace("_", "-")
        add_repeated(part, f"--{option}", name, "NAME", f"a {option.replace('-', ' ')}, or * for all")
    part.add_argument("--cluster", action="store_true", help="the cluster itself")


def add_rule(part: argparse.ArgumentParser, principals: str, text: str) -> None:
    """Add the options for principals, hosts and operations."""
    add_repeated(part, "--principal", principals, "TYPE:NAME", text)
    add_repeated(part, "--host", "hosts", "ADDRESS", "an IP address, or * for all")
    names = ", ".join(dashed(each) for each in AclOperation if each.name not in ("UNKNOWN", "ANY"))
    add_repeated(part, "--operation", "operations", "NAME", f"one of {names}", parse=member_of(AclOperation))


def resources(args: argparse.Namespace) -> list[tuple[AclResource, str]]:
    """Return the type and name of each resource on the command line."""
    resources = [(kind, name) for option, kind in RESOURCES.items() for name in getattr(args, option)]
    return resources + ([(AclResource.CLUSTER, CLUSTER_NAME)] if args.cluster else [])


def list_rules(args: argparse.Namespace, output: Output) -> int:
    """Print the rules that match the options."""
    chosen: list[tuple[AclResource, str | None]] = [*resources(args)]
    filters = [
        AclFilter(kind, name, principal, operation, host=host, pattern=args.pattern if name else AclPatternType.ANY)
        for (kind, name), principal, operation, host in product(
            chosen or [(AclResource.ANY, None)],
            args.principals or [None],
            args.operations or [AclOperation.ANY],
            args.hosts or [None],
        )
    ]
    with klamm.Admin(admin_config(args)) as admin:
        rules = {rule for each in filters for rule in admin.describe_acls(each)}
    return show(sorted(rules, key=sort_key), "rules", output)


def sort_key(rule: AclBinding) -> tuple[Any, ...]:
    """Return the fields of a rule by which rules are sorted."""
    return rule.resource.name, rule.name, rule.principal, rule.operation.name, rule.host, rule.permission.name


def fields(rule: AclBinding) -> dict[str, str]:
    """Return a rule as a dict of strings, for JSON and tables."""
    return {
        "resource": dashed(rule.resource),
        "name": rule.name,
        "pattern": dashed(rule.pattern),
        "principal": rule.principal,
        "host": rule.host,
        "operation": dashed(rule.operation),
        "permission": dashed(rule.permission),
    }


def show(rules: list[AclBinding], name: str, output: Output) -> int:
    """Print rules as a table or as JSON, and return 0. `name` is the key of the list in the JSON object."""
    listed = [fields(rule) for rule in rules]
    columns = ("resource", "name", "pattern", "principal", "host", "operation", "permission")
    return output.result_or_table({name: listed}, columns, [tuple(each.values()) for each in listed])


def rules_of(args: argparse.Namespace) -> list[AclBinding]:
    """Return the rules that the options of a command line describe."""
    if not args.principals:
        raise UsageError("a rule needs a principal", "pass --principal User:NAME, or User:* for everyone")
    if any(":" not in principal for principal in args.principals):
        raise UsageError("a principal has a type and a name", "write --principal User:NAME")
    named = resources(args)
    if not named:
        raise UsageError(
            "a rule needs a resource", "pass --topic, --group, --transactional-id, --token, --user or --cluster"
        )
    pairs = [(resource, operation) for resource in named for operation in args.operations]
    if args.producer:
        pairs += [(each, operation) for each in named if each[0] is AclResource.TOPIC for operation in PRODUCER]
        ids = [each for each in named if each[0] is AclResource.TRANSACTIONAL_ID]
        pairs += [(each, operation) for each in ids for operation in (AclOperation.WRITE, AclOperation.DESCRIBE)]
    if args.consumer:
        pairs += [(each, operation) for each in named if each[0] is AclResource.TOPIC for operation in CONSUMER]
        pairs += [(each, AclOperation.READ) for each in named if each[0] is AclResource.GROUP]
    if not pairs:
        raise UsageError("a rule needs an operation", "pass --operation, --producer or --consumer")
    permission = AclPermission.DENY if args.deny else AclPermission.ALLOW
    pattern = AclPatternType.PREFIXED if args.prefixed else AclPatternType.LITERAL
    return [
        AclBinding(
            kind,
            name,
            principal,
            operation,
            permission,
            host,
            AclPatternType.LITERAL if kind is AclResource.CLUSTER else pattern,
        )
        for ((kind, name), operation), principal, host in product(
            dict.fromkeys(pairs), args.principals, args.hosts or ["*"]
        )
    ]


def sentence(rule: AclBinding) -> str:
    """Return a line that describes a rule, for `--dry-run` and for the confirmation prompt."""
    kind = dashed(rule.pattern) + " " if rule.pattern is not AclPatternType.LITERAL else ""
    return f"{dashed(rule.permission)} {rule.principal} from {rule.host}: {dashed(rule.operation)} {kind}{dashed(rule.resource)} {rule.name!r}"


def create(args: argparse.Namespace, output: Output) -> int:
    """Add rules. The command does not ask for confirmation, because adding a rule destroys nothing."""
    rules = rules_of(args)
    if args.dry_run:
        output.confirmed(args, [f"add {sentence(rule)}" for rule in rules])
        return 0
    with klamm.Admin(admin_config(args)) as admin:
        admin.create_acls(rules)
    return show(rules, "added", output)


def remove(args: argparse.Namespace, output: Output) -> int:
    """Remove the rules that the options describe, if these rules exist."""
    rules = rules_of(args)
    with klamm.Admin(admin_config(args)) as admin:
        existing = [
            rule
            for rule in rules
            if rule
            in admin.describe_acls(
                AclFilter(
                    rule.resource, rule.name, rule.principal, rule.operation, rule.permission, rule.host, rule.pattern
                )
            )
        ]
        if existing and not output.confirmed(args, [f"remove {sentence(rule)}" for rule in existing]):
            return 0
        removed = [rule for each in admin.delete_acls(existing).values() for rule in each] if existing else []
    return show(removed, "removed", output)

"""`klamm users`: lists users with SCRAM credentials, and sets and deletes their passwords.

A password is never an argument, and is never printed.
"""

from __future__ import annotations

import sys
from getpass import getpass
from typing import TYPE_CHECKING

import klamm
from klamm.admin import ScramDeletion, ScramMechanism, ScramUpsertion
from klamm.cli.clients import admin_config
from klamm.cli.options import add_common, add_confirmation, positive
from klamm.cli.output import UsageError

if TYPE_CHECKING:
    import argparse

    from klamm.cli.options import Commands
    from klamm.cli.output import Output

MECHANISMS = {"SCRAM-SHA-256": ScramMechanism.SHA_256, "SCRAM-SHA-512": ScramMechanism.SHA_512}
NAMES = {mechanism: name for name, mechanism in MECHANISMS.items()}


def add(commands: Commands) -> None:
    """Declare the command and its actions."""
    parser = commands.add_parser(
        "users",
        help="list users, and set and delete SCRAM passwords",
        description="List users with SCRAM credentials, and set and delete their passwords (Kafka 2.7).",
    )
    parts = parser.add_subparsers(title="actions", metavar="ACTION", required=True)

    part = parts.add_parser(
        "list", help="print users and mechanisms", description="Print users with their mechanisms and iterations."
    )
    part.add_argument("users", metavar="USER", nargs="*", default=[], help="users to print (default: all)")
    add_common(part, list_users, "print one JSON object, with the users and their credentials")

    part = parts.add_parser(
        "set-password",
        help="set the password of a user",
        description="Set the password of a user. The command reads the password from the terminal, or from the first line of "
        "standard input.",
    )
    part.add_argument("user", metavar="USER", help="name of the user")
    add_mechanism(part)
    part.add_argument(
        "--iterations",
        metavar="N",
        type=positive,
        default=4096,
        help="number of hash iterations (default: %(default)s)",
    )
    add_common(part, set_password, "print one JSON object, with user and mechanism")

    part = parts.add_parser(
        "delete", help="delete the password of a user", description="Delete the credential of a user for one mechanism."
    )
    part.add_argument("user", metavar="USER", help="name of the user")
    add_mechanism(part)
    add_confirmation(part)
    add_common(part, delete, "print one JSON object, with user and mechanism")


def add_mechanism(part: argparse.ArgumentParser) -> None:
    """Add the option for the mechanism."""
    part.add_argument(
        "--mechanism",
        choices=tuple(MECHANISMS),
        default="SCRAM-SHA-256",
        help="mechanism of the password (default: %(default)s)",
    )


def list_users(args: argparse.Namespace, output: Output) -> int:
    """Print users."""
    with klamm.Admin(admin_config(args)) as admin:
        found = output.found(lambda: admin.describe_user_scram_credentials(args.users or None))
    listed = [
        {"user": user, "mechanism": NAMES.get(each.mechanism, "unknown"), "iterations": each.iterations}
        for user, credentials in sorted(found.items())
        for each in credentials
    ]
    rows = [tuple(each.values()) for each in listed]
    return output.result_or_table({"users": listed}, ("user", "mechanism", "iterations"), rows)


def set_password(args: argparse.Namespace, output: Output) -> int:
    """Set a password."""
    if sys.stdin.isatty():
        password = getpass(f"password of {args.user}: ")
        if password != getpass("again: "):
            raise UsageError("the passwords differ", "run the command again")
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    if not password:
        raise UsageError(
            "the password is empty", "type it on a terminal, or pass it as the first line of standard input"
        )
    change = ScramUpsertion(args.user, password, MECHANISMS[args.mechanism], args.iterations)
    with klamm.Admin(admin_config(args)) as admin:
        admin.alter_user_scram_credentials([change])
    return done(args, output, "set the password of")


def delete(args: argparse.Namespace, output: Output) -> int:
    """Delete a credential."""
    with klamm.Admin(admin_config(args)) as admin:
        if not output.confirmed(args, [f"delete the {args.mechanism} password of user {args.user}"]):
            return 0
        admin.alter_user_scram_credentials([ScramDeletion(args.user, MECHANISMS[args.mechanism])])
    return done(args, output, "deleted the password of")


def done(args: argparse.Namespace, output: Output, what: str) -> int:
    """Print that the password was set or deleted."""
    value = {"user": args.user, "mechanism": args.mechanism}
    return output.result_or_lines(value, f"{what} {args.user} for {args.mechanism}")

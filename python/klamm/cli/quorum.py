"""`klamm quorum`: shows the metadata quorum, and changes its voters, as kafka-metadata-quorum does."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import klamm
from klamm.admin import RaftEndpoint
from klamm.cli.clients import admin_config
from klamm.cli.options import add_common, add_confirmation, natural
from klamm.cli.values import as_json, moment

if TYPE_CHECKING:
    from klamm.cli.options import Commands
    from klamm.cli.output import Output


def add(commands: Commands) -> None:
    """Declare the command and its actions."""
    parser = commands.add_parser(
        "quorum",
        help="show the metadata quorum, and change its voters",
        description="Show the quorum of the metadata log (KRaft, Kafka 3.3), and change its voters (Kafka 3.9).",
    )
    parts = parser.add_subparsers(title="actions", metavar="ACTION", required=True)

    part = parts.add_parser(
        "describe",
        help="print the leader, voters and observers",
        description="Print the leader, the voters and the observers of the metadata log.",
    )
    add_common(
        part,
        describe,
        "print one JSON object, with leader, leader_epoch, high_watermark, voters, observers and controllers",
        controllers=True,
    )

    for name, run, text in (
        ("add-voter", add_voter, "Make a controller a voter."),
        ("remove-voter", remove_voter, "Remove a voter from the quorum."),
    ):
        part = parts.add_parser(name, help=text[0].lower() + text[1:-1], description=text)
        part.add_argument("voter", metavar="ID", type=natural, help="ID of the controller")
        part.add_argument(
            "directory",
            metavar="DIRECTORY",
            help="ID of the controller's metadata directory, as `klamm quorum describe` prints it",
        )
        if name == "add-voter":
            part.add_argument(
                "--endpoint",
                dest="endpoints",
                metavar="NAME://HOST:PORT",
                type=endpoint,
                action="append",
                required=True,
                help="listener of the controller, such as CONTROLLER://host:9093; may be repeated",
            )
        add_confirmation(part)
        add_common(part, run, "print one JSON object, with the voter", controllers=True)


def endpoint(text: str) -> RaftEndpoint:
    """Parse `name://host:port` into a listener."""
    name, sign, address = text.partition("://")
    host, colon, port = address.rpartition(":")
    if not (name and sign and host and colon):
        raise argparse.ArgumentTypeError(f"{text!r} must have the form NAME://HOST:PORT")
    return RaftEndpoint(name, host.strip("[]"), natural(port))


def describe(args: argparse.Namespace, output: Output) -> int:
    """Print the quorum."""
    with klamm.Admin(admin_config(args)) as admin:
        quorum = admin.describe_metadata_quorum()
    if output.json:
        output.result(as_json(quorum))
        return 0
    output.say(f"leader {quorum.leader}, epoch {quorum.leader_epoch}, high watermark {quorum.high_watermark}")
    rows = [
        (
            str(each.id),
            each.directory_id,
            "leader" if each.id == quorum.leader else role,
            each.end_offset,
            max(quorum.high_watermark - each.end_offset, 0),
            moment(each.last_fetch_ms),
            moment(each.last_caught_up_ms),
        )
        for role, replicas in (("voter", quorum.voters), ("observer", quorum.observers))
        for each in replicas
    ]
    output.table(("node", "directory", "role", "end offset", "lag", "last fetch", "last caught up"), rows)
    return 0


def add_voter(args: argparse.Namespace, output: Output) -> int:
    """Add a voter."""
    with klamm.Admin(admin_config(args)) as admin:
        if not output.confirmed(args, [f"make controller {args.voter} a voter"]):
            return 0
        admin.add_raft_voter(args.voter, args.directory, args.endpoints)
    return done(args, output, "added")


def remove_voter(args: argparse.Namespace, output: Output) -> int:
    """Remove a voter."""
    with klamm.Admin(admin_config(args)) as admin:
        if not output.confirmed(args, [f"remove voter {args.voter} from the quorum"]):
            return 0
        admin.remove_raft_voter(args.voter, args.directory)
    return done(args, output, "removed")


def done(args: argparse.Namespace, output: Output, participle: str) -> int:
    """Print that a voter was added or removed."""
    value = {participle: {"voter": args.voter, "directory": args.directory}}
    return output.result_or_lines(value, f"{participle} voter {args.voter}")

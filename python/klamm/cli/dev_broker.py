"""`klamm dev-broker`: runs the dev broker as a program, until Ctrl+C or SIGTERM.

`klamm.testing.DevBroker` implements the broker.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

from klamm.cli.options import add_json, add_repeated, natural, port, positive

if TYPE_CHECKING:
    from klamm.cli.options import Commands
    from klamm.cli.output import Output


def add(commands: Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "dev-broker",
        help="run a small Kafka cluster for development",
        description="Run a small Kafka cluster in this process, for development and tests. The broker prints the addresses of its "
        "nodes and runs until Ctrl+C or SIGTERM.",
    )
    parser.add_argument("--brokers", metavar="N", type=positive, default=1, help="start N nodes (default: 1)")
    parser.add_argument(
        "--first-node", metavar="ID", type=natural, default=1, help="give the first node this ID (default: 1)"
    )
    add_repeated(
        parser, "--config", "config", "NAME=VALUE", "set a property of the brokers' configuration file", parse=_property
    )
    parser.add_argument(
        "--racks", metavar="A,B,...", default="", help="assign these racks to the nodes in turn (default: no racks)"
    )
    parser.add_argument(
        "--partitions", metavar="N", type=positive, default=1, help="give a new topic N partitions (default: 1)"
    )
    parser.add_argument(
        "--no-auto-create", action="store_true", help="do not create a missing topic when a client asks for the topic"
    )
    parser.add_argument(
        "--port",
        metavar="PORT",
        type=port,
        default=0,
        help="use this port for the first node (default: a free port)",
    )
    parser.add_argument(
        "--as-version",
        metavar="VERSION",
        help="emulate an older Kafka: 0.6.1, 0.7.0 to 0.7.2, or 0.8.0 to 4.4 (default: the newest)",
    )
    parser.add_argument(
        "--data-dir", metavar="DIR", help="keep all data in this directory, for the next start (default: memory only)"
    )
    parser.add_argument(
        "--fsync", action="store_true", help="with --data-dir, sync data to disk before the broker sends a response"
    )
    parser.add_argument(
        "--zookeeper", metavar="HOST:PORT", help="register brokers of Kafka 0.7 in this ZooKeeper (default: none)"
    )
    add_repeated(
        parser,
        "--sasl",
        "sasl",
        "MECHANISM[=USER:PASSWORD]",
        "require clients to authenticate: PLAIN=USER:PASSWORD, SCRAM-SHA-256=USER:PASSWORD, "
        "SCRAM-SHA-512=USER:PASSWORD, or OAUTHBEARER, which accepts unsecured tokens",
        parse=_login,
    )
    parser.add_argument(
        "--super-user",
        metavar="NAME",
        action="append",
        help="allow this user everything, and other users only what ACLs allow; a client that does not "
        "authenticate is the user ANONYMOUS; may be repeated",
    )
    parser.add_argument(
        "--tls", action="store_true", help="encrypt connections, with a certificate from a temporary CA"
    )
    parser.add_argument("--client-auth", action="store_true", help="require client certificates; implies --tls")
    parser.add_argument(
        "--schema-registry",
        metavar="PORT",
        type=port,
        help="start a schema registry on this port, 0 for a free port; the registry keeps its schemas in --data-dir",
    )
    add_json(
        parser,
        "print one JSON object, with bootstrap_servers and brokers; --tls adds the files that clients need, and "
        "--schema-registry adds schema.registry.url",
    )
    parser.set_defaults(run=run)


def _login(text: str) -> tuple[str, str | None, str]:
    mechanism, sign, login = text.partition("=")
    user, colon, password = login.partition(":")
    if not mechanism or (sign and not (user and colon and password)):
        raise argparse.ArgumentTypeError("must have the form MECHANISM=USER:PASSWORD")
    return mechanism, user or None, password


def _property(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not name or not sign:
        raise argparse.ArgumentTypeError("must have the form NAME=VALUE")
    return name, value


def _users(logins: list[tuple[str, str | None, str]]) -> dict[Any, dict[str, str]] | None:
    users: dict[Any, dict[str, str]] = {}
    for mechanism, user, password in logins:
        users.setdefault(mechanism, {}).update({} if user is None else {user: password})
    return users or None


def _port(given: int | None) -> bool | int:
    return False if given is None else given or True


def run(args: argparse.Namespace, output: Output) -> int:
    """Run the broker until a signal stops it. Return 0, because a stop by a signal is a success."""
    from klamm.testing import DevBroker

    # Shells start background programs with SIGINT ignored, and this program is often started in the background.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with DevBroker(
            brokers=args.brokers,
            first_node=args.first_node,
            config=dict(args.config) or None,
            racks=[rack for rack in args.racks.split(",") if rack],
            auto_create_topics=not args.no_auto_create,
            default_partitions=args.partitions,
            port=args.port,
            as_version=args.as_version,
            zookeeper=args.zookeeper,
            data_dir=args.data_dir,
            fsync=args.fsync,
            sasl=_users(args.sasl),
            super_users=args.super_user,
            tls=args.tls or args.client_auth,
            client_auth=args.client_auth,
            schema_registry=_port(args.schema_registry),
        ) as broker:
            settings = {"ssl.ca.location": broker.ca_location} if args.tls or args.client_auth else {}
            if args.client_auth:
                settings["ssl.certificate.location"], settings["ssl.key.location"] = broker.client_certificate()
            if args.schema_registry is not None:
                settings["schema.registry.url"] = broker.schema_registry.url
            output.result_or_lines(
                {"bootstrap_servers": broker.bootstrap_servers, "brokers": args.brokers, **settings},
                broker.bootstrap_servers,
                *(f"{key}={path}" for key, path in settings.items()),
            )
            if sys.stderr.isatty():
                print("press Ctrl+C to stop", file=sys.stderr)
            threading.Event().wait()
    except KeyboardInterrupt:
        pass
    return 0

"""`klamm config`: shows the client options that commands use, and checks the connection to a cluster step by step."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any

import klamm
from klamm.cli.clients import client_config
from klamm.cli.config_file import check_file
from klamm.cli.options import add_common
from klamm.cli.output import counted, print_error
from klamm.cli.settings import BROKERS, CONTROLLERS, config_path, effective, read_profiles
from klamm.cli.watch import split_address
from klamm.errors import AuthenticationError, BrokerError, KafkaError, NetworkError

if TYPE_CHECKING:
    import argparse

    from klamm.cli.options import Commands
    from klamm.cli.output import Output

SECRETS = ("password", "secret", "jaas", "key.pem", "keystore.key", "assertion", "token.provider")
"""If the name of an option contains one of these texts, the value of the option is secret."""
STEP_MS = "10000"
CONNECT_SECONDS = 5.0


def add(commands: Commands) -> None:
    """Declare the command and its actions."""
    parser = commands.add_parser(
        "config",
        help="show client options, and check the connection to a cluster",
        description="Show the client options that commands use, and check the connection to a cluster.",
    )
    parts = parser.add_subparsers(title="actions", metavar="ACTION", required=True)

    part = parts.add_parser(
        "check",
        help="connect and say which step fails, or check a configuration file",
        description="Resolve the addresses, connect, encrypt, authenticate, read the metadata, and reach each broker. "
        "Print each step. With FILE, connect to nothing, and say what each option in the file means for a producer, a "
        "consumer and an admin client of klamm. The exit code is 1 if a step fails, or if a client refuses the file.",
    )
    part.add_argument(
        "file",
        metavar="FILE",
        nargs="?",
        help="a configuration of another client: .properties, .toml, .json, or KEY=VALUE lines",
    )
    add_common(part, check, "print one JSON object, with ok and the steps", controllers=True)

    part = parts.add_parser(
        "show",
        help="print the options and where they come from",
        description="Print the client options that commands use, and the source of each option. Secret values are hidden.",
    )
    add_common(part, show, "print one JSON object, with the options and the profiles", controllers=True)


@dataclass(frozen=True)
class Step:
    """The result of one step of `config check`."""

    name: str
    target: str
    ok: bool
    detail: str


def show(args: argparse.Namespace, output: Output) -> int:
    """Print the options."""
    found = effective(args)
    profiles, default = read_profiles()
    rows = [(name, hidden(name, each.value), each.source) for name, each in sorted(found.items())]
    value = {
        "file": str(config_path()),
        "profiles": sorted(profiles),
        "default_profile": default,
        "options": [{"name": name, "value": value, "source": source} for name, value, source in rows],
    }
    return output.result_or_table(value, ("option", "value", "source"), rows)


def hidden(name: str, value: str) -> str:
    """Return the value of an option, or `[hidden]` if the value is secret."""
    return "[hidden]" if any(part in name for part in SECRETS) else value


def check(args: argparse.Namespace, output: Output) -> int:
    """Try each step of a connection, and print the results. With a file, check the file instead."""
    if args.file is not None:
        return check_file(args.file, output, hidden)
    config = client_config(args, default_api_timeout_ms=STEP_MS)
    steps: list[Step] = []
    failure: KafkaError | None = None

    def done(step: Step) -> None:
        steps.append(step)
        if not output.json:
            output.say(f"{'ok    ' if step.ok else 'FAILED'}  {step.name:<12}  {step.target}  {step.detail}".rstrip())

    nodes = config.get(CONTROLLERS) or config[BROKERS]
    with klamm.Admin(config) as admin:  # raises for an invalid option, before the first step
        reached = [try_address(each.strip(), done) for each in nodes.split(",")]
        if any(reached):
            failure = try_cluster(admin, config, done)
    ok = all(step.ok for step in steps if step.name not in ("resolve", "connect")) and any(reached)
    if output.json:
        output.result({"ok": ok, "steps": [vars(step) for step in steps]})
    if failure is not None:
        print_error(failure)
    return 0 if ok else 1


def try_address(address: str, done: Any) -> bool:
    """Resolve a bootstrap address and connect to it; return whether both steps succeeded."""
    host, port = split_address(address)
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        done(Step("resolve", address, ok=False, detail=error.strerror or str(error)))
        return False
    addresses = ", ".join(dict.fromkeys(str(each[4][0]) for each in found))
    done(Step("resolve", address, ok=True, detail=addresses))
    started = monotonic()
    try:
        socket.create_connection((host, port), CONNECT_SECONDS).close()
    except OSError as error:
        why = "no answer" if isinstance(error, TimeoutError) else error.strerror or str(error)
        done(Step("connect", address, ok=False, detail=why))
        return False
    done(Step("connect", address, ok=True, detail=f"{(monotonic() - started) * 1000:.1f} ms"))
    return True


def try_cluster(admin: klamm.Admin, config: dict[str, str], done: Any) -> KafkaError | None:
    """Read the metadata from a bootstrap server, and connect to each broker in the metadata. Return the last error."""
    protocol = config.get("security.protocol", "PLAINTEXT")
    login = f"{protocol} {config.get('sasl.mechanism', '')}".strip()
    try:
        cluster = admin.describe_cluster()
    except KafkaError as error:
        done(Step(failed_step(error), login, ok=False, detail=error.message))
        return error
    if "SSL" in protocol:
        done(Step("tls", login, ok=True, detail=""))
    if "SASL" in protocol:
        done(Step("authenticate", login, ok=True, detail=""))
    brokers = counted(len(cluster.brokers), "broker")
    done(Step("metadata", f"cluster {cluster.cluster_id or '-'}", ok=True, detail=brokers))
    failure = None
    for node in cluster.brokers:
        where = f"{node.host}:{node.port}"
        try:
            admin.api_versions([node.id])
        except KafkaError as error:
            done(Step(f"broker {node.id}", where, ok=False, detail=error.message))
            failure = error
        else:
            done(Step(f"broker {node.id}", where, ok=True, detail=""))
    return failure


def failed_step(error: KafkaError) -> str:
    """Return the name of the step that failed, according to the error of the first request."""
    text = error.message.lower()
    if isinstance(error, AuthenticationError) or "sasl" in text or "authentication" in text:
        return "tls" if ("tls" in text or "certificate" in text) and "sasl" not in text else "authenticate"
    if "tls" in text or "certificate" in text or "handshake" in text:
        return "tls"
    if isinstance(error, NetworkError):
        return "negotiate"
    return "metadata" if isinstance(error, BrokerError) else "negotiate"

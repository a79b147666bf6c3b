"""`klamm tokens`: creates, lists, renews and revokes delegation tokens (KIP-48)."""

from __future__ import annotations

import argparse
import base64
import binascii
import sys
from typing import TYPE_CHECKING, Any

import klamm
from klamm.cli.clients import admin_config
from klamm.cli.options import add_common, add_confirmation, add_repeated, duration
from klamm.cli.values import moment, words

if TYPE_CHECKING:
    from klamm.admin import DelegationToken
    from klamm.cli.options import Commands
    from klamm.cli.output import Output


def add(commands: Commands) -> None:
    """Declare the command and its actions."""
    parser = commands.add_parser(
        "tokens",
        help="create, list, renew and revoke delegation tokens",
        description="Create, list, renew and revoke delegation tokens (Kafka 1.1).",
    )
    parts = parser.add_subparsers(title="actions", metavar="ACTION", required=True)

    part = parts.add_parser(
        "create", help="create a token", description="Create a token, and print its ID and HMAC. The HMAC is a secret."
    )
    add_repeated(part, "--renewer", "renewers", "TYPE:NAME", "allow this principal to renew the token")
    part.add_argument(
        "--owner",
        metavar="TYPE:NAME",
        help="principal whose rights the token gets (Kafka 3.3; default: the authenticated user)",
    )
    part.add_argument(
        "--max-lifetime",
        metavar="DURATION",
        type=duration,
        default=-1,
        help="allow renewals of the token for this time, such as 7d (default: the limit of the brokers)",
    )
    add_common(part, create, "print one JSON object, with the token and its hmac")

    part = parts.add_parser(
        "list", help="print tokens", description="Print the tokens that the user may see, without their secrets."
    )
    part.add_argument(
        "--owner",
        dest="owners",
        metavar="TYPE:NAME",
        action="append",
        help="print only tokens of this principal; may be repeated",
    )
    add_common(part, list_tokens, "print one JSON object, with the tokens")

    for name, run, text in (
        ("renew", renew, "Renew a token, so that it expires later."),
        ("expire", expire, "Let a token expire after some time, or revoke it now."),
    ):
        part = parts.add_parser(name, help=text[0].lower() + text[1:-1], description=text)
        part.add_argument(
            "hmac", metavar="HMAC", type=base64_hmac, help="HMAC of the token in base64; - reads it from standard input"
        )
        other = "the default of the brokers" if name == "renew" else "now"
        part.add_argument(
            "--period",
            metavar="DURATION",
            type=duration,
            default=-1,
            help=f"let the token expire after this time, counted from now, such as 24h (default: {other})",
        )
        if name == "expire":
            add_confirmation(part)
        add_common(part, run, "print one JSON object, with expires_ms")


def base64_hmac(text: str) -> bytes:
    """Parse an HMAC in base64. For `-`, read the HMAC from standard input."""
    text = sys.stdin.readline().strip() if text == "-" else text
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise argparse.ArgumentTypeError(
            "the HMAC is not base64; copy the HMAC from the output of `klamm tokens create`"
        ) from None


def fields(token: DelegationToken) -> dict[str, Any]:
    """Return a token as a dict for JSON, without the HMAC, which is secret."""
    return {
        "token_id": token.token_id,
        "owner": token.owner,
        "requester": token.requester,
        "renewers": token.renewers,
        "issued_ms": token.issued_ms,
        "expires_ms": token.expires_ms,
        "max_ms": token.max_ms,
    }


def create(args: argparse.Namespace, output: Output) -> int:
    """Create a token."""
    with klamm.Admin(admin_config(args)) as admin:
        token = admin.create_delegation_token(args.renewers, owner=args.owner, max_lifetime_ms=args.max_lifetime)
    hmac = base64.b64encode(token.hmac).decode()
    return output.result_or_table(
        {**fields(token), "hmac": hmac},
        ("token id", "hmac", "expires", "last renewal"),
        [(token.token_id, hmac, moment(token.expires_ms), moment(token.max_ms))],
    )


def list_tokens(args: argparse.Namespace, output: Output) -> int:
    """Print tokens."""
    with klamm.Admin(admin_config(args)) as admin:
        tokens = admin.describe_delegation_tokens(args.owners)
    return output.result_or_table(
        {"tokens": [fields(token) for token in tokens]},
        ("token id", "owner", "requester", "renewers", "issued", "expires", "last renewal"),
        [
            (
                token.token_id,
                token.owner,
                token.requester or None,
                words(token.renewers),
                moment(token.issued_ms),
                moment(token.expires_ms),
                moment(token.max_ms),
            )
            for token in tokens
        ],
    )


def renew(args: argparse.Namespace, output: Output) -> int:
    """Renew a token."""
    with klamm.Admin(admin_config(args)) as admin:
        return expires(admin.renew_delegation_token(args.hmac, renew_period_ms=args.period), output)


def expire(args: argparse.Namespace, output: Output) -> int:
    """Let a token expire."""
    with klamm.Admin(admin_config(args)) as admin:
        if not output.confirmed(
            args, ["revoke the token" if args.period < 0 else f"let the token expire in {args.period:,} ms"]
        ):
            return 0
        return expires(admin.expire_delegation_token(args.hmac, expiry_period_ms=args.period), output)


def expires(time: int, output: Output) -> int:
    """Print when a token expires."""
    return output.result_or_lines({"expires_ms": time}, f"the token expires at {moment(time)}")

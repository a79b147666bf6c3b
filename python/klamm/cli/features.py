"""`klamm features`: shows and changes the versions of features, as kafka-features does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import klamm
from klamm.admin import FeatureUpdate
from klamm.cli.clients import admin_config
from klamm.cli.options import add_common, add_confirmation, natural, pair

if TYPE_CHECKING:
    import argparse

    from klamm.cli.options import Commands
    from klamm.cli.output import Output


def add(commands: Commands) -> None:
    """Declare the command and its actions."""
    parser = commands.add_parser(
        "features",
        help="show and change the versions of features",
        description="Show and change the versions of features that the cluster uses (Kafka 2.7).",
    )
    parts = parser.add_subparsers(title="actions", metavar="ACTION", required=True)

    part = parts.add_parser(
        "describe",
        help="print features",
        description="Print the version of each feature that the cluster uses, and the versions that the cluster supports.",
    )
    add_common(part, describe, "print one JSON object, with epoch and features", controllers=True)

    for name, text in (
        ("upgrade", "Change features to newer versions."),
        ("downgrade", "Change features to older versions. Version 0 disables a feature."),
    ):
        part = parts.add_parser(name, help=text.partition(".")[0].lower(), description=text)
        part.add_argument(
            "features", metavar="FEATURE=VERSION", type=feature, nargs="+", help="features and their new versions"
        )
        if name == "downgrade":
            part.add_argument("--unsafe", action="store_true", help="accept that the downgrade loses metadata")
        add_confirmation(part)
        part.set_defaults(direction=name)
        add_common(part, change, "print one JSON object, with the features", controllers=True)


def feature(text: str) -> tuple[str, int]:
    """Parse `name=version` into a name and a number."""
    name, version = pair(text)
    return name, natural(version)


def describe(args: argparse.Namespace, output: Output) -> int:
    """Print features."""
    with klamm.Admin(admin_config(args)) as admin:
        features = admin.describe_features()
    listed = [
        {
            "name": name,
            "finalized": features.finalized[name].max if name in features.finalized else None,
            "supported_min": features.supported[name].min if name in features.supported else None,
            "supported_max": features.supported[name].max if name in features.supported else None,
        }
        for name in sorted(features.finalized | features.supported)
    ]
    columns = ("feature", "finalized", "supported min", "supported max")
    value = {"epoch": features.epoch, "features": listed}
    return output.result_or_table(value, columns, [tuple(each.values()) for each in listed])


def change(args: argparse.Namespace, output: Output) -> int:
    """Change features."""
    kind: Literal["upgrade", "safe_downgrade", "unsafe_downgrade"] = "upgrade"
    if args.direction == "downgrade":
        kind = "unsafe_downgrade" if args.unsafe else "safe_downgrade"
    levels = dict(args.features)
    updates = {name: FeatureUpdate(version, kind) for name, version in levels.items()}
    lines = [f"{args.direction} {name} to {version}" for name, version in levels.items()]
    with klamm.Admin(admin_config(args)) as admin:
        if args.dry_run:
            admin.update_features(updates, validate_only=True)
        if not output.confirmed(args, lines):
            return 0
        admin.update_features(updates)
    return output.result_or_lines(
        {"features": levels}, *(f"{name} is now {version}" for name, version in levels.items())
    )

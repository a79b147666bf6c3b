"""`klamm config check FILE`: says what each option in a configuration file means for each client of klamm."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import klamm
from klamm.cli.settings import BROKERS, DEFAULT_BOOTSTRAP, known_names, read_file
from klamm.config import verdict
from klamm.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from klamm.cli.output import Output
    from klamm.cli.settings import Setting
    from klamm.config import Verdict

CLIENTS = {"producer": klamm.Producer, "consumer": klamm.Consumer, "admin": klamm.Admin}
WORDS = {"key": "ok", "ignored": "ignored", "rejected": "refused", "unknown": "unknown"}


def check_file(path: str, output: Output, hidden: Callable[[str, str], str]) -> int:
    """Print the verdict about each option for each client. Return 1 if a client refuses the file.

    Args:
        path: File of Java properties, TOML, JSON, or KEY=VALUE lines.
        output: Output of the command.
        hidden: Function of name and value that returns the value, or a text in its place if the value is secret.
    """
    settings = list(read_file(Path(path)))
    found = [(each, {client: verdict(client, each.name, each.value) for client in CLIENTS}) for each in settings]
    wrong = {client: error for client in CLIENTS if (error := problem(client, found)) is not None}
    value = {
        "file": path,
        "ok": not wrong,
        "options": [
            {
                "name": each.name,
                "value": hidden(each.name, each.value),
                **{client: {"verdict": WORDS[of.kind], "why": of.text} for client, of in verdicts.items()},
            }
            for each, verdicts in found
        ],
        "errors": {client: str(error) for client, error in wrong.items()},
    }
    rows = [
        (
            each.name,
            hidden(each.name, each.value),
            *(WORDS[of.kind] for of in verdicts.values()),
            remark(each, verdicts),
        )
        for each, verdicts in found
    ]
    output.result_or_table(value, ("option", "value", *CLIENTS, "remark"), rows)
    if not output.json:
        for client, error in wrong.items():
            output.say(f"FAILED  {client}: {error}")
    return 1 if wrong else 0


def remark(setting: Setting, verdicts: Mapping[str, Verdict]) -> str:
    """Return why a client does not use an option, or klamm's name of the option."""
    other = next((of.text for of in verdicts.values() if of.kind in {"rejected", "unknown"}), None)
    if other is not None:
        return other
    own = known_names().get(setting.name)
    if own is None:
        return next(of.text for of in verdicts.values())
    return "" if own == setting.name else f"klamm's name is {own}"


def problem(client: str, found: Iterable[tuple[Setting, Mapping[str, Verdict]]]) -> ConfigError | None:
    """Return why a client refuses the options, or None. Does not connect to a broker."""
    options = {each.name: each.value for each, verdicts in found if verdicts[client].kind != "ignored"}
    if not any(known_names().get(name) == BROKERS for name in options):
        options[BROKERS] = DEFAULT_BOOTSTRAP
    try:
        CLIENTS[client](options).close()
    except ConfigError as error:
        return error
    return None

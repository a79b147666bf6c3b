"""Reads client options from profiles, environment variables and files, and merges them with the command line's options.

The layers are, in this order: the default profile, the environment, the profile of `--profile`, files of `-F`,
`--bootstrap`, and `-X`. A later layer overrides an earlier layer. All layers except `-X` apply to all clients, so each
client takes only the options that it supports.
"""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from klamm.cli.color import print_warning
from klamm.cli.output import UsageError
from klamm.config import options, verdict

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping

ALL_CLIENTS = frozenset({"producer", "consumer", "share consumer", "admin"})
ENVIRONMENT = "KLAMM_"
DEFAULT_BOOTSTRAP = "localhost:9092"
BROKERS = "bootstrap.servers"
CONTROLLERS = "bootstrap.controllers"
GROUP_KEYS = {"group.id", "group.instance.id"}
"""Keys that a command does not take from profiles, files or the environment.

If a profile could set the group, a command could commit offsets for a group that the user did not name.
"""


@dataclass(frozen=True)
class Setting:
    """A client option, its value, and where the value comes from."""

    name: str
    value: str
    source: str


def config_path() -> Path:
    """Return the path of the file with profiles: $KLAMM_CONFIG_FILE, or `klamm/config.toml` in the user's folder."""
    given = os.environ.get(ENVIRONMENT + "CONFIG_FILE")
    if given:
        return Path(given)
    if os.name == "nt":
        return Path(os.environ.get("APPDATA") or Path.home() / "AppData" / "Roaming") / "klamm" / "config.toml"
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "klamm" / "config.toml"


def layers(args: argparse.Namespace) -> Iterator[Setting]:
    """Yield the options of all layers except `-X`, in the order of the layers."""
    name = args.profile or os.environ.get(ENVIRONMENT + "PROFILE")
    profiles, default = read_profiles()
    if name is None and default is not None:
        yield from profile(profiles, default)
    yield from environment(os.environ)
    if name is not None:
        yield from profile(profiles, name)
    for path in args.config_file:
        yield from read_file(Path(path))
    if args.bootstrap is not None:
        yield Setting(BROKERS, args.bootstrap, "--bootstrap")
    controllers = getattr(args, "bootstrap_controllers", None)
    if controllers is not None:
        yield Setting(CONTROLLERS, controllers, "--bootstrap-controllers")


def effective(args: argparse.Namespace) -> dict[str, Setting]:
    """Return the options of all layers by Kafka's name, each with its source."""
    settings = {BROKERS: Setting(BROKERS, DEFAULT_BOOTSTRAP, "default")}
    for each in layers(args):
        add(settings, known_names().get(each.name, each.name), each)
    for name, value in args.config:
        add(settings, known_names().get(name, name), Setting(name, value, "-X"))
    return settings


def add(found: dict[str, Setting], name: str, setting: Setting) -> None:
    """Add an option. `bootstrap.servers` removes the `bootstrap.controllers` of an earlier layer, and vice versa."""
    other = {BROKERS: CONTROLLERS, CONTROLLERS: BROKERS}.get(name, "")
    if other in found and layer(found[other]) != layer(setting):
        del found[other]
    found[name] = setting


def layer(setting: Setting) -> str:
    """Return the name of the layer of an option. All environment variables are one layer."""
    return "$" if setting.source.startswith("$") else setting.source


def defaults(args: argparse.Namespace, client: str) -> dict[str, str]:
    """Return the options that the client has, from all layers except `-X`.

    If `client` is empty, return the options that every client has, and `bootstrap.controllers`.
    """
    has = {option.name: frozenset(option.clients) for option in options()}
    clients = frozenset({client}) if client else ALL_CLIENTS
    settings = {BROKERS: Setting(BROKERS, DEFAULT_BOOTSTRAP, "default")}
    for each in layers(args):
        name = known_names().get(each.name)
        if name is None:
            unknown(each)
        elif name == CONTROLLERS or (name not in GROUP_KEYS and clients <= has[name]):
            add(settings, name, each)
    controllers = settings.pop(CONTROLLERS, None) if client else None
    if controllers is not None and BROKERS not in settings:
        raise UsageError(f"{controllers.source} has {CONTROLLERS}, but this command needs brokers", "pass --bootstrap")
    return {name: each.value for name, each in settings.items()}


def known_names() -> dict[str, str]:
    """Return a dict that maps every name and alias of an option to Kafka's name of the option."""
    if not NAMES:
        NAMES.update({alias: option.name for option in options() for alias in (option.name, *option.aliases)})
    return NAMES


def unknown(setting: Setting) -> None:
    """Print a warning about an option that klamm does not have. Raise an error if the option is about security."""
    verdicts = [verdict(client, setting.name, setting.value) for client in sorted(ALL_CLIENTS)]
    refusals = [found for found in verdicts if found.kind != "ignored"]
    if not refusals:
        return
    hint = next((found.text for found in refusals if found.text), None)
    message = f"{setting.source}: unknown option {setting.name}"
    if setting.name.startswith(("ssl.", "sasl.", "security.", "enable.ssl")):
        raise UsageError(message, hint)
    if setting not in WARNED:
        WARNED.add(setting)
        print_warning(f"{message} is ignored" + (f"; {hint}" if hint else ""))


def environment(variables: Mapping[str, str]) -> Iterator[Setting]:
    """Yield the options that environment variables set, such as `bootstrap.servers` from KLAMM_BOOTSTRAP_SERVERS."""
    for name in known_names():
        variable = ENVIRONMENT + name.upper().replace(".", "_")
        if variable in variables:
            yield Setting(name, variables[variable], f"${variable}")


def read_profiles() -> tuple[dict[str, dict[str, str]], str | None]:
    """Return the profiles by name, and the name of the default profile."""
    path = config_path()
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return {}, None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}: {error}") from None
    tables = parsed(path, text)
    unknown_keys = [key for key in tables if key not in ("default", "profiles")]
    profiles = tables.get("profiles", {})
    if unknown_keys or not (isinstance(profiles, dict) and all(isinstance(each, dict) for each in profiles.values())):
        problem = f"unknown key {unknown_keys[0]}" if unknown_keys else "profiles is not a table of tables"
        raise UsageError(
            f"{path}: {problem}", "a profile is a table [profiles.NAME]; the key default names one profile"
        )
    return {name: flat(path, table) for name, table in profiles.items()}, tables.get("default")


def parsed(path: Path, text: str) -> dict[str, Any]:
    """Return the tables of a TOML file."""
    toml = toml_parser()
    try:
        return toml.loads(text)  # type: ignore[no-any-return]
    except toml.TOMLDecodeError as error:
        raise UsageError(f"{path} is not valid TOML: {error}") from None


def toml_parser() -> Any:
    """Return the module that reads TOML: `tomllib` of the standard library, or the package `tomli` on Python 3.10."""
    for name in ("tomllib", "tomli"):
        with suppress(ModuleNotFoundError):
            return import_module(name)
    raise UsageError("profiles need the package tomli on Python 3.10", "run: pip install 'klamm[cli]'")


def flat(path: Path, table: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Turn nested tables into one table with dotted keys. TOML reads `sasl.mechanism = …` as a table in a table."""
    found: dict[str, str] = {}
    for key, value in table.items():
        if isinstance(value, dict):
            found |= flat(path, value, f"{prefix}{key}.")
        elif isinstance(value, bool):
            found[prefix + key] = str(value).lower()
        elif isinstance(value, list):
            found[prefix + key] = ",".join(map(str, value))
        elif isinstance(value, (str, int, float)):
            found[prefix + key] = str(value)
        else:
            raise UsageError(f"{path}: {prefix}{key} cannot be {value}", "use a string, a number or a boolean")
    return found


def profile(profiles: Mapping[str, Mapping[str, str]], name: str) -> Iterator[Setting]:
    """Yield the options of a profile."""
    if name not in profiles:
        close = get_close_matches(name, list(profiles), 1)
        suggestion = f"did you mean {close[0]}?" if close else f"add a table [profiles.{name}] to the file"
        raise UsageError(f"{config_path()} has no profile {name!r}", suggestion)
    for key, value in profiles[name].items():
        yield Setting(key, value, f"profile {name}")


def read_file(path: Path) -> Iterator[Setting]:
    """Yield the options in a file. The end of its name says the format."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UsageError(f"cannot read {path}: {why}", "pass a file with client options to -F") from None
    if path.suffix == ".toml":
        pairs = iter(flat(path, parsed(path, text)).items())
    elif path.suffix == ".json":
        pairs = iter(json_options(path, text).items())
    else:
        pairs = java_properties(text) if path.suffix == ".properties" else plain_lines(path, text)
    for name, value in pairs:
        yield Setting(name, value, str(path))


def json_options(path: Path, text: str) -> dict[str, str]:
    """Return the options in a JSON object, with nested objects as dotted keys."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise UsageError(f"{path} is not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise UsageError(f"{path} must have one JSON object with the options")
    return flat(path, value)


def plain_lines(path: Path, text: str) -> Iterator[tuple[str, str]]:
    """Yield `key=value` lines as librdkafka's tools read them: without escapes and without comments after values."""
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        key, sign, value = stripped.partition("=")
        if not (sign and key.strip()):
            raise UsageError(f"{path}:{number}: {stripped!r} must have the form KEY=VALUE")
        yield key.strip().removeprefix("topic."), value.strip()


def java_properties(text: str) -> Iterator[tuple[str, str]]:
    r"""Yield the keys and values of a Java properties file.

    As in `java.util.Properties`, a line can continue on the next line and have escapes. A key ends at the first `=`,
    `:` or white space without a backslash before it.
    """
    for line in logical_lines(text):
        match = KEY.match(line)
        if match is not None:
            yield unescaped(match["key"]), unescaped(line[match.end() :])


def logical_lines(text: str) -> Iterator[str]:
    """Yield lines without comments. A line that ends in an unescaped backslash is joined with the next line."""
    joined = ""
    for line in re.split(r"\r\n|\r|\n", text):
        part = line.lstrip(" \t\f")
        if not joined and (not part or part[0] in "#!"):
            continue
        backslashes = len(part) - len(part.rstrip("\\"))
        if backslashes % 2:
            joined += part[:-1]
            continue
        yield joined + part
        joined = ""
    if joined:
        yield joined


def unescaped(text: str) -> str:
    """Replace the escapes in a key or value of a properties file."""
    return ESCAPE.sub(lambda match: chr(int(match[1], 16)) if match[1] else ESCAPES.get(match[2], match[2]), text)


NAMES: dict[str, str] = {}
WARNED: set[Setting] = set()
KEY = re.compile(r"(?P<key>(?:\\.|[^\\=: \t\f])*)[ \t\f]*(?:[=:][ \t\f]*)?", re.DOTALL)
ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}

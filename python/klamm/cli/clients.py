"""Builds the configuration of a command's clients, and closes the clients."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Protocol, TypeVar

from klamm.cli.settings import BROKERS, CONTROLLERS, defaults, known_names
from klamm.config import options

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

CLOSE_SECONDS = 0.5
"""Timeout for closing a client after an error or Ctrl+C, so that the command ends within a second."""

TERMINATION_SECONDS = 5
"""Timeout for closing a client after SIGTERM. Programs that stop others, such as Docker, wait ten seconds or longer before
SIGKILL."""

ADMIN_TIMEOUT_MS = "15000"
"""Timeout of administrative commands. The default of one minute is too long for a person who waits at a terminal."""


class Client(Protocol):
    """A producer or a consumer."""

    def close(self, timeout: float | None = None) -> None:
        """Close the client. `None` waits without limit for unfinished work, such as unsent records."""


C = TypeVar("C", bound=Client)


def client_config(args: argparse.Namespace, client: str = "", /, **settings: str | None) -> dict[str, str]:
    """Return the configuration of a client.

    The command's own settings override options of profiles, files and the environment. Options of `-X` override all
    other options.

    Args:
        args: The arguments of the command.
        client: The client that gets the configuration, such as "producer". By default, profiles, files and the
            environment set only the options that all clients have.
        **settings: The command's own settings, with `_` for dots.
    """
    config = defaults(args, client)
    config.update({name.replace("_", "."): value for name, value in settings.items() if value is not None})
    given = {known_names().get(name, name) for name, _ in args.config}
    if CONTROLLERS in given:
        config.pop(BROKERS, None)
    if BROKERS in given:
        config.pop(CONTROLLERS, None)
    config.update(args.config)
    return config


def admin_config(args: argparse.Namespace) -> dict[str, str]:
    """Return the configuration of the admin client of an administrative command."""
    return client_config(args, default_api_timeout_ms=ADMIN_TIMEOUT_MS)


def side_config(args: argparse.Namespace) -> dict[str, str]:
    """Return the configuration of an admin client, for a command whose `-X` options are for a different client.

    The configuration contains only options that admin clients support.
    """
    config = client_config(args, default_api_timeout_ms=ADMIN_TIMEOUT_MS)
    shared = {name for option in options() if "admin" in option.clients for name in (option.name, *option.aliases)}
    return {name: value for name, value in config.items() if name in shared or name.replace("_", ".") in shared}


@contextmanager
def closing(client: C) -> Iterator[C]:
    """Close a client at the end of the block. After an error, close the client quickly and ignore further errors."""
    try:
        yield client
    except BaseException as error:
        with suppress(Exception):
            client.close(timeout=TERMINATION_SECONDS if isinstance(error, SystemExit) else CLOSE_SECONDS)
        raise
    client.close()

"""How commands configure clients, and how they leave them."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

CLOSE_SECONDS = 0.5
"""What an interrupted client gets for what is under way: Ctrl+C ends a command within a second."""


ADMIN_TIMEOUT_MS = "15000"
"""How long a command about topics or groups tries; a program has a minute, but somebody at a terminal watches."""


class Client(Protocol):
    """A producer or a consumer."""

    def close(self, timeout: float | None = None) -> None:
        """Close it; `None` waits for all that is under way."""


C = TypeVar("C", bound=Client)


def client_config(args: argparse.Namespace, **settings: str | None) -> dict[str, str]:
    """Build a configuration: the command's own settings (dots as `_`), then `-X`, which wins."""
    config = {"bootstrap.servers": str(args.bootstrap)}
    config.update({name.replace("_", "."): value for name, value in settings.items() if value is not None})
    config.update(args.config)
    return config


def admin_config(args: argparse.Namespace) -> dict[str, str]:
    """Build the configuration of a command about topics or groups."""
    return client_config(args, default_api_timeout_ms=ADMIN_TIMEOUT_MS)


@contextmanager
def closing(client: C) -> Iterator[C]:
    """Close a client at the end; soon after a failure, which is reported before anything that closing finds."""
    try:
        yield client
    except BaseException:
        with suppress(Exception):
            client.close(timeout=CLOSE_SECONDS)
        raise
    client.close()

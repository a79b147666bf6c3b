"""Logs a warning if a client sends a secret over the network without encryption.

Connections to this computer need no encryption. The functions log host names, but never the secret.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterable

WARNING = 30  # of `logging`, which a client's logger need not use


def warn_about_brokers(logger: Any, secret: str, servers: str) -> None:
    """Log a warning if one of the addresses `host:port,host:port` is not on this computer."""
    hosts = (urlsplit(f"//{server.strip().rpartition('://')[2]}").hostname for server in servers.split(",") if server)
    _warn(logger, secret, hosts, "set security.protocol to SASL_SSL")


def warn_about_urls(logger: Any, secret: str, urls: Iterable[str]) -> None:
    """Log a warning if one of the URLs has the scheme `http` and is not on this computer."""
    parts = [urlsplit(url) for url in urls]
    _warn(logger, secret, (part.hostname for part in parts if part.scheme == "http"), "use an https:// URL")


def _warn(logger: Any, secret: str, hosts: Iterable[str | None], hint: str) -> None:
    exposed = next((host for host in hosts if not is_loopback(host or "")), None)
    if exposed is not None:
        logger.log(WARNING, "the client sends the %s to %s without encryption; hint: %s", secret, exposed, hint)


def is_loopback(host: str) -> bool:
    """Return whether a host name or IP address always means this computer."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host.rstrip(".").rpartition(".")[2] == "localhost"
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback

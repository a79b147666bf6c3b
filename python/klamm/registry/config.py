"""The configuration of a registry client. The keys have the names that Confluent's clients use.

This file checks the configuration and turns it into `Settings`, which `klamm.registry.http` uses. `repr()` and error
messages do not contain secrets.
"""

from __future__ import annotations

import logging
import os
import ssl
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypedDict
from urllib.parse import unquote, urlsplit

from klamm.arguments import check_function
from klamm.cleartext import warn_about_urls
from klamm.errors import ArgumentError, ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeAlias

    from klamm.tokens import TokenProvider

__all__ = ["RegistryConfig", "RegistryUrl", "Settings"]

RegistryUrl: TypeAlias = "str | Sequence[str] | Mapping[str, Any]"
"""One address, several addresses (separated by commas or in a list), or a dict of Confluent's dotted keys."""


class RegistryConfig(TypedDict, total=False):
    """The configuration keys of a registry client, in snake_case. docs/registry.md describes these keys."""

    basic_auth_credentials_source: str
    basic_auth_user_info: str
    bearer_auth_client_id: str
    bearer_auth_client_secret: str
    bearer_auth_credentials_source: str
    bearer_auth_identity_pool_id: str
    bearer_auth_issuer_endpoint_url: str
    bearer_auth_logical_cluster: str
    bearer_auth_scope: str
    bearer_auth_token: str
    bearer_auth_token_provider: TokenProvider
    cache_capacity: int
    cache_latest_ttl_sec: float
    max_retries: int
    proxy: str
    retries_max_wait_ms: int
    retries_wait_ms: int
    rules: str
    ssl_ca_location: str
    ssl_certificate_location: str
    ssl_key_location: str
    ssl_key_password: str
    timeout: float


_log = logging.getLogger("klamm.registry")

KEYS = {key.replace("_", "."): key for key in RegistryConfig.__annotations__}

_NUMBERS = {
    "cache.capacity": (1000, 1),
    "cache.latest.ttl.sec": (None, 0),
    "max.retries": (3, 0),
    "retries.max.wait.ms": (20_000, 0),
    "retries.wait.ms": (1000, 0),
    "timeout": (30, 0.001),
}
"""Default value and minimum of each key whose value is a number."""

_SOURCES = {
    "STATIC_TOKEN": ("bearer.auth.token",),
    "OAUTHBEARER": ("bearer.auth.issuer.endpoint.url", "bearer.auth.client.id", "bearer.auth.client.secret"),
    "CUSTOM": ("bearer.auth.token.provider",),
}
"""The keys that each value of `bearer.auth.credentials.source` requires."""


@dataclass(frozen=True)
class Settings:
    """A checked configuration.

    Attributes:
        urls: Addresses without credentials and without a slash at the end.
        headers: Headers of every request.
        token: Configuration of the token endpoint, or None.
        token_provider: Function that returns a token, or None.
        ignores_rules: Whether values of schemas with rules are written and read without their rules.
        verify: Argument for the HTTP library: an SSL context, or True for the CA certificates of the system.
    """

    urls: tuple[str, ...]
    headers: Mapping[str, str] = field(repr=False)
    token: Mapping[str, str] | None = field(repr=False)
    token_provider: Callable[[], Any] | None = field(repr=False)
    verify: ssl.SSLContext | bool
    proxy: str | None = field(repr=False)
    timeout: float
    max_retries: int
    retries_wait: float
    retries_max_wait: float
    cache_capacity: int
    cache_latest_ttl: float | None
    ignores_rules: bool

    @classmethod
    def of(cls, url: RegistryUrl | None, named: Mapping[str, Any]) -> Settings:
        """Check the arguments of a client, and return the settings for the client."""
        config = _flat(url, named)
        numbers = {key: _number(key, config.get(key, default), least) for key, (default, least) in _NUMBERS.items()}
        urls, login = _urls(config.pop("url", None))
        headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        token, provider = _credentials(config, login, headers)
        if token is not None:
            warn_about_urls(_log, "client secret", [token["url"]])
        if token is not None or provider is not None or "Authorization" in headers:
            warn_about_urls(_log, "password" if headers.get("Authorization", "").startswith("Basic") else "token", urls)
        return cls(
            urls=urls,
            headers=headers,
            token=token,
            token_provider=provider,
            verify=_tls(config),
            proxy=config.get("proxy"),
            timeout=numbers["timeout"] or 0,
            max_retries=int(numbers["max.retries"] or 0),
            retries_wait=(numbers["retries.wait.ms"] or 0) / 1000,
            retries_max_wait=(numbers["retries.max.wait.ms"] or 0) / 1000,
            cache_capacity=int(numbers["cache.capacity"] or 0),
            cache_latest_ttl=numbers["cache.latest.ttl.sec"],
            ignores_rules=_ignores_rules(config.get("rules", "refuse")),
        )


def _flat(url: RegistryUrl | None, named: Mapping[str, Any]) -> dict[str, Any]:
    """Return all keys in their dotted form, without the prefix `schema.registry.` of Java's serializers."""
    config: dict[str, Any] = {}
    given = url if isinstance(url, Mapping) else {} if url is None else {"url": url}
    snake = {name: dotted for dotted, name in KEYS.items()}
    for name, value in (*given.items(), *named.items()):
        if not isinstance(name, str):
            raise ArgumentError(f"configuration keys have to be strings, not {type(name).__name__}")
        key = snake.get(name, name).removeprefix("schema.registry.")
        if key not in KEYS and key != "url":
            close = [known for known in ("url", *KEYS) if known.replace(".", "") == key.replace("_", "").lower()]
            raise ConfigError(
                f"unknown configuration key of the schema registry: {name}",
                hint=f"did you mean {close[0]}?" if close else "docs/registry.md lists the keys",
            )
        if key not in _NUMBERS and key not in ("bearer.auth.token.provider", "url") and not isinstance(value, str):
            raise ArgumentError(f"{key} has to be a str, not {type(value).__name__}")
        config[key] = value
    return config


def _number(key: str, value: Any, least: float) -> float | None:
    if value is None and key == "cache.latest.ttl.sec":
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ArgumentError(f"{key} has to be a number, not {type(value).__name__}") from None
    if key == "cache.latest.ttl.sec" and number < 0:
        return None  # in Java's clients, -1 means no limit
    if not least <= number < float("inf"):
        raise ConfigError(f"{key} cannot be {value!r}", hint=f"the minimum is {least}")
    return number


def _ignores_rules(given: str) -> bool:
    if given not in ("refuse", "ignore"):
        raise ConfigError(f"rules cannot be {given!r}", hint="allowed: refuse, ignore")
    return given == "ignore"


def _urls(given: Any) -> tuple[tuple[str, ...], str | None]:
    """Return the addresses without credentials, and the first `user:password` that an address contains, or None."""
    parts = given.split(",") if isinstance(given, str) else given
    if parts is None or not isinstance(parts, (list, tuple)) or not all(isinstance(part, str) for part in parts):
        raise ArgumentError(
            f"url has to be a str or a list of str, not {type(given).__name__}", hint='pass "http://localhost:8081"'
        )
    urls: list[str] = []
    login = None
    for number, part in enumerate(parts, 1):
        try:
            split = urlsplit(part.strip())
            port = "" if split.port is None else f":{split.port}"
        except ValueError:
            split, port = urlsplit(""), ""
        if split.scheme not in ("http", "https") or not split.hostname or split.query or split.fragment:
            # The message does not show the address, because it can contain a password.
            raise ConfigError(
                f"address {number} in url is not the address of a schema registry",
                hint="the form is http://host:port or https://host:port/path",
            )
        if split.username is not None:
            login = login or f"{unquote(split.username)}:{unquote(split.password or '')}"
        host = f"[{split.hostname}]" if ":" in split.hostname else split.hostname
        urls.append(f"{split.scheme}://{host}{port}{split.path.rstrip('/')}")
    if not urls:
        raise ConfigError("url has no address", hint='pass "http://localhost:8081"')
    return tuple(urls), login


def _credentials(
    config: Mapping[str, Any], login: str | None, headers: dict[str, str]
) -> tuple[Mapping[str, str] | None, Callable[[], Any] | None]:
    """Add headers with credentials to `headers`. Return the configuration of the token endpoint, and the token provider."""
    login = _basic(config, login)
    source = _bearer_source(config)
    if login is not None:
        if source is not None:
            raise ConfigError("basic and bearer authentication exclude each other", hint="remove one of the two")
        headers["Authorization"] = "Basic " + b64encode(login.encode()).decode("ascii")
    for key, header in (
        ("bearer.auth.logical.cluster", "target-sr-cluster"),
        ("bearer.auth.identity.pool.id", "Confluent-Identity-Pool-Id"),
    ):
        if key in config:
            headers[header] = header_value(key, config[key])
    if source == "STATIC_TOKEN":
        headers["Authorization"] = f"Bearer {header_value('bearer.auth.token', config['bearer.auth.token'])}"
    if source == "OAUTHBEARER":
        return _endpoint(config), None
    return None, config["bearer.auth.token.provider"] if source == "CUSTOM" else None


def _basic(config: Mapping[str, Any], in_url: str | None) -> str | None:
    """Return `user:password` from the configuration or the URL, or None."""
    info = config.get("basic.auth.user.info")
    source = config.get("basic.auth.credentials.source", "URL" if info is None else "USER_INFO")
    if source not in ("URL", "USER_INFO"):
        raise ConfigError(f"basic.auth.credentials.source cannot be {source}", hint="allowed: URL, USER_INFO")
    if info is not None and in_url is not None:
        raise ConfigError("both url and basic.auth.user.info have credentials", hint="remove one of the two")
    if source == "USER_INFO" and info is None:
        raise ConfigError("basic.auth.credentials.source=USER_INFO needs basic.auth.user.info")
    if info is not None and ":" not in info:
        raise ConfigError("basic.auth.user.info has no colon", hint="the form is user:password")
    return in_url if info is None else str(info)


def _bearer_source(config: Mapping[str, Any]) -> str | None:
    """Return the value of `bearer.auth.credentials.source`, or None if the client uses no tokens.

    If the key is not set, the function derives the source from the other keys.
    """
    check_function("bearer.auth.token.provider", config.get("bearer.auth.token.provider"))
    source = config.get("bearer.auth.credentials.source")
    if source is None:
        source = next((name for name, keys in _SOURCES.items() if config.get(keys[0]) is not None), None)
    if source is None:
        return None
    if source not in _SOURCES:
        raise ConfigError(f"bearer.auth.credentials.source cannot be {source}", hint=f"allowed: {', '.join(_SOURCES)}")
    missing = [key for key in _SOURCES[source] if not config.get(key)]
    if missing:
        raise ConfigError(f"bearer.auth.credentials.source={source} needs {' and '.join(missing)}")
    return str(source)


def _endpoint(config: Mapping[str, Any]) -> Mapping[str, str]:
    url = config["bearer.auth.issuer.endpoint.url"]
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or parts.username is not None:
        # The message does not show the URL, because it can contain a password.
        raise ConfigError(
            "bearer.auth.issuer.endpoint.url is not a valid URL of a token endpoint",
            hint="use an https:// URL without a user; client id and secret have their own keys",
        )
    keys = [key for key in ("client.id", "client.secret", "scope") if f"bearer.auth.{key}" in config]
    return {"url": url, **{key: config[f"bearer.auth.{key}"] for key in keys}}


def header_value(key: str, value: str) -> str:
    """Return a value that a header can contain. For an invalid value, raise an error that does not show the value."""
    if not value.isascii() or not value.isprintable() or not value:
        raise ConfigError(f"{key} has characters that cannot be sent", hint="a line break at the end is a usual cause")
    return value


def _tls(config: Mapping[str, Any]) -> ssl.SSLContext | bool:
    authority, certificate, key = (config.get(f"ssl.{name}.location") or None for name in ("ca", "certificate", "key"))
    if key is not None and certificate is None:
        raise ConfigError("ssl.key.location needs ssl.certificate.location")
    if authority is None and certificate is None:
        return True
    tried = "ssl.ca.location", authority
    try:
        is_directory = authority is not None and os.path.isdir(authority)  # noqa: PTH112 - OpenSSL uses the same test
        context = ssl.create_default_context(
            cafile=None if is_directory else authority, capath=authority if is_directory else None
        )
        if certificate is not None:
            tried = "ssl.certificate.location", certificate
            context.load_cert_chain(certificate, key, config.get("ssl.key.password") or "")
    except (OSError, ValueError) as error:
        # OpenSSL's message does not name the file, and does not contain the password.
        raise ConfigError(
            f"cannot load {tried[0]}={tried[1]}: {getattr(error, 'strerror', None) or type(error).__name__}",
            hint="the file must be PEM and readable; check ssl.key.location and ssl.key.password too",
        ) from None
    return context

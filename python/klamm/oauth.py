"""Gets tokens for OAUTHBEARER from a function of the application or from an OpenID Connect token endpoint.

    def token():
        return Token(my_login(), expires_at=time.time() + 3600)

    klamm.Producer(servers, security_protocol="SASL_SSL", sasl_mechanism="OAUTHBEARER", sasl_oauth_token_provider=token)

Each client has a background thread that fetches tokens. The thread fetches the first token when the client is created,
and each further token after four fifths of the previous token's lifetime. Only the first login of a client has to wait
for a token. `klamm.aws` creates tokens for Amazon MSK. The Rust core sends the tokens to brokers.
"""

from __future__ import annotations

import base64
import json
import logging
import math
import random
import time
import urllib.parse
import urllib.request
from functools import partial
from http.client import HTTPException
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

from klamm import cleartext, token_endpoint
from klamm.errors import AuthenticationError, ConfigError
from klamm.threads import start_daemon
from klamm.tokens import Token, TokenProvider

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from klamm._klamm import LoginMailbox

__all__ = ["Token", "TokenProvider"]

_log = logging.getLogger("klamm.auth")

REFRESH_AT = 0.8
"""Fraction of a token's lifetime after which klamm fetches the next token. The Java client uses the same fraction."""
RETRY_S = 1.0, 30.0
"""The first wait and the longest wait before the next attempt after a failure, in seconds."""
TIMEOUT_S = 10.0
"""Timeout of a whole request to a token endpoint, in seconds."""
LATEST = 1e11
"""Latest accepted expiry time of a token, in seconds since 1970. A later time is probably in milliseconds."""


def start(
    mailbox: LoginMailbox, provider: tuple[Callable[..., Any], bool] | None, settings: list[tuple[str, str]]
) -> None:
    """Start the thread that fetches tokens for a client until the client is closed."""
    fetch = _source(provider, {key.removeprefix("sasl.oauthbearer."): value for key, value in settings})
    start_daemon("klamm-tokens", _run, mailbox, fetch)


def _source(provider: tuple[Callable[..., Any], bool] | None, settings: Mapping[str, str]) -> Callable[[], Token]:
    url = settings.get("token.endpoint.url")
    extensions = _extensions(settings.get("extensions", ""))
    if provider is not None:
        _refuse_unused(settings, "sasl.oauth.token.provider")
        function, is_for_confluent = provider
        return partial(_call, partial(function, "") if is_for_confluent else function, extensions)
    if settings.get("method") == "aws-msk-iam":
        from klamm import aws

        _refuse_unused(settings, "sasl.oauthbearer.method=aws-msk-iam", "aws.region")
        return partial(_call, aws.token_provider(settings.get("aws.region")), extensions)
    if url is None:
        raise ConfigError(
            "sasl.mechanism=OAUTHBEARER needs a token provider or a token endpoint",
            hint="set sasl.oauth.token.provider, sasl.oauthbearer.token.endpoint.url, or"
            " sasl.oauthbearer.method=aws-msk-iam",
        )
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or parts.username is not None:
        # The message does not show the URL, because it can contain a password.
        hint = "use an https:// URL without a user; client id and secret have their own configuration keys"
        raise ConfigError("sasl.oauthbearer.token.endpoint.url is not a valid URL of a token endpoint", hint=hint)
    is_jwt_bearer = settings.get("grant.type") == _JWT_BEARER
    needed = ["assertion.file"] if is_jwt_bearer else ["client.id", "client.secret"]
    missing = [f"sasl.oauthbearer.{key}" for key in needed if key not in settings]
    if missing:
        raise ConfigError(f"sasl.oauthbearer.token.endpoint.url needs {' and '.join(missing)}")
    token_endpoint.check_allowed(url, settings)
    token_endpoint.check_authorities(settings)
    cleartext.warn_about_urls(_log, "assertion" if is_jwt_bearer else "client secret", [url])
    return lambda: _fetch(url, settings, extensions, TIMEOUT_S)


def provided(provider: Callable[[], Any]) -> Token:
    """Call a token provider and return the token.

    Only clients that do not connect to Kafka, such as registry clients, use this function.
    """
    return _call(provider, {})


def client_credentials(url: str, settings: Mapping[str, str], seconds: float) -> Token:
    """Fetch a token from an endpoint.

    Only clients that do not connect to Kafka, such as registry clients, use this function.

    Args:
        url: URL of the token endpoint.
        settings: `client.id`, `client.secret` and optionally `scope`.
        seconds: Maximum time of the request.

    Raises:
        AuthenticationError: The endpoint returned no token.
        ConfigError: This computer does not allow the URL.
    """
    token_endpoint.check_allowed(url, settings)
    return _fetch(url, settings, {}, seconds)


def _refuse_unused(settings: Mapping[str, str], source: str, *used: str) -> None:
    # The settings always contain the keys that have a default.
    for key in sorted(settings.keys() - {"extensions", "grant.type", "method", *used}):
        raise ConfigError(
            f"sasl.oauthbearer.{key} has no effect with {source}",
            hint="remove one of the two",
        )


_JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"


def _extensions(text: str) -> dict[str, str]:
    pairs = [part.split("=", 1) for part in text.split(",") if part]
    if any(len(pair) != 2 for pair in pairs):  # noqa: PLR2004
        raise ConfigError(f"sasl.oauthbearer.extensions cannot be {text!r}", hint="the format is key=value,key=value")
    return {key.strip(): value for key, value in pairs}


def _run(mailbox: LoginMailbox, fetch: Callable[[], Token]) -> None:
    wait, failures, refusals = 0.0, 0, 0
    while mailbox.wait(wait):
        refusals = refusals + 1 if mailbox.take_refusal() else 0
        if refusals > 1 and not mailbox.wait(_backoff(refusals - 2)):
            return
        try:
            token = fetch()
            lifetime = token.expires_at - time.time()
            mailbox.put(token.value, list(token.extensions.items()), lifetime)
            wait, failures = max(REFRESH_AT * lifetime, RETRY_S[0]), 0
        except BaseException as error:  # noqa: BLE001 - logins that wait for a token raise the error
            # klamm itself adds no part of the token to this message.
            mailbox.fail(*_explain(error))
            wait, failures = _backoff(failures), failures + 1


def _backoff(failures: int) -> float:
    first, longest = RETRY_S
    # Without the limit of 16, the exponential would overflow a float after some hours of failures.
    return min(first * 2.0 ** min(failures, 16) * random.uniform(0.8, 1.2), longest)


def _explain(error: BaseException) -> tuple[str, str]:
    """Return the message and the hint of an error, even if `str()` of the error raises."""
    if isinstance(error, AuthenticationError):
        return error.message, error.hint or _HINT
    try:
        text = str(error)
    except BaseException:  # noqa: BLE001 - `__str__` is code of the application
        text = ""
    return f"no token: the provider raised {type(error).__name__}: {text}", _HINT


_HINT = "every OAUTHBEARER login needs a token; klamm keeps trying to get one in the background"


def _call(function: Callable[[], Any], extensions: Mapping[str, str]) -> Token:
    returned = function()
    if isinstance(returned, tuple) and len(returned) in (2, 3, 4):
        # A tuple in the format of confluent-kafka: token, expiry time, and optionally principal and extensions.
        more = returned[3] if len(returned) == 4 else {}  # noqa: PLR2004
        returned = Token(returned[0], returned[1], more)
    if not isinstance(returned, Token) or not isinstance(returned.value, str):
        raise AuthenticationError(
            f"no token: the provider returned a value of type {type(returned).__name__}",
            hint="return a klamm.oauth.Token, or a tuple of token and expiry",
        )
    expires_at = _checked(returned.expires_at, "the provider returned")
    return Token(returned.value, expires_at, {**extensions, **returned.extensions})


def _checked(expires_at: Any, found: str) -> float:
    """Check an expiry time in seconds since 1970, and return it as a float."""
    hint = "return the expiry time as a number of seconds since 1970"
    if isinstance(expires_at, bool) or not isinstance(expires_at, Real):
        kind = type(expires_at).__name__
        raise AuthenticationError(f"no token: {found} an expiry time of type {kind}, not seconds since 1970", hint=hint)
    try:
        seconds = float(expires_at)
    except OverflowError:
        seconds = math.inf
    if not seconds <= LATEST:
        unit = " (are these milliseconds?)" if LATEST < seconds < 1000 * LATEST else ""
        raise AuthenticationError(
            f"no token: {found} the expiry time {seconds:g}, which is not in seconds since 1970{unit}", hint=hint
        )
    if seconds <= time.time():
        raise AuthenticationError(
            f"no token: {found} an expired token", hint="expires_at is in seconds since 1970; check the clocks"
        )
    return seconds


def _fetch(url: str, settings: Mapping[str, str], extensions: Mapping[str, str], seconds: float) -> Token:
    shown = urllib.parse.urlsplit(url)._replace(query="", fragment="").geturl()
    request = _request(url, settings)
    try:
        status, body = token_endpoint.exchange(request, settings, seconds)
    except (OSError, ValueError, HTTPException) as error:
        raise token_endpoint.unreachable(url, shown, error, seconds) from None
    if not 200 <= status < 300:  # noqa: PLR2004 - HTTP's numbers
        raise token_endpoint.rejection(shown, status, body)
    value, expires_at = _token(shown, body)
    return Token(value, _checked(expires_at, f"{shown} returned"), extensions)


def _request(url: str, settings: Mapping[str, str]) -> urllib.request.Request:
    fields = {"grant_type": settings.get("grant.type", "client_credentials")}
    headers = {"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"}
    if fields["grant_type"] == _JWT_BEARER:
        try:
            fields["assertion"] = Path(settings["assertion.file"]).read_text(encoding="ascii").strip()
        except (OSError, ValueError) as error:
            raise AuthenticationError(
                f"no token: cannot read the assertion from {settings['assertion.file']}: {type(error).__name__}",
                hint="check sasl.oauthbearer.assertion.file",
            ) from None
    else:
        # RFC 6749 (section 2.3.1) requires form encoding of the client ID and the secret before joining them.
        pair = ":".join(urllib.parse.quote_plus(settings[key]) for key in ("client.id", "client.secret"))
        headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
    if "scope" in settings:
        fields["scope"] = settings["scope"]
    return urllib.request.Request(url, urllib.parse.urlencode(fields).encode(), headers)  # noqa: S310 - checked before


def _token(shown: str, body: bytes) -> tuple[str, float]:
    try:
        fields = json.loads(body)
        token = fields["access_token"]
        expires_at = time.time() + float(fields["expires_in"]) if "expires_in" in fields else _expiry(token)
    except OverflowError:
        expires_at = math.inf
    except (ValueError, LookupError, TypeError):
        raise AuthenticationError(
            f"no token: the response of {shown} has no token",
            hint="the endpoint must return JSON with access_token and expires_in",
        ) from None
    if not isinstance(token, str):
        raise AuthenticationError(f"no token: the access_token in the response of {shown} is not a string")
    return token, expires_at


def _expiry(token: str) -> float:
    """Return the expiry time of a JWT, in seconds since 1970.

    klamm does not verify the claims, because it uses the expiry time only to decide when to fetch the next token.
    """
    claims = token.split(".")[1]
    return float(json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["exp"])

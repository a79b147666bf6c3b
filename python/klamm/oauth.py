"""Tokens for OAUTHBEARER: from a function of yours, or from an OpenID Connect token endpoint.

    def token():
        return Token(my_login(), expires_at=time.time() + 3600)

    klamm.Producer(servers, security_protocol="SASL_SSL", sasl_mechanism="OAUTHBEARER", sasl_oauth_token_provider=token)

A thread of its own fetches them, from the moment the client is made until it is closed: the first at once, the next when
four fifths of the time are over. So nobody has to poll for it, and no login waits but the first.
"""

from __future__ import annotations

import base64
import json
import random
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from klamm.errors import AuthenticationError, ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeAlias

    from klamm._klamm import TokenDesk

__all__ = ["Token", "TokenProvider"]

REFRESH_AT = 0.8
"""When a token is fetched anew, as a share of the time it is good for; as the Java client does."""
RETRY_S = 1.0, 30.0
"""The first and the longest wait after a failure."""
TIMEOUT_S = 10.0
"""How long a token endpoint may take."""
MAX_ANSWER = 1 << 20
"""The largest answer of a token endpoint, bytes."""


@dataclass(frozen=True)
class Token:
    """A token, when it expires in seconds since 1970, and SASL extensions that go with it."""

    value: str = field(repr=False)
    expires_at: float
    extensions: Mapping[str, str] = field(default_factory=dict)


TokenProvider: TypeAlias = "Callable[[], Token | tuple[str, float]]"
"""Returns a token; `(token, expires_at)` does as well, and so does what confluent-kafka takes."""


def start(desk: TokenDesk, provider: tuple[Callable[..., Any], bool] | None, settings: list[tuple[str, str]]) -> None:
    """Fetch tokens for a client until it is closed."""
    fetch = _chosen(provider, {key.removeprefix("sasl.oauthbearer."): value for key, value in settings})
    threading.Thread(target=_run, args=(desk, fetch), name="klamm-tokens", daemon=True).start()


def _chosen(provider: tuple[Callable[..., Any], bool] | None, settings: Mapping[str, str]) -> Callable[[], Token]:
    url = settings.get("token.endpoint.url")
    extensions = _extensions(settings.get("extensions", ""))
    if provider is not None:
        function, is_confluents = provider
        return partial(_call, partial(function, "") if is_confluents else function, extensions)
    if settings.get("method") == "aws-msk-iam":
        from klamm import aws

        return partial(_call, aws.token_provider(settings.get("aws.region")), extensions)
    if url is None:
        raise ConfigError(
            "sasl.mechanism=OAUTHBEARER needs to know where tokens come from",
            hint="set sasl.oauth.token.provider, sasl.oauthbearer.token.endpoint.url, or"
            " sasl.oauthbearer.method=aws-msk-iam",
        )
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or parts.username is not None:
        # Without the address: it may have a password in it.
        hint = "it begins with https:// and has no user in it: client id and secret have keys of their own"
        raise ConfigError("sasl.oauthbearer.token.endpoint.url cannot be used", hint=hint)
    bearer = settings.get("grant.type") == _JWT_BEARER
    needed = ["assertion.file"] if bearer else ["client.id", "client.secret"]
    missing = [f"sasl.oauthbearer.{key}" for key in needed if key not in settings]
    if missing:
        raise ConfigError(f"sasl.oauthbearer.token.endpoint.url needs {' and '.join(missing)}")
    return partial(_fetch, url, settings, extensions)


_JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"


def _extensions(text: str) -> dict[str, str]:
    pairs = [part.split("=", 1) for part in text.split(",") if part]
    if any(len(pair) != 2 for pair in pairs):  # noqa: PLR2004
        raise ConfigError(f"sasl.oauthbearer.extensions cannot be {text!r}", hint="it is key=value,key=value")
    return {key.strip(): value for key, value in pairs}


def _run(desk: TokenDesk, fetch: Callable[[], Token]) -> None:
    first, longest = RETRY_S
    wait, failures = 0.0, 0
    while desk.wait(wait):
        try:
            token = fetch()
            desk.put(token.value, list(token.extensions.items()))
        except AuthenticationError as error:
            desk.fail(error.message, error.hint or _HINT)
        except Exception as error:  # noqa: BLE001 - whatever a provider raises is for whoever waits for a token
            # Its words are the provider's own; what klamm adds says nothing of the token.
            desk.fail(f"no token: the provider raised {type(error).__name__}: {error}", _HINT)
        else:
            failures = 0
            wait = max(REFRESH_AT * (token.expires_at - time.time()), first)
            continue
        wait = min(first * 2**failures, longest) * random.uniform(0.8, 1.2)
        failures += 1


_HINT = "OAUTHBEARER needs a token for every login; it is asked for again in the background"


def _call(function: Callable[[], Any], extensions: Mapping[str, str]) -> Token:
    answer = function()
    if isinstance(answer, tuple) and len(answer) in (2, 3, 4):
        # What confluent-kafka takes: token, expiry, and perhaps principal and extensions.
        more = answer[3] if len(answer) == 4 else {}  # noqa: PLR2004
        answer = Token(answer[0], answer[1], more)
    if not isinstance(answer, Token) or not isinstance(answer.value, str):
        raise AuthenticationError(
            f"no token: the provider returned a value of type {type(answer).__name__}",
            hint="it returns a klamm.oauth.Token, or a token and when it expires",
        )
    if answer.expires_at <= time.time():
        raise AuthenticationError(
            "no token: the provider returned one that has expired", hint="expires_at is in seconds since 1970"
        )
    return Token(answer.value, answer.expires_at, {**extensions, **answer.extensions})


def _fetch(url: str, settings: Mapping[str, str], extensions: Mapping[str, str]) -> Token:
    where = urllib.parse.urlsplit(url)._replace(query="", fragment="").geturl()
    request = _request(url, settings)
    try:
        with _opener.open(request, timeout=TIMEOUT_S) as answer:
            body = _read(answer)
    except urllib.error.HTTPError as error:
        with error:
            said = error.read(300).decode("utf-8", "replace")
        raise AuthenticationError(
            f"no token: {where} answered {error.code}: {_line(said)}",
            hint="check client id, secret and scope (sasl.oauthbearer.*)",
        ) from None
    except TimeoutError:
        raise AuthenticationError(
            f"no token: {where} did not answer within {TIMEOUT_S:.0f} s",
            hint="check the token endpoint and the network",
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, TimeoutError):
            reason = f"no answer within {TIMEOUT_S:.0f} s"
        raise AuthenticationError(
            f"no token: {where} cannot be asked: {reason}", hint="check sasl.oauthbearer.token.endpoint.url"
        ) from None
    return Token(*_token(where, body), extensions)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A secret is for the address that was configured and for no other."""

    def redirect_request(self, *_: Any) -> None:
        return None


_opener = urllib.request.build_opener(_NoRedirects)


def _request(url: str, settings: Mapping[str, str]) -> urllib.request.Request:
    fields = {"grant_type": settings.get("grant.type", "client_credentials")}
    headers = {"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"}
    if fields["grant_type"] == _JWT_BEARER:
        try:
            fields["assertion"] = Path(settings["assertion.file"]).read_text(encoding="ascii").strip()
        except (OSError, ValueError) as error:
            raise AuthenticationError(
                f"no token: the assertion cannot be read from {settings['assertion.file']}: {type(error).__name__}",
                hint="check sasl.oauthbearer.assertion.file",
            ) from None
    else:
        # RFC 6749, 2.3.1: both are encoded as in a form before they are joined.
        pair = ":".join(urllib.parse.quote_plus(settings[key]) for key in ("client.id", "client.secret"))
        headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
    if "scope" in settings:
        fields["scope"] = settings["scope"]
    return urllib.request.Request(url, urllib.parse.urlencode(fields).encode(), headers)  # noqa: S310 - checked before


def _read(answer: Any) -> bytes:
    # The timeout is for each read, and an endpoint that drips would never end.
    deadline = time.monotonic() + TIMEOUT_S
    body = b""
    while chunk := answer.read1(1 << 16):
        body += chunk
        if len(body) > MAX_ANSWER or time.monotonic() > deadline:
            raise ValueError("its answer is too long or too slow")
    return body


def _token(where: str, body: bytes) -> tuple[str, float]:
    try:
        answer = json.loads(body)
        token = answer["access_token"]
        expires_at = time.time() + float(answer["expires_in"]) if "expires_in" in answer else _expiry(token)
    except (ValueError, LookupError, TypeError):
        raise AuthenticationError(
            f"no token: {where} answered something else", hint="it has to be JSON with access_token and expires_in"
        ) from None
    if not isinstance(token, str):
        raise AuthenticationError(f"no token: {where} gave an access_token that is no text")
    return token, expires_at


def _expiry(token: str) -> float:
    """When a JWT expires: what its claims say, unchecked, since only the time to fetch the next one goes by it."""
    claims = token.split(".")[1]
    return float(json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["exp"])


def _line(text: str) -> str:
    return " ".join(text.split())

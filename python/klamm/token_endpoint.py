"""Connects to an OpenID Connect token endpoint. The errors that this module raises say what to check.

The endpoint has CA certificates of its own. A client must not trust the endpoint's CA certificates for brokers, or the
brokers' CA certificates for the endpoint. `klamm.oauth` builds the requests and reads the tokens.
"""

from __future__ import annotations

import base64
import http.client
import io
import json
import os
import re
import socket
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from functools import partial
from typing import TYPE_CHECKING, Any

from klamm.errors import AuthenticationError, ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["check_allowed", "check_authorities", "exchange", "rejection", "unreachable"]

MAX_RESPONSE = 1 << 20
"""Maximum size of a response of a token endpoint, in bytes."""

ALLOWED = {"URLS": "KLAMM_OAUTHBEARER_ALLOWED_URLS", "FILES": "KLAMM_OAUTHBEARER_ALLOWED_FILES"}
"""Environment variables with the URLs and the files that configurations may name, separated by commas."""


def check_allowed(url: str, settings: Mapping[str, str]) -> None:
    """Raise `ConfigError` if an environment variable restricts URLs or files, and does not list one of the settings.

    A service that connects with configurations of its users could otherwise be made to send files to a URL of a user.
    """
    files = [settings[key] for key in ("assertion.file", "ca.location") if key in settings]
    for variable, used in (ALLOWED["URLS"], [url]), (ALLOWED["FILES"], files):
        allowed = {each.strip() for each in os.environ.get(variable, "").split(",")}
        if variable in os.environ and not allowed.issuperset(used):
            key = "token.endpoint.url" if used == [url] else "assertion.file or sasl.oauthbearer.ca.location"
            raise ConfigError(
                f"the environment variable {variable} does not allow the value of sasl.oauthbearer.{key}",
                hint=f"add the value to {variable}, whose values are separated by commas",
            )


def check_authorities(settings: Mapping[str, str]) -> None:
    """Raise `ConfigError` if klamm cannot read the CA certificates for the endpoint."""
    if "ca.location" in settings and "ca.pem" in settings:
        raise ConfigError(
            "sasl.oauthbearer.ca.location and sasl.oauthbearer.ca.pem are both set", hint="set only one of them"
        )
    for key in ("ca.location", "ca.pem"):
        if key in settings and not settings["token.endpoint.url"].lower().startswith("https:"):
            raise ConfigError(
                f"sasl.oauthbearer.{key} has no effect without HTTPS",
                hint="use an https:// URL in sasl.oauthbearer.token.endpoint.url, or leave the key out",
            )
    try:
        _context(settings)
    except AuthenticationError as error:
        raise ConfigError(error.message.removeprefix("no token: "), hint=error.hint) from None


def exchange(request: urllib.request.Request, settings: Mapping[str, str], seconds: float) -> tuple[int, bytes]:
    """Send a request to the endpoint. Return the status and the body of the response.

    Each call reads the certificate files again, because the files change when certificates are renewed.

    Args:
        request: Request to send.
        settings: Settings of the client, with the CA certificates for the endpoint.
        seconds: Maximum time until the response is complete.

    Raises:
        OSError: There is no complete response, or it takes too long.
        ValueError: The response is too long.
    """
    deadline = time.monotonic() + seconds
    opener = urllib.request.build_opener(_NoRedirects, _Http(deadline), _Https(deadline, _context(settings)))
    try:
        response = opener.open(request, timeout=seconds)
    except urllib.error.HTTPError as error:
        response = error
    with response:
        body: bytes = response.read(MAX_RESPONSE + 1)
        if len(body) > MAX_RESPONSE:
            raise ValueError("the response is too long")
        return response.status, body


def rejection(shown: str, status: int, body: bytes) -> AuthenticationError:
    """Return the error for a response of the endpoint with an HTTP status other than success.

    The error has the error code of the response, if OAuth defines the code. It has no other part of the body, because
    the body may repeat secrets of the request.
    """
    try:
        code = json.loads(body)["error"]
    except (ValueError, LookupError, TypeError, RecursionError):
        code = None
    text = f": {code}" if isinstance(code, str) and code in _CODES else ""
    match status:
        case 401 | 403:
            hint = "check sasl.oauthbearer.client.id, sasl.oauthbearer.client.secret and the permissions of the client"
        case 404 | 405 | 410:
            hint = "check the path in sasl.oauthbearer.token.endpoint.url"
        case 407:
            hint = "the proxy requires a user: set HTTPS_PROXY to http://USER:PASSWORD@HOST:PORT"
        case _ if 300 <= status < 400:  # noqa: PLR2004
            hint = (
                "set sasl.oauthbearer.token.endpoint.url to the final address: klamm follows no redirect with a secret"
            )
        case _ if status == 429 or status >= 500:  # noqa: PLR2004
            hint = "the endpoint reports an internal error; klamm keeps retrying in the background"
        case _:
            hint = "check client id, secret, scope and grant type (sasl.oauthbearer.*)"
    return AuthenticationError(f"no token: {shown} answered {status}{text}", hint=hint)


def unreachable(url: str, shown: str, error: Exception, seconds: float) -> AuthenticationError:
    """Return the error for a request that got no response from the endpoint.

    Args:
        url: Address of the endpoint.
        shown: Text that stands for the address in error messages.
        error: Exception that the request raised.
        seconds: Timeout of the request.
    """
    reason: Any = getattr(error, "reason", error)
    proxy = _proxy(url)
    hint = _hint(reason)
    if isinstance(reason, TimeoutError):
        reason = f"no answer within {seconds:.3g} s"
    if proxy is not None and not isinstance(getattr(error, "reason", error), ssl.SSLError):
        hint = "check HTTPS_PROXY or HTTP_PROXY; NO_PROXY lists hosts that need no proxy"
    through = "" if proxy is None else f" through the proxy {proxy}"
    return AuthenticationError(f"no token: the request to {shown}{through} failed: {reason}", hint=hint)


def _hint(reason: object) -> str:
    if isinstance(reason, ssl.SSLCertVerificationError) and reason.verify_code in _VERIFY_HINTS:
        return _VERIFY_HINTS[reason.verify_code]
    return next((hint for kind, hint in _HINTS if isinstance(reason, kind)), _OTHER_HINT)


def _proxy(url: str) -> str | None:
    """Return host and port of the proxy for an address, without user and password. Without a proxy, return None."""
    parts = urllib.parse.urlsplit(url)
    proxy = urllib.request.getproxies().get(parts.scheme)
    if not proxy or urllib.request.proxy_bypass(parts.netloc):
        return None
    return (urllib.parse.urlsplit(proxy).netloc or proxy).rpartition("@")[2]


def _context(settings: Mapping[str, str]) -> ssl.SSLContext | None:
    """Return a TLS context with the configured CA certificates, or None to use Python's default certificates."""
    path, text = settings.get("ca.location"), settings.get("ca.pem")
    if path == "probe":  # in librdkafka, "probe" selects the default
        path = None
    if path is None and text is None:
        return None
    try:
        if text is None:
            return ssl.create_default_context(cafile=path)
        return ssl.create_default_context(cadata=_certificates(text))
    except (OSError, ValueError) as error:
        where = "sasl.oauthbearer.ca.pem" if path is None else f"sasl.oauthbearer.ca.location, {path}"
        why = error.strerror if isinstance(error, FileNotFoundError | PermissionError) else "no valid certificate found"
        raise AuthenticationError(
            f"no token: cannot read the authorities of the token endpoint from {where}: {why}",
            hint="set PEM text with -----BEGIN CERTIFICATE-----, or a file with it",
        ) from None


def _certificates(text: str) -> bytes:
    r"""Return the certificates in a PEM text. As in Java, the text may have spaces or `\n` in place of line ends."""
    blocks = [body.replace("\\n", "") for body in _CERTIFICATE.findall(text)]
    if not blocks:  # with an empty text, Python would trust its default CA certificates
        raise ValueError("no certificates")
    return b"".join(base64.b64decode("".join(body.split()), validate=True) for body in blocks)


class _Http(urllib.request.HTTPHandler):
    """Opens HTTP connections that end at a deadline."""

    def __init__(self, deadline: float) -> None:
        super().__init__()
        self._deadline = deadline

    def http_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(partial(_connection, http.client.HTTPConnection, self._deadline), request)


class _Https(urllib.request.HTTPSHandler):
    """Opens HTTPS connections that end at a deadline."""

    def __init__(self, deadline: float, context: ssl.SSLContext | None) -> None:
        super().__init__()
        self._deadline, self._tls = deadline, context

    def https_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        connect = partial(_connection, http.client.HTTPSConnection, self._deadline, context=self._tls)
        return self.do_open(connect, request)


def _connection(kind: type[Any], deadline: float, host: str, **options: Any) -> Any:
    """Return a connection whose timeouts apply to all its work together, instead of to each read."""
    connection = kind(host, **options)
    connection.response_class = partial(_response, deadline)
    create = connection._create_connection  # noqa: SLF001

    def connect(address: tuple[str, int], *_: Any) -> socket.socket:
        opened: socket.socket = create(address, _left(deadline))
        opened.settimeout(_left(deadline))  # for the TLS handshake
        return opened

    connection._create_connection = connect  # noqa: SLF001
    return connection


def _response(deadline: float, sock: socket.socket, *args: Any, **options: Any) -> http.client.HTTPResponse:
    response = http.client.HTTPResponse(sock, *args, **options)
    response.fp = io.BufferedReader(_Reader(response.fp.detach(), sock, deadline))
    return response


class _Reader(io.RawIOBase):
    """Reads from a socket until a deadline. A server that sends byte by byte never exceeds the timeout of one read."""

    def __init__(self, raw: io.RawIOBase, sock: socket.socket, deadline: float) -> None:
        self._raw, self._sock, self._deadline = raw, sock, deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._sock.settimeout(_left(self._deadline))
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


def _left(deadline: float) -> float:
    """Return the number of seconds until a deadline."""
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise TimeoutError
    return seconds


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Disables redirects, because klamm must send the secret only to the configured address."""

    def redirect_request(self, *_: Any) -> None:
        return None


_CODES = frozenset(  # RFC 6749, sections 4.1.2.1 and 5.2
    [
        "invalid_request",
        "invalid_client",
        "invalid_grant",
        "unauthorized_client",
        "unsupported_grant_type",
        "invalid_scope",
        "access_denied",
        "unsupported_response_type",
        "server_error",
        "temporarily_unavailable",
    ]
)

_CERTIFICATE = re.compile(r"-----BEGIN (?:X509 )?CERTIFICATE-----(.*?)-----END (?:X509 )?CERTIFICATE-----", re.DOTALL)

_OUTDATED = "renew the endpoint's certificate, or check this machine's clock"
_FOR_OTHER_HOST = "use a name of the certificate in sasl.oauthbearer.token.endpoint.url"
_VERIFY_HINTS = {
    9: _OUTDATED,  # X509_V_ERR_CERT_NOT_YET_VALID
    10: _OUTDATED,  # X509_V_ERR_CERT_HAS_EXPIRED
    62: _FOR_OTHER_HOST,  # X509_V_ERR_HOSTNAME_MISMATCH
    64: _FOR_OTHER_HOST,  # X509_V_ERR_IP_ADDRESS_MISMATCH
}
_UNKNOWN_AUTHORITY = (
    "set sasl.oauthbearer.ca.location (https.ca.location) to the PEM certificate of the endpoint's authority; "
    "ssl.ca.location is only for the brokers"
)
_HINTS: list[tuple[type[Exception], str]] = [  # the first entry with a matching class applies
    (ssl.SSLCertVerificationError, _UNKNOWN_AUTHORITY),
    (ssl.SSLError, "check whether the endpoint speaks HTTPS at this port"),
    (socket.gaierror, "check the host name in sasl.oauthbearer.token.endpoint.url, and DNS"),
    (
        ConnectionRefusedError,
        "check host and port in sasl.oauthbearer.token.endpoint.url, and whether the endpoint is running",
    ),
    (TimeoutError, "check the token endpoint, the network and its firewalls"),
    (
        ConnectionError,
        "check whether sasl.oauthbearer.token.endpoint.url has the right scheme (http or https) and port",
    ),
]
_OTHER_HINT = "check sasl.oauthbearer.token.endpoint.url and the network"

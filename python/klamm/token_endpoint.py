"""Connects to an OpenID Connect token endpoint. The errors that this module raises say what to check.

The endpoint has CA certificates of its own. A client must not trust the endpoint's CA certificates for brokers, or the
brokers' CA certificates for the endpoint. `klamm.oauth` builds the requests and reads the tokens.
"""

from __future__ import annotations

import base64
import re
import socket
import ssl
import urllib.error
import urllib.parse
import urllib.request
from typing import TYPE_CHECKING, Any

from klamm.errors import AuthenticationError, ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["check_authorities", "opener", "rejection", "unreachable"]


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


def opener(settings: Mapping[str, str]) -> urllib.request.OpenerDirector:
    """Return a `urllib` opener for the endpoint.

    Each call reads the certificate files again, because the files change when certificates are renewed.
    """
    return urllib.request.build_opener(_NoRedirects, urllib.request.HTTPSHandler(context=_context(settings)))


def rejection(shown: str, status: int, text: str) -> AuthenticationError:
    """Return the error for a response of the endpoint with an HTTP status other than success."""
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
    return AuthenticationError(f"no token: {shown} answered {status}: {text}", hint=hint)


def unreachable(url: str, shown: str, error: OSError | ValueError, seconds: float) -> AuthenticationError:
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
        reason = f"no answer within {seconds:.0f} s"
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


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Disables redirects, because klamm must send the secret only to the configured address."""

    def redirect_request(self, *_: Any) -> None:
        return None


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

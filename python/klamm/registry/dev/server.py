"""`DevRegistry`: a schema registry with Confluent's REST API inside the application's process, for tests and development.

The HTTP server of Python's standard library handles each connection in a thread. `klamm.registry.dev.store` stores the
schemas. The registry is not for production.
"""

from __future__ import annotations

import base64
import hmac
import json
import os
import re
import socket
import ssl
import threading
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import TCPServer
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import parse_qs, unquote, urlsplit

from klamm.errors import ConfigError
from klamm.registry.dev.store import TYPES, Rejected, Store, canonical, context_of, qualified

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from os import PathLike
    from types import TracebackType

    from typing_extensions import Self

__all__ = ["DevRegistry", "RegistryAction", "RegistryRequest"]

RegistryAction = Literal["delay", "error", "garbage", "drop"]
"""Fault that `DevRegistry.fault` injects into a request."""

MAX_BODY = 16 << 20
"""Maximum size of a request, in bytes."""
IDLE_S = 60.0
"""Seconds after which the registry closes an idle connection."""
_REMEMBERED = 10_000


@dataclass(frozen=True)
class RegistryRequest:
    """A request that a `DevRegistry` received.

    Attributes:
        method: HTTP method.
        path: Path with query.
    """

    method: str
    path: str


@dataclass
class _Fault:
    action: RegistryAction
    status: int
    seconds: float
    times: int | None
    path: str


class DevRegistry:
    """A schema registry in this process, for tests and development.

    The registry runs inside the `with` block, or from `start()` to `stop()`. `DevBroker(schema_registry=True)` starts a
    cluster with a registry.

    Args:
        port: Port to listen on. Default 0, which takes a free port.
        path: File that stores the schemas and settings, so that they survive a restart. Default: memory only.
        users: Users and passwords for HTTP basic authentication. Default: clients do not authenticate.
        tokens: Tokens that clients may send as a bearer token, instead of user and password.
        tls: Certificate and private key in PEM, to serve HTTPS. Default: HTTP.
        client_ca: CA certificate in PEM. This CA must have signed the certificates of clients. Default: clients need no
            certificate.

    Example:
        with DevRegistry() as registry:
            client = SchemaRegistry(registry.url)
            registry.fault("error", status=503)             # one request fails
    """

    def __init__(
        self,
        port: int = 0,
        *,
        path: str | PathLike[str] | None = None,
        users: Mapping[str, str] | None = None,
        tokens: tuple[str, ...] = (),
        tls: tuple[str, str] | None = None,
        client_ca: str | None = None,
    ) -> None:
        self._port, self._pid = port, os.getpid()
        self._path = None if path is None else Path(path)
        self._credentials = [
            *("Basic " + base64.b64encode(f"{name}:{word}".encode()).decode() for name, word in (users or {}).items()),
            *(f"Bearer {token}" for token in tokens),
        ]
        self._context = None if tls is None else _context(tls, client_ca)
        self._lock = threading.Lock()
        self._faults: list[_Fault] = []
        self._requests: list[RegistryRequest] = []
        self._server: _Server | None = None
        self._store = Store(None)

    @property
    def url(self) -> str:
        """Return the address, such as `http://127.0.0.1:8081`, or an empty string while the registry does not run."""
        if self._server is None:
            return ""
        return f"http{'s' if self._context else ''}://127.0.0.1:{self._server.server_address[1]}"

    def start(self) -> Self:
        """Start the registry if it does not run yet. Return the registry.

        Raises:
            ConfigError: The port is in use.
        """
        if self._server is None:
            self._store = Store(self._path) if self._path is not None else self._store
            try:
                self._server = _Server(("127.0.0.1", self._port), self)
            except OSError as error:
                raise ConfigError(
                    f"cannot listen on port {self._port}: {error.strerror}", hint="port 0 takes a free port"
                ) from None
            self._port = self._server.server_address[1]
            threading.Thread(
                target=self._server.serve_forever, args=(0.05,), name="klamm-dev-registry", daemon=True
            ).start()
        return self

    def stop(self) -> None:
        """Stop the registry. The registry keeps its port and contents for the next `start()`.

        In a forked process, do nothing.
        """
        if self._pid != os.getpid():
            return
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()
            server.disconnect()

    def fault(
        self,
        action: RegistryAction,
        *,
        status: int = 500,
        seconds: float = 0.0,
        times: int | None = 1,
        path: str = "",
    ) -> None:
        """Inject a fault into the next requests.

        | action | effect |
        |---|---|
        | `delay` | the registry responds `seconds` later |
        | `error` | the registry responds with the HTTP status `status` |
        | `garbage` | the registry responds with status 200 and text that is not JSON |
        | `drop` | the registry closes the connection without a response |

        Args:
            action: `delay`, `error`, `garbage` or `drop`.
            status: HTTP status for the action `error`. Default 500.
            seconds: Duration in seconds for the action `delay`.
            times: Number of requests to affect. Default 1. With None, the fault affects all requests until the program
                calls `clear_faults`.
            path: Affect only requests whose path contains this text. Default: all requests.

        Raises:
            ConfigError: The action is unknown.
        """
        if action not in ("delay", "error", "garbage", "drop"):
            raise ConfigError(f"unknown action {action!r}", hint="allowed: delay, error, garbage, drop")
        with self._lock:
            self._faults.append(_Fault(action, status, seconds, times, path))

    def clear_faults(self) -> None:
        """Remove all faults."""
        with self._lock:
            self._faults.clear()

    def requests(self) -> list[RegistryRequest]:
        """Return the requests that the registry received, oldest first. The registry keeps the last 10,000 requests."""
        with self._lock:
            return list(self._requests)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<klamm.registry.dev.DevRegistry {'at ' + self.url if self.url else '(not running)'}>"

    def _next_fault(self, method: str, path: str) -> _Fault | None:
        with self._lock:
            self._requests.append(RegistryRequest(method, path))
            del self._requests[:-_REMEMBERED]
            fault = next((each for each in self._faults if each.path in path), None)
            if fault is not None and fault.times is not None:
                fault.times -= 1
                if fault.times <= 0:
                    self._faults.remove(fault)
            return fault

    def _is_allowed(self, authorization: str) -> bool:
        credentials = self._credentials
        return not credentials or any(
            hmac.compare_digest(each.encode(), authorization.encode()) for each in credentials
        )

    def _answer(self, method: str, target: str, body: bytes) -> tuple[int, Any]:
        """Return the HTTP status and the JSON object of the response to a request."""
        split = urlsplit(target)
        path = [unquote(part) for part in split.path.strip("/").split("/")]
        query = {name: values[-1] for name, values in parse_qs(split.query, keep_blank_values=True).items()}
        path = _in_context(path, query)
        try:
            fields = json.loads(body) if body else {}
        except (ValueError, RecursionError):
            return 400, {"error_code": 400, "message": "Unable to process JSON"}
        if not isinstance(fields, dict):
            return 400, {"error_code": 400, "message": "Unable to process JSON"}
        for pattern, handle in _ROUTES.items():
            wanted, *parts = pattern.split(" ")[0], *pattern.split(" ")[1].split("/")
            if wanted == method and len(parts) == len(path):
                pairs = zip(parts, path, strict=True)
                if all(part == given or (part == "*" and given) for part, given in pairs):
                    arguments = [given for part, given in zip(parts, path, strict=True) if part == "*"]
                    try:
                        with self._store.lock:
                            return 200, handle(self._store, _Query(query), fields, *arguments)
                    except Rejected as error:
                        return error.status, {"error_code": error.code, "message": str(error)}
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}


class _Query:
    def __init__(self, query: Mapping[str, str]) -> None:
        self._query = query

    def text(self, name: str) -> str | None:
        return self._query.get(name) or None

    def prefix(self) -> str | None:
        """Return the prefix of subjects, or None for the subjects of all contexts."""
        return self._query.get("subjectPrefix")

    def pair(self) -> dict[str, str]:
        return {self._query.get("key", ""): self._query.get("value", "")}

    def flag(self, name: str) -> bool:
        return self._query.get(name, "").lower() == "true"

    def page(self, items: list[Any]) -> list[Any]:
        """Return the part of a list that `offset` and `limit` select."""
        try:
            offset, limit = int(self._query.get("offset", 0)), int(self._query.get("limit", -1))
        except ValueError:
            return items
        return items[max(offset, 0) :][: None if limit < 0 else limit]


def _in_context(path: list[str], query: dict[str, str]) -> list[str]:
    """Return the path with canonical names of subjects.

    The path `/contexts/.shop/subjects/orders` means the subject `:.shop:orders`.
    """
    context = "."
    if path[0] == "contexts" and len(path) > 2:  # noqa: PLR2004 - two parts name the context
        context, path = context_of(path[1] if path[1].startswith(":") else f":{path[1]}:"), path[2:]
    at = 2 if path[0] == "compatibility" else 1
    if path[0] in ("subjects", "config", "mode", "compatibility") and len(path) > at:
        return [*path[:at], qualified(context, canonical(path[at])), *path[at + 1 :]]
    name = "subject" if path[:2] == ["schemas", "ids"] else "subjectPrefix"
    if context != "." and path[0] in ("schemas", "subjects"):
        query[name] = qualified(context, query.get(name, ""))
    return [*path, qualified(context, "")] if context != "." and path in (["config"], ["mode"]) else path


def _number(text: str) -> int:
    if not re.fullmatch(r"\d{1,18}", text):
        raise Rejected(404, "HTTP 404 Not Found")
    return int(text)


def _by_id(store: Store, query: _Query, schema_id: str) -> dict[str, Any]:
    number = _number(schema_id)
    return store.describe(store.locate(number, query.text("subject")), number, query.text("format"))


def _versions_of(store: Store, query: _Query, schema_id: str) -> list[dict[str, Any]]:
    return query.page(store.versions_of(_number(schema_id), query.text("subject"), query.flag("deleted")))


def _check(store: Store, query: _Query, body: Mapping[str, Any], subject: str, version: str | None) -> dict[str, Any]:
    why = store.check(subject, version, body, query.flag("normalize"))
    return {"is_compatible": not why, **({"messages": why} if query.flag("verbose") else {})}


def _config(store: Store, query: _Query, subject: str) -> dict[str, Any]:
    return store.config(subject) if query.flag("defaultToGlobal") else store.own_config(subject)


def _mode(store: Store, query: _Query, subject: str) -> dict[str, Any]:
    return {"mode": store.mode(subject) if query.flag("defaultToGlobal") else store.own_mode(subject)}


# The function for each method and path. The arguments of a function are the store, the query, the body, and the parts
# of the path that match an asterisk.
_ROUTES: dict[str, Callable[..., Any]] = {
    "GET ": lambda s, q, b: {},
    "GET contexts": lambda s, q, b: q.page(s.contexts()),
    "GET schemas": lambda s, q, b: q.page(
        s.all_versions(q.prefix(), q.flag("deleted"), q.flag("latestOnly")),
    ),
    "GET schemas/types": lambda s, q, b: sorted(TYPES),
    "GET schemas/ids/*": lambda s, q, b, i: _by_id(s, q, i),
    "GET schemas/ids/*/schema": lambda s, q, b, i: json.loads(_by_id(s, q, i)["schema"]),
    "GET schemas/ids/*/versions": lambda s, q, b, i: _versions_of(s, q, i),
    "GET schemas/ids/*/subjects": lambda s, q, b, i: sorted({v["subject"] for v in _versions_of(s, q, i)}),
    "GET schemas/guids/*": lambda s, q, b, g: s.describe(*s.by_guid(g)[0], q.text("format")),
    "GET schemas/guids/*/ids": lambda s, q, b, g: [{"context": each[0], "id": each[1]} for each in s.by_guid(g)],
    "GET subjects": lambda s, q, b: q.page(s.subjects(q.prefix(), q.flag("deleted"), q.flag("deletedOnly"))),
    "GET subjects/*/metadata": lambda s, q, b, n: s.with_metadata(n, q.pair(), q.flag("deleted")),
    "POST subjects/*": lambda s, q, b, n: s.lookup(n, b, q.flag("normalize"), q.flag("deleted")),
    "DELETE subjects/*": lambda s, q, b, n: s.delete_subject(n, q.flag("permanent")),
    "GET subjects/*/versions": lambda s, q, b, n: q.page(
        [v.version for v in s.versions(n, q.flag("deleted"), q.flag("deletedOnly"))]
    ),
    "POST subjects/*/versions": lambda s, q, b, n: s.register(n, b, q.flag("normalize")),
    "GET subjects/*/versions/*": lambda s, q, b, n, v: s.version(n, v, q.text("format"), q.flag("deleted")),
    "GET subjects/*/versions/*/schema": lambda s, q, b, n, v: json.loads(
        s.version(n, v, q.text("format"), q.flag("deleted"))["schema"]
    ),
    "GET subjects/*/versions/*/referencedby": lambda s, q, b, n, v: s.referenced_by(n, v),
    "DELETE subjects/*/versions/*": lambda s, q, b, n, v: s.delete_version(n, v, q.flag("permanent")),
    "POST compatibility/subjects/*/versions": lambda s, q, b, n: _check(s, q, b, n, None),
    "POST compatibility/subjects/*/versions/*": lambda s, q, b, n, v: _check(s, q, b, n, v),
    "GET config": lambda s, q, b: s.config(""),
    "PUT config": lambda s, q, b: s.set_config("", b),
    "DELETE config": lambda s, q, b: s.delete_config(""),
    "GET config/*": lambda s, q, b, n: _config(s, q, n),
    "PUT config/*": lambda s, q, b, n: s.set_config(n, b),
    "DELETE config/*": lambda s, q, b, n: s.delete_config(n),
    "GET mode": lambda s, q, b: {"mode": s.mode("")},
    "PUT mode": lambda s, q, b: s.set_mode("", b, q.flag("force")),
    "GET mode/*": lambda s, q, b, n: _mode(s, q, n),
    "PUT mode/*": lambda s, q, b, n: s.set_mode(n, b, q.flag("force")),
    "DELETE mode/*": lambda s, q, b, n: s.delete_mode(n),
}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], registry: DevRegistry) -> None:
        self.registry = registry
        self._open: set[socket.socket] = set()
        self._open_lock = threading.Lock()
        self.stopped = threading.Event()
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        # Skip `HTTPServer.server_bind`, because it looks up the name of the host, which can take seconds.
        TCPServer.server_bind(self)
        self.server_name, self.server_port = "localhost", self.server_address[1]

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        connection.settimeout(IDLE_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        context = self.registry._context  # noqa: SLF001
        if context is not None:
            # The handshake runs in the thread of the connection, so that a silent client does not block other clients.
            connection = context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        with self._open_lock:
            self._open.add(connection)
        return connection, address

    def shutdown_request(self, request: Any) -> None:
        with self._open_lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def disconnect(self) -> None:
        """Close all connections, as the end of a process would."""
        self.stopped.set()
        with self._open_lock:
            for connection in self._open:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Do not log anything. A client that disconnects or has a wrong certificate is not an error of this program."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "klamm-dev-registry", ""
    wbufsize = -1  # buffered, so that head and body are sent in one packet

    def setup(self) -> None:
        if isinstance(self.request, ssl.SSLSocket):
            self.request.do_handshake()
        super().setup()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name in the standard library
        """Log nothing."""

    def _respond(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        self.send_header("Content-Length", str(len(body)))
        if status == 401:  # noqa: PLR2004 - HTTP's number
            self.send_header("WWW-Authenticate", 'Basic realm="schema registry"')
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _handle(self) -> None:
        try:
            length = int(self.headers.get("Content-Length") or 0)
        except ValueError:
            length = -1
        if not 0 <= length <= MAX_BODY or self.headers.get("Transfer-Encoding"):
            self.close_connection = True
            self._respond(413, b'{"error_code": 413, "message": "the length of the request is invalid"}')
            return
        body = self.rfile.read(length)
        registry = self.server.registry
        fault = registry._next_fault(self.command, self.path)  # noqa: SLF001
        if fault is not None and fault.action == "delay":
            self.server.stopped.wait(fault.seconds)
        if fault is not None and fault.action == "drop":
            self.close_connection = True
        elif fault is not None and fault.action == "garbage":
            self._respond(200, b"<html>this is not JSON")
        elif fault is not None and fault.action == "error":
            code = fault.status * 100 + 1 if fault.status >= 500 else fault.status  # noqa: PLR2004
            self._respond(fault.status, json.dumps({"error_code": code, "message": "injected fault"}).encode())
        elif not registry._is_allowed(self.headers.get("Authorization") or ""):  # noqa: SLF001
            self._respond(401, b'{"error_code": 401, "message": "Unauthorized"}')
        else:
            self._respond_safely(body)

    def _respond_safely(self, body: bytes) -> None:
        try:
            status, answer = self.server.registry._answer(self.command, self.path, body)  # noqa: SLF001
        except Exception as error:  # noqa: BLE001 - a registry responds with status 500 if it fails itself
            status, answer = 500, {"error_code": 50001, "message": f"{type(error).__name__}: {error}"}
        self._respond(status, json.dumps(answer).encode())

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = _handle  # noqa: N815 - the names in the standard library


def _context(pair: tuple[str, str], client_ca: str | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # OpenSSL reads certificates from files only.
    with TemporaryDirectory(prefix="klamm-dev-registry-") as directory:
        certificate, key = Path(directory) / "certificate", Path(directory) / "key"
        for path, text in (certificate, pair[0]), (key, pair[1]):
            path.touch(mode=0o600)
            path.write_text(text, encoding="ascii")
        context.load_cert_chain(certificate, key)
    if client_ca is not None:
        context.load_verify_locations(cadata=client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    return context

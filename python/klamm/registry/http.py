"""Sends the HTTP requests of a registry client, with failover, retries, deadlines, shared requests and tokens.

`Requests` has coroutines that the blocking and the asyncio client share (see `klamm.waiting`). `BlockingRequests` sends
requests and waits in the calling thread. `AsyncRequests` waits on an event loop. httpx2 opens the connections.
`klamm.registry.client` builds the URL paths.
"""

from __future__ import annotations

import copy
import json
import os
import random
import time
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

from klamm import oauth
from klamm.errors import AuthenticationError, ClosedError, ConfigError
from klamm.registry import deadlines
from klamm.registry.cache import fork_safe_lock
from klamm.registry.config import header_value
from klamm.registry.errors import (
    IncompatibleSchemaError,
    InvalidSchemaError,
    RegistryAuthenticationError,
    RegistryTimeoutError,
    RegistryUnavailableError,
    SchemaNotFoundError,
    SchemaRegistryError,
)
from klamm.threads import sleep

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable, Mapping

    from klamm.registry.config import Settings

MAX_RESPONSE = 64 << 20
"""Maximum size of a response, in bytes."""
_SHORTEST = 0.001
"""Shortest time for the request of a token, in seconds."""
_RETRIABLE = {408, 429, 500, 502, 503, 504}
_CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"


class Response(NamedTuple):
    """An HTTP response."""

    status: int
    body: bytes


class Requests:
    """The base class of the blocking and the asyncio client."""

    _settings: Settings

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._first_url = 0
        self._token: tuple[str, float] | None = None
        self._closed = False

    async def _send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, seconds: float
    ) -> Response:
        """Send a request. Raise `RegistryTimeoutError` if the response is not complete after some seconds."""
        raise NotImplementedError

    async def _pause(self, seconds: float) -> None:
        raise NotImplementedError

    async def _call(self, function: Callable[[], Any], seconds: float) -> Any:
        """Call a blocking function, and return its result.

        On an event loop, the function runs in a thread, and the call ends after some seconds.
        """
        raise NotImplementedError

    async def _once(self, key: object, fetch: Callable[[], Awaitable[Any]]) -> Any:
        """Return the result of `fetch`. Concurrent calls with the same key share one call of `fetch`."""
        raise NotImplementedError

    async def _request(
        self, method: str, path: str, what: str, *, query: Mapping[str, Any] | None = None, body: Any = None
    ) -> Any:
        """Send a request and return the JSON of the response. `what` describes the request in error messages.

        All attempts together take at most `timeout` seconds. While there are more addresses, an address that does not
        answer takes only its share of the time.
        """
        if self._closed:
            raise ClosedError("the schema registry client is closed")
        chosen = {name: value for name, value in (query or {}).items() if value not in (None, False)}
        path += "?" + urlencode({k: "true" if v is True else v for k, v in chosen.items()}) if chosen else ""
        content = None if body is None else json.dumps(body).encode()
        settings, failure, failures = self._settings, SchemaRegistryError(f"{what} failed"), 0
        deadline = time.monotonic() + settings.timeout
        for attempt in range(settings.max_retries + 1):
            if attempt:
                longest = min(settings.retries_wait * 2 ** min(attempt - 1, 30), settings.retries_max_wait)
                pause = longest * random.uniform(0.5, 1)
                if deadline - time.monotonic() - pause < settings.timeout / 100:
                    break  # too little time for an answer
                await self._pause(pause)
            for number in range(len(settings.urls)):
                seconds = (deadline - time.monotonic()) / (len(settings.urls) - number)
                if seconds <= 0:
                    break
                index = (self._first_url + number) % len(settings.urls)
                url = settings.urls[index]
                try:
                    response = await self._send_with_token(method, url + path, content, seconds)
                except RegistryUnavailableError as error:
                    failure = _failed(what, url, error)
                    failures += 1
                    continue
                if response.status in _RETRIABLE:
                    failure = _refused(what, url, response)
                    failures += 1
                    continue
                self._first_url = index
                return _decoded(what, url, response)
        if failures > 1:
            failure.message += f" ({failures} attempts)"
        raise failure

    async def _send_with_token(self, method: str, url: str, body: bytes | None, seconds: float) -> Response:
        settings = self._settings
        headers = dict(settings.headers)
        if body is not None:
            headers["Content-Type"] = _CONTENT_TYPE
        if settings.token is None and settings.token_provider is None:
            return await self._send(method, url, headers, body, seconds)
        response, deadline = Response(401, b""), time.monotonic() + seconds
        for attempt in range(2):
            headers["Authorization"] = f"Bearer {await self._bearer(deadline)}"
            response = await self._send(method, url, headers, body, deadline - time.monotonic())
            if response.status != 401 or attempt:  # noqa: PLR2004 - HTTP's number
                break
            self._token = None  # the token may have been revoked before it expired
        return response

    async def _bearer(self, deadline: float) -> str:
        if self._token is None or self._token[1] <= time.time():
            await self._once("token", lambda: self._fetch_token(deadline))
        if self._token is None:
            raise RegistryAuthenticationError("no token for the schema registry")
        return self._token[0]

    async def _fetch_token(self, deadline: float) -> None:
        settings, seconds = self._settings, max(deadline - time.monotonic(), _SHORTEST)
        if settings.token_provider is not None:
            fetch = partial(oauth.provided, settings.token_provider)
        else:
            endpoint = dict(settings.token or {})
            fetch = partial(oauth.client_credentials, endpoint.pop("url"), endpoint, min(seconds, oauth.TIMEOUT_S))
        began = time.time()
        try:
            token = await self._call(fetch, seconds)
            value = header_value("the token", token.value)
        except (AuthenticationError, ConfigError) as error:
            hint = "check bearer.auth.issuer.endpoint.url, bearer.auth.client.id, .client.secret and .scope"
            raise RegistryAuthenticationError(
                f"cannot log in to the schema registry: {error.message}",
                hint=hint if settings.token_provider is None else "check bearer.auth.token.provider",
            ) from None
        except RegistryTimeoutError:
            raise
        except Exception as error:
            raise RegistryAuthenticationError(
                f"cannot log in to the schema registry: bearer.auth.token.provider raised {type(error).__name__}"
            ) from error
        self._token = value, began + oauth.REFRESH_AT * (token.expires_at - began)


class BlockingRequests(Requests):
    """Sends requests and waits in the calling thread. Threads can share one object."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        # In a forked process, a module that another thread of the parent was importing can never be imported.
        _library()
        self._lock = fork_safe_lock()
        self._flights: dict[object, Future[Any]] = {}
        self._http: tuple[int, Any] | None = None

    def _client(self) -> Any:
        # A forked process must not use the connections of its parent.
        with self._lock:
            if self._http is None or self._http[0] != os.getpid():
                httpx = _library()
                self._http = os.getpid(), deadlines.bounded(httpx.Client(**_client_arguments(self._settings)))
            return self._http[1]

    async def _send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, seconds: float
    ) -> Response:
        httpx, client = _library(), self._client()
        try:
            with (
                deadlines.within(seconds),
                client.stream(method, url, headers=headers, content=body) as response,
            ):
                read = bytearray()
                for part in response.iter_bytes():
                    read += part
                    _check_size(len(read))
                return Response(response.status_code, bytes(read))
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise _unsent(httpx, error, seconds) from None

    async def _pause(self, seconds: float) -> None:
        sleep(seconds)

    async def _call(self, function: Callable[[], Any], seconds: float) -> Any:  # noqa: ARG002
        return function()

    async def _once(self, key: object, fetch: Callable[[], Awaitable[Any]]) -> Any:
        key = os.getpid(), key
        while True:
            with self._lock:
                future = self._flights.get(key)
                is_first = future is None
                if future is None:
                    future = self._flights[key] = Future()
            if is_first:
                break
            error = future.exception()
            if error is None:
                return future.result()
            if isinstance(error, Exception):
                raise copy.copy(error) from None  # threads must not share a traceback
            # The first caller was interrupted (by Ctrl+C, for example). The request itself may succeed, so try again.
        try:
            result = await fetch()
        except BaseException as error:
            self._land(key)
            future.set_exception(error)
            raise
        self._land(key)
        future.set_result(result)
        return result

    def _land(self, key: object) -> None:
        with self._lock:
            self._flights.pop(key, None)

    def _disconnect(self) -> None:
        self._closed = True
        with self._lock:
            http, self._http = self._http, None
        if http is not None and http[0] == os.getpid():
            http[1].close()


class AsyncRequests(Requests):
    """Sends requests and waits on the event loop. Each event loop has its own connections."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._flights: dict[object, asyncio.Task[Any]] = {}
        self._http: tuple[Any, Any] | None = None

    def _client(self) -> Any:
        import asyncio

        loop = asyncio.get_running_loop()
        if self._http is None or self._http[0] is not loop:
            httpx = _library()
            self._http = loop, httpx.AsyncClient(**_client_arguments(self._settings))
        return self._http[1]

    async def _send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, seconds: float
    ) -> Response:
        import asyncio

        httpx, client = _library(), self._client()

        async def exchange() -> Response:
            async with client.stream(method, url, headers=headers, content=body) as response:
                read = bytearray()
                async for part in response.aiter_bytes():
                    read += part
                    _check_size(len(read))
                return Response(response.status_code, bytes(read))

        try:
            return await asyncio.wait_for(exchange(), seconds)
        except asyncio.TimeoutError:
            raise _late(seconds) from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise _unsent(httpx, error, seconds) from None

    async def _pause(self, seconds: float) -> None:
        import asyncio

        await asyncio.sleep(seconds)

    async def _call(self, function: Callable[[], Any], seconds: float) -> Any:
        import asyncio

        try:
            return await asyncio.wait_for(asyncio.to_thread(function), seconds)
        except asyncio.TimeoutError:
            raise RegistryTimeoutError(f"no token within {seconds:.3g} s") from None

    async def _once(self, key: object, fetch: Callable[[], Awaitable[Any]]) -> Any:
        import asyncio

        loop = asyncio.get_running_loop()
        key = id(loop), key
        task = self._flights.get(key)
        if task is None or task.done():

            async def fetched() -> Any:
                return await fetch()

            # Use a separate task, because the first caller can be cancelled while other callers wait for the result.
            task = self._flights[key] = loop.create_task(fetched())
            task.add_done_callback(partial(self._land, key))
        return await asyncio.shield(task)

    def _land(self, key: object, task: asyncio.Task[Any]) -> None:
        if self._flights.get(key) is task:
            del self._flights[key]
        if not task.cancelled():
            task.exception()  # marks the exception as retrieved, even if all callers were cancelled

    async def _disconnect(self) -> None:
        import asyncio

        self._closed = True
        for task in list(self._flights.values()):
            if task.get_loop() is asyncio.get_running_loop():
                task.cancel()
        http, self._http = self._http, None
        if http is not None and http[0] is asyncio.get_running_loop():
            await http[1].aclose()


def _library() -> Any:
    try:
        import httpx2
    except ImportError:
        raise ConfigError("klamm.registry needs httpx2", hint="pip install 'klamm[registry]'") from None
    return httpx2


def _client_arguments(settings: Settings) -> dict[str, Any]:
    return {"verify": settings.verify, "proxy": settings.proxy, "timeout": settings.timeout}


def _check_size(size: int) -> None:
    if size > MAX_RESPONSE:
        raise SchemaRegistryError("the response of the schema registry is too long")


def _late(seconds: float) -> RegistryTimeoutError:
    return RegistryTimeoutError(f"no complete response within {seconds:.3g} s")


def _unsent(httpx: Any, error: Exception, seconds: float) -> SchemaRegistryError:
    if isinstance(error, httpx.TimeoutException):
        return _late(seconds)
    if isinstance(error, (httpx.LocalProtocolError, httpx.InvalidURL)):
        # The library's message can contain the invalid header or URL, which may contain a secret.
        return SchemaRegistryError(f"the request is invalid: {type(error).__name__}")
    return RegistryUnavailableError(str(error) or type(error).__name__)


def _failed(what: str, url: str, error: RegistryUnavailableError) -> SchemaRegistryError:
    hint = "check url, the registry and the network"
    if "CERTIFICATE" in error.message.upper():
        hint = "check ssl.ca.location, ssl.certificate.location and the host in url"
    if isinstance(error, RegistryTimeoutError):
        hint += "; or increase the timeout"
    return type(error)(f"{what} failed: schema registry {url}: {error.message}", hint=hint, url=url)


def _refused(what: str, url: str, response: Response) -> SchemaRegistryError:
    status, (code, text) = response.status, _explanation(response.body)
    message = f"{what} failed: schema registry {url} answered {status if code is None else code}: {text}"
    kind, hint = SchemaRegistryError, None
    if status in (401, 403):
        kind = RegistryAuthenticationError
        hint = "check basic.auth.user.info or the bearer.auth.* keys"
        if status == 403:  # noqa: PLR2004 - HTTP's number
            hint = "the user is not authorized; check its permissions"
    elif status == 404:  # noqa: PLR2004
        kind = SchemaNotFoundError
        hint = None if code is not None else "check that url is the address of a schema registry, with its path"
    elif status == 409:  # noqa: PLR2004
        kind = IncompatibleSchemaError
        hint = "make the schema compatible, or change the compatibility level of the subject"
    elif status in (400, 422):
        kind = InvalidSchemaError
    elif status in _RETRIABLE:
        kind = RegistryUnavailableError
        hint = "check the registry; klamm tries max.retries times"
    elif 300 <= status < 400:  # noqa: PLR2004
        hint = "set url to the final address: klamm follows no redirects, to send credentials only to the configured address"
    return kind(message, hint=hint, status=status, code=code, url=url)


def _explanation(body: bytes) -> tuple[int | None, str]:
    """Return the error code of a response, which can be None, and the error message."""
    try:
        fields = json.loads(body)
        code, text = fields.get("error_code"), fields.get("message")
    except (ValueError, AttributeError, RecursionError):
        code, text = None, None
    if not isinstance(text, str) or not text:
        text = body[:300].decode("utf-8", "replace")
    text = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    return (code if isinstance(code, int) else None), text[:1000] or "no message"


def _decoded(what: str, url: str, response: Response) -> Any:
    if not 200 <= response.status < 300:  # noqa: PLR2004 - HTTP's numbers
        raise _refused(what, url, response)
    if not response.body:
        return None
    try:
        return json.loads(response.body)
    except (ValueError, RecursionError):
        raise SchemaRegistryError(
            f"{what} failed: schema registry {url} sent a response that is not JSON",
            hint="check that url is the address of a schema registry, with its path",
            status=response.status,
            url=url,
        ) from None

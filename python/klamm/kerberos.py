"""Computes Kerberos tokens for SASL GSSAPI, with the system's own library (MIT's libgssapi_krb5).

    klamm.Producer(servers, security_protocol="SASL_SSL", sasl_mechanism="GSSAPI", sasl_kerberos_keytab="/etc/klamm.keytab")

klamm calls the library through ctypes, because the package `gssapi` has no wheels for Linux and would need a compiler
and headers. The library's functions run in a separate thread, because they can block while they fetch a Kerberos
ticket. The Rust core sends the tokens and negotiates the security layer.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import time
from contextlib import suppress
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint32, c_void_p
from functools import cache
from typing import TYPE_CHECKING, Any

from klamm.errors import AuthenticationError, ConfigError
from klamm.threads import start_daemon

if TYPE_CHECKING:
    from collections.abc import Mapping

    from klamm._klamm import LoginMailbox, LoginQuestion

__all__: list[str] = []

IDLE_S = 60.0
"""Longest wait for the next step of a login, in seconds.

After the wait, the thread checks whether the client is closed.
"""
ABANDONED_S = 300.0
"""Seconds after which klamm deletes the security context of an incomplete login."""

_KRB5 = bytes.fromhex("2a864886f712010202")
_HOST_BASED_SERVICE = bytes.fromhex("2a864886f71201020104")
_USER_NAME = bytes.fromhex("2a864886f71201020101")
_MUTUAL, _SEQUENCE, _INTEGRITY = 2, 8, 32
_INITIATE = 1
_CONTINUE_NEEDED = 1
_ERRORS = 0xFFFF0000
"""Mask for the error, which is in the upper half of a status code.

The lower half of a status code has only additional information.
"""


class _Oid(ctypes.Structure):
    _fields_ = (("length", c_uint32), ("elements", c_char_p))


class _Buffer(ctypes.Structure):
    _fields_ = (("length", c_size_t), ("value", c_void_p))
    data: bytes
    """The bytes to which `value` points. The attribute keeps the bytes alive as long as the buffer exists."""


class _Pair(ctypes.Structure):
    _fields_ = (("key", c_char_p), ("value", c_char_p))


class _Store(ctypes.Structure):
    _fields_ = (("count", c_uint32), ("elements", POINTER(_Pair)))


class _Oids(ctypes.Structure):
    _fields_ = (("count", c_size_t), ("elements", POINTER(_Oid)))


@cache
def _library() -> Any:
    with suppress(OSError):
        return ctypes.CDLL("libgssapi_krb5.so.2")
    name = ctypes.util.find_library("gssapi_krb5")
    with suppress(OSError):
        return ctypes.CDLL(name) if name else None
    return None


def start(mailbox: LoginMailbox, settings: list[tuple[str, str]]) -> None:
    """Start the thread that computes the tokens for a client's logins. The thread ends when the client is closed."""
    if _library() is None:
        raise ConfigError(
            "sasl.mechanism=GSSAPI needs the Kerberos library libgssapi_krb5, which is not installed",
            hint="run apt install libgssapi-krb5-2, dnf install krb5-libs, or brew install krb5",
        )
    chosen = {key.removeprefix("sasl.kerberos."): value for key, value in settings}
    start_daemon("klamm-kerberos", _run, mailbox, chosen)


def _run(mailbox: LoginMailbox, settings: Mapping[str, str]) -> None:
    contexts: dict[int, _Context] = {}
    while mailbox.wait(0):
        question = mailbox.question(IDLE_S)
        if question is None:
            continue
        connection = question.connection
        try:
            _answer(mailbox, settings, contexts, question)
        except AuthenticationError as error:
            contexts.pop(connection, None)
            mailbox.refuse(connection, error.message, error.hint or "")
        except BaseException as error:  # noqa: BLE001 - this login fails, and the thread continues with other logins
            contexts.pop(connection, None)
            mailbox.refuse(connection, f"GSSAPI: {type(error).__name__}: {error}", "")


def _answer(
    mailbox: LoginMailbox, settings: Mapping[str, str], contexts: dict[int, _Context], question: LoginQuestion
) -> None:
    connection, step = question.connection, question.kind
    if step == "step" and not question.token:
        for number in [number for number, each in contexts.items() if not each.is_recent()]:
            del contexts[number]
        contexts[connection] = _Context(f"{settings['service.name']}@{question.host}", settings)
    context = contexts[connection]
    answer = getattr(context, step)(question.token)
    mailbox.answer(connection, answer, context.is_established)
    if step == "wrap":  # the last step of a login
        del contexts[connection]


class _Context:
    """A security context that the client is negotiating with a broker."""

    def __init__(self, service: str, settings: Mapping[str, str]) -> None:
        self.is_established = False
        self._library = _library()
        self._began = time.monotonic()
        self._service = service
        self._mechanism = _oid(_KRB5)
        self._context, self._name, self._credentials = c_void_p(), c_void_p(), c_void_p()
        self._name = self._named(service, _HOST_BASED_SERVICE)
        self._acquire(settings)

    def is_recent(self) -> bool:
        """Return whether the login began less than `ABANDONED_S` seconds ago."""
        return time.monotonic() - self._began < ABANDONED_S

    def step(self, token: bytes) -> bytes:
        """Return the next token to send. `token` is the last token that the broker sent."""
        output, flags = _Buffer(), c_uint32()
        token_buffer = _buffer(token)
        status = self._call(
            "gss_init_sec_context",
            self._credentials,
            byref(self._context),
            self._name,
            byref(self._mechanism),
            c_uint32(_MUTUAL | _SEQUENCE | _INTEGRITY),
            c_uint32(0),
            None,
            byref(token_buffer) if token else None,
            None,
            byref(output),
            byref(flags),
            None,
        )
        self.is_established = status != _CONTINUE_NEEDED
        if self.is_established and not flags.value & _MUTUAL:
            raise AuthenticationError(f"GSSAPI: {self._service} did not prove its identity", hint=_HINT)
        return self._release(output)

    def unwrap(self, message: bytes) -> bytes:
        """Verify the integrity of a message, and return its content."""
        output, given = _Buffer(), _buffer(message)
        self._call("gss_unwrap", self._context, byref(given), byref(output), None, None)
        return self._release(output)

    def wrap(self, message: bytes) -> bytes:
        """Add integrity protection to a message, without encryption."""
        output, given = _Buffer(), _buffer(message)
        self._call("gss_wrap", self._context, c_int(0), c_uint32(0), byref(given), None, byref(output))
        return self._release(output)

    def _acquire(self, settings: Mapping[str, str]) -> None:
        principal, keytab = settings.get("principal"), settings.get("keytab")
        if principal is None and keytab is None:
            return  # the library uses the default credentials of the environment
        name = self._named(principal, _USER_NAME) if principal else c_void_p()
        pairs = (_Pair * 2)(
            _Pair(b"client_keytab", f"FILE:{keytab}".encode()),
            # Tickets from the keytab stay in the memory of this process.
            _Pair(b"ccache", f"MEMORY:klamm-{keytab}-{principal}".encode()),
        )
        store = _Store(2, pairs) if keytab else _Store(0, None)
        oids = _Oids(1, ctypes.pointer(self._mechanism))
        try:
            self._call(
                "gss_acquire_cred_from",
                name,
                c_uint32(0),
                byref(oids),
                c_int(_INITIATE),
                byref(store),
                byref(self._credentials),
                None,
                None,
            )
        finally:
            if name.value:
                self._library.gss_release_name(byref(c_uint32()), byref(name))

    def _named(self, name: str, kind: bytes) -> c_void_p:
        made, given, oid = c_void_p(), _buffer(name.encode()), _oid(kind)
        self._call("gss_import_name", byref(given), byref(oid), byref(made))
        return made

    def _call(self, function: str, *arguments: Any) -> int:
        minor = c_uint32()
        status: int = getattr(self._library, function)(byref(minor), *arguments) & 0xFFFFFFFF
        if status & _ERRORS:
            reasons = "; ".join(filter(None, [_message(status, 1), _message(minor.value, 2)]))
            raise AuthenticationError(f"GSSAPI for {self._service}: {reasons}", hint=_HINT)
        return status

    def _release(self, output: _Buffer) -> bytes:
        data = ctypes.string_at(output.value, output.length) if output.length else b""
        self._library.gss_release_buffer(byref(c_uint32()), byref(output))
        return data

    def __del__(self) -> None:
        minor, library = c_uint32(), self._library
        library.gss_delete_sec_context(byref(minor), byref(self._context), None)
        library.gss_release_name(byref(minor), byref(self._name))
        library.gss_release_cred(byref(minor), byref(self._credentials))


_HINT = (
    "check the ticket (klist, kinit, sasl.kerberos.keytab), krb5.conf, and that the broker's principal is for this host"
)


def _oid(elements: bytes) -> _Oid:
    return _Oid(len(elements), elements)


def _buffer(data: bytes) -> _Buffer:
    made = _Buffer(len(data), ctypes.cast(c_char_p(data), c_void_p))
    made.data = data
    return made


def _message(status: int, kind: int) -> str:
    """Return the library's text for a status code."""
    messages, more, minor, mechanism = [], c_uint32(0), c_uint32(), _oid(_KRB5)
    while True:
        output = _Buffer()
        given = (byref(minor), c_uint32(status), c_int(kind), byref(mechanism), byref(more), byref(output))
        if _library().gss_display_status(*given) & _ERRORS:
            break
        messages.append(ctypes.string_at(output.value, output.length).decode(errors="replace"))
        _library().gss_release_buffer(byref(minor), byref(output))
        if not more.value:
            break
    return ", ".join(messages)

"""Tokens from an OpenID Connect endpoint: a small test endpoint and its failures."""

from __future__ import annotations

import base64
import contextlib
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

import pytest

import klamm
from klamm import oauth
from klamm.errors import AuthenticationError, ConfigError
from klamm.testing import DevBroker
from secured import unsecured_token

SECRET = "cl13nt: secret&more"


class Endpoint:
    """A token endpoint. `answer` returns status and body for the fields of a request."""

    def __init__(self, answer) -> None:
        self.seen = []
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                fields = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                endpoint.seen.append(
                    (self.headers.get("Authorization"), {key: value[0] for key, value in fields.items()})
                )
                status, headers, body = answer(self)
                with contextlib.suppress(OSError):
                    self.send_response(status)
                    for name, value in headers.items():
                        self.send_header(name, value)
                    self.end_headers()
                    self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/token"

    def __enter__(self):
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


def good(_, lasts=3600):
    body = {"access_token": unsecured_token(lasts=lasts), "token_type": "Bearer", "expires_in": lasts}
    return 200, {"Content-Type": "application/json"}, json.dumps(body).encode()


@pytest.fixture(scope="module")
def door():
    with DevBroker(sasl={"OAUTHBEARER": None}) as broker:
        yield broker.client_config(mechanism="OAUTHBEARER") | {
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": "klamm",
            "sasl.oauthbearer.client.secret": SECRET,
        }


def refusal(config, seconds=20.0):
    began = time.monotonic()
    with klamm.Admin(config) as admin, pytest.raises(AuthenticationError) as caught:
        admin.list_topics(timeout=seconds)
    assert time.monotonic() - began < seconds
    assert SECRET not in str(caught.value)
    return str(caught.value)


def test_client_credentials_open_the_door(door):
    with Endpoint(good) as endpoint:
        config = door | {"sasl.oauthbearer.token.endpoint.url": endpoint.url, "sasl.oauthbearer.scope": "kafka read"}
        with klamm.Producer(config | {"sasl.oauthbearer.extensions": "traceId=123"}) as producer:
            producer.send("t", b"v").result(20)
        (authorization, fields), *more = endpoint.seen
    assert not more
    assert fields == {"grant_type": "client_credentials", "scope": "kafka read"}
    assert base64.b64decode(authorization.removeprefix("Basic ")).decode() == "klamm:cl13nt%3A+secret%26more"


def test_java_names_the_client_in_its_own_way(door):
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    jaas = f'{module} required clientId="java" clientSecret="{SECRET}" scope="s";'
    config = {key: value for key, value in door.items() if ".client." not in key} | {"sasl.jaas.config": jaas}
    with Endpoint(good) as endpoint:
        with klamm.Admin(config | {"sasl.oauthbearer.token.endpoint.url": endpoint.url}) as admin:
            admin.list_topics(timeout=20)
        authorization, fields = endpoint.seen[0]
    assert base64.b64decode(authorization.removeprefix("Basic ")).decode().startswith("java:")
    assert fields["scope"] == "s"


def test_an_assertion_authenticates_and_is_read_again_for_each_token(door, tmp_path):
    assertion = tmp_path / "assertion"
    assertion.write_text("first.one.x\n")
    grant = "urn:ietf:params:oauth:grant-type:jwt-bearer"

    def answer(_):
        assertion.write_text("next.one.x\n")
        return good(_, lasts=1.0)

    with Endpoint(answer) as endpoint:
        config = door | {"sasl.oauthbearer.token.endpoint.url": endpoint.url, "sasl.oauthbearer.grant.type": grant}
        with klamm.Admin(config | {"sasl.oauthbearer.assertion.file": str(assertion)}) as admin:
            admin.list_topics(timeout=20)
            deadline = time.monotonic() + 20
            while len(endpoint.seen) < 2 and time.monotonic() < deadline:
                threading.Event().wait(0.05)
        assert [fields["assertion"] for _, fields in endpoint.seen[:2]] == ["first.one.x", "next.one.x"]
        assert endpoint.seen[0] == (None, {"grant_type": grant, "assertion": "first.one.x"})


def test_a_token_is_renewed_before_it_expires_without_a_request(door):
    with Endpoint(lambda request: good(request, lasts=1.5)) as endpoint:
        with klamm.Producer(door | {"sasl.oauthbearer.token.endpoint.url": endpoint.url}):
            deadline = time.monotonic() + 20
            while len(endpoint.seen) < 3 and time.monotonic() < deadline:
                threading.Event().wait(0.05)
        assert len(endpoint.seen) >= 3


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ((401, {}, b'{"error":"invalid_client"}'), 'answered 401: {"error":"invalid_client"}'),
        ((200, {}, b"<html>"), "has no token"),
        ((200, {}, b'{"token_type":"Bearer"}'), "has no token"),
        ((200, {}, b'{"access_token":7,"expires_in":60}'), "is not a string"),
        ((200, {}, b'{"access_token":"opaque"}'), "has no token"),
        ((200, {}, b" " * (2 << 20)), "too long"),
        ((307, {"Location": "http://127.0.0.1:1/"}, b""), "answered 307"),
    ],
)
def test_an_endpoint_that_gives_no_token(door, answer, says):
    with Endpoint(lambda _: answer) as endpoint:
        assert says in refusal(door | {"sasl.oauthbearer.token.endpoint.url": endpoint.url})


def test_an_endpoint_that_hangs_does_not_block_the_client(door, monkeypatch):
    monkeypatch.setattr(oauth, "TIMEOUT_S", 0.5)
    over = threading.Event()

    def hang(_):
        over.wait(20)
        return 500, {}, b""

    with Endpoint(hang) as endpoint:
        said = refusal(door | {"sasl.oauthbearer.token.endpoint.url": endpoint.url}, seconds=10)
        over.set()
    assert "no token" in said
    assert "0 s" in said


def test_an_endpoint_that_hangs_does_not_hold_up_a_close(door):
    over = threading.Event()

    def hang(_):
        over.wait(20)
        return 500, {}, b""

    with Endpoint(hang) as endpoint:
        began = time.monotonic()
        config = door | {"sasl.oauthbearer.token.endpoint.url": endpoint.url}
        with klamm.Admin(config) as admin, pytest.raises(klamm.KafkaError, match="there is no token"):
            admin.list_topics(timeout=0.3)
        assert time.monotonic() - began < 5
        over.set()


def test_an_endpoint_that_is_not_there(door):
    said = refusal(door | {"sasl.oauthbearer.token.endpoint.url": "http://127.0.0.1:1/token?code=x"})
    assert "the request to" in said
    assert "code" not in said


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"sasl.oauthbearer.token.endpoint.url": "ftp://h/token"}, "use an https:// URL"),
        ({"sasl.oauthbearer.token.endpoint.url": "https://me:pass@h/token"}, "URL without a user"),
        ({"sasl.oauthbearer.token.endpoint.url": "https://h/token"}, "needs sasl.oauthbearer.client.secret"),
        (
            {"sasl.oauthbearer.token.endpoint.url": "https://h", "sasl.oauthbearer.extensions": "a"},
            "the format is key=value",
        ),
        ({}, "needs a source of tokens"),
    ],
)
def test_what_is_missing_is_said_at_once(more, says):
    config = {"bootstrap.servers": "127.0.0.1:1", "security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
    with pytest.raises(ConfigError, match=says):
        klamm.Admin({**config, "sasl.oauthbearer.client.id": "klamm", **more})

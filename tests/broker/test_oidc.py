"""Tokens from an OpenID Connect endpoint: a small test endpoint and its failures."""

from __future__ import annotations

import base64
import threading
import time
import urllib.request

import pytest

import klamm
import klamm.logs
from klamm import oauth, token_endpoint
from klamm.errors import AuthenticationError, ConfigError
from klamm.testing import CertificateAuthority, DevBroker
from token_endpoints import Endpoint, good

SECRET = "cl13nt: secret&more"


@pytest.fixture(scope="module")
def settings():
    with DevBroker(sasl={"OAUTHBEARER": None}) as broker:
        yield broker.client_config(mechanism="OAUTHBEARER") | {
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": "klamm",
            "sasl.oauthbearer.client.secret": SECRET,
        }


def refusal(config, seconds=1.5):
    began = time.monotonic()
    with klamm.Admin(config) as admin, pytest.raises(AuthenticationError) as caught:
        admin.list_topics(timeout=seconds)
    assert time.monotonic() - began < seconds + 5
    assert SECRET not in str(caught.value)
    return str(caught.value)


def test_client_credentials_authenticate(settings):
    with Endpoint(good) as endpoint:
        config = settings | {
            "sasl.oauthbearer.token.endpoint.url": endpoint.url,
            "sasl.oauthbearer.scope": "kafka read",
        }
        with klamm.Producer(config | {"sasl.oauthbearer.extensions": "traceId=123"}) as producer:
            producer.send("t", b"v").result(20)
        (authorization, fields), *more = endpoint.seen
    assert not more
    assert fields == {"grant_type": "client_credentials", "scope": "kafka read"}
    assert base64.b64decode(authorization.removeprefix("Basic ")).decode() == "klamm:cl13nt%3A+secret%26more"


def test_java_names_the_client_in_its_own_way(settings):
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    jaas = f'{module} required clientId="java" clientSecret="{SECRET}" scope="s";'
    config = {key: value for key, value in settings.items() if ".client." not in key} | {"sasl.jaas.config": jaas}
    with Endpoint(good) as endpoint:
        with klamm.Admin(config | {"sasl.oauthbearer.token.endpoint.url": endpoint.url}) as admin:
            admin.list_topics(timeout=20)
        authorization, fields = endpoint.seen[0]
    assert base64.b64decode(authorization.removeprefix("Basic ")).decode().startswith("java:")
    assert fields["scope"] == "s"


def test_an_assertion_authenticates_and_is_read_again_for_each_token(settings, tmp_path):
    assertion = tmp_path / "assertion"
    assertion.write_text("first.one.x\n")
    grant = "urn:ietf:params:oauth:grant-type:jwt-bearer"

    def answer(_):
        assertion.write_text("next.one.x\n")
        return good(_, lasts=1.0)

    with Endpoint(answer) as endpoint:
        config = settings | {"sasl.oauthbearer.token.endpoint.url": endpoint.url, "sasl.oauthbearer.grant.type": grant}
        with klamm.Admin(config | {"sasl.oauthbearer.assertion.file": str(assertion)}) as admin:
            admin.list_topics(timeout=20)
            deadline = time.monotonic() + 20
            while len(endpoint.seen) < 2 and time.monotonic() < deadline:
                threading.Event().wait(0.05)
        assert [fields["assertion"] for _, fields in endpoint.seen[:2]] == ["first.one.x", "next.one.x"]
        assert endpoint.seen[0] == (None, {"grant_type": grant, "assertion": "first.one.x"})


def test_a_token_is_renewed_before_it_expires_without_a_request(settings):
    with Endpoint(lambda request: good(request, lasts=1.5)) as endpoint:
        with klamm.Producer(settings | {"sasl.oauthbearer.token.endpoint.url": endpoint.url}):
            deadline = time.monotonic() + 20
            while len(endpoint.seen) < 3 and time.monotonic() < deadline:
                threading.Event().wait(0.05)
        assert len(endpoint.seen) >= 3


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ((401, {}, b'{"error":"invalid_client"}'), "answered 401: invalid_client; hint"),
        ((200, {}, b"<html>"), "has no token"),
        ((200, {}, b'{"token_type":"Bearer"}'), "has no token"),
        ((200, {}, b'{"access_token":7,"expires_in":60}'), "is not a string"),
        ((200, {}, b'{"access_token":"opaque"}'), "has no token"),
        ((200, {}, b" " * (2 << 20)), "too long"),
        ((307, {"Location": "http://127.0.0.1:1/"}, b""), "answered 307"),
    ],
)
def test_an_endpoint_that_gives_no_token(settings, answer, says):
    with Endpoint(lambda _: answer) as endpoint:
        assert says in refusal(settings | {"sasl.oauthbearer.token.endpoint.url": endpoint.url})


@pytest.mark.parametrize("status", [400, 401, 500])
@pytest.mark.parametrize(
    "body", [b"%s", b'{"error":"%s"}', b'{"error":"invalid_client","error_description":"%s"}', b'{"error":["%s"]}']
)
def test_an_error_repeats_nothing_of_a_response_but_a_known_code(settings, body, status, caplog):
    leaked = b"L34ked-s3cret"
    with Endpoint(lambda _: (status, {}, body % leaked)) as endpoint:
        error_text = refusal(settings | {"sasl.oauthbearer.token.endpoint.url": endpoint.url}, seconds=0.5)
    assert f"answered {status}" in error_text
    assert ("invalid_client" in error_text) == (b"invalid_client" in body)
    klamm.logs.flush(5)
    for text in (error_text, caplog.text):
        assert leaked.decode() not in text


@pytest.mark.parametrize("part", [b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n"])
def test_an_endpoint_that_drips_does_not_exceed_the_timeout(part):
    over = threading.Event()

    def drip(handler):
        handler.wfile.write(part)
        while not over.wait(0.05):
            handler.wfile.write(b"X: y\r\n")
        return 500, {}, b""

    with Endpoint(drip) as endpoint:
        request = urllib.request.Request(endpoint.url, b"grant_type=x")  # noqa: S310 - our own endpoint
        began = time.monotonic()
        try:
            with pytest.raises(TimeoutError):
                token_endpoint.exchange(request, {}, 0.5)
            assert time.monotonic() - began < 5
        finally:
            over.set()


@pytest.mark.parametrize(
    ("variable", "value", "is_allowed"),
    [
        ("KLAMM_OAUTHBEARER_ALLOWED_URLS", "https://h/token, https://other", True),
        ("KLAMM_OAUTHBEARER_ALLOWED_URLS", "https://h/", False),
        ("KLAMM_OAUTHBEARER_ALLOWED_URLS", "", False),
        ("KLAMM_OAUTHBEARER_ALLOWED_FILES", "/run/assertion,/run/other", True),
        ("KLAMM_OAUTHBEARER_ALLOWED_FILES", "/run", False),
        ("KLAMM_OAUTHBEARER_ALLOWED_FILES", "", False),
    ],
)
def test_the_environment_can_restrict_urls_and_files(settings, monkeypatch, variable, value, is_allowed):
    monkeypatch.setenv(variable, value)
    config = settings | {
        "sasl.oauthbearer.token.endpoint.url": "https://h/token",
        "sasl.oauthbearer.grant.type": "urn:ietf:params:oauth:grant-type:jwt-bearer",
        "sasl.oauthbearer.assertion.file": "/run/assertion",
    }
    if is_allowed:
        klamm.Admin(config).close()
    else:
        with pytest.raises(ConfigError, match=variable):
            klamm.Admin(config)


def test_an_endpoint_that_hangs_does_not_block_the_client(settings, monkeypatch):
    monkeypatch.setattr(oauth, "TIMEOUT_S", 0.5)
    over = threading.Event()

    def hang(_):
        over.wait(20)
        return 500, {}, b""

    with Endpoint(hang) as endpoint:
        error_text = refusal(settings | {"sasl.oauthbearer.token.endpoint.url": endpoint.url}, seconds=2)
        over.set()
    assert "no token" in error_text
    assert "0.5 s" in error_text


def test_an_endpoint_that_hangs_does_not_hold_up_a_close(settings):
    over = threading.Event()

    def hang(_):
        over.wait(20)
        return 500, {}, b""

    with Endpoint(hang) as endpoint:
        began = time.monotonic()
        config = settings | {"sasl.oauthbearer.token.endpoint.url": endpoint.url}
        with klamm.Admin(config) as admin, pytest.raises(klamm.KafkaError, match="there is no token"):
            admin.list_topics(timeout=0.3)
        assert time.monotonic() - began < 15
        over.set()


def test_an_endpoint_that_is_not_there(settings):
    error_text = refusal(settings | {"sasl.oauthbearer.token.endpoint.url": "http://127.0.0.1:1/token?code=x"})
    assert "the request to" in error_text
    assert "code" not in error_text


@pytest.fixture(scope="module")
def private():
    """Provide an endpoint whose certificate is of an authority of its own, and the authority."""
    authority = CertificateAuthority()
    with Endpoint(good, authority.issue("idp", ["127.0.0.1"])) as endpoint:
        yield endpoint, authority


@pytest.mark.parametrize("key", ["sasl.oauthbearer.ca", "https.ca"])
@pytest.mark.parametrize("form", ["location", "pem", "pem in one line", "pem with escapes"])
def test_an_endpoint_may_have_an_authority_of_its_own(settings, private, tmp_path, key, form):
    endpoint, authority = private
    config = settings | {"sasl.oauthbearer.token.endpoint.url": endpoint.url}
    if form == "location":
        path = tmp_path / "ca.pem"
        path.write_bytes("# Prüf-CA\n".encode("latin-1") + authority.pem.encode())
        config[f"{key}.location"] = str(path)
    else:
        text = {"pem": authority.pem, "pem in one line": " ".join(authority.pem.splitlines())}
        config[f"{key}.pem"] = text.get(form, "\\n".join(authority.pem.splitlines()))
    with klamm.Admin(config) as admin:
        admin.list_topics(timeout=20)


def test_the_authorities_of_brokers_and_of_the_endpoint_are_apart(private):
    endpoint, authority = private
    with DevBroker(tls=True, sasl={"OAUTHBEARER": None}) as broker:
        config = broker.client_config(mechanism="OAUTHBEARER") | {
            "sasl.oauthbearer.token.endpoint.url": endpoint.url,
            "sasl.oauthbearer.client.id": "klamm",
            "sasl.oauthbearer.client.secret": SECRET,
        }
        authorities = {key: config.pop(key) for key in [*config] if key.startswith("ssl.ca")}
        assert authorities
        both = {"ssl.ca.pem": broker.authority.pem, "https.ca.pem": authority.pem}
        with klamm.Admin(config | both) as admin:
            admin.list_topics(timeout=20)
        error_text = refusal(config | both | {"https.ca.pem": broker.authority.pem})
        assert "set sasl.oauthbearer.ca.location (https.ca.location)" in error_text
        error_text = refusal(config | both | {"ssl.ca.pem": authority.pem})
        assert "the broker's certificate is not signed by a trusted authority" in error_text


@pytest.mark.parametrize(
    ("url", "says", "hint"),
    [
        ("{https}", "CERTIFICATE_VERIFY_FAILED", "https.ca.location"),
        ("{http}", "", "right scheme"),
        ("https://127.0.0.1:{port}/token", "SSL", "speaks HTTPS at this port"),
        ("http://no-such-host.invalid/token", "", "DNS"),
        ("http://127.0.0.1:1/token", "refused", "whether the endpoint is running"),
    ],
)
def test_a_failed_request_has_a_hint_for_its_cause(settings, private, url, says, hint):
    tls, _ = private
    with Endpoint(good) as plain:
        plain_port = plain.server.server_address[1]
        address = url.format(https=tls.url, http=tls.url.replace("https:", "http:"), port=plain_port)
        error_text = refusal(settings | {"sasl.oauthbearer.token.endpoint.url": address})
    message, _, advice = error_text.partition("; hint: ")
    assert says in message
    assert hint in advice


def test_a_proxy_that_fails_is_named_without_its_password(settings, private, monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://me:hidden@127.0.0.1:1")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    error_text = refusal(settings | {"sasl.oauthbearer.token.endpoint.url": private[0].url})
    assert "through the proxy 127.0.0.1:1 failed" in error_text
    assert "hint: check HTTPS_PROXY" in error_text
    assert "hidden" not in error_text


def test_a_certificate_of_the_endpoint_for_another_host(settings):
    authority = CertificateAuthority()
    with Endpoint(good, authority.issue("idp", ["login.example"])) as endpoint:
        config = settings | {"sasl.oauthbearer.token.endpoint.url": endpoint.url, "https.ca.pem": authority.pem}
        assert "hint: use a name of the certificate" in refusal(config)


@pytest.mark.parametrize(
    ("status", "hint"),
    [
        (401, "client.secret"),
        (404, "path in"),
        (307, "follows no redirect"),
        (400, "grant type"),
        (503, "keeps retrying"),
    ],
)
def test_each_status_has_its_hint(settings, status, hint):
    with Endpoint(lambda _: (status, {}, b"")) as endpoint:
        assert (
            hint in refusal(settings | {"sasl.oauthbearer.token.endpoint.url": endpoint.url}).partition("; hint: ")[2]
        )


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"sasl.oauthbearer.ca.location": "/no/such/file"}, "/no/such/file: No such file"),
        ({"https.ca.pem": "no PEM"}, r"sasl\.oauthbearer\.ca\.pem: no valid certificate found"),
        ({"https.ca.pem": "x", "https.ca.location": "y"}, "are both set"),
        ({"https.ca.pem": "x", "sasl.oauthbearer.token.endpoint.url": "http://h"}, "has no effect without HTTPS"),
        ({"sasl.oauthbearer.token.endpoint.url": "ftp://h/token"}, "use an https:// URL"),
        ({"sasl.oauthbearer.token.endpoint.url": "https://me:pass@h/token"}, "URL without a user"),
        ({"sasl.oauthbearer.token.endpoint.url": "https://h/token"}, "needs sasl.oauthbearer.client.secret"),
        (
            {"sasl.oauthbearer.token.endpoint.url": "https://h", "sasl.oauthbearer.extensions": "a"},
            "the format is key=value",
        ),
        ({}, "needs a token provider or a token endpoint"),
        ({"sasl.oauth.token.provider": lambda: ""}, r"client\.id has no effect with sasl\.oauth\.token\.provider"),
        (
            {"sasl.oauthbearer.method": "aws-msk-iam"},
            r"client\.id has no effect with sasl\.oauthbearer\.method=aws-msk",
        ),
    ],
)
def test_a_missing_setting_raises_at_once(more, says):
    config = {"bootstrap.servers": "127.0.0.1:1", "security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
    if any("ca." in key for key in more):
        more = {
            "sasl.oauthbearer.token.endpoint.url": "https://h/token",
            "sasl.oauthbearer.client.secret": SECRET,
            **more,
        }
    with pytest.raises(ConfigError, match=says):
        klamm.Admin({**config, "sasl.oauthbearer.client.id": "klamm", **more})

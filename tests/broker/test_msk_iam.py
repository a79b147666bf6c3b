"""Tokens for Amazon MSK: the signature is computed a second time here, and a broker accepts the token."""

from __future__ import annotations

import base64
import hashlib
import hmac
import socket
import struct
import sys
import threading
import time
from contextlib import suppress
from datetime import datetime, timezone
from typing import ClassVar
from urllib.parse import parse_qsl, quote, urlsplit

import pytest

import klamm
from klamm import aws, protocol
from klamm.errors import AuthenticationError, ConfigError
from settled import until

pytest.importorskip("botocore.session")

KEY_ID, SECRET, SESSION = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "session/token+with=signs"
REGION = "eu-central-1"


@pytest.fixture(autouse=True)
def environment(monkeypatch, tmp_path):
    """Use only the test's AWS settings, and no instance metadata."""
    for name in ("AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY_ID)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_SESSION_TOKEN", SESSION)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))


def signed_url(token):
    assert "=" not in token
    return base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode()


def signature(host, fields, day, secret):
    """Return the signature (version 4) of a GET of `/` with these query fields and an empty body."""

    def mac(key, text):
        return hmac.new(key, text.encode(), hashlib.sha256).digest()

    query = "&".join(
        f"{quote(name, safe='-_.~')}={quote(value, safe='-_.~')}" for name, value in sorted(fields.items())
    )
    canonical = "\n".join(["GET", "/", query, f"host:{host}", "", "host", hashlib.sha256(b"").hexdigest()])
    scope = f"{day}/{REGION}/kafka-cluster/aws4_request"
    hashed = hashlib.sha256(canonical.encode()).hexdigest()
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = mac(key, part)
    return mac(key, "\n".join(["AWS4-HMAC-SHA256", fields["X-Amz-Date"], scope, hashed])).hex()


@pytest.mark.parametrize("with_session", [True, False])
def test_a_token_is_the_signed_request_that_msk_asks_for(monkeypatch, with_session):
    if not with_session:
        monkeypatch.delenv("AWS_SESSION_TOKEN")
    before = int(time.time())
    token = aws.token_provider(REGION)()
    after = int(time.time()) + 1
    url = urlsplit(signed_url(token.value))
    assert (url.scheme, url.netloc, url.path) == ("https", f"kafka.{REGION}.amazonaws.com", "/")
    pairs = parse_qsl(url.query, strict_parsing=True)
    fields = dict(pairs)
    assert len(fields) == len(pairs)
    date = datetime.strptime(fields["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=timezone.utc)
    assert before <= date.timestamp() <= after
    day = fields["X-Amz-Date"][:8]
    assert fields.pop("User-Agent") == f"klamm/{klamm.__version__}"
    found = fields.pop("X-Amz-Signature")
    assert fields == {
        "Action": "kafka-cluster:Connect",
        "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
        "X-Amz-Credential": f"{KEY_ID}/{day}/{REGION}/kafka-cluster/aws4_request",
        "X-Amz-Date": fields["X-Amz-Date"],
        "X-Amz-Expires": "900",
        "X-Amz-SignedHeaders": "host",
        **({"X-Amz-Security-Token": SESSION} if with_session else {}),
    }
    assert found == signature(url.netloc, fields, day, SECRET)
    assert before + 600 <= token.expires_at <= after + 600
    assert SECRET not in repr(token)


def test_the_region_is_that_of_the_configuration_the_environment_or_the_profile(monkeypatch, tmp_path):
    def host():
        return urlsplit(signed_url(aws.token_provider(chosen)().value)).netloc

    chosen = None
    with pytest.raises(ConfigError, match=r"set sasl\.oauthbearer\.aws\.region or AWS_REGION"):
        host()
    (tmp_path / "config").write_text("[default]\nregion = profile-1\n")
    assert host() == "kafka.profile-1.amazonaws.com"
    monkeypatch.setenv("AWS_DEFAULT_REGION", "default-1")
    assert host() == "kafka.default-1.amazonaws.com"
    monkeypatch.setenv("AWS_REGION", "region-1")
    assert host() == "kafka.region-1.amazonaws.com"
    chosen = REGION
    assert host() == f"kafka.{REGION}.amazonaws.com"


class Msk:
    """A minimal broker for authentication. It accepts tokens signed with the secret that it knows."""

    APIS: ClassVar = {
        3: ("Metadata", 0, 8),
        17: ("SaslHandshake", 0, 1),
        18: ("ApiVersions", 0, 3),
        36: ("SaslAuthenticate", 0, 1),
    }

    def __init__(self):
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._accept)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def _accept(self):
        threads = []
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threads.append(threading.Thread(target=self._serve, args=(connection,)))
                threads[-1].start()
        for thread in threads:
            thread.join()

    def _serve(self, connection):
        with suppress(OSError, struct.error), connection, connection.makefile("rb") as stream:
            while True:
                (size,) = struct.unpack(">i", stream.read(4))
                frame = stream.read(size)
                key, version, correlation, length = struct.unpack(">hhih", frame[:10])
                name = self.APIS[key][0]
                fields = getattr(self, name)(frame[10 + length :])
                body = protocol.encode(name, "response", version, fields)
                connection.sendall(struct.pack(">ii", 4 + len(body), correlation) + body)

    def ApiVersions(self, _):  # noqa: N802
        keys = [{"apiKey": k, "minVersion": low, "maxVersion": high} for k, (_, low, high) in self.APIS.items()]
        return {"errorCode": 0, "apiKeys": keys, "throttleTimeMs": 0}

    def SaslHandshake(self, body):  # noqa: N802
        assert body[2:] == b"OAUTHBEARER"
        return {"errorCode": 0, "mechanisms": ["OAUTHBEARER"]}

    def SaslAuthenticate(self, body):  # noqa: N802
        message = body[4:].decode()
        token = message.removeprefix("n,,\1auth=Bearer ").removesuffix("\1\1")
        url = urlsplit(signed_url(token))
        fields = dict(parse_qsl(url.query))
        del fields["User-Agent"]
        found = fields.pop("X-Amz-Signature")
        if found == signature(url.netloc, fields, fields["X-Amz-Date"][:8], SECRET):
            return {"errorCode": 0, "errorMessage": None, "authBytes": b"", "sessionLifetimeMs": 0}
        return {"errorCode": 58, "errorMessage": "Access denied", "authBytes": b"", "sessionLifetimeMs": 0}

    def Metadata(self, _):  # noqa: N802
        host, port = self.address.split(":")
        brokers = [{"nodeId": 1, "host": host, "port": int(port), "rack": None}]
        return {"throttleTimeMs": 0, "brokers": brokers, "clusterId": "c", "controllerId": 1, "topics": []}


def config(address, **more):
    chosen = {
        "bootstrap.servers": address,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "aws-msk-iam",
    }
    return chosen | {key.replace("_", "."): value for key, value in more.items()}


def test_a_client_that_signed_with_the_right_secret_is_accepted(monkeypatch):
    with Msk() as msk:
        chosen = config(msk.address, sasl_oauthbearer_aws_region=REGION)
        with klamm.Admin(chosen) as admin:
            assert admin.list_topics(timeout=20) == []
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
        with klamm.Admin(chosen) as admin, pytest.raises(AuthenticationError, match="Access denied") as caught:
            admin.list_topics(timeout=20)
        assert KEY_ID not in str(caught.value)


def test_a_token_is_signed_again_before_it_expires(monkeypatch):
    monkeypatch.setattr(aws, "GOOD_FOR_S", 1.5)
    signed = []
    original = aws._token
    monkeypatch.setattr(aws, "_token", lambda *given: signed.append(given) or original(*given))
    with klamm.Producer(config("127.0.0.1:1", sasl_oauthbearer_aws_region=REGION)):
        until(lambda: len(signed) >= 3)


JAVA = {
    "bootstrap.servers": "b-1.name.x1.c2.kafka.eu-central-1.amazonaws.com:9098",
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "AWS_MSK_IAM",
    "sasl.jaas.config": "software.amazon.msk.auth.iam.IAMLoginModule required;",
    "sasl.client.callback.handler.class": "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
}


def test_a_configuration_for_amazons_java_library_works_as_it_is():
    """The region comes from the host name: without one, a client has no region."""
    klamm.Producer(JAVA).close()
    with pytest.raises(ConfigError, match="no region is set"):
        klamm.Producer(JAVA | {"bootstrap.servers": "127.0.0.1:9098"})
    with pytest.raises(ConfigError, match=r"does not support awsRoleArn in sasl\.jaas\.config"):
        klamm.Producer(JAVA | {"sasl.jaas.config": JAVA["sasl.jaas.config"].replace(";", " awsRoleArn=arn;")})


def test_without_credentials_the_error_lists_their_sources(monkeypatch):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with Msk() as msk, klamm.Admin(config(msk.address, sasl_oauthbearer_aws_region=REGION)) as admin:
        with pytest.raises(AuthenticationError, match="there are no AWS credentials") as caught:
            admin.list_topics(timeout=5)
        assert "AWS_ACCESS_KEY_ID" in caught.value.hint


def test_without_botocore_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "botocore.session", None)
    with pytest.raises(ConfigError, match=r"pip install 'klamm\[aws\]'"):
        klamm.Producer(config("127.0.0.1:1", sasl_oauthbearer_aws_region=REGION))

"""Kerberos authentication with Apache Kafka, a KDC, and the system's library."""

from __future__ import annotations

import base64
import logging
import shutil
import struct
import time
from itertools import count
from pathlib import Path

import pytest

import klamm
import klamm.logs
from faults import server
from kerberos_kdc import REALM, kerberos, krb5_conf
from klamm import kerberos as library
from klamm.errors import AuthenticationError, ConfigError, KafkaTimeoutError, NetworkError
from log_lines import collected
from running import or_skip

pytestmark = pytest.mark.timeout(200)  # the first one may have to fetch the KDC

caches = count(1)


@pytest.fixture(scope="module")
def realm():
    if library._library() is None:
        pytest.skip("libgssapi_krb5 is not installed")
    with or_skip(kerberos()) as running:
        yield running


@pytest.fixture(autouse=True)
def environment(request, monkeypatch):
    """Set an environment with a configuration but no ticket."""
    if "realm" in request.fixturenames:
        monkeypatch.setenv("KRB5_CONFIG", str(request.getfixturevalue("realm").config))
    monkeypatch.setenv("KRB5CCNAME", f"MEMORY:test-{next(caches)}")
    monkeypatch.delenv("KRB5_CLIENT_KTNAME", raising=False)


def config(realm, listener="KERBEROS", **more):
    chosen = {
        "bootstrap.servers": realm.listener_addresses[listener],
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "GSSAPI",
    }
    return chosen | {key.replace("_", "."): value for key, value in more.items()}


def round_trip(config, topic):
    with klamm.Producer(config) as producer:
        producer.send(topic, b"v" * 100_000).result(30)
    with klamm.Consumer(config, "g-" + topic, [topic], auto_offset_reset="earliest") as consumer:
        assert [len(record.value) for record in consumer.poll(timeout=30, max_records=1)] == [100_000]


def test_a_keytab_authenticates(realm, topic):
    round_trip(config(realm, sasl_kerberos_keytab=realm.keytab("alice")), topic)


def keys(keytab):
    """Yield the keys of a keytab of version 2."""
    data, at = Path(keytab).read_bytes(), 2
    while at + 4 <= len(data):
        (size,) = struct.unpack_from(">i", data, at)
        end = at + 4 + abs(size)
        if size > 0:
            (components,) = struct.unpack_from(">H", data, at + 4)
            at += 6
            for _ in range(components + 1):
                at += 2 + struct.unpack_from(">H", data, at)[0]
            # The type of the name, a time and the short version number stand before the type of the key.
            (length,) = struct.unpack_from(">H", data, at + 11)
            yield data[at + 13 : at + 13 + length]
        at = end


def test_no_key_of_a_keytab_is_logged_or_recorded(realm, topic, tmp_path):
    chosen = config(realm, sasl_kerberos_keytab=realm.keytab("alice"))
    with collected(logging.DEBUG) as lines, klamm.Producer(chosen, flight_recorder_values=True) as producer:
        producer.send(topic, b"v").result(30)
        producer.dump_flight(tmp_path / "flight")
        klamm.logs.flush()
    written = (tmp_path / "flight").read_bytes() + repr([vars(record) for record in lines.records]).encode()
    found = list(keys(realm.keytab("alice")))
    assert found
    assert all(len(key) >= 16 for key in found)
    for key in found:
        forms = key.hex().encode(), base64.b64encode(key).rstrip(b"="), repr(key)[2:-1].encode()
        assert not any(form in written for form in forms)


def test_java_says_the_same_in_its_own_way(realm, topic):
    module = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true"
    jaas = f'{module} keyTab="{realm.keytab("alice")}" principal="alice@{REALM}";'
    round_trip(config(realm, sasl_jaas_config=jaas), topic)


def test_the_environment_authenticates(realm, topic, monkeypatch):
    monkeypatch.setenv("KRB5_CLIENT_KTNAME", realm.keytab("alice"))
    round_trip(config(realm), topic)


def test_a_session_is_renewed_before_it_ends(realm, topic):
    chosen = config(realm, "SHORT", sasl_kerberos_keytab=realm.keytab("alice"), reconnect_backoff_ms=60_000)
    end = time.monotonic() + 5
    with klamm.Producer(chosen | {"reconnect.backoff.max.ms": 60_000}) as producer:
        while time.monotonic() < end:
            # A connection that the broker ended would not be made again for a minute.
            producer.send(topic, b"v").result(10)


def refusal(config, kind=AuthenticationError):
    with klamm.Admin(config) as admin, pytest.raises(kind) as caught:
        admin.list_topics(timeout=20)
    return str(caught.value)


def test_an_error_has_the_message_of_the_library(realm):
    keytab = realm.keytab("alice")
    assert "No Kerberos credentials available" in refusal(config(realm))
    message = refusal(config(realm, sasl_kerberos_keytab=keytab, sasl_kerberos_service_name="unknown"))
    assert "GSSAPI for unknown@127.0.0.1" in message
    assert "klist" in message
    assert "GSSAPI" in refusal(config(realm, sasl_kerberos_keytab=keytab, sasl_kerberos_principal="bob"))


def test_a_silent_kdc_does_not_block_the_client(realm, tmp_path, monkeypatch):
    with server(None, hold=True) as silent:
        (tmp_path / "krb5.conf").write_text(krb5_conf(silent))
        monkeypatch.setenv("KRB5_CONFIG", str(tmp_path / "krb5.conf"))
        keytab = shutil.copy(realm.keytab("alice"), tmp_path / "copy")  # of the other one there are tickets
        chosen = config(realm, sasl_kerberos_keytab=str(keytab), socket_connection_setup_timeout_ms=500)
        with klamm.Admin(chosen) as admin, pytest.raises((KafkaTimeoutError, NetworkError)) as caught:
            admin.list_topics(timeout=2)
    assert "the Kerberos library did not respond in time" in str(caught.value)


def test_without_the_library_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr(library, "_library", lambda: None)
    with pytest.raises(ConfigError, match="apt install libgssapi-krb5-2"):
        klamm.Producer("127.0.0.1:1", security_protocol="SASL_SSL", sasl_mechanism="GSSAPI")

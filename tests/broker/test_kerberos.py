"""Kerberos authentication with Apache Kafka, a KDC, and the system's library."""

from __future__ import annotations

import shutil
import time
from itertools import count

import pytest

import klamm
from faults import server
from kafka_broker import KafkaUnavailable
from kerberos_kdc import REALM, kerberos, krb5_conf
from klamm import kerberos as library
from klamm.errors import AuthenticationError, ConfigError, KafkaTimeoutError, NetworkError

pytestmark = pytest.mark.timeout(200)  # the first one may have to fetch the KDC

caches = count(1)


@pytest.fixture(scope="module")
def realm():
    if library._library() is None:
        pytest.skip("libgssapi_krb5 is not installed")
    try:
        with kerberos() as running:
            yield running
    except KafkaUnavailable as reason:
        pytest.skip(f"real Kafka: {reason}")


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

"""TLS: trusted authorities, client certificates, and errors of failed handshakes."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import pytest

import klamm
from klamm.errors import AuthenticationError, ConfigError, InsecureWarning, KafkaError, NetworkError
from klamm.testing import CertificateAuthority, DevBroker
from secured import HOSTS


def round_trip(config, topic):
    with klamm.Producer(config) as producer:
        producer.send_many(topic, [b"v" * 100_000] * 30)
        producer.flush(20)
    with klamm.Consumer(config, topics=[topic], auto_offset_reset="earliest") as consumer:
        read = []
        while len(read) < 30:
            read += consumer.poll(timeout=20)
        assert {len(record.value) for record in read} == {100_000}


def refusal(config, kind=AuthenticationError, timeout=20.0):
    began = time.monotonic()
    with klamm.Admin(config) as admin, pytest.raises(kind) as caught:
        admin.list_topics(timeout=timeout)
    assert time.monotonic() - began < timeout + 5
    return str(caught.value)


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
@pytest.mark.parametrize("listener_name", ["SSL", "MTLS"])
def test_records_go_there_and_back(secured, topic, listener_name, version):
    round_trip(secured.config(listener_name, ssl_enabled_protocols=version), topic)


def test_java_says_the_same_in_its_own_way(secured, topic):
    # As Java has it in a properties file: one file with key and certificate, or all in one line.
    both = secured.home / "client.both.pem"
    files = {"ssl.truststore.location": secured.home / "ca.pem", "ssl.keystore.location": both}
    one_line = " ".join(both.read_text().split("\n")).split("-----BEGIN CERTIFICATE-----")
    texts = {
        "ssl.truststore.certificates": (secured.home / "ca.pem").read_text().replace("\n", "\\n"),
        "ssl.keystore.certificate.chain": "-----BEGIN CERTIFICATE-----" + one_line[1],
        "ssl.keystore.key": one_line[0],
    }
    for stores in (files, texts):
        base = {"bootstrap.servers": secured.listener_addresses["MTLS"], "security.protocol": "SSL"}
        types = {"ssl.truststore.type": "PEM", "ssl.keystore.type": "PEM"}
        round_trip({**base, **types, **{key: str(value) for key, value in stores.items()}}, topic)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_a_key_may_be_encrypted(secured, topic, tmp_path):
    sealed = tmp_path / "sealed.key"
    command = ["openssl", "pkcs8", "-topk8", "-v2", "aes-256-cbc", "-passout", "pass:op3n"]
    subprocess.run([*command, "-in", secured.home / "client.key", "-out", sealed], check=True)
    config = secured.config("MTLS", ssl_key_location=str(sealed))
    round_trip({**config, "ssl.key.password": "op3n"}, topic)
    with pytest.raises(ConfigError, match=r"the private key is encrypted; hint: set ssl\.key\.password"):
        klamm.Admin(config)
    with pytest.raises(ConfigError, match=r"cannot be decrypted; hint: check ssl\.key\.password") as caught:
        klamm.Admin({**config, "ssl.key.password": "wr0ng"})
    assert "wr0ng" not in str(caught.value)


def test_the_system_is_trusted_by_default(secured, topic):
    program = (
        "import sys, klamm; klamm.Producer(sys.argv[1], security_protocol='SSL').send(sys.argv[2], b'v').result(20)"
    )
    command = [sys.executable, "-c", program, secured.listener_addresses["SSL"], topic]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    mine = {**environment, "SSL_CERT_FILE": str(secured.home / "ca.pem")}
    subprocess.run(command, env=mine, check=True, timeout=60)
    without = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert "the broker's certificate is not signed by a trusted authority" in without.stderr


def test_an_authority_that_is_not_trusted(secured, tmp_path):
    other = tmp_path / "other.pem"
    other.write_text(CertificateAuthority().pem)
    error_text = refusal(secured.config("SSL", ssl_ca_location=str(other)))
    assert "TLS handshake failed: the broker's certificate is not signed by a trusted authority" in error_text
    assert "set ssl.ca.location" in error_text


def test_a_certificate_that_has_expired():
    authority = CertificateAuthority()
    with DevBroker(tls=authority.issue("late", HOSTS, expired=True)) as broker:
        error_text = refusal(
            {"bootstrap.servers": broker.bootstrap_servers, "security.protocol": "SSL", "ssl.ca.pem": authority.pem}
        )
    assert "the broker's certificate has expired" in error_text
    assert "renew the broker's certificate" in error_text


def test_a_certificate_for_another_host_and_the_switch_for_it(topic):
    authority = CertificateAuthority()
    with DevBroker(tls=authority.issue("other", ["kafka.example"])) as broker:
        config = {
            "bootstrap.servers": broker.bootstrap_servers,
            "security.protocol": "SSL",
            "ssl.ca.pem": authority.pem,
        }
        error_text = refusal(config)
        assert "the broker's certificate is not for 127.0.0.1, but for kafka.example" in error_text
        for nothing in ("none", ""):
            with pytest.warns(InsecureWarning, match="accepts any broker"):
                producer = klamm.Producer({**config, "ssl.endpoint.identification.algorithm": nothing})
            with producer:
                producer.send(topic, b"v").result(20)
        # Nothing else is given up.
        with pytest.warns(InsecureWarning):
            admin = klamm.Admin(
                {**config, "ssl.endpoint.identification.algorithm": "none", "ssl.ca.pem": CertificateAuthority().pem}
            )
        with admin, pytest.raises(AuthenticationError, match="not signed by a trusted authority"):
            admin.list_topics(timeout=20)


def test_safe_settings_do_not_warn(secured):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        klamm.Admin(secured.config("SSL", ssl_endpoint_identification_algorithm="https")).close()


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_a_broker_that_asks_for_a_certificate(secured, version):
    config = secured.config("MTLS", ssl_enabled_protocols=version)
    del config["ssl.certificate.location"], config["ssl.key.location"]
    error_text = refusal(config)
    assert "the broker refused TLS" in error_text
    assert "check ssl.certificate.location" in error_text or "asks for a client certificate" in error_text


def test_a_client_certificate_of_another_authority(secured):
    certificate, key = CertificateAuthority().issue("mallory")
    config = secured.config("MTLS", ssl_certificate_pem=certificate, ssl_key_pem=key)
    del config["ssl.certificate.location"], config["ssl.key.location"]
    assert "the broker refused TLS" in refusal(config)


def test_a_plaintext_client_at_a_tls_port(secured):
    error_text = refusal(secured.listener_addresses["SSL"], KafkaError, timeout=1)
    assert "security.protocol" in error_text
    assert "TLS" in error_text


def test_a_tls_client_at_a_plaintext_port(broker):
    config = {
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": "SSL",
        "ssl.ca.pem": CertificateAuthority().pem,
    }
    error_text = refusal(config, NetworkError, timeout=1)
    assert "TLS handshake failed: the peer closed the connection" in error_text
    assert "check whether this is a plaintext port (security.protocol=PLAINTEXT or SASL_PLAINTEXT)" in error_text


@contextlib.contextmanager
def server(serve):
    """Run `serve` for each connection to a port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept():
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    with contextlib.suppress(OSError), connection:
                        connection.settimeout(10)
                        serve(connection)

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(20)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "the peer does not speak TLS"),
        (b"\x16\x03\x03\xff\xff" + bytes(100), "TLS handshake failed"),
        (b"\x15\x03\x03\x00\x02\x02\x28", "the broker refused TLS: handshake failure"),
    ],
)
def test_an_answer_that_is_no_handshake(words, says):
    with server(
        lambda connection: (connection.sendall(words), connection.recv(1 << 16), connection.recv(1))
    ) as address:
        config = {"bootstrap.servers": address, "security.protocol": "SSL", "ssl.ca.pem": CertificateAuthority().pem}
        assert says in refusal(config)


def test_a_handshake_that_drips_ends_in_time():
    def drip(connection):
        for byte in b"\x16\x03\x03\x40\x00" + bytes(1000):
            connection.sendall(bytes([byte]))
            threading.Event().wait(0.05)

    with server(drip) as address:
        config = {"bootstrap.servers": address, "security.protocol": "SSL", "ssl.ca.pem": CertificateAuthority().pem}
        error_text = refusal({**config, "socket.connection.setup.timeout.ms": 500}, NetworkError, timeout=1)
    assert "connection was not made in time" in error_text


def own_context(authority, directory):
    certificate, key = authority.issue("server", HOSTS)
    for name, text in (("server.pem", certificate), ("server.key", key)):
        (directory / name).write_text(text)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "server.pem", directory / "server.key")
    context.set_alpn_protocols(["kafka", "http/1.1"])
    return context


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_the_client_names_the_host_and_resumes_sessions(tmp_path, version):
    authority = CertificateAuthority()
    context = own_context(authority, tmp_path)
    names, seen, enough = [], [], threading.Event()
    context.sni_callback = lambda _session, name, _context: names.append(name)

    def look(connection):
        with context.wrap_socket(connection, server_side=True) as wrapped:
            wrapped.recv(1 << 16)
            seen.append((wrapped.session_reused, wrapped.selected_alpn_protocol(), wrapped.version()))
        if len(seen) > 1:
            enough.set()

    with server(look) as address:
        config = {"bootstrap.servers": address.replace("127.0.0.1", "localhost"), "security.protocol": "SSL"}
        config |= {"ssl.ca.pem": authority.pem, "ssl.enabled.protocols": version}
        with klamm.Admin(config) as admin:
            with pytest.raises(NetworkError):
                admin.list_topics(timeout=2)
            assert enough.wait(10)
    assert seen[:2] == [(False, None, version), (True, None, version)]
    assert set(names) == {"localhost"}


def test_files_are_read_again_when_they_change(tmp_path):
    authority = CertificateAuthority()
    with DevBroker(tls=authority, client_auth=True) as broker:
        files = {name: tmp_path / name for name in ("ca", "certificate", "key")}

        def write(of):
            certificate, key = of.issue("client")
            for name, text in (("ca", authority.pem), ("certificate", certificate), ("key", key)):
                files[name].write_text(text)
                os.utime(files[name], ns=(time.time_ns(), time.time_ns() + len(writes) * 10**9))
            writes.append(of)

        writes = []
        write(CertificateAuthority())
        config = {"bootstrap.servers": broker.bootstrap_servers, "security.protocol": "SSL"}
        config |= {"ssl.ca.location": str(files["ca"]), "ssl.certificate.location": str(files["certificate"])}
        config |= {"ssl.key.location": str(files["key"])}
        with klamm.Admin(config) as admin:
            with pytest.raises(AuthenticationError):
                admin.list_topics(timeout=20)
            write(authority)
            deadline = time.monotonic() + 30
            while True:
                try:
                    admin.list_topics(timeout=20)
                    break
                except AuthenticationError:
                    assert time.monotonic() < deadline
                    threading.Event().wait(0.2)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "cannot read the authorities' certificates from .*: No such file"),
        (b"\xfe\xed\xfe\xed\0\0\0\2", "it is a Java key store"),
        (b"0\x82\x04\x00", "it is binary"),
        (b"hello", "no certificate found in the authorities' certificates"),
        (b"-----BEGIN CERTIFICATE-----\nAAAA", "damaged PEM"),
        (b"-----BEGIN CERTIFICATE-----\n!!!!\n-----END CERTIFICATE-----", "damaged PEM"),
        (b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----", "cannot be used"),
    ],
)
def test_an_invalid_certificate_raises_at_once(tmp_path, text, says):
    path = tmp_path / "ca"
    if text is not None:
        path.write_bytes(text)
    with pytest.raises(ConfigError, match=says):
        klamm.Admin("127.0.0.1:1", security_protocol="SSL", ssl_ca_location=str(path))


def test_a_certificate_needs_its_own_key():
    authority = CertificateAuthority()
    (certificate, _), (_, other) = authority.issue("a"), authority.issue("b")
    common = {"security_protocol": "SSL", "ssl_ca_pem": authority.pem, "ssl_certificate_pem": certificate}
    with pytest.raises(ConfigError, match="check that certificate and key belong together"):
        klamm.Admin("127.0.0.1:1", ssl_key_pem=other, **common)
    with pytest.raises(ConfigError, match="no private key found next to the client's certificate"):
        klamm.Admin("127.0.0.1:1", **common)
    old = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nAAAA\n-----END RSA PRIVATE KEY-----"
    with pytest.raises(ConfigError, match="openssl pkcs8 -topk8"):
        klamm.Admin("127.0.0.1:1", ssl_key_pem=old, **common)


def test_what_can_be_wrong_with_the_keys_themselves():
    with pytest.raises(ConfigError, match=r"ssl\.ca\.location and ssl\.ca\.pem are both set"):
        klamm.Admin("127.0.0.1:1", security_protocol="SSL", ssl_ca_pem="x", ssl_ca_location="y")
    with pytest.raises(ConfigError, match=r"allowed: TLSv1\.2, TLSv1\.3"):
        klamm.Admin("127.0.0.1:1", security_protocol="SSL", ssl_enabled_protocols="TLSv1.1")
    with pytest.raises(ConfigError, match=r"ssl\.keystore\.type cannot be .JKS"):
        klamm.Admin({"bootstrap.servers": "127.0.0.1:1", "ssl.keystore.type": "JKS"})
    with pytest.raises(ConfigError) as caught:
        klamm.Admin({"bootstrap.servers": "127.0.0.1:1", "ssl.key.password": 4711})
    assert "4711" not in str(caught.value)


def test_librdkafka_comes_in(secured, topic):
    confluent_kafka = pytest.importorskip("confluent_kafka")
    for listener_name in ("SSL", "MTLS"):
        outcomes = []
        producer = confluent_kafka.Producer(secured.config(listener_name))
        producer.produce(topic, b"v", on_delivery=lambda error, _, outcomes=outcomes: outcomes.append(error))
        producer.flush(20)
        assert outcomes == [None]


def test_kafka_python_comes_in(secured, topic):
    kafka = pytest.importorskip("kafka")
    home = Path(secured.home)
    producer = kafka.KafkaProducer(
        bootstrap_servers=secured.listener_addresses["MTLS"],
        security_protocol="SSL",
        ssl_cafile=str(home / "ca.pem"),
        ssl_certfile=str(home / "client.pem"),
        ssl_keyfile=str(home / "client.key"),
    )
    try:
        assert producer.send(topic, b"v").get(20).partition == 0
    finally:
        producer.close()


# Certificates that rustls rejects, and OpenSSL does not


@pytest.fixture
def openssl(tmp_path):
    """Return a function that runs openssl in a directory of its own, with an authority in `ca.pem`."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl command")

    def run(line):
        return subprocess.run(
            ["openssl", *line.split()], cwd=tmp_path, check=True, capture_output=True, text=True
        ).stdout

    run("req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 30 -subj /CN=authority")
    (tmp_path / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    (tmp_path / "ca-too").write_text("subjectAltName=DNS:localhost\nbasicConstraints=critical,CA:TRUE\n")
    (tmp_path / "no-names").write_text("keyUsage=digitalSignature\n")
    (tmp_path / "client").write_text("subjectAltName=DNS:localhost\nextendedKeyUsage=clientAuth\n")
    return run


@contextlib.contextmanager
def tls_listener(directory):
    """Complete TLS handshakes with `b.pem` and `b.key`, as OpenSSL does without its own checks; provide the port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.load_cert_chain(directory / "b.pem", directory / "b.key")

    def serve():
        while True:
            try:
                raw, _ = listener.accept()
            except OSError:
                return
            with contextlib.suppress(OSError), context.wrap_socket(raw, server_side=True) as peer:
                peer.recv(1)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.mark.parametrize(
    ("key", "signing", "words"),
    [
        ("rsa:2048", "-sha256", ("broker's certificate is X.509 version 1", "-extfile")),
        ("rsa:2048", "-sha256 -extfile ca-too", ("an authority's (CA:TRUE)", "basicConstraints=critical,CA:FALSE")),
        ("rsa:1024", "-sha256 -extfile names", ("RSA key of the broker's certificate has 1024 bits", "2048")),
        ("rsa:2048", "-sha1 -extfile names", ("signed with SHA-1", "-sha256")),
        (
            "rsa:2048",
            "-sha256 -extfile no-names",
            ('no subjectAltName, only the common name "localhost"', "DNS:localhost"),
        ),
        ("rsa:2048", "-sha256 -extfile client", ("not for servers", "extendedKeyUsage=serverAuth")),
    ],
)
def test_a_rejected_certificate_is_named_with_its_cure(openssl, tmp_path, key, signing, words):
    says, hint = words
    openssl(f"req -newkey {key} -nodes -keyout b.key -out b.csr -subj /CN=localhost")
    openssl(f"x509 -req -in b.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out b.pem -days 30 {signing}")
    with tls_listener(tmp_path) as port:
        config = {"bootstrap.servers": f"localhost:{port}", "security.protocol": "SSL"}
        message, _, advice = refusal(config | {"ssl.ca.location": str(tmp_path / "ca.pem")}).partition("; hint: ")
    assert says in message
    assert hint in advice
    for debug in ("Error(", "Context", "{", "[", "invalid peer"):
        assert debug not in message


def test_an_authority_with_a_short_key_is_named(openssl, tmp_path):
    openssl("req -x509 -newkey rsa:1024 -nodes -keyout ca.key -out ca.pem -days 30 -subj /CN=short")
    openssl("req -newkey rsa:2048 -nodes -keyout b.key -out b.csr -subj /CN=localhost")
    openssl("x509 -req -in b.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out b.pem -days 30 -extfile names")
    with tls_listener(tmp_path) as port:
        config = {"bootstrap.servers": f"localhost:{port}", "security.protocol": "SSL"}
        assert "RSA key of the authority of the broker's certificate has 1024 bits" in refusal(
            config | {"ssl.ca.location": str(tmp_path / "ca.pem")}
        )


def test_an_authority_of_the_same_name_is_not_the_same(openssl, tmp_path):
    openssl("req -newkey rsa:2048 -nodes -keyout b.key -out b.csr -subj /CN=localhost")
    openssl("x509 -req -in b.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out b.pem -days 30 -extfile names")
    openssl("req -x509 -newkey rsa:2048 -nodes -keyout other.key -out other.pem -days 30 -subj /CN=authority")
    with tls_listener(tmp_path) as port:
        config = {"bootstrap.servers": f"localhost:{port}", "security.protocol": "SSL"}
        assert "not signed by a trusted authority, but by an authority of the same name" in refusal(
            config | {"ssl.ca.location": str(tmp_path / "other.pem")}
        )


SELF_SIGNED = "req -x509 -newkey rsa:2048 -nodes -keyout b.key -out b.pem -subj /CN=localhost"


def test_a_self_signed_certificate_of_an_authority_is_trusted_by_itself(openssl, tmp_path):
    # As the most common instructions make it: openssl sets CA:TRUE by default.
    openssl(f"{SELF_SIGNED} -days 30 -addext subjectAltName=DNS:localhost")
    with tls_listener(tmp_path) as port:
        config = {"security.protocol": "SSL", "ssl.ca.location": str(tmp_path / "b.pem")}
        at_localhost = config | {"bootstrap.servers": f"localhost:{port}"}
        # The handshake succeeds, and the listener then closes the connection.
        with klamm.Producer(at_localhost, delivery_timeout_ms=2000, request_timeout_ms=1000, linger_ms=0) as producer:
            error = producer.send("t", b"v").exception(20)
        assert not isinstance(error, AuthenticationError)
        assert "certificate" not in str(error)
        # Its name, and that it is this very certificate, are checked.
        assert "not for 127.0.0.1, but for localhost" in refusal(config | {"bootstrap.servers": f"127.0.0.1:{port}"})
        openssl(f"{SELF_SIGNED.replace('b.', 'c.')} -days 30 -addext subjectAltName=DNS:localhost")
        other = refusal(at_localhost | {"ssl.ca.location": str(tmp_path / "c.pem")})
        assert "CA:TRUE" in other or "not signed by a trusted authority" in other


@pytest.mark.parametrize(
    ("options", "says"),
    [("-days -1 -extfile ca-too", "has expired"), ("-days 30 -extfile client-ca", "not for servers")],
)
def test_a_trusted_self_signed_certificate_is_still_checked(openssl, tmp_path, options, says):
    (tmp_path / "client-ca").write_text(
        "subjectAltName=DNS:localhost\nbasicConstraints=critical,CA:TRUE\nextendedKeyUsage=clientAuth\n"
    )
    openssl("req -newkey rsa:2048 -nodes -keyout b.key -out b.csr -subj /CN=localhost")
    openssl(f"x509 -req -in b.csr -signkey b.key -out b.pem {options}")
    with tls_listener(tmp_path) as port:
        config = {"security.protocol": "SSL", "ssl.ca.location": str(tmp_path / "b.pem")}
        assert says in refusal(config | {"bootstrap.servers": f"localhost:{port}"})


# PEM


@pytest.fixture(scope="module")
def tls_broker():
    with DevBroker(tls=True, client_auth=True) as broker:
        yield broker


def trusted(pem, directory, *options):
    """Return a certificate in OpenSSL's own form, which says what it is trusted for."""
    (directory / "plain").write_text(pem)
    command = ["openssl", "x509", "-in", "plain", "-trustout", *options]
    return subprocess.run(command, cwd=directory, check=True, capture_output=True, text=True).stdout


PEM_FORMS = {
    "comment of dashes": lambda pem, _: b"# -----------------\n# my CA\n# -----------------\n" + pem.encode(),
    "comment of five dashes": lambda pem, _: (
        b"# ----- begin -----\n-----\n" + pem.encode() + b"-----\n# -----END x-----\n"
    ),
    "comment of a block": lambda pem, _: b"# -----BEGIN CERTIFICATE-----\n" + pem.encode(),
    "Latin-1 comment": lambda pem, _: "# Prüf-CA\n".encode("latin-1") + pem.encode(),
    "BOM": lambda pem, _: b"\xef\xbb\xbf" + pem.encode(),
    "CRLF": lambda pem, _: pem.replace("\n", "\r\n").encode(),
    "CR": lambda pem, _: b"# mine\r" + pem.replace("\n", "\r").encode(),
    "indented": lambda pem, _: "".join(f"    {line}\n" for line in pem.splitlines()).encode(),
    "no line end between": lambda pem, _: (pem.rstrip() + pem).encode(),
    "another block before": lambda pem, _: b"-----BEGIN X509 CRL-----\n!\n-----END X509 CRL-----\n" + pem.encode(),
}
OF_CERTIFICATES = {
    "X509 CERTIFICATE": lambda pem, _: pem.replace(" CERTIFICATE", " X509 CERTIFICATE").encode(),
    "TRUSTED CERTIFICATE": lambda pem, directory: trusted(pem, directory, "-addtrust", "serverAuth").encode(),
    "TRUSTED without settings": lambda pem, directory: trusted(pem, directory).encode(),
    "old encrypted key beside": lambda pem, _: (
        b"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nAA==\n"
        b"-----END RSA PRIVATE KEY-----\n" + pem.encode()
    ),
}


@pytest.mark.parametrize("what", ["ca", "certificate", "key"])
@pytest.mark.parametrize("form", [*PEM_FORMS, *OF_CERTIFICATES])
def test_pem_has_many_forms(tls_broker, tmp_path, what, form):
    if what == "key" and form in OF_CERTIFICATES:
        pytest.skip("a form of certificates")
    certificate, key = tls_broker.authority.issue("alice")
    texts = {"ca": tls_broker.authority.pem, "certificate": certificate, "key": key}
    paths = {name: tmp_path / f"{name}.pem" for name in texts}
    for name, text in texts.items():
        form_of = (PEM_FORMS | OF_CERTIFICATES)[form] if name == what else lambda pem, _: pem.encode()
        paths[name].write_bytes(form_of(text, tmp_path))
    config = {f"ssl.{name}.location": str(path) for name, path in paths.items()}
    with klamm.Admin(config | {"bootstrap.servers": tls_broker.bootstrap_servers, "security.protocol": "SSL"}) as admin:
        assert admin.list_topics(timeout=20) == []


@pytest.mark.parametrize(
    "options", [["-addreject", "serverAuth"], ["-addreject", "anyExtendedKeyUsage"], ["-addtrust", "emailProtection"]]
)
def test_an_authority_that_openssl_does_not_trust_is_left_out(tls_broker, tmp_path, options):
    text = trusted(tls_broker.authority.pem, tmp_path, *options)
    with pytest.raises(ConfigError, match="no certificate found in the authorities' certificates"):
        klamm.Admin("127.0.0.1:1", security_protocol="SSL", ssl_ca_pem=text)


def test_pem_in_one_line_is_read(tls_broker):
    authority = tls_broker.authority.pem
    certificate, key = tls_broker.authority.issue("alice")
    for separator in (" ", "\\n"):
        config = {"ssl.ca.pem": authority, "ssl.certificate.pem": certificate, "ssl.key.pem": key}
        config = {name: separator.join(text.splitlines()) for name, text in config.items()}
        config |= {"bootstrap.servers": tls_broker.bootstrap_servers, "security.protocol": "SSL"}
        with klamm.Admin(config) as admin:
            assert admin.list_topics(timeout=20) == []


@pytest.mark.parametrize("label", ["CERTIFICATE", "TRUSTED CERTIFICATE"])
def test_words_for_damaged_files_are_not_about_peers(label):
    damaged = f"-----BEGIN {label}-----\nMAMCAQU=\n-----END {label}-----\n"
    authority = CertificateAuthority()
    certificate, key = authority.issue("alice")
    for config in (
        {"ssl_ca_pem": damaged},
        {"ssl_ca_pem": authority.pem, "ssl_certificate_pem": damaged, "ssl_key_pem": key},
    ):
        with pytest.raises(ConfigError, match="certificate") as caught:
            klamm.Admin("127.0.0.1:1", security_protocol="SSL", **config)
        assert "peer" not in str(caught.value)
        assert "BadEncoding" not in str(caught.value)
    for broken_key in (key.replace("M", "A", 3), "-----BEGIN PRIVATE KEY-----\nMAMCAQU=\n-----END PRIVATE KEY-----\n"):
        with pytest.raises(ConfigError, match=r"private key|certificate cannot be used") as caught:
            klamm.Admin(
                "127.0.0.1:1",
                security_protocol="SSL",
                ssl_ca_pem=authority.pem,
                ssl_certificate_pem=certificate,
                ssl_key_pem=broken_key,
            )
        assert "peer" not in str(caught.value)

"""Runs brokers that require TLS and SASL: the dev broker and Apache Kafka, with the same settings.

Each has the listeners `SSL`, `MTLS` (SSL with a client certificate), `SASL_PLAINTEXT` and `SASL_SSL`. All mechanisms
are enabled, alice has the same password everywhere, and one temporary authority signs all certificates. The listener
`SHORT` is SASL_PLAINTEXT with sessions of two seconds.

SASL_PLAINTEXT has access control lists, which the super user admin creates. Everything without a list is open to all.
"""

from __future__ import annotations

import base64
import contextlib
import json
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafka_broker import NO_RETENTION, RealKafka
from klamm.testing import CertificateAuthority, DevBroker

if TYPE_CHECKING:
    from collections.abc import Iterator

ADMIN, USER, PASSWORD = "admin", "alice", "s3cr=t word"  # without a comma, on which Kafka's formatting tool splits
PASSWORDS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
HOSTS = ["localhost", "127.0.0.1"]
SESSION_S = 2.0


def unsecured_token(user: str = USER, lasts: float = 3600) -> str:
    """Return an unsigned token."""
    now = time.time()
    parts = [{"alg": "none"}, {"sub": user, "iat": now, "exp": now + lasts}]
    texts = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    return ".".join([*texts, ""])


@dataclass(frozen=True)
class Secured:
    """A broker with its listeners."""

    name: str
    listener_addresses: dict[str, str]
    authority: CertificateAuthority
    home: Path

    def config(self, listener_name: str, mechanism: str | None = None, **more: Any) -> dict[str, Any]:
        """Return the configuration of klamm and librdkafka for a listener. `more` are keys with underscores."""
        protocol = {"MTLS": "SSL", "SHORT": "SASL_PLAINTEXT"}.get(listener_name, listener_name)
        config: dict[str, Any] = {
            "bootstrap.servers": self.listener_addresses[listener_name],
            "security.protocol": protocol,
        }
        if protocol.endswith("SSL"):
            config["ssl.ca.location"] = str(self.home / "ca.pem")
        if listener_name == "MTLS":
            config["ssl.certificate.location"] = str(self.home / "client.pem")
            config["ssl.key.location"] = str(self.home / "client.key")
        if mechanism is not None:
            config["sasl.mechanism"] = mechanism
            if mechanism in PASSWORDS:
                config.update({"sasl.username": USER, "sasl.password": PASSWORD})
        return {**config, **{key.replace("_", "."): value for key, value in more.items()}}


@contextlib.contextmanager
def _credentials() -> Iterator[tuple[CertificateAuthority, Path]]:
    authority = CertificateAuthority()
    with tempfile.TemporaryDirectory(prefix="klamm-secured-") as directory:
        home = Path(directory)
        (home / "ca.pem").write_text(authority.pem)
        for name, hosts in (("client", []), ("server", HOSTS)):
            certificate, key = authority.issue(name, hosts)
            (home / f"{name}.pem").write_text(certificate)
            (home / f"{name}.key").write_text(key)
            (home / f"{name}.both.pem").write_text(key + certificate)
        yield authority, home


@contextlib.contextmanager
def dev_brokers() -> Iterator[Secured]:
    """Start a dev broker for each listener."""
    users = {name: {USER: PASSWORD} for name in PASSWORDS}
    acls = {"super_users": [ADMIN], "allow_everyone_if_no_acl_found": True}
    admitted = {**users, "PLAIN": {USER: PASSWORD, ADMIN: PASSWORD}}
    with _credentials() as (authority, home), contextlib.ExitStack() as running:
        kinds: dict[str, dict[str, Any]] = {
            "SSL": {"tls": authority},
            "MTLS": {"tls": authority, "client_auth": True},
            "SASL_PLAINTEXT": {"sasl": {**admitted, "OAUTHBEARER": None}, **acls},
            "SASL_SSL": {"sasl": {**users, "OAUTHBEARER": None}, "tls": authority},
            "SHORT": {"sasl": {**users, "OAUTHBEARER": None}, "sasl_session": SESSION_S},
        }
        listener_addresses = {
            name: running.enter_context(DevBroker(config=NO_RETENTION, **kind)).bootstrap_servers
            for name, kind in kinds.items()
        }
        yield Secured("dev", listener_addresses, authority, home)


@contextlib.contextmanager
def real_kafka() -> Iterator[Secured]:
    """Start one node of Apache Kafka with all listeners."""
    with _credentials() as (authority, home):
        kafka = RealKafka(
            listeners={
                "SSL": "SSL",
                "MTLS": "SSL",
                "SASL_PLAINTEXT": "SASL_PLAINTEXT",
                "SASL_SSL": "SASL_SSL",
                "SHORT": "SASL_PLAINTEXT",
            },
            config=_kafka_config(home),
            format_options=[
                part
                for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
                for part in ("--add-scram", f'{mechanism}=[name={USER},password="{PASSWORD}"]')
            ],
        )
        with kafka:
            yield Secured("real", kafka.addresses, authority, home)


def _kafka_config(home: Path) -> dict[str, object]:
    security = "org.apache.kafka.common.security"
    modules = {
        "plain": f'{security}.plain.PlainLoginModule required user_{USER}="{PASSWORD}" user_{ADMIN}="{PASSWORD}";',
        "scram-sha-256": f"{security}.scram.ScramLoginModule required;",
        "scram-sha-512": f"{security}.scram.ScramLoginModule required;",
        "oauthbearer": f'{security}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";',
    }
    config: dict[str, object] = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": home / "server.both.pem",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": home / "ca.pem",
        "listener.name.mtls.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": ",".join(name.upper() for name in modules),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        # The node itself connects to a plaintext listener.
        "super.users": f"User:{ADMIN};User:ANONYMOUS",
        "allow.everyone.if.no.acl.found": "true",
    }
    for listener in ("sasl_plaintext", "sasl_ssl", "short"):
        for name, module in modules.items():
            prefix = f"listener.name.{listener}.{name}"
            config[f"{prefix}.sasl.jaas.config"] = module
            if listener == "short":
                config[f"{prefix}.connections.max.reauth.ms"] = int(SESSION_S * 1000)
    return config

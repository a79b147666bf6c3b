"""Nothing that klamm logs, records, measures or raises contains a password, a token or key material.

Each case uses secrets in a client that works and in one that fails. The test collects all that leaves the clients: lines of
level DEBUG, flight recorders with values, statistics, metrics, pushed telemetry, errors and `repr`.
"""

from __future__ import annotations

import base64
import json
import logging
import re
import subprocess
from contextlib import suppress

import pytest
from prometheus_client import CollectorRegistry, generate_latest

import klamm
import klamm.aws
import klamm.logs
import klamm.prometheus
from klamm.admin import ScramMechanism, ScramUpsertion
from klamm.errors import KafkaError
from klamm.registry import SchemaRegistry
from klamm.registry.dev import DevRegistry
from klamm.testing import CertificateAuthority, DevBroker
from log_lines import collected
from secured import unsecured_token
from token_endpoints import Endpoint, good

PASSWORD, WRONG = "Tr0ub4dor&3-s3cret", "wr0ng-s3cret-too"
USERS = {"alice": PASSWORD, "admin": PASSWORD}


def forms(secret):
    """Yield the forms in which a secret could appear."""
    raw = secret.encode() if isinstance(secret, str) else secret
    yield from (raw, raw.hex().encode(), base64.b64encode(raw).rstrip(b"="), base64.urlsafe_b64encode(raw).rstrip(b"="))
    yield from (json.dumps(raw.decode("latin-1")).strip('"').encode(), repr(raw)[2:-1].encode())


def key_lines(pem):
    """Return the lines of a PEM key that have key material."""
    return [line for line in pem.splitlines() if len(line) > 30 and "-----" not in line]


class Output:
    """All that leaves the clients of a case."""

    def __init__(self, home):
        self.home = home
        self.parts = []

    def add(self, part):
        self.parts.append(part if isinstance(part, bytes) else str(part).encode())

    def use(self, config, work=lambda client: client.describe_cluster(timeout=2)):
        """Use an admin client, with all its outputs."""
        options = {
            "debug": "all",
            "flight_recorder_values": True,
            "statistics_interval_ms": 20,
            "stats_cb": self.add,
            "on_error": lambda error: self.add(f"{error!r} {error.hint}"),
            "default_api_timeout_ms": 3000,
        }
        try:
            client = klamm.Admin(config, **options)
        except KafkaError as error:
            self.add(f"{error!r} {error} {error.hint} {error.__cause__!r}")
            return None
        with client:
            try:
                return work(client)
            except KafkaError as error:
                self.add(f"{error!r} {error} {error.hint} {error.__cause__!r}")
                return None
            finally:
                registry = CollectorRegistry()
                with klamm.Consumer(config, "g", flight_recorder_values=True) as consumer:
                    klamm.prometheus.register(consumer, registry=registry)
                    self.add(generate_latest(registry))
                    self.add(repr(consumer))
                self.add(repr(client))
                self.add(repr(client.metrics()))
                client.dump_flight(self.home / "dump")
                self.add((self.home / "dump").read_bytes())


def plain(output):
    with DevBroker(sasl={"PLAIN": USERS}, telemetry=True) as broker:
        config = broker.client_config("alice")
        output.use(config)
        output.use({**config, "sasl.password": WRONG})
        output.add(broker.telemetry())
    return [PASSWORD, WRONG]


def scram(output):
    with DevBroker(sasl={"SCRAM-SHA-512": USERS}) as broker:
        config = broker.client_config("alice")
        output.use(config)
        output.use({**config, "sasl.password": WRONG})
        jaas = (
            f'org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="{PASSWORD}";'
        )
        jaas_config = {key: value for key, value in config.items() if key not in ("sasl.username", "sasl.password")}
        output.use({**jaas_config, "sasl.jaas.config": jaas})
        output.use({**jaas_config, "sasl.jaas.config": jaas.removesuffix(";")})
    return [PASSWORD, WRONG]


def scram_administration(output):
    credentials = [
        ScramUpsertion("bob", "b0b-s3cret-word"),
        ScramUpsertion("eve", "3ve-s3cret", ScramMechanism.SHA_512),
    ]
    with DevBroker(sasl={"PLAIN": USERS}) as broker:
        config = broker.client_config("admin")
        output.use(config, lambda admin: admin.alter_user_scram_credentials(credentials))
        output.use(config, lambda admin: output.add(admin.describe_user_scram_credentials()))
        broker.fault("AlterUserScramCredentials", "error", error="UNACCEPTABLE_CREDENTIAL")
        output.use(config, lambda admin: admin.alter_user_scram_credentials(credentials))
        output.add(repr(credentials))
    return [PASSWORD, "b0b-s3cret-word", "3ve-s3cret"]


def delegation_token(output):
    sasl = {"PLAIN": USERS, "SCRAM-SHA-256": {}}
    with DevBroker(sasl=sasl, config={"delegation.token.secret.key": "t0ken-master-key"}) as broker:
        config = broker.client_config("admin")

        def work(admin):
            token = admin.create_delegation_token()
            output.add(repr(token))
            output.add(repr(admin.describe_delegation_tokens()))
            admin.renew_delegation_token(token.hmac)
            return token

        token = output.use(config, work)
        login = f'username="{token.token_id}" password="{base64.b64encode(token.hmac).decode()}" tokenauth="true"'
        with_token = {
            "bootstrap.servers": broker.bootstrap_servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.jaas.config": f"org.apache.kafka.common.security.scram.ScramLoginModule required {login};",
        }
        output.use(with_token)
        output.use(config, lambda admin: admin.expire_delegation_token(token.hmac))
        output.use(with_token)
        hmac = b"an HMAC that no broker issued"
        output.use(config, lambda admin: admin.renew_delegation_token(hmac))
    return [PASSWORD, "t0ken-master-key", hmac, token.hmac]


def passwords_in_configurations(output):
    with DevBroker() as broker:
        config = {"bootstrap.servers": broker.bootstrap_servers}

        def work(admin):
            with suppress(KafkaError):
                admin.alter_configs("broker", "1", {"ssl.keystore.password": "k3ystore-s3cret"})
            output.add(admin.describe_configs("broker", "1"))

        output.use(config, work)
    return ["k3ystore-s3cret"]


def tls(output):
    authority = CertificateAuthority()
    certificate, key = authority.issue("alice")
    other_certificate, other_key = CertificateAuthority().issue("eve")
    (output.home / "key").write_text(key)
    command = ["openssl", "pkcs8", "-topk8", "-in", str(output.home / "key"), "-passout", f"pass:{PASSWORD}"]
    encrypted = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    with DevBroker(tls=authority, client_auth=True) as broker:
        config = {
            "bootstrap.servers": broker.bootstrap_servers,
            "security.protocol": "SSL",
            "ssl.ca.pem": authority.pem,
        }
        good_pair = {"ssl.certificate.pem": certificate, "ssl.key.pem": key}
        output.use({**config, **good_pair})
        output.use({**config, "ssl.certificate.pem": other_certificate, "ssl.key.pem": other_key})
        output.use({**config, "ssl.certificate.pem": certificate, "ssl.key.pem": other_key})
        output.use({**config, "ssl.certificate.pem": certificate, "ssl.key.pem": key.replace("A", "!", 1)})
        output.use({**config, "ssl.certificate.pem": key, "ssl.key.pem": certificate})
        output.use({**config, "ssl.ca.pem": key, **good_pair})
        output.use({**config, "ssl.certificate.location": key, "ssl.key.location": key})
        for password in (PASSWORD, WRONG, ""):
            pair = {"ssl.certificate.pem": certificate, "ssl.key.pem": encrypted, "ssl.key.password": password}
            output.use({**config, **pair})
        java = {"ssl.keystore.certificate.chain": certificate, "ssl.keystore.key": encrypted}
        output.use({**config, **java, "ssl.key.password": PASSWORD})
        output.use({**config, "ssl.keystore.location": "x.jks", "ssl.keystore.password": PASSWORD})
        output.use({**config, "ssl.truststore.location": "x.jks", "ssl.truststore.password": PASSWORD})
    return [PASSWORD, WRONG, *key_lines(key), *key_lines(other_key), *key_lines(encrypted)]


def oauth(output):
    token, secret = unsecured_token(), "cl13nt-s3cret"
    with DevBroker(sasl={"OAUTHBEARER": None}) as broker:
        config = broker.client_config(mechanism="OAUTHBEARER")
        output.use({**config, "sasl.oauth.token.provider": lambda: (token, 4e9)})
        output.use({**config, "sasl.oauth.token.provider": lambda: ("t0ken-of-another", 4e9)})
        output.use({**config, "sasl.oauth.token.provider": lambda: (f"{token}\x01", 4e9)})

        def fail():
            raise RuntimeError("no token today")

        output.use({**config, "sasl.oauth.token.provider": fail})
        answers = [
            good,
            lambda _: (401, {}, b'{"error": "invalid_client"}'),
            lambda _: (200, {}, json.dumps({"access_token": "t0ken-of-another"}).encode()),
        ]
        for answer in answers:
            with Endpoint(answer) as endpoint:
                ids = {"sasl.oauthbearer.client.id": "id", "sasl.oauthbearer.client.secret": secret}
                output.use({**config, **ids, "sasl.oauthbearer.token.endpoint.url": endpoint.url})
    return [token, "t0ken-of-another", secret]


def msk_iam(output):
    botocore = pytest.importorskip("botocore.session")
    session = botocore.Session()
    session.set_credentials("AKIDEXAMPLE", "aws-s3cret-key", "aws-s3ssion-token")
    provider = klamm.aws.token_provider("eu-central-1", session)
    tokens = []

    def remembered():
        tokens.append(provider())
        return tokens[-1]

    # The dev broker takes unsecured tokens only, so it rejects this one.
    with DevBroker(sasl={"OAUTHBEARER": None}) as broker:
        config = broker.client_config(mechanism="OAUTHBEARER")
        output.use({**config, "sasl.oauth.token.provider": remembered})
    assert tokens
    return ["aws-s3cret-key", "aws-s3ssion-token", *(token.value for token in tokens)]


def registry(output):
    with DevRegistry(users={"alice": PASSWORD}, tokens=("t0k3n-s3cret",)) as running:
        for options in (
            {"basic_auth_user_info": f"alice:{PASSWORD}"},
            {"basic_auth_user_info": f"alice:{WRONG}"},
            {"bearer_auth_token": "t0k3n-s3cret"},
            {"bearer_auth_token": "t0k3n-s3cret-wrong"},
        ):
            with SchemaRegistry(running.url, **options) as client:
                output.add(repr(client))
                try:
                    output.add(client.subjects())
                except KafkaError as error:
                    output.add(f"{error!r} {error} {error.hint} {error.__cause__!r}")
        where = running.url.replace("//", f"//alice:{PASSWORD}@")
        with suppress(KafkaError), SchemaRegistry(where) as client:
            output.add(repr(client))
    return [PASSWORD, WRONG, "t0k3n-s3cret"]


@pytest.mark.parametrize(
    "case",
    [
        plain,
        scram,
        scram_administration,
        delegation_token,
        passwords_in_configurations,
        tls,
        oauth,
        msk_iam,
        registry,
    ],
)
def test_nothing_that_leaves_a_client_has_a_secret(case, tmp_path):
    output = Output(tmp_path)
    with collected(logging.DEBUG) as lines, collected(logging.DEBUG, "httpx") as other:
        secrets = case(output)
        klamm.logs.flush()
    output.parts += [repr(vars(record)).encode() for record in lines.records + other.records]
    everything = b"\n".join(output.parts)
    assert len(everything) > 200
    for secret in secrets:
        for form in forms(secret):
            found = re.search(re.escape(form), everything)
            assert found is None, everything[max(0, found.start() - 200) : found.end() + 50]

"""Runs a Kerberos KDC on loopback, and an Apache Kafka that uses it.

The KDC is Apache Kerby from Maven Central. It keeps the principals of a broker and of alice in memory. Java and the
system's library read the same `krb5.conf`.
"""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kafka_broker import HOST, LOGGING_ARTIFACT, SMALL_JVM, KafkaUnavailable, RealKafka, _jars, find_java, free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator

KERBY = "2.1.0"
REALM = "KLAMM.TEST"
SESSION_S = 2.0


@dataclass(frozen=True)
class Kerberos:
    """The files of a KDC, and the listeners of a broker that accepts its tickets."""

    home: Path
    listener_addresses: dict[str, str]

    @property
    def config(self) -> Path:
        """Return the path for `KRB5_CONFIG`."""
        return self.home / "krb5.conf"

    def keytab(self, name: str) -> str:
        """Return the keytab of alice or of the broker (kafka)."""
        return str(self.home / f"{name}.keytab")


def krb5_conf(kdc: str) -> str:
    """Return a configuration that knows this realm and uses no name server."""
    settings = "dns_lookup_kdc dns_lookup_realm dns_canonicalize_hostname rdns"
    lines = [f"  {name} = false" for name in settings.split()]
    # Java and MIT's library go by TCP from the first byte on.
    lines += [f"  default_realm = {REALM}", "  udp_preference_limit = 1"]
    return "\n".join(["[libdefaults]", *lines, "[realms]", f"  {REALM} = {{", f"    kdc = {kdc}", "  }", ""])


@contextlib.contextmanager
def kerberos() -> Iterator[Kerberos]:
    """Start a KDC and a node of Apache Kafka with the listeners `KERBEROS` and `SHORT`. Sessions of `SHORT` last two
    seconds.
    """
    with tempfile.TemporaryDirectory(prefix="klamm-kerberos-") as directory, contextlib.ExitStack() as running:
        home = Path(directory)
        running.enter_context(_kdc(home))
        service = f"kafka/{HOST}@{REALM}"
        module = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true"
        config: dict[str, object] = {"sasl.enabled.mechanisms": "GSSAPI", "sasl.kerberos.service.name": "kafka"}
        for listener in ("kerberos", "short"):
            prefix = f"listener.name.{listener}.gssapi"
            config[f"{prefix}.sasl.jaas.config"] = f'{module} keyTab="{home}/kafka.keytab" principal="{service}";'
        config["listener.name.short.gssapi.connections.max.reauth.ms"] = int(SESSION_S * 1000)
        kafka = RealKafka(
            config=config,
            jvm_options=[*SMALL_JVM, f"-Djava.security.krb5.conf={home}/krb5.conf"],
            listeners={"KERBEROS": "SASL_PLAINTEXT", "SHORT": "SASL_PLAINTEXT"},
        )
        running.enter_context(kafka)
        yield Kerberos(home, kafka.addresses)


@contextlib.contextmanager
def _kdc(home: Path) -> Iterator[None]:
    java = find_java()
    if not Path(java).resolve().with_name("javac").exists():
        raise KafkaUnavailable("javac is not installed: the KDC is started from its source, with a JDK")
    artifacts = [f"org.apache.kerby:kerb-simplekdc:{KERBY}", LOGGING_ARTIFACT]
    jars = _jars(f"kerby-{KERBY}", f"of Kerby {KERBY}", artifacts)
    (port,) = free_ports(1)
    (home / "kdc").mkdir()
    (home / "krb5.conf").write_text(krb5_conf(f"{HOST}:{port}"))
    principals = {"kafka": f"kafka/{HOST}@{REALM}", "alice": f"alice@{REALM}"}
    keytabs = [part for name, principal in principals.items() for part in (f"{home}/{name}.keytab", principal)]
    command = [java, "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*"]
    command += [str(Path(__file__).with_name("Kdc.java")), f"{home}/kdc", REALM, str(port), *keytabs]
    with (
        (home / "kdc.log").open("wb") as log,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True) as process,
    ):
        try:
            assert process.stdout is not None
            if not any(line == "ready\n" for line in process.stdout):
                raise RuntimeError(f"the KDC ended while starting:\n{(home / 'kdc.log').read_text()[-3000:]}")
            yield
        finally:
            process.kill()

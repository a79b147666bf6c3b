"""Options that begin with `kafka.`: which of them reach the client, which are left out, which are refused.

Spark's own connector hands them to the Java client, which warns of keys it does not know. klamm's client refuses those. In
between are keys that the Java client has and klamm has no use for: what only tunes or reports is left out with a warning, so that
the options of a job that runs are taken as they are; what decides on trust, on identity or on where records go is refused, with
what klamm has instead.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from klamm._klamm import config_keys, foreign_values
from klamm.errors import ConfigError
from klamm.spark.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Mapping

log = logging.getLogger("klamm.spark")


def client_config(given: Mapping[str, str], role: str, defaults: Mapping[str, str]) -> Settings:
    """Gather the configuration of a `consumer` or a `producer`."""
    config = Settings(defaults)
    for key in given:
        if not key.startswith("kafka."):
            continue
        name = key.removeprefix("kafka.")
        hint = (REFUSED[role] | NO_SUCH).get(name)
        if hint and given[key] not in TAKEN.get(name, ()):
            raise ConfigError(f"option '{key}' is not supported", hint=hint)
        if name in TUNING or any(name.startswith(family) for family in TUNING_FAMILIES):
            log.warning("option '%s' has no meaning for klamm and is left out", key)
        elif role in ROLES.get(name, {role}):
            config[name] = given[key]
    return config


# What klamm's consumers and producers know, with the roles of each; one dict of options often serves a read and a write.
ROLES = {name: set(roles) for key, aliases, *_, roles, _ in config_keys() for name in (key, *aliases)}

# A query must not create the topic that it misspells; Spark alone keeps the positions.
# A position that is gone must be an error, so that failOnDataLoss decides.
# A task has one partition, so it may fetch more of it at a time. More than this measures the same, and costs a worker
# several times its bytes, as they are after decompression; how many of those it reads ahead has an end of its own, which
# tests/spark/test_memory.py needs.
READ_DEFAULTS = {
    "allow.auto.create.topics": "false",
    "auto.offset.reset": "none",
    "enable.auto.commit": "false",
    "max.partition.fetch.bytes": "2097152",
    "queued.max.bytes": "16777216",
}

# A task hands over its rows as fast as it can and then flushes, so larger batches cost no latency. What waits is in a worker's
# memory besides the rows that Spark hands over; the producer's own 64 MiB is no faster.
WRITE_DEFAULTS = {
    "batch.size": "262144",
    "buffer.memory": "16777216",
    "linger.ms": "20",
}

# A transaction lasts as long as its task; this is the most that brokers allow unless told otherwise.
# Every task makes a producer, and a new one asks twice for its coordinator, with the first wait in between.
EXACTLY_ONCE_DEFAULTS = {
    "retry.backoff.ms": "10",
    "transaction.timeout.ms": "900000",
}

_SERIALIZED = "keys and values are binary here; cast the column instead"

REFUSED = {
    "consumer": {
        "auto.offset.reset": "use option 'startingOffsets': Spark keeps the positions of a query, so that nothing is missed "
        "when partitions are added",
        "key.deserializer": _SERIALIZED,
        "value.deserializer": _SERIALIZED,
        "enable.auto.commit": "Spark keeps the positions of a query in its checkpoint; option 'commitGroup' commits them, too",
        "interceptor.classes": "klamm runs no Java classes, and an interceptor could change what is read",
    },
    "producer": {
        "key.serializer": _SERIALIZED,
        "value.serializer": _SERIALIZED,
        "interceptor.classes": "klamm runs no Java classes",
        "transactional.id": "use option 'delivery' with exactly-once, which names the transactions of each task",
        "partitioner.class": "klamm runs no Java classes and takes only the names of Java's own partitioners; "
        "use option 'kafka.partitioner'",
        "partitioner.ignore.keys": "use option 'kafka.partitioner', or leave the column 'key' out",
        "transaction.two.phase.commit.enable": "use option 'delivery' with exactly-once",
        "protocol": "only reads speak that of Kafka 0.6 and 0.7; klamm.legacy.Producer07 writes",
    },
}

# Java's own classes, each of which klamm's producer has as a choice of `partitioner`; no other class could run.
TAKEN = {"partitioner.class": frozenset(value for key, value, _ in foreign_values() if key == "partitioner")}

_PEM = (
    "klamm reads PEM, whose keys have 'kafka.ssl.key.password'; docs/security.md says how to convert JKS and PKCS #12"
)
_HANDLER = (
    "klamm runs no Java classes; 'kafka.sasl.oauthbearer.method' has other ways to a token, aws-msk-iam among them"
)

NO_SUCH = {
    "config.providers": "klamm runs no Java classes; give the values themselves",
    "sasl.client.callback.handler.class": _HANDLER,
    "sasl.login.callback.handler.class": _HANDLER,
    "sasl.login.class": _HANDLER,
    "sasl.oauthbearer.jwt.retriever.class": _HANDLER,
    "ssl.cipher.suites": "klamm has those of TLS 1.3 and the ones of TLS 1.2 with forward secrecy, and no choice among them",
    "ssl.engine.factory.class": "klamm runs no Java classes",
    "ssl.keystore.password": _PEM,
    "ssl.truststore.password": _PEM,
}

# Of the Java client 4.4: how it looks after connections, tickets and its own metrics.
TUNING = frozenset(
    {
        "auto.include.jmx.reporter",
        "bootstrap.resolve.timeout.ms",
        "buffer.memory.allocation.strategy",
        "client.dns.lookup",
        "compression.lz4.level",
        "connections.max.idle.ms",
        "enable.metrics.push",
        "exclude.internal.topics",
        "metadata.cluster.check.enable",
        "metadata.max.idle.ms",
        "metric.reporters",
        "partitioner.availability.timeout.ms",
        "partitioner.rack.aware",
        "receive.buffer.bytes",
        "sasl.kerberos.kinit.cmd",
        "sasl.kerberos.min.time.before.relogin",
        "sasl.login.connect.timeout.ms",
        "sasl.login.read.timeout.ms",
        "security.providers",
        "send.buffer.bytes",
        "socket.connection.setup.timeout.max.ms",
        "ssl.keymanager.algorithm",
        "ssl.protocol",
        "ssl.provider",
        "ssl.secure.random.implementation",
        "ssl.trustmanager.algorithm",
    }
)
TUNING_FAMILIES = (
    "metadata.recovery.",
    "metrics.",
    "sasl.kerberos.ticket.",
    "sasl.login.refresh.",
    "sasl.login.retry.",
    "sasl.oauthbearer.jwks.",
)

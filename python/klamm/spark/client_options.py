"""Turns options that begin with `kafka.` into the configuration of a klamm client.

Spark's connector passes these options to the Java client, which warns about unknown keys. klamm's client raises an
error for unknown keys. Some keys of the Java client do not exist in klamm. If an unsupported key only affects tuning or
reporting, klamm ignores the key with a warning, so that existing jobs run unchanged. If an unsupported key affects
trust, identity or the partition of a record, klamm raises an error. The error's hint says what to use instead.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from klamm._klamm import alias_values, config_keys
from klamm.errors import ConfigError
from klamm.spark.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Mapping

log = logging.getLogger("klamm.spark")


def client_config(given: Mapping[str, str], role: str, defaults: Mapping[str, str]) -> Settings:
    """Build the configuration of a client from the options of a query.

    Args:
        given: Options of the query, with keys in lower case.
        role: "consumer" or "producer".
        defaults: Default values of configuration keys, which options override.

    Raises:
        ConfigError: klamm does not support an option.
    """
    config = Settings(defaults)
    for key in given:
        if not key.startswith("kafka."):
            continue
        name = key.removeprefix("kafka.")
        hint = (REJECTED[role] | UNSUPPORTED).get(name)
        if hint and given[key] not in ACCEPTED_VALUES.get(name, ()):
            raise ConfigError(f"option '{key}' is not supported", hint=hint)
        if name in IGNORED or any(name.startswith(family) for family in IGNORED_PREFIXES):
            log.warning("option '%s' has no effect in klamm and is ignored", key)
        elif role in ROLES.get(name, {role}):
            config[name] = given[key]
    return config


def keys_of(role: str) -> set[str]:
    """Return the configuration keys and aliases that a consumer or a producer accepts."""
    return {name for name, roles in ROLES.items() if role in roles}


# Roles of each configuration key. klamm skips the keys that only the other role has, because many jobs use one dict of
# options for a read and a write.
ROLES = {name: set(roles) for key, aliases, *_, roles, _ in config_keys() for name in (key, *aliases)}

# A query with a misspelled topic name must not create a topic. Only Spark stores the positions of a query.
# A read at an offset that no longer exists must raise an error, so that option failOnDataLoss decides what happens.
# A task reads one partition, so it fetches more bytes at a time than other consumers. Fetches above 2 MiB are not
# faster, and need several times their size in memory after decompression. `queued.max.bytes` limits the records that
# the consumer reads ahead. tests/spark/test_memory.py needs this limit.
READ_DEFAULTS = {
    "allow.auto.create.topics": "false",
    "auto.offset.reset": "none",
    "enable.auto.commit": "false",
    "max.partition.fetch.bytes": "2097152",
    "queued.max.bytes": "16777216",
}

# A task sends its rows as fast as it can and then flushes, so larger batches cost no latency. Buffered records need
# memory in addition to the worker's rows. The producer's default buffer of 64 MiB is not faster.
WRITE_DEFAULTS = {
    "batch.size": "262144",
    "buffer.memory": "16777216",
    "linger.ms": "20",
}

# A transaction lasts as long as its task. By default, brokers allow no transaction timeout of more than 15 minutes.
# Every task creates a producer. A new producer looks up its coordinator twice, and waits for one backoff in between.
EXACTLY_ONCE_DEFAULTS = {
    "retry.backoff.ms": "10",
    "transaction.timeout.ms": "900000",
}

_SERIALIZED = "keys and values are binary columns; cast the column instead"

REJECTED = {
    "consumer": {
        "auto.offset.reset": "use option 'startingOffsets': Spark keeps the positions of a query, so that no record of a new "
        "partition is missed",
        "key.deserializer": _SERIALIZED,
        "value.deserializer": _SERIALIZED,
        "enable.auto.commit": "Spark keeps the positions of a query in its checkpoint; set option 'commitGroup' to commit them to "
        "a group as well",
        "interceptor.classes": "klamm cannot run Java classes, and an interceptor could change what is read",
    },
    "producer": {
        "key.serializer": _SERIALIZED,
        "value.serializer": _SERIALIZED,
        "interceptor.classes": "klamm cannot run Java classes",
        "transactional.id": "set option 'delivery' to exactly-once: klamm then sets the transactional id of each task",
        "partitioner.class": "klamm cannot run Java classes and accepts only the names of Java's own partitioners; "
        "use option 'kafka.partitioner'",
        "partitioner.ignore.keys": "use option 'kafka.partitioner', or leave the column 'key' out",
        "transaction.two.phase.commit.enable": "set option 'delivery' to exactly-once",
        "protocol": "Spark can only read from Kafka 0.6 and 0.7; use klamm.legacy.Producer07 to write",
    },
}

# Names of Java's own partitioner classes. klamm's producer has the same partitioners, but cannot run other Java
# classes.
ACCEPTED_VALUES = {"partitioner.class": frozenset(value for key, value, _ in alias_values() if key == "partitioner")}

_PEM = (
    "klamm reads PEM files; the password of a private key is 'kafka.ssl.key.password'. docs/security.md shows how to convert "
    "JKS and PKCS #12"
)
_HANDLER = "klamm cannot run Java classes; use 'kafka.sasl.oauthbearer.method', which can also get tokens for AWS (aws-msk-iam)"

UNSUPPORTED = {
    "config.providers": "klamm cannot run Java classes; set the values directly",
    "sasl.client.callback.handler.class": _HANDLER,
    "sasl.login.callback.handler.class": _HANDLER,
    "sasl.login.class": _HANDLER,
    "sasl.oauthbearer.jwt.retriever.class": _HANDLER,
    "ssl.cipher.suites": "leave the option out: klamm always offers the cipher suites of TLS 1.3, and those of TLS 1.2 with forward secrecy",
    "ssl.engine.factory.class": "klamm cannot run Java classes",
    "ssl.keystore.password": _PEM,
    "ssl.truststore.password": _PEM,
}

# Keys of the Java client 4.4 that only affect its connections, Kerberos tickets and metrics.
IGNORED = frozenset(
    {
        "auto.include.jmx.reporter",
        "bootstrap.resolve.timeout.ms",
        "buffer.memory.allocation.strategy",
        "client.dns.lookup",
        "compression.lz4.level",
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
IGNORED_PREFIXES = (
    "metadata.recovery.",
    "metrics.",
    "sasl.kerberos.ticket.",
    "sasl.login.refresh.",
    "sasl.login.retry.",
    "sasl.oauthbearer.jwks.",
)

"""Turns options that begin with `kafka.` into the configuration of a klamm client.

Spark's connector passes these options to the Java client, which warns about unknown keys. klamm ignores keys that only
affect tuning or reporting of the Java client with a warning, so that existing jobs run unchanged, and raises an error
for the others (`klamm.config.verdict`). This file adds the keys that a query must not set, because Spark decides them.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from klamm._klamm import config_keys
from klamm.config import verdict
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
        found = verdict(role, name, given[key], prefix="kafka.")
        if name in REJECTED[role] or found.kind == "rejected":
            raise ConfigError(f"option '{key}' is not supported", hint=REJECTED[role].get(name, found.text))
        if name in IGNORED:
            log.warning("option '%s' has no effect in klamm and is ignored", key)
        elif found.kind != "ignored":
            config[name] = given[key]  # the client rejects a key that it does not know
        elif name not in ROLES:
            log.warning("option '%s' has no effect and is ignored: %s", key, found.text)
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
        "transaction.two.phase.commit.enable": "set option 'delivery' to exactly-once",
        "protocol": "Spark can only read from Kafka 0.6 and 0.7; use klamm.legacy.Producer07 to write",
    },
}

# klamm has the keys, but not every value of the Java client: klamm always bootstraps again.
IGNORED = frozenset({"metadata.recovery.strategy"})

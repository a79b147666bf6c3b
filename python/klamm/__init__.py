"""klamm: a Kafka client for Python with a core in Rust.

    with klamm.Producer("localhost:9092") as producer:
        producer.send("greetings", b"hello", key=b"world").result()

    with klamm.Consumer("localhost:9092", topics=["greetings"], auto_offset_reset="earliest") as consumer:
        for record in consumer:
            print(record.key, record.value)

klamm imports a submodule only when a program first uses one of the submodule's names, so `import klamm` is fast.
"""

from __future__ import annotations

import sys
from importlib import import_module

# Importing `TYPE_CHECKING` from `typing` would take longer than importing this whole module.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from klamm import (
        admin as admin,
    )
    from klamm import (
        assignors as assignors,
    )
    from klamm import (
        aws as aws,
    )
    from klamm import (
        config as config,
    )
    from klamm import (
        errors as errors,
    )
    from klamm import (
        hooks as hooks,
    )
    from klamm import (
        legacy as legacy,
    )
    from klamm import (
        metrics as metrics,
    )
    from klamm import (
        oauth as oauth,
    )
    from klamm import (
        protocol as protocol,
    )
    from klamm import (
        registry as registry,
    )
    from klamm import (
        testing as testing,
    )
    from klamm._klamm import __version__
    from klamm.admin import (
        AclBinding,
        AclFilter,
        AclOperation,
        AclPatternType,
        AclPermission,
        AclResource,
        Admin,
        AsyncAdmin,
        ClusterDescription,
        ConfigChange,
        ConfigEntry,
        ConfigOperation,
        ConfigResource,
        ConfigSource,
        FeatureUpdate,
        GroupDescription,
        GroupListing,
        GroupMember,
        ListedOffset,
        NewPartitions,
        NewTopic,
        Node,
        OffsetSpec,
        PartitionInfo,
        QuotaEntity,
        QuotaName,
        Replica,
        ScramCredential,
        ScramDeletion,
        ScramMechanism,
        ScramUpsertion,
        TopicDescription,
    )
    from klamm.consumer import AsyncConsumer, Consumer
    from klamm.errors import (
        ArgumentError,
        AuthenticationError,
        BrokerError,
        BufferFullError,
        ClosedError,
        CombinedError,
        ConfigError,
        DecodeError,
        DeliveryError,
        DeserializationError,
        FencedError,
        InternalError,
        KafkaError,
        KafkaTimeoutError,
        NetworkError,
        TransactionAbortedError,
    )
    from klamm.producer import AsyncProducer, Delivery, Producer
    from klamm.rebalance import RebalanceListener
    from klamm.record import OffsetAndMetadata, Record, RecordMetadata, Records, TopicPartition
    from klamm.share import AsyncShareConsumer, ShareConsumer
    from klamm.table import read_table
    from klamm.transaction import AsyncTransaction, GroupMetadata, Transaction

__all__ = [
    "AclBinding",
    "AclFilter",
    "AclOperation",
    "AclPatternType",
    "AclPermission",
    "AclResource",
    "Admin",
    "ArgumentError",
    "AsyncAdmin",
    "AsyncConsumer",
    "AsyncProducer",
    "AsyncShareConsumer",
    "AsyncTransaction",
    "AuthenticationError",
    "BrokerError",
    "BufferFullError",
    "ClosedError",
    "ClusterDescription",
    "CombinedError",
    "ConfigChange",
    "ConfigEntry",
    "ConfigError",
    "ConfigOperation",
    "ConfigResource",
    "ConfigSource",
    "Consumer",
    "DecodeError",
    "Delivery",
    "DeliveryError",
    "DeserializationError",
    "FeatureUpdate",
    "FencedError",
    "GroupDescription",
    "GroupListing",
    "GroupMember",
    "GroupMetadata",
    "InternalError",
    "KafkaError",
    "KafkaTimeoutError",
    "ListedOffset",
    "NetworkError",
    "NewPartitions",
    "NewTopic",
    "Node",
    "OffsetAndMetadata",
    "OffsetSpec",
    "PartitionInfo",
    "Producer",
    "QuotaEntity",
    "QuotaName",
    "RebalanceListener",
    "Record",
    "RecordMetadata",
    "Records",
    "Replica",
    "ScramCredential",
    "ScramDeletion",
    "ScramMechanism",
    "ScramUpsertion",
    "ShareConsumer",
    "TopicDescription",
    "TopicPartition",
    "Transaction",
    "TransactionAbortedError",
    "__version__",
    "read_table",
]

_HOMES = {
    "AclBinding": "admin",
    "AclFilter": "admin",
    "AclOperation": "admin",
    "AclPatternType": "admin",
    "AclPermission": "admin",
    "AclResource": "admin",
    "Admin": "admin",
    "ArgumentError": "errors",
    "AsyncAdmin": "admin",
    "AsyncConsumer": "consumer",
    "AsyncProducer": "producer",
    "AsyncShareConsumer": "share",
    "AsyncTransaction": "transaction",
    "AuthenticationError": "errors",
    "BrokerError": "errors",
    "BufferFullError": "errors",
    "ClosedError": "errors",
    "ClusterDescription": "admin",
    "CombinedError": "errors",
    "DeliveryError": "errors",
    "ConfigChange": "admin",
    "ConfigEntry": "admin",
    "ConfigError": "errors",
    "ConfigOperation": "admin",
    "ConfigResource": "admin",
    "ConfigSource": "admin",
    "Consumer": "consumer",
    "DecodeError": "errors",
    "Delivery": "producer",
    "DeserializationError": "errors",
    "FeatureUpdate": "admin",
    "FencedError": "errors",
    "GroupDescription": "admin",
    "GroupListing": "admin",
    "GroupMember": "admin",
    "GroupMetadata": "transaction",
    "InternalError": "errors",
    "KafkaError": "errors",
    "KafkaTimeoutError": "errors",
    "ListedOffset": "admin",
    "NetworkError": "errors",
    "NewPartitions": "admin",
    "NewTopic": "admin",
    "Node": "admin",
    "OffsetAndMetadata": "record",
    "OffsetSpec": "admin",
    "PartitionInfo": "admin",
    "Producer": "producer",
    "QuotaEntity": "admin",
    "QuotaName": "admin",
    "RebalanceListener": "rebalance",
    "Record": "record",
    "RecordMetadata": "record",
    "Records": "record",
    "Replica": "admin",
    "ScramCredential": "admin",
    "ScramDeletion": "admin",
    "ScramMechanism": "admin",
    "ScramUpsertion": "admin",
    "ShareConsumer": "share",
    "TopicDescription": "admin",
    "TopicPartition": "record",
    "Transaction": "transaction",
    "TransactionAbortedError": "errors",
    "__version__": "_klamm",
    "read_table": "table",
}
_MODULES = {
    "admin",
    "assignors",
    "aws",
    "config",
    "errors",
    "hooks",
    "interceptors",
    "legacy",
    "logs",
    "metrics",
    "oauth",
    "protocol",
    "registry",
    "testing",
}


def _check_interpreter() -> None:
    """Raise ImportError in a sub-interpreter. The classes of the Rust core work in the main interpreter only."""
    try:
        if sys.version_info >= (3, 13):
            import _interpreters as interpreters
        else:
            import _xxsubinterpreters as interpreters  # type: ignore[import-not-found]
    except ImportError:  # this Python has no sub-interpreters
        return
    if interpreters.get_current() != interpreters.get_main():
        raise ImportError(
            "klamm cannot be imported in a sub-interpreter of Python; import klamm in the main interpreter instead"
            " (mod_wsgi: set WSGIApplicationGroup %{GLOBAL}; uWSGI: set single-interpreter)"
        )


_check_interpreter()


# This function is hidden from type checkers, which would otherwise accept any name.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return import_module(f"klamm.{name}")
        if name not in _HOMES:
            from klamm.other_clients import module_hint

            raise AttributeError(f"module 'klamm' has no attribute {name!r}{module_hint(name)}", name=name)
        value = getattr(import_module(f"klamm.{_HOMES[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*__all__, *_MODULES})

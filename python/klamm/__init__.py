"""klamm: a Kafka client for Python with a core in Rust.

    with klamm.Producer("localhost:9092") as producer:
        producer.send("greetings", b"hello", key=b"world").result()

    with klamm.Consumer("localhost:9092", topics=["greetings"], auto_offset_reset="earliest") as consumer:
        for record in consumer:
            print(record.key, record.value)

Each name is imported when it is first used, so that `import klamm` is fast.
"""

from __future__ import annotations

import sys
from importlib import import_module

# Importing `typing` for this would take longer than importing this whole module.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from klamm._klamm import __version__
    from klamm.admin import (
        Admin,
        AsyncAdmin,
        ClusterDescription,
        ConfigEntry,
        ConfigSource,
        GroupDescription,
        GroupListing,
        GroupMember,
        NewTopic,
        Node,
        PartitionInfo,
        TopicDescription,
    )
    from klamm.consumer import AsyncConsumer, Consumer
    from klamm.errors import KafkaError
    from klamm.producer import AsyncProducer, Delivery, Producer
    from klamm.rebalance import RebalanceListener
    from klamm.record import OffsetAndMetadata, Record, RecordMetadata, Records, TopicPartition
    from klamm.share import AsyncShareConsumer, ShareConsumer
    from klamm.table import read_table
    from klamm.transaction import AsyncTransaction, GroupMetadata, Transaction

__all__ = [
    "Admin",
    "AsyncAdmin",
    "AsyncConsumer",
    "AsyncProducer",
    "AsyncShareConsumer",
    "AsyncTransaction",
    "ClusterDescription",
    "ConfigEntry",
    "ConfigSource",
    "Consumer",
    "Delivery",
    "GroupDescription",
    "GroupListing",
    "GroupMember",
    "GroupMetadata",
    "KafkaError",
    "NewTopic",
    "Node",
    "OffsetAndMetadata",
    "PartitionInfo",
    "Producer",
    "RebalanceListener",
    "Record",
    "RecordMetadata",
    "Records",
    "ShareConsumer",
    "TopicDescription",
    "TopicPartition",
    "Transaction",
    "__version__",
    "read_table",
]

_HOMES = {
    "__version__": "_klamm",
    "Admin": "admin",
    "AsyncAdmin": "admin",
    "AsyncConsumer": "consumer",
    "AsyncProducer": "producer",
    "AsyncShareConsumer": "share",
    "AsyncTransaction": "transaction",
    "ClusterDescription": "admin",
    "ConfigEntry": "admin",
    "ConfigSource": "admin",
    "Consumer": "consumer",
    "Delivery": "producer",
    "GroupDescription": "admin",
    "GroupListing": "admin",
    "GroupMember": "admin",
    "GroupMetadata": "transaction",
    "KafkaError": "errors",
    "NewTopic": "admin",
    "Node": "admin",
    "OffsetAndMetadata": "record",
    "PartitionInfo": "admin",
    "Producer": "producer",
    "RebalanceListener": "rebalance",
    "Record": "record",
    "RecordMetadata": "record",
    "Records": "record",
    "ShareConsumer": "share",
    "TopicDescription": "admin",
    "TopicPartition": "record",
    "Transaction": "transaction",
    "read_table": "table",
}
_MODULES = {
    "admin",
    "assignors",
    "aws",
    "config",
    "errors",
    "hooks",
    "legacy",
    "metrics",
    "oauth",
    "protocol",
    "registry",
    "testing",
}


def _check_interpreter() -> None:
    """Raise ImportError in a sub-interpreter: classes of the core belong to one interpreter of the process."""
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


# With this function in sight, a type checker would accept any name.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return import_module(f"klamm.{name}")
        if name not in _HOMES:
            raise AttributeError(f"module 'klamm' has no attribute {name!r}")
        value = getattr(import_module(f"klamm.{_HOMES[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_MODULES})

"""klamm: a Kafka client for Python with a core in Rust.

    with klamm.Producer("localhost:9092") as producer:
        producer.send("greetings", b"hello", key=b"world").result()

    with klamm.Consumer("localhost:9092", topics=["greetings"], auto_offset_reset="earliest") as consumer:
        for record in consumer:
            print(record.key, record.value)

Every name below is imported when it is first used, so that `import klamm` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from klamm._klamm import __version__ as __version__
    from klamm.admin import (
        Admin as Admin,
    )
    from klamm.admin import (
        AsyncAdmin as AsyncAdmin,
    )
    from klamm.admin import (
        ClusterDescription as ClusterDescription,
    )
    from klamm.admin import (
        NewTopic as NewTopic,
    )
    from klamm.admin import (
        Node as Node,
    )
    from klamm.admin import (
        PartitionInfo as PartitionInfo,
    )
    from klamm.admin import (
        TopicDescription as TopicDescription,
    )
    from klamm.consumer import AsyncConsumer as AsyncConsumer
    from klamm.consumer import Consumer as Consumer
    from klamm.errors import KafkaError as KafkaError
    from klamm.producer import AsyncProducer as AsyncProducer
    from klamm.producer import Delivery as Delivery
    from klamm.producer import Producer as Producer
    from klamm.record import (
        Record as Record,
    )
    from klamm.record import (
        RecordMetadata as RecordMetadata,
    )
    from klamm.record import (
        Records as Records,
    )
    from klamm.record import (
        TopicPartition as TopicPartition,
    )
    from klamm.table import read_table as read_table

_HOMES = {
    "__version__": "_klamm",
    "Admin": "admin",
    "AsyncAdmin": "admin",
    "AsyncConsumer": "consumer",
    "AsyncProducer": "producer",
    "ClusterDescription": "admin",
    "Consumer": "consumer",
    "Delivery": "producer",
    "KafkaError": "errors",
    "NewTopic": "admin",
    "Node": "admin",
    "PartitionInfo": "admin",
    "Producer": "producer",
    "Record": "record",
    "RecordMetadata": "record",
    "Records": "record",
    "TopicDescription": "admin",
    "TopicPartition": "record",
    "read_table": "table",
}
_MODULES = {"errors", "protocol", "testing"}

__all__ = sorted(_HOMES.keys() - {"__version__"})  # noqa: PLE0605 - a list, and one that cannot forget a name


# A type checker would take any name for one of this function's gifts.
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

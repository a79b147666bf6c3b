"""The listener for changes of a consumer's assignment. klamm calls the listener between two records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from klamm.errors import ArgumentError
from klamm.record import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable

__all__ = ["RebalanceListener"]

# Method names of kafka-python and aiokafka, and Java's method names in snake_case.
OTHER_NAMES = {f"on_partitions_{name}": name for name in ("assigned", "revoked", "lost")}


class RebalanceListener:
    """Base class for listeners that are notified when a consumer gets or loses partitions.

    Override the methods that you need.

    The thread or task that reads records calls the listener's methods between two records. The consumer's group waits
    until the called method returns. With an `AsyncConsumer`, the methods can be coroutine functions. If a method
    raises, the running poll or iteration raises the same exception, and the assignment still changes.

    Example:
        class Saving(klamm.RebalanceListener):
            def revoked(self, partitions):
                consumer.commit()

        consumer.subscribe("greetings", on_rebalance=Saving())
    """

    def __init_subclass__(cls, **kwargs: object) -> None:
        """Reject the method names of other clients, because the consumer would never call these methods."""
        super().__init_subclass__(**kwargs)
        for name, ours in OTHER_NAMES.items():
            if name in vars(cls) and ours not in vars(cls):
                raise ArgumentError(
                    f"{cls.__name__} has {name}(), which no consumer calls", hint=f"klamm calls this method {ours}()"
                )

    def assigned(self, partitions: set[TopicPartition]) -> Awaitable[None] | None:
        """Handle new partitions, before the consumer returns their first record.

        `assigned` can call the consumer's `seek`.
        """

    def revoked(self, partitions: set[TopicPartition]) -> Awaitable[None] | None:
        """Handle partitions that another member will get.

        `revoked` can call the consumer's `commit`. Closing the consumer also calls `revoked`.
        """

    def lost(self, partitions: set[TopicPartition]) -> Awaitable[None] | None:
        """Handle partitions that another member may already read, so that a commit would fail.

        By default, `lost` calls `revoked`.
        """
        return self.revoked(partitions)


def partitions(tuples: Iterable[tuple[str, int]]) -> set[TopicPartition]:
    """Convert partitions from the core to a set of `TopicPartition`."""
    return {TopicPartition(topic, partition) for topic, partition in tuples}

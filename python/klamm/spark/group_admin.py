"""Defines an admin client for the offsets of groups. Spark workers use this client for exactly-once writes.

Importing this client takes 15 ms of CPU time in a process of Spark. Importing `klamm.Admin` takes 70 ms (measured). The
module `clients` caches the client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from klamm.admin.base import _Admin
from klamm.admin.group_offsets import GroupOffsets
from klamm.errors import UnsupportedVersionError
from klamm.waiting import Blocking

if TYPE_CHECKING:
    from klamm.record import TopicPartition


class GroupAdmin(Blocking, _Admin, GroupOffsets):
    """An admin client that only has the methods of `klamm.Admin` for offsets of groups."""

    def close(self, timeout: float | None = None) -> None:  # noqa: ARG002 - same signature as other clients
        """Close the client. No call is in progress, so the client closes at once and ignores the timeout."""
        self._close()

    def committed(self, group: str, tp: TopicPartition) -> int | None:
        """Return the offset that a group has committed for a partition, or None.

        If a transaction that commits this offset is still open, this method waits for the end of the transaction.
        """
        try:
            offsets = self.list_group_offsets({group: [tp]}, require_stable=True)[group]
        except UnsupportedVersionError:
            # Brokers before Kafka 2.5 cannot wait for a transaction. For these brokers, Kafka's own clients do not wait
            # either.
            offsets = self.list_group_offsets({group: [tp]})[group]
        return offsets[tp].offset if tp in offsets else None

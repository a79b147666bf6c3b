"""`Admin` and `AsyncAdmin`, which combine the methods of the other files in this package."""

from __future__ import annotations

from typing import TYPE_CHECKING

from klamm.admin.acls import Acls, AsyncAcls
from klamm.admin.base import _Admin
from klamm.admin.cluster import AsyncClusters, Clusters
from klamm.admin.configs import AsyncConfigs, Configs
from klamm.admin.group_offsets import AsyncGroupOffsets, GroupOffsets
from klamm.admin.groups import AsyncGroups, Groups
from klamm.admin.offsets import AsyncOffsets, Offsets
from klamm.admin.partitions import AsyncPartitions, Partitions
from klamm.admin.quotas import AsyncQuotas, Quotas
from klamm.admin.topics import AsyncTopics, Topics
from klamm.admin.transactions import AsyncTransactions, Transactions
from klamm.admin.users import AsyncUsers, Users
from klamm.hints import hints_for_other_clients
from klamm.other_clients import ADMIN
from klamm.record import timed
from klamm.telemetry import AsyncTelemetry, BlockingTelemetry
from klamm.waiting import Asyncio, Blocking, documented_by

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from klamm.record import TopicPartition


@hints_for_other_clients(ADMIN)
class Admin(
    BlockingTelemetry,
    Blocking,
    _Admin,
    Acls,
    Clusters,
    Configs,
    GroupOffsets,
    Groups,
    Offsets,
    Partitions,
    Quotas,
    Topics,
    Transactions,
    Users,
):
    """Administer a cluster: its topics, groups, settings, users and brokers. Threads can share one client.

    The argument `timeout` of a method is in seconds. The default timeout is the setting `default_api_timeout_ms`.

    A method that takes several items, such as topics, processes every item even if one fails. If one item failed, the
    method raises the error of the item. If several items failed, the method raises a `CombinedError`. `error.results`
    has the results of the items that succeeded.

    Args:
        bootstrap_servers: Addresses of brokers, as `"host:port,host:port"` or as a list. A dict of Kafka's dotted
            configuration keys also works. With the setting `bootstrap_controllers` instead of `bootstrap_servers`, the
            client talks to the controllers of a KRaft cluster (Kafka 3.7).
        stats_cb: Function that is called with statistics, as for `klamm.Producer`.
        on_error: Function that is called with an error while no broker is reachable, or while a broker refuses the
            credentials. The client keeps retrying. A separate thread calls the function at once, and then at growing
            intervals while the problem lasts.
        **config: Kafka's configuration keys in snake_case; see `klamm.config.AdminConfig`.

    Raises:
        ConfigError: A configuration value, or an argument of a method, is invalid.
        ArgumentError: An argument has the wrong type.
        KafkaTimeoutError: The brokers did not answer the request of a method in time.
        BrokerError: A broker refused the request of a method.
        UnsupportedEndpointTypeError: The client talks to controllers, but the method needs brokers.

    Example:
        with klamm.Admin("localhost:9092") as admin:
            admin.create_topics({"greetings": klamm.NewTopic(partitions=3)})
    """

    def offsets_before(
        self, times: Mapping[TopicPartition, int | datetime], limit: int = 100, timeout: float | None = None
    ) -> dict[TopicPartition, list[int]]:
        """For each partition, return the start offsets of the log segments that are older than a time.

        The list for a partition begins with the newest offset. If the time is not in the past, the list also has the
        end of the log. Brokers before Kafka 0.10.1 know only the times of segment files (ListOffsets v0). For newer
        brokers, use `Consumer.offsets_for_times`, which is exact.

        Args:
            times: For each partition, a time in milliseconds since 1970, or a datetime. -1 means now, and -2 means the
                start of the log.
            limit: Maximum number of offsets for each partition.
            timeout: Seconds to wait.

        Raises:
            UnsupportedVersionError: The brokers are Kafka 4.0 or later.
        """
        return dict(zip(times, self._offsets_before(timed(times, least=-2), limit, timeout).result(), strict=True))

    def close(self) -> None:
        """Close the client. Closing a closed client does nothing."""
        self._close()


@hints_for_other_clients(ADMIN)
@documented_by(Admin)
class AsyncAdmin(
    AsyncTelemetry,
    Asyncio,
    _Admin,
    AsyncAcls,
    AsyncClusters,
    AsyncConfigs,
    AsyncGroupOffsets,
    AsyncGroups,
    AsyncOffsets,
    AsyncPartitions,
    AsyncQuotas,
    AsyncTopics,
    AsyncTransactions,
    AsyncUsers,
):
    """Administer a cluster on an asyncio event loop. `AsyncAdmin` has the methods of `Admin`.

    Example:
        async with klamm.AsyncAdmin("localhost:9092") as admin:
            await admin.create_topics({"greetings": klamm.NewTopic(partitions=3)})
    """

    async def offsets_before(
        self, times: Mapping[TopicPartition, int | datetime], limit: int = 100, timeout: float | None = None
    ) -> dict[TopicPartition, list[int]]:
        return dict(zip(times, await self._offsets_before(timed(times, least=-2), limit, timeout), strict=True))

    async def close(self) -> None:
        self._close()

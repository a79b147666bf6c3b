"""Starts a small Kafka cluster in the test process.

    def test_orders(klamm_broker):
        with klamm.Producer(klamm_broker.bootstrap_servers) as producer: ...

pytest finds two fixtures by itself. `klamm_broker` is a new cluster of one node for each test. `klamm_session_broker`
is a cluster of three nodes that all tests share. Without pytest, `DevBroker` starts a cluster. Any Kafka client can
connect to the cluster. The cluster does not replicate records and is not for production.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any, Literal
from weakref import finalize

from klamm._klamm import CertificateAuthority, DevBrokerCore
from klamm.arguments import integer
from klamm.errors import ConfigError
from klamm.hints import ClientType, hints_for_other_clients
from klamm.other_clients import DEV_BROKER
from klamm.recording import read

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from os import PathLike
    from types import TracebackType

    from typing_extensions import Self

    from klamm.legacy.registration import Registration
    from klamm.recording import Recording
    from klamm.registry.dev import DevRegistry

__all__ = ["Action", "CertificateAuthority", "DevBroker", "Mechanism", "Request"]

Action = Literal["delay", "drop", "lose_answer", "cut", "error", "throttle", "corrupt", "drip"]
"""Fault that `DevBroker.fault` injects into a request."""

Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
"""SASL mechanism with which clients authenticate to a `DevBroker`."""

_HOSTS = ["localhost", "127.0.0.1", "::1"]


@dataclass(frozen=True)
class Request:
    """A request that a `DevBroker` received. `DevBroker.requests` returns a list of `Request` objects.

    Attributes:
        node: Number of the node that received the request.
        api: Kafka's name of the API, such as "Produce".
        version: Version of the API.
        client_id: Client ID in the request header.
        correlation_id: Correlation ID in the request header.
        time: Time of the request, in seconds since the cluster started, by the cluster's clock.
    """

    node: int
    api: str
    version: int
    client_id: str | None
    correlation_id: int
    time: float


@dataclass(frozen=True)
class PushedMetric:
    """A metric that a client pushed.

    Attributes:
        name: Name of the metric, such as `org.apache.kafka.producer.record.send.total`.
        type: `gauge`, `sum` or `delta`. The value of a `delta` is the change since the previous push.
        attributes: Labels of the metric, such as `topic`.
        value: Value of the metric.
    """

    name: str
    type: str
    attributes: dict[str, str]
    value: float


@dataclass(frozen=True)
class TelemetryPush:
    """A push of metrics by a client (KIP-714). `DevBroker.telemetry` returns a list of `TelemetryPush` objects.

    Attributes:
        client_instance_id: ID that the cluster gave the client.
        terminating: Whether this is the last push of the client.
        compression: Name of the compression codec.
        labels: Labels that describe the client, such as `group_id`.
        metrics: The metrics that the client pushed.
    """

    client_instance_id: str
    terminating: bool
    compression: str
    labels: dict[str, str]
    metrics: list[PushedMetric]


@hints_for_other_clients(DEV_BROKER)
class DevBroker(DevBrokerCore, metaclass=ClientType):
    """A small Kafka cluster in this process, for tests and development.

    The cluster runs inside the `with` block, or from `start()` to `stop()`. Without a `data_dir`, the cluster keeps
    records only in memory.

    Args:
        brokers: Number of nodes. Default 1.
        auto_create_topics: Whether to create a topic when a client first asks for the topic. Default True.
        default_partitions: Number of partitions of a new topic, if the client asks for no number. Default 1.
        port: Port of the first node. The default 0 selects a free port.
        transaction_version: Version of the transaction protocol. Version 2, the default, is the protocol of Kafka 4.0
            (KIP-890). Version 1 is the protocol of older releases.
        racks: Racks, which the cluster assigns to the nodes in turn. A consumer with `client_rack` fetches from a
            replica in its own rack, as with Kafka's `RackAwareReplicaSelector` (KIP-392). By default, nodes have no
            racks.
        as_version: Kafka release to emulate, from "0.8.0" to "4.4". The cluster serves the APIs, versions and message
            formats of the emulated release. "0.6.1", "0.7.0", "0.7.1" and "0.7.2" emulate old releases, in which each
            node is a separate broker (docs/legacy.md). By default, the cluster emulates the newest release.
        config: Properties of the brokers' configuration file, such as `{"group.share.record.lock.duration.ms": 1000}`.
            The cluster applies `num.partitions`, `default.replication.factor`, `auto.create.topics.enable`,
            `group.initial.rebalance.delay.ms`, `group.consumer.migration.policy`, `delegation.token.*`, and the
            properties that are defaults for topics and groups. The cluster returns any other property to clients, but
            the property has no effect. If `as_version` is 0.6 or 0.7, pass properties of that release, such as
            `{"log.file.size": 1000}`.
        zookeeper: `host:port` of the ZooKeeper in which 0.7 nodes register themselves and their topics. `zookeeper`
            needs the package `klamm[zookeeper]`.
        max_bytes: Memory for records, in bytes. Default 1 GiB. If the memory is full, produce requests fail with
            KAFKA_STORAGE_ERROR.
        data_dir: Directory for a file that keeps topics, records, committed offsets, producers and transactions. The
            file survives a restart and `kill -9`. After a restart, an open transaction continues, group members join
            again, and share groups start from the beginning. The file only grows. By default, the cluster keeps
            everything only in memory.
        fsync: Whether to sync the file to disk before each response, so that the data also survives a power failure.
            Default False.
        sasl: Users and passwords for each SASL mechanism: `{"PLAIN": {"alice": "secret"}}`. For OAUTHBEARER, pass
            `None` instead of users, because the cluster accepts unsecured tokens (JWT with `alg` none). By default,
            clients do not authenticate.
        sasl_session: Seconds after which a connection must authenticate again (KIP-368). By default, connections never
            authenticate again.
        super_users: Users that may do everything. A list enables authorization: other users may do only what access
            control lists (ACLs) allow. A user is a SASL user name or a certificate's name, such as "CN=admin". A client
            that does not authenticate is the user "ANONYMOUS". An empty list means no super users. By default, the
            cluster does not check authorization.
        allow_everyone_if_no_acl_found: Whether all users may use resources that have no ACL. Default False.
        tls: Whether to encrypt connections. True creates a certificate for localhost that a temporary CA signs. Pass a
            `CertificateAuthority` to share one CA among clusters, or a pair of PEM strings (certificate, key) to use
            your own certificate. Default False.
        client_auth: Whether clients need a certificate. `client_auth` needs `tls`. Default False.
        schema_registry: Whether to start a schema registry with the cluster. Pass True for a free port, or a port
            number. The registry keeps its schemas in `data_dir`, uses the certificates of `tls`, and needs
            `klamm[registry]`. Default False.
        first_node: ID of the first node. Each further node has the next higher ID. Default 1.
        telemetry: Whether to accept metrics that clients push (KIP-714), as Kafka's brokers do with a metrics receiver.
            Default False.

    Raises:
        ConfigError: An argument has an invalid value, or contradicts another argument.

    Example:
        with DevBroker(brokers=3) as broker:
            producer = klamm.Producer(broker.bootstrap_servers)
            broker.kill(2)                                                      # a node crashes
            broker.fail_next("Produce", error="NOT_LEADER_OR_FOLLOWER")         # one request fails
            broker.fault("Fetch", "delay", seconds=0.5, times=None)             # all fetches are slow
            broker.advance(60)                                                  # a minute passes
            assert any(request.api == "InitProducerId" for request in broker.requests())

        with DevBroker(tls=True, client_auth=True, sasl={"SCRAM-SHA-512": {"alice": "secret"}}) as broker:
            producer = klamm.Producer(broker.client_config("alice"))

        with DevBroker(sasl={"PLAIN": {"admin": "secret", "alice": "secret"}}, super_users=["admin"]) as broker:
            admin = klamm.Admin(broker.client_config("admin"))                  # creates ACLs for alice

        with DevBroker(schema_registry=True) as broker:
            registry = klamm.registry.SchemaRegistry(broker.schema_registry.url)
    """

    _authority: CertificateAuthority | None
    _files: tuple[int, Path] | None
    _pid: int
    _sasl: Mapping[Mechanism, Mapping[str, str] | None] | None
    _client_auth: bool
    _recording: Recording | None = None
    _registration: Registration | None = None
    _schema_registry: DevRegistry | None

    def __new__(
        cls,
        brokers: int = 1,
        auto_create_topics: bool = True,
        default_partitions: int = 1,
        port: int = 0,
        transaction_version: int = 2,
        *,
        racks: Sequence[str] = (),
        as_version: str | None = None,
        config: Mapping[str, object] | None = None,
        zookeeper: str | None = None,
        max_bytes: int = 1 << 30,
        data_dir: str | PathLike[str] | None = None,
        fsync: bool = False,
        sasl: Mapping[Mechanism, Mapping[str, str] | None] | None = None,
        sasl_session: float | None = None,
        super_users: Iterable[str] | None = None,
        allow_everyone_if_no_acl_found: bool = False,
        tls: bool | CertificateAuthority | tuple[str, str] = False,
        client_auth: bool = False,
        schema_registry: bool | int = False,
        first_node: int = 1,
        telemetry: bool = False,
    ) -> Self:
        """Create a cluster without starting it."""
        if client_auth and not tls:
            raise ConfigError("client_auth needs tls", hint="set tls=True: clients send certificates only over TLS")
        if allow_everyone_if_no_acl_found and super_users is None:
            raise ConfigError(
                "allow_everyone_if_no_acl_found needs super_users",
                hint="pass super_users to enable authorization; an empty list means no super users",
            )
        authority = tls if isinstance(tls, CertificateAuthority) else CertificateAuthority() if tls else None
        pair = None
        if authority is not None:
            pair = tls if isinstance(tls, tuple) else authority.issue("klamm dev broker", _HOSTS)
        self = super().__new__(
            cls,
            brokers,
            auto_create_topics,
            default_partitions,
            port,
            transaction_version,
            as_version,
            config,
            zookeeper,
            max_bytes=max_bytes,
            data_dir=data_dir,
            fsync=fsync,
            sasl=None
            if sasl is None
            else {name: None if users is None else dict(users) for name, users in sasl.items()},
            sasl_session=sasl_session,
            super_users=None if super_users is None else list(super_users),
            allow_everyone_if_no_acl_found=allow_everyone_if_no_acl_found,
            tls=pair,
            client_ca=authority.pem if authority is not None and client_auth else None,
            racks=racks,
            first_node=first_node,
            telemetry=telemetry,
        )
        self._authority, self._files, self._pid = authority, None, os.getpid()
        self._sasl, self._client_auth = sasl, client_auth
        self._schema_registry = None
        if schema_registry is not False:
            try:
                from klamm.registry.dev import DevRegistry
            except ImportError as error:
                raise ConfigError(
                    f"the schema registry needs the package {error.name}", hint="pip install 'klamm[registry]'"
                ) from None
            self._schema_registry = DevRegistry(
                0 if schema_registry is True else integer("schema_registry", schema_registry, 1, 65535),
                path=None if data_dir is None else Path(data_dir) / "schema-registry.json",
                tls=pair,
                client_ca=authority.pem if authority is not None and client_auth else None,
            )
        return self

    @classmethod
    def replay(cls, path: str | PathLike[str], **options: Any) -> Self:
        """Create a cluster that responds as the brokers in the dump of a client's flight recorder did.

        The cluster has the recorded topics and the recorded number of nodes. For each API, the cluster serves no newer
        version than the client used. The first request of an API gets the first recorded result, the second request
        gets the second result, and so on. All further requests get the last recorded result. A result is one of these:

        * A response without an error. The cluster handles the request as usual.
        * An error code. The cluster rejects the whole request with the error, even if only one partition had the error.
        * No response. The cluster closes the connection, or stays silent if the recorded request timed out.

        The dump has records only if the client had `flight_recorder_values=True`. The cluster stores the records at
        their recorded offsets.

        A dump contains no ACLs, committed offsets, configurations, failed attempts to connect, or other members of the
        client's group. A dump contains nothing that happened before the oldest entry. The cluster does not reproduce
        response times. If the client did not record values, the dump lacks the error codes in fetch responses larger
        than 4 KiB and in other responses larger than 64 KiB. A test can set up missing state with `options` and the
        methods of `DevBroker`.

        Args:
            path: File that `dump_flight()` wrote.
            options: Arguments of `DevBroker`, such as `sasl`.

        Returns:
            The cluster, which does not run yet. `clear_faults()` ends the recorded errors.

        Raises:
            ConfigError: The file is not a dump, or an argument has an invalid value.

        Example:
            with DevBroker.replay("shop.flight") as broker:
                producer = klamm.Producer(broker.bootstrap_servers)
        """
        recording = read(path)
        options.setdefault("brokers", recording.brokers)
        options.setdefault("auto_create_topics", not recording.has_missing_topics)
        self = cls(**options)
        self._recording = recording
        return self

    @property
    def schema_registry(self) -> DevRegistry:
        """Return the schema registry, which has the address `url`, and the method `fault` to inject faults.

        Raises:
            ConfigError: The cluster has no schema registry.
        """
        if self._schema_registry is None:
            raise ConfigError("this dev broker has no schema registry", hint="create it with schema_registry=True")
        return self._schema_registry

    @property
    def authority(self) -> CertificateAuthority:
        """Return the certificate authority (CA) that signs certificates for this cluster and its clients.

        Raises:
            ConfigError: The cluster has no TLS.
        """
        if self._authority is None:
            raise ConfigError("this dev broker has no TLS", hint="create it with tls=True")
        return self._authority

    @property
    def ca_location(self) -> str:
        """Return the path of the CA certificate (PEM) that clients must trust.

        The file exists as long as this `DevBroker`.
        """
        return self._file("ca.pem", self.authority.pem)

    def client_certificate(self, name: str = "client") -> tuple[str, str]:
        """Create a client certificate and return the paths of the certificate and its private key.

        Args:
            name: Common name (CN) of the certificate. Default "client".

        Returns:
            Paths of two PEM files, which exist as long as this `DevBroker`.

        Raises:
            ConfigError: The cluster has no TLS.
        """
        certificate, key = self.authority.issue(name)
        return self._file(f"{name}.pem", certificate), self._file(f"{name}.key", key)

    def client_config(self, user: str | None = None, mechanism: Mechanism | None = None) -> dict[str, Any]:
        """Return the configuration with which a client can connect, as a dict of Kafka's dotted keys.

        Clients of klamm and librdkafka accept the dict unchanged.

        Args:
            user: SASL user, whose password the configuration contains.
            mechanism: SASL mechanism. The default is the first mechanism for which the user has a password. With
                OAUTHBEARER, add your own token to the configuration.

        Raises:
            ConfigError: No mechanism has this user.
        """
        config: dict[str, Any] = {"bootstrap.servers": self.bootstrap_servers}
        security = "SSL" if self._authority is not None else "PLAINTEXT"
        if self._authority is not None:
            config["ssl.ca.location"] = self.ca_location
        if self._client_auth:
            config["ssl.certificate.location"], config["ssl.key.location"] = self.client_certificate(user or "client")
        if self._sasl is not None:
            security = f"SASL_{security}"
            chosen = [name for name, users in self._sasl.items() if mechanism in (None, name) and user in (users or {})]
            if not chosen and mechanism != "OAUTHBEARER":
                raise ConfigError(f"this dev broker has no user {user!r}", hint="use a user that was passed in `sasl`")
            config["sasl.mechanism"] = mechanism or chosen[0]
            if chosen:
                config["sasl.username"] = user
                config["sasl.password"] = (self._sasl[chosen[0]] or {})[str(user)]
        if security != "PLAINTEXT":
            config["security.protocol"] = security
        return config

    def _file(self, name: str, text: str) -> str:
        if self._files is None or self._files[0] != os.getpid():
            self._files = os.getpid(), Path(mkdtemp(prefix="klamm-dev-broker-"))
            # Python deletes the private keys together with this object.
            finalize(self, _remove, *self._files)
        path = self._files[1] / name
        path.touch(mode=0o600)
        path.write_text(text, encoding="ascii")
        return str(path)

    @property
    def bootstrap_servers(self) -> str:
        """Return the addresses of all nodes, as `host:port,host:port`.

        The string is empty while the cluster does not run. The string includes the addresses of killed nodes.
        """
        return ",".join(self._addresses())

    def start(self, node: int | None = None) -> Self:
        """Start the cluster, or restart one node after `kill`, and return the cluster.

        Args:
            node: Number of the node to restart on its former port. The default is the whole cluster. Starting a cluster
                or node that already runs does nothing.
        """
        if node is None:
            is_running = bool(self.bootstrap_servers)
            self._start()
            if self._recording is not None and not is_running:
                self._start_recording(self._recording)
            if self._schema_registry is not None:
                try:
                    self._schema_registry.start()
                except BaseException:
                    self._stop()
                    raise
        else:
            self._start_node(node)
        if self._registration is not None:
            self._registration.add(node)
        elif self._zookeeper is not None:
            from klamm.legacy.registration import Registration

            self._registration = Registration(self, self._zookeeper)
        return self

    def _start_recording(self, recording: Recording) -> None:
        try:
            self._repeat(recording.topics, recording.records, recording.versions, recording.results)
        except BaseException:
            self._stop()
            raise

    def kill(self, node: int) -> None:
        """Crash a node. The node's connections break, and its port refuses new connections.

        Other nodes become leaders and coordinators immediately. If no other node has a replica of a partition, the
        partition has no leader until the killed node restarts.

        Args:
            node: Number of the node. `start(node)` restarts it.
        """
        self._kill(node)
        if self._registration is not None:
            self._registration.remove(node)

    def add_node(self) -> int:
        """Start one more node and return its number.

        New topics use the new node, too. Existing partitions do not move.
        """
        node = self._add_node()
        if self._registration is not None:
            self._registration.add(node)
        return node

    def move_leader(self, topic: str, partition: int, node: int) -> None:
        """Make another node the leader of a partition.

        If the node has no replica of the partition, the node's new replica replaces the former leader's replica.
        """
        self._move_leader(topic, partition, node)

    def truncate(self, topic: str, partition: int, offset: int) -> None:
        """Delete the records of a partition from an offset on, as if a lagging replica had become the leader.

        The cluster deletes whole batches, and increases the leader epoch. The cluster keeps the state of producers.

        Args:
            topic: Topic name.
            partition: Partition number.
            offset: Offset of the first record to delete.
        """
        self._truncate(topic, partition, offset)

    def compact(self, topic: str) -> None:
        """Compact a topic up to the first open transaction. The cluster keeps only the newest record of each key.

        A later call of `compact` removes a record without a value if `delete.retention.ms` has passed since the
        record's first compaction.
        """
        self._compact(topic)

    def move_coordinator(self, key: str, node: int) -> None:
        """Make another node the coordinator of a group or a transactional ID.

        Args:
            key: Group ID or transactional ID.
            node: Number of the new coordinator.
        """
        self._move_coordinator(key, node)

    def fail_next(
        self, api: str, *, error: str, times: int | None = 1, node: int | None = None, topic: str | None = None
    ) -> None:
        """Respond to the next requests of an API with an error, instead of handling the requests.

        If a request contains more than one partition, every partition gets the error.

        Args:
            api: Kafka's name of the API, such as "Produce".
            error: Kafka's name of the error, such as "NOT_LEADER_OR_FOLLOWER".
            times: Number of requests that fail. Default 1. None means all requests until `clear_faults`.
            node: Affect only requests to this node. The default is all nodes.
            topic: Affect only requests that contain this topic. The default is all topics.
        """
        self.fault(api, "error", error=error, times=times, node=node, topic=topic)

    def telemetry(self) -> list[TelemetryPush]:
        """Return the metrics that clients pushed (KIP-714), oldest first. The cluster needs `telemetry=True`."""
        return [
            TelemetryPush(client, last, codec, labels, [PushedMetric(*metric) for metric in metrics])
            for client, last, codec, labels, metrics in self._telemetry()
        ]

    def want_telemetry(self, metrics: Iterable[str] = ("",), interval: float = 1.0, *, delta: bool = False) -> None:
        """Choose the metrics that clients push, as a subscription in Kafka's `client-metrics` does.

        Args:
            metrics: Prefixes of metric names. An empty prefix, the default, means all metrics. An empty list means no
                metrics.
            interval: Seconds between two pushes of a client.
            delta: Whether clients push the change of each total since the last push, and not the total itself.
        """
        self._want_telemetry(list(metrics), round(interval * 1000), delta)

    def fault(
        self,
        api: str | None,
        action: Action,
        *,
        seconds: float | None = None,
        error: str | None = None,
        times: int | None = 1,
        node: int | None = None,
        topic: str | None = None,
        probability: float = 1.0,
        seed: int = 0,
    ) -> None:
        """Inject a fault into the next requests of an API.

        | action | effect |
        |---|---|
        | `delay` | the broker handles the request and responds after `seconds` |
        | `drop` | the broker closes the connection without handling the request |
        | `lose_answer` | the broker handles the request and closes the connection instead of responding |
        | `cut` | the broker handles the request and closes the connection in the middle of the response |
        | `error` | the broker does not handle the request and responds with `error` |
        | `throttle` | the response says that the client was throttled for `seconds` |
        | `corrupt` | the broker flips one bit of the response |
        | `drip` | the broker sends the response in ten pieces, over `seconds` |

        If more than one fault matches a request, the fault that was added first applies.

        Brokers of Kafka 0.6 and 0.7 support only `delay` and `drop`, for requests of all APIs. With `delay`, an old
        broker handles the request late and responds late. A long delay therefore simulates a broker that accepts
        requests but never responds.

        Args:
            api: Kafka's name of the API, or None for every API.
            action: One of the actions in the table.
            seconds: Duration of the fault by the cluster's clock, for the actions `delay`, `throttle` and `drip`.
            error: Kafka's name of the error, for the action `error`.
            times: Number of requests to affect. Default 1. None means all requests until `clear_faults`.
            node: Affect only requests to this node. The default is all nodes.
            topic: Affect only requests that contain this topic. The default is all topics.
            probability: Probability that the fault affects a matching request, from 0 to 1. Default 1.
            seed: Seed of the random choice. The same seed always selects the same requests. Default 0.

        Raises:
            ConfigError: The action, the API or the error is unknown, or an argument is missing or not allowed.
        """
        self._fault(
            action,
            api=api,
            seconds=seconds,
            error=error,
            times=times,
            node=node,
            topic=topic,
            probability=probability,
            seed=seed,
        )

    def clear_faults(self) -> None:
        """Remove all faults."""
        self._clear_faults()

    def requests(self, api: str | None = None) -> list[Request]:
        """Return the requests that the cluster received, oldest first. The cluster keeps the last 10,000 requests.

        Args:
            api: Return only requests of this API. The default is all APIs.
        """
        return [request for request in self._requests() if api in (None, request.api)]

    def advance(self, seconds: float) -> None:
        """Advance the cluster's clock. When this method returns, everything that is due by the new time has happened.

        Args:
            seconds: Number of seconds to add.
        """
        self._advance(seconds)

    def stop(self) -> None:
        """Stop the cluster, and discard all data that is not in `data_dir`. In a forked process, do nothing."""
        if self._pid != os.getpid():
            return
        if self._registration is not None:
            self._registration.close()
            self._registration = None
        if self._schema_registry is not None:
            self._schema_registry.stop()
        self._stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        return self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return (
            f"<klamm.testing.DevBroker {'at ' + self.bootstrap_servers if self.bootstrap_servers else '(not running)'}>"
        )


def _remove(pid: int, directory: Path) -> None:
    # A forked process that ends must not delete the files of its parent.
    if pid == os.getpid():
        rmtree(directory, ignore_errors=True)


# If pytest loads this module as a plugin, the program has already imported `pytest`. Other programs need no pytest.
if "pytest" in sys.modules:
    import pytest

    @pytest.fixture
    def klamm_broker() -> Iterator[DevBroker]:
        """Provide each test with its own Kafka cluster of one node, in this process."""
        with DevBroker() as broker:
            yield broker

    @pytest.fixture(scope="session")
    def klamm_session_broker() -> Iterator[DevBroker]:
        """Provide all tests with one Kafka cluster of three nodes, in this process."""
        with DevBroker(brokers=3) as broker:
            yield broker

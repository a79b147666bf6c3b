"""A Kafka cluster inside the process, for tests of your own.

    def test_orders(klamm_broker):
        with klamm.Producer(klamm_broker.bootstrap_servers) as producer: ...

The fixture `klamm_broker` comes with the package (pytest finds it by itself); `DevBroker` is the same by hand. Other
clients than klamm work with it, too. It is in memory, with
`data_dir` in a file too, and replicates nothing: not for production.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any, Literal
from weakref import finalize

from klamm._klamm import CertificateAuthority, DevBrokerCore
from klamm.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from os import PathLike
    from types import TracebackType

    from typing_extensions import Self

    from klamm.legacy.registration import Registration

__all__ = ["Action", "CertificateAuthority", "DevBroker", "Mechanism", "Request"]

Action = Literal["delay", "drop", "lose_answer", "cut", "error", "throttle", "corrupt", "drip"]
"""What `DevBroker.fault` does to a request."""

Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
"""How clients of a `DevBroker` may log in."""

_HOSTS = ["localhost", "127.0.0.1", "::1"]


@dataclass(frozen=True)
class Request:
    """A request that arrived at a dev broker, in a version that it serves.

    `time` is in seconds since the cluster started, by its own clock.
    """

    node: int
    api: str
    version: int
    client_id: str | None
    correlation_id: int
    time: float


class DevBroker(DevBrokerCore):
    """A small Kafka cluster in this process.

        with DevBroker(brokers=3) as broker:
            producer = klamm.Producer(broker.bootstrap_servers)

    It runs while the `with` lasts, or from `start()` to `stop()`. `port` is that of the first node; 0 takes a free one.
    Nodes are numbered from 1. `transaction_version` is the protocol of transactions: 2 as of Kafka 4.0 (KIP-890), 1 as before.

    With `racks` the nodes are in these, in turn, and a consumer that says where it is (`client_rack`) is sent to a replica in the same
    rack, as by a Kafka with `RackAwareReplicaSelector` (KIP-392).

        with DevBroker(brokers=3, racks=["a", "b", "c"]) as broker:
            consumer = klamm.Consumer(broker.bootstrap_servers, topics=["t"], client_rack="b")

    With `as_version` it is an older Kafka. From "0.8.0" to "4.4" it serves the requests, versions and message formats of that release,
    and nothing else. "0.6.1", "0.7.0", "0.7.1" and "0.7.2" are as their brokers were seen to behave (`docs/legacy.md`): each
    node is then a broker of its own; `config` has properties of its configuration file, such as {"log.file.size": 1000}, and
    `zookeeper` says where the nodes register themselves and their topics.

    Records may take `max_bytes` of memory; beyond that, produce requests are refused with KAFKA_STORAGE_ERROR.

    With `data_dir` everything is kept in a file there, too, before a request is answered: topics, records, committed offsets, producers
    and transactions are there again after a restart, also after a `kill -9`; with `fsync` after a power cut as well. An open
    transaction goes on. Members of groups join anew, and share groups start from the beginning. The file only grows.

    A program's bad days can be had at will: nodes die and come back, leaders and coordinators move, requests go wrong,
    time passes.

        broker.kill(2)
        broker.fail_next("Produce", error="NOT_LEADER_OR_FOLLOWER", times=2)
        broker.fault("Fetch", "delay", seconds=0.5, times=None, probability=0.1, seed=7)
        broker.advance(60)
        assert any(request.api == "InitProducerId" for request in broker.requests())

    `sasl` has clients log in: passwords by user, by mechanism. OAUTHBEARER takes unsecured tokens (JWT with `alg` none) and
    needs no users. With `sasl_session` a connection has to log in again after so many seconds (KIP-368).

    `tls=True` has connections be encrypted, with a certificate for localhost that a throw-away authority signs, or one that is
    given and may serve several brokers; a pair of PEM texts is a certificate and its key of your own. With `client_auth` clients have to show a certificate as well.

        with DevBroker(tls=True, client_auth=True, sasl={"SCRAM-SHA-512": {"alice": "secret"}}) as broker:
            producer = klamm.Producer(broker.client_config("alice"))

    With `super_users` it matters who a client is: they may do everything, and others what access control lists (ACLs) allow, which
    other clients' administrators and Kafka's own tools make. A name is that of a login, or of a certificate as in "CN=admin"; clients
    that have neither are "ANONYMOUS". With `allow_everyone_if_no_acl_found` what no rule speaks of is open to all.

        with DevBroker(sasl={"PLAIN": {"admin": "secret", "alice": "secret"}}, super_users=["admin"]) as broker:
            admin = klamm.Admin(broker.client_config("admin"))
    """

    _authority: CertificateAuthority | None
    _files: Path | None
    _sasl: Mapping[Mechanism, Mapping[str, str] | None] | None
    _client_auth: bool
    _registration: Registration | None = None

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
    ) -> Self:
        """Make a cluster that does not run yet."""
        if client_auth and not tls:
            raise ConfigError("client_auth needs tls", hint="certificates are shown where connections are encrypted")
        if allow_everyone_if_no_acl_found and super_users is None:
            raise ConfigError(
                "allow_everyone_if_no_acl_found needs super_users",
                hint="who they are switches authorization on; [] is nobody",
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
        )
        self._authority, self._files = authority, None
        self._sasl, self._client_auth = sasl, client_auth
        return self

    @property
    def authority(self) -> CertificateAuthority:
        """Who signs certificates for this broker and its clients."""
        if self._authority is None:
            raise ConfigError("this dev broker has no TLS", hint="make it with tls=True")
        return self._authority

    @property
    def ca_location(self) -> str:
        """A file with the certificate of that authority, for clients to trust; it goes away with this object."""
        return self._file("ca.pem", self.authority.pem)

    def client_certificate(self, name: str = "client") -> tuple[str, str]:
        """Return the paths of a client's certificate and its private key, which go away with this object."""
        certificate, key = self.authority.issue(name)
        return self._file(f"{name}.pem", certificate), self._file(f"{name}.key", key)

    def client_config(self, user: str | None = None, mechanism: Mechanism | None = None) -> dict[str, Any]:
        """Return what a client has to be configured with, as Kafka's dotted keys: also for other clients than klamm.

        A `user` logs in by the first mechanism that has it, or the one that is named. OAUTHBEARER needs a token of your own.
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
                raise ConfigError(f"this dev broker has no user {user!r}", hint="`sasl` says which there are")
            config["sasl.mechanism"] = mechanism or chosen[0]
            if chosen:
                config["sasl.username"] = user
                config["sasl.password"] = (self._sasl[chosen[0]] or {})[str(user)]
        if security != "PLAINTEXT":
            config["security.protocol"] = security
        return config

    def _file(self, name: str, text: str) -> str:
        if self._files is None:
            self._files = Path(mkdtemp(prefix="klamm-dev-broker-"))
            # Private keys do not outlive whoever made them.
            finalize(self, rmtree, self._files, ignore_errors=True)
        path = self._files / name
        path.touch(mode=0o600)
        path.write_text(text, encoding="ascii")
        return str(path)

    @property
    def bootstrap_servers(self) -> str:
        """Where its nodes listen, as `host:port,host:port`; empty while it does not run.

        A node that was killed keeps its address.
        """
        return ",".join(self._addresses())

    def start(self, node: int | None = None) -> Self:
        """Start the cluster, and return it. Starting one that runs does nothing.

        With a number, start that node again after `kill`, on the port it had.
        """
        if node is None:
            self._start()
        else:
            self._start_node(node)
        if self._registration is not None:
            self._registration.add(node)
        elif self._zookeeper is not None:
            from klamm.legacy.registration import Registration

            self._registration = Registration(self, self._zookeeper)
        return self

    def kill(self, node: int) -> None:
        """End a node as a crash would: its connections break, and its port refuses new ones.

        What it led and coordinated moves to other nodes at once. A partition without a replica elsewhere has no leader until the
        node is back.
        """
        self._kill(node)
        if self._registration is not None:
            self._registration.remove(node)

    def add_node(self) -> int:
        """Start one node more, and return its number. New topics use it; existing ones stay where they are."""
        node = self._add_node()
        if self._registration is not None:
            self._registration.add(node)
        return node

    def move_leader(self, topic: str, partition: int, node: int) -> None:
        """Have a partition led by another node. One without a replica takes the place of the leader so far."""
        self._move_leader(topic, partition, node)

    def truncate(self, topic: str, partition: int, offset: int) -> None:
        """Lose the records of a partition from an offset on, as the election of a replica that lagged behind does.

        Whole batches go, and the leader epoch counts on. What producers wrote there is still known as theirs.
        """
        self._truncate(topic, partition, offset)

    def compact(self, topic: str) -> None:
        """Have a topic compacted: of records with the same key the newest stays, as far as no transaction is open.

        Records without a value go once `delete.retention.ms` has passed since they were first compacted.
        """
        self._compact(topic)

    def move_coordinator(self, key: str, node: int) -> None:
        """Have a group, or a transactional id, coordinated by another node."""
        self._move_coordinator(key, node)

    def fail_next(
        self, api: str, *, error: str, times: int | None = 1, node: int | None = None, topic: str | None = None
    ) -> None:
        """Answer the next requests of an API with an error, by Kafka's name for it, and do nothing else with them.

        `times` is how many; None is all of them. Only those to `node` and those that name `topic` count, if given. A request for
        several partitions is refused for all of them.
        """
        self.fault(api, "error", error=error, times=times, node=node, topic=topic)

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
        """Have something go wrong with the next requests of an API, or of every API (None).

        | action | what happens |
        |---|---|
        | `delay` | the request is handled, and the answer comes `seconds` later |
        | `drop` | the connection is closed, and the request is not handled |
        | `lose_answer` | the request is handled, and the connection is closed instead of answering |
        | `cut` | the request is handled, and the connection is closed in the middle of the answer |
        | `error` | the request is not handled, and the answer is `error`, by Kafka's name for it |
        | `throttle` | the answer says that the client was throttled for `seconds` |
        | `corrupt` | one bit of the answer is wrong |
        | `drip` | the answer comes in ten pieces, over `seconds` |

        `times` is how many requests it strikes; None is all of them, until `clear_faults`. Only requests to `node` and
        those that name `topic` count, if given, and each is struck with `probability`; the same `seed` strikes the same ones.
        Seconds go by the cluster's clock. If several faults fit, the one that was asked for first strikes.
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
        """Have nothing go wrong any more."""
        self._clear_faults()

    def requests(self, api: str | None = None) -> list[Request]:
        """Return what clients asked, the oldest first: the last 10,000 requests, or those of one API among them."""
        seen = [Request(*request) for request in self._requests()]
        return [request for request in seen if api in (None, request.api)]

    def advance(self, seconds: float) -> None:
        """Move the cluster's clock on: what is due by then has happened when this returns."""
        self._advance(seconds)

    def stop(self) -> None:
        """End the cluster and everything in it."""
        if self._registration is not None:
            self._registration.close()
            self._registration = None
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
        return f"<klamm.testing.DevBroker at {self.bootstrap_servers or 'rest'}>"


# pytest has imported itself when it loads this as its plugin; a program that only wants a broker needs no pytest.
if "pytest" in sys.modules:
    import pytest

    @pytest.fixture
    def klamm_broker() -> Iterator[DevBroker]:
        """Give a test a Kafka cluster of its own: one node, in this process."""
        with DevBroker() as broker:
            yield broker

    @pytest.fixture(scope="session")
    def klamm_session_broker() -> Iterator[DevBroker]:
        """Give all tests one Kafka cluster of three nodes, in this process."""
        with DevBroker(brokers=3) as broker:
            yield broker

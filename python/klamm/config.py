"""Types for the configuration keys of each client, for editors and type checkers.

The keys come from the core's table of configuration keys, which `options()` returns. The types name the keys in
snake_case, and a test compares the types with the table. The core checks the values at run time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypedDict

from klamm import _klamm

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Mapping, Sequence
    from typing import TypeAlias

    from typing_extensions import Buffer

    from klamm.assignors import Assignor
    from klamm.oauth import TokenProvider

ConfigValue: TypeAlias = "str | int | float | bool | Sequence[str] | TokenProvider | None"
Bootstrap: TypeAlias = "str | Sequence[str] | Mapping[str, ConfigValue]"
"""Addresses of brokers, as `"host:port,host:port"` or as a list.

A dict of Kafka's dotted configuration keys also works.
"""


class CommonConfig(TypedDict, total=False):
    """Configuration keys of every client."""

    client_id: str
    connections_max_idle_ms: int
    debug: str | Sequence[str]
    default_api_timeout_ms: int
    enable_metrics_push: bool
    error_cb: Callable[[Exception], object]
    flight_recorder_bytes: int
    flight_recorder_path: str
    flight_recorder_values: bool
    log_level: int
    logger: logging.Logger | logging.LoggerAdapter[Any]
    metadata_max_age_ms: int
    metadata_recovery_strategy: Literal["rebootstrap"]
    reconnect_backoff_max_ms: int
    broker_version_fallback: str
    api_version_request_timeout_ms: int
    reconnect_backoff_ms: int
    request_timeout_ms: int
    retry_backoff_max_ms: int
    retry_backoff_ms: int
    sasl_jaas_config: str
    sasl_kerberos_keytab: str
    sasl_kerberos_principal: str
    sasl_kerberos_service_name: str
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI"]
    sasl_oauth_token_provider: TokenProvider
    sasl_oauthbearer_assertion_file: str
    sasl_oauthbearer_aws_region: str
    sasl_oauthbearer_ca_location: str
    sasl_oauthbearer_ca_pem: str
    sasl_oauthbearer_client_id: str
    sasl_oauthbearer_client_secret: str
    sasl_oauthbearer_extensions: str
    sasl_oauthbearer_grant_type: Literal["client_credentials", "urn:ietf:params:oauth:grant-type:jwt-bearer"]
    sasl_oauthbearer_method: Literal["default", "oidc", "aws-msk-iam"]
    sasl_oauthbearer_scope: str
    sasl_oauthbearer_token_endpoint_url: str
    sasl_password: str
    sasl_username: str
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
    socket_connection_setup_timeout_ms: int
    socket_keepalive_enable: bool
    statistics_interval_ms: int
    ssl_ca_location: str
    ssl_ca_pem: str
    ssl_certificate_location: str
    ssl_certificate_pem: str
    ssl_enabled_protocols: str | Sequence[str]
    ssl_endpoint_identification_algorithm: Literal["https", "none"]
    ssl_key_location: str
    ssl_key_password: str
    ssl_key_pem: str
    ssl_keystore_type: Literal["PEM"]
    ssl_truststore_type: Literal["PEM"]


class ProducerConfig(CommonConfig, total=False):
    """Configuration keys of a producer."""

    acks: Literal["all", "0", "1", "-1"] | int
    allow_auto_create_topics: bool
    batch_size: int
    buffer_memory: int
    close_timeout: float
    compression_gzip_level: int
    compression_type: Literal["none", "gzip", "snappy", "lz4", "zstd"]
    compression_zstd_level: int
    default_close_timeout_ms: int
    delivery_timeout_ms: int
    drop_when_full: bool
    enable_idempotence: bool
    linger_ms: float
    max_block_ms: int
    max_in_flight_requests_per_connection: int
    max_request_size: int
    metadata_max_idle_ms: int
    partitioner: (
        Literal["murmur2_random", "consistent_random", "fnv1a_random", "round_robin", "uniform"]
        | Callable[[str, Buffer | None, Buffer | None, int], int]
    )
    partitioner_adaptive_partitioning_enable: bool
    retries: int
    transaction_timeout_ms: int
    transactional_id: str


class ConsumerConfig(CommonConfig, total=False):
    """Configuration keys of a consumer, except `group_id`."""

    allow_auto_create_topics: bool
    auto_commit_interval_ms: int
    auto_offset_reset: str
    check_crcs: bool
    client_rack: str
    close_timeout: float
    default_close_timeout_ms: int
    enable_auto_commit: bool
    fetch_max_bytes: int
    fetch_max_wait_ms: int
    fetch_min_bytes: int
    group_instance_id: str
    group_protocol: Literal["classic", "consumer"]
    group_remote_assignor: str
    heartbeat_interval_ms: int
    isolation_level: Literal["read_uncommitted", "read_committed"]
    max_partition_fetch_bytes: int
    max_poll_interval_ms: int
    max_poll_records: int
    offsets_retention_ms: int
    outage: Literal["raise", "wait"]
    partition_assignment_strategy: str | Sequence[str | Assignor]
    queued_max_bytes: int
    session_timeout_ms: int


class ShareConsumerConfig(CommonConfig, total=False):
    """Configuration keys of a share consumer, except `group_id`."""

    check_crcs: bool
    client_rack: str
    close_timeout: float
    default_close_timeout_ms: int
    fetch_max_bytes: int
    fetch_max_wait_ms: int
    fetch_min_bytes: int
    max_poll_records: int
    outage: Literal["raise", "wait"]
    share_acknowledgement_mode: Literal["implicit", "explicit"]
    share_acquire_mode: Literal["batch_optimized", "record_limit"]


class AdminConfig(CommonConfig, total=False):
    """Configuration keys of an admin client."""

    bootstrap_controllers: str | Sequence[str]


class Option(NamedTuple):
    """A configuration key.

    Attributes:
        name: Kafka's dotted name.
        kind: Type of the value.
        clients: Clients that have the key.
    """

    name: str
    aliases: list[str]
    kind: str
    default: str
    allowed: str
    clients: list[str]
    doc: str


def options() -> list[Option]:
    """Return all configuration keys with their defaults, allowed values and descriptions."""
    return _klamm.config_keys()


class ForeignOption(NamedTuple):
    """Options of other Kafka clients that klamm does not have.

    Attributes:
        names: Names of the options.
        clients: klamm's clients for which this entry holds.
        is_ignored: Whether the options have no effect. Otherwise, klamm rejects them.
        ignored_values: Values with which klamm ignores options that it otherwise rejects.
        hint: Why klamm ignores the options, or what to use instead.
    """

    names: list[str]
    clients: list[str]
    is_ignored: bool
    ignored_values: list[str]
    hint: str


def foreign_options() -> list[ForeignOption]:
    """Return the options of librdkafka, the Java client and similar clients that klamm ignores or rejects."""
    return _klamm.foreign_options()


def rejected_options() -> list[ForeignOption]:
    """Return the options of other Kafka clients that klamm rejects. Each entry has a hint on what to use instead."""
    return [option for option in foreign_options() if not option.is_ignored]


class Verdict(NamedTuple):
    """What a configuration key means for a client.

    Attributes:
        kind: "key" if the client has the key, "ignored" if the key has no effect, "rejected" if klamm has another way,
            "unknown" if klamm does not know the key.
        text: Kafka's dotted name of a key, the reason why klamm ignores it, or a hint on what to use instead.
    """

    kind: Literal["key", "ignored", "rejected", "unknown"]
    text: str


def verdict(client: str, name: str, value: str | None = None, *, prefix: str = "") -> Verdict:
    """Say what a configuration key means for a client.

    Args:
        client: "producer", "consumer", "share consumer" or "admin".
        name: Name of the key in klamm, librdkafka or the Java client.
        value: Value of the key as text. klamm ignores some keys only with certain values.
        prefix: Text before the names of keys in hints, for example "kafka.".

    Example:
        verdict("producer", "log.connection.close").kind  # "ignored"
    """
    return Verdict(*_klamm.option_verdict(client, name, value, prefix))

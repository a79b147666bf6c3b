//! The table of configuration keys, for parsing, checks, defaults and the reference page docs/configuration.md. Keys have
//! the names of the Java client. Those of librdkafka are aliases.

use crate::engine::producer::Partitioner;

/// The type of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientType {
    /// Sends records.
    Producer,
    /// Reads records.
    Consumer,
    /// Reads records of a share group.
    ShareConsumer,
    /// Manages topics and groups.
    Admin,
}

impl ClientType {
    /// Returns its name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Producer => "producer",
            Self::Consumer => "consumer",
            Self::ShareConsumer => "share consumer",
            Self::Admin => "admin",
        }
    }
}

/// The values that a key allows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Any text.
    Text,
    /// Text that is never shown.
    Secret,
    /// A function, which only Python callers can pass.
    Function,
    /// An object that writes log lines, which only Python callers can pass.
    Logger,
    /// A list of texts, or one text with commas.
    List,
    /// An integer within bounds.
    Int(i64, i64),
    /// A number of seconds, with or without decimals.
    Seconds,
    /// True or false.
    Bool,
    /// One of these texts.
    Choice(&'static [&'static str]),
    /// The value of `acks`.
    Acks,
    /// The value of `auto.offset.reset`.
    Reset,
}

/// One key.
#[derive(Debug)]
pub struct Key {
    /// Kafka's name.
    pub name: &'static str,
    /// Other names, mostly those of librdkafka.
    pub aliases: &'static [&'static str],
    /// The values that it allows.
    pub kind: Kind,
    /// The default as text; empty without a default.
    pub default: &'static str,
    /// The clients that have it.
    pub clients: &'static [ClientType],
    /// A description for the reference page.
    pub doc: &'static str,
}

impl Key {
    /// Returns a description of the allowed values.
    pub fn allowed(&self) -> String {
        match self.kind {
            Kind::Text => "text".to_owned(),
            Kind::Secret => "text, which is never shown".to_owned(),
            Kind::Function => "a function".to_owned(),
            Kind::Logger => "a logger of Python's `logging`".to_owned(),
            Kind::List => "a list, or text with commas".to_owned(),
            Kind::Int(min, i64::MAX) => format!("a whole number from {min}"),
            Kind::Int(min, max) => format!("a whole number from {min} to {max}"),
            Kind::Seconds => "a number of seconds from 0 to 2147483".to_owned(),
            Kind::Bool => "true or false".to_owned(),
            Kind::Choice(names) => names.join(", "),
            Kind::Reset => "earliest, latest, none, by_duration:PnDTnHnMnS".to_owned(),
            Kind::Acks => "all, -1, 0, 1; brokers before 0.9 take any number of replicas".to_owned(),
        }
    }
}

const ALL: &[ClientType] = &[ClientType::Producer, ClientType::Consumer, ClientType::ShareConsumer, ClientType::Admin];
const PRODUCER: &[ClientType] = &[ClientType::Producer];
const CONSUMER: &[ClientType] = &[ClientType::Consumer];
const SHARE: &[ClientType] = &[ClientType::ShareConsumer];
const CONSUMERS: &[ClientType] = &[ClientType::Consumer, ClientType::ShareConsumer];
const CLOSERS: &[ClientType] = &[ClientType::Producer, ClientType::Consumer, ClientType::ShareConsumer];
const MS: Kind = Kind::Int(0, i32::MAX as i64);
const BYTES: Kind = Kind::Int(1, i64::MAX);

/// The values of `security.protocol`. A build without TLS has fewer.
const PROTOCOLS: &[&str] = if cfg!(feature = "tls") {
    &["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
} else {
    &["PLAINTEXT", "SASL_PLAINTEXT"]
};

macro_rules! keys {
    ($($name:literal $(or $alias:literal)*: $kind:expr, $default:literal, $clients:expr, $doc:literal;)*) => {
        /// Every key.
        pub static KEYS: &[Key] = &[
            $( Key { name: $name, aliases: &[$($alias),*], kind: $kind, default: $default, clients: $clients, doc: $doc }, )*
        ];
    };
}

keys! {
    "bootstrap.servers" or "metadata.broker.list": Kind::List, "", ALL,
        "The brokers that the client connects to first, as `host:port`. The client learns the other brokers from \
         them. The default port is 9092.";
    "bootstrap.controllers": Kind::List, "", &[ClientType::Admin],
        "The controllers of a KRaft cluster (Kafka 3.7) that the client connects to, instead of brokers. It serves \
         calls about the metadata quorum, features, configurations, ACLs and reassignments. Not together with \
         `bootstrap.servers`.";
    "client.id": Kind::Text, "klamm", ALL,
        "The name of the client in the brokers' logs, metrics and quotas.";
    "logger": Kind::Logger, "", ALL,
        "The logger for the client's log lines. By default, they go to children of the logger `klamm`, such as \
         `klamm.network` and `klamm.group`.";
    "error.cb" or "error_cb" or "on.error": Kind::Function, "", ALL,
        "A function that is called with the error of a problem that the client keeps retrying. Examples are that no \
         broker is reachable, that a topic is missing, or that a group cannot be joined. It is called at once and then, while the problem lasts, after 1, 2, 4 and finally every 60 seconds, in a thread of its own.";
    "log.level" or "log_level": Kind::Int(0, 7), "7", ALL,
        "The least severe log lines of the client, as a syslog severity: `3` errors, `4` warnings, `6` information, `7` \
         everything. The level of the logger applies as well.";
    "debug": Kind::List, "", ALL,
        "The parts of the client whose debug lines are wanted, whatever the level of the logger. The names are \
         librdkafka's, such as `broker`, `cgrp`, `security`, `fetch`, `msg` and `all`.";
    "flight.recorder.bytes": Kind::Int(0, 1 << 30), "1048576", ALL,
        "The memory, in bytes, for the last requests, responses and changes of state, which `dump_flight()` writes to a \
         file. Credentials are never recorded, and keys and values only with `flight.recorder.values`. `0` turns the recorder off.";
    "flight.recorder.values": Kind::Bool, "false", ALL,
        "Whether the flight recorder keeps keys and values of records, and what groups and transactions exchange. A dump \
         can then be replayed with its records. Credentials are not recorded.";
    "flight.recorder.path": Kind::Text, "", ALL,
        "The file to which the client writes its flight recorder when an error ends its work: an internal error, a fenced \
         producer, or the end of a group membership. By default, it writes none.";
    "security.protocol": Kind::Choice(PROTOCOLS), "PLAINTEXT", ALL,
        "How connections are protected. `SSL` encrypts with TLS, `SASL_PLAINTEXT` logs in, and `SASL_SSL` does \
         both.";
    "sasl.mechanism" or "sasl.mechanisms": Kind::Choice(&["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI"]), "", ALL,
        "How the client logs in. Required if `security.protocol` has SASL.";
    "sasl.username": Kind::Text, "", ALL,
        "The user name for PLAIN and SCRAM.";
    "sasl.password": Kind::Secret, "", ALL,
        "The password for PLAIN and SCRAM.";
    "sasl.jaas.config": Kind::Secret, "", ALL,
        "User name and password in the form of the Java client: `...LoginModule required username=\"...\" \
         password=\"...\";`. For OAUTHBEARER, klamm reads `clientId`, `clientSecret` and `scope`. For GSSAPI, it \
         reads `principal` and `keyTab`.";
    "sasl.oauth.token.provider" or "oauth_cb": Kind::Function, "", ALL,
        "A function that returns a token for OAUTHBEARER and its expiry time, in seconds since 1970. klamm calls \
         it on a separate thread, and again before the token expires.";
    "sasl.oauthbearer.method": Kind::Choice(&["default", "oidc", "aws-msk-iam"]), "default", ALL,
        "Where OAUTHBEARER tokens come from: `default` calls `sasl.oauth.token.provider`, `oidc` asks \
         `sasl.oauthbearer.token.endpoint.url`, and `aws-msk-iam` signs tokens for Amazon MSK (needs \
         `klamm[aws]`).";
    "sasl.oauthbearer.aws.region": Kind::Text, "", ALL,
        "The region of the MSK cluster. By default, klamm takes it from AWS_REGION, AWS_DEFAULT_REGION or the AWS \
         profile.";
    "sasl.oauthbearer.token.endpoint.url": Kind::Text, "", ALL,
        "The HTTP(S) address of the token endpoint. Setting it implies `sasl.oauthbearer.method=oidc`.";
    "sasl.oauthbearer.ca.location" or "https.ca.location": Kind::Text, "", ALL,
        "A PEM file with the certificates of the authorities that the client trusts for the token endpoint. By \
         default, these are the authorities that Python knows. It does not affect the brokers.";
    "sasl.oauthbearer.ca.pem" or "https.ca.pem": Kind::Text, "", ALL,
        "The content of `sasl.oauthbearer.ca.location` as PEM text.";
    "sasl.oauthbearer.grant.type": Kind::Choice(&["client_credentials", "urn:ietf:params:oauth:grant-type:jwt-bearer"]), "client_credentials", ALL,
        "How the client proves its identity to the token endpoint: with a secret, or with a signed assertion.";
    "sasl.oauthbearer.client.id" or "sasl.oauthbearer.client.credentials.client.id": Kind::Text, "", ALL,
        "The client ID at the token endpoint.";
    "sasl.oauthbearer.client.secret" or "sasl.oauthbearer.client.credentials.client.secret": Kind::Secret, "", ALL,
        "The client secret at the token endpoint.";
    "sasl.oauthbearer.assertion.file": Kind::Text, "", ALL,
        "The file with the signed assertion for the `jwt-bearer` grant. klamm reads it again for every token.";
    "sasl.oauthbearer.scope": Kind::Text, "", ALL,
        "The scope of the requested token.";
    "sasl.oauthbearer.extensions": Kind::Text, "", ALL,
        "SASL extensions to send with the token, as `key=value,key=value`.";
    "sasl.kerberos.service.name": Kind::Text, "kafka", ALL,
        "The service name of the brokers' Kerberos principal, without host and realm.";
    "sasl.kerberos.principal": Kind::Text, "", ALL,
        "The Kerberos principal of the client. By default, it is the principal of the keytab or of the ticket \
         cache.";
    "sasl.kerberos.keytab": Kind::Text, "", ALL,
        "The keytab file of the client. klamm uses it to fetch and renew tickets. Without it, klamm uses the \
         tickets or keys that KRB5CCNAME or KRB5_CLIENT_KTNAME name.";
    "ssl.ca.location" or "ssl.truststore.location": Kind::Text, "", ALL,
        "A PEM file with the certificates of the authorities that the client trusts. By default, the client trusts \
         those of the operating system. klamm reads certificate and key files again when they change.";
    "ssl.ca.pem" or "ssl.truststore.certificates": Kind::Text, "", ALL,
        "The content of `ssl.ca.location` as PEM text.";
    "ssl.truststore.type": Kind::Choice(&["PEM"]), "PEM", ALL,
        "Accepted for compatibility with the Java client. Convert JKS and PKCS12 files to PEM.";
    "ssl.certificate.location" or "ssl.keystore.location": Kind::Text, "", ALL,
        "A PEM file with the client's certificate and its chain, for brokers that require client certificates \
         (mTLS).";
    "ssl.certificate.pem" or "ssl.keystore.certificate.chain": Kind::Text, "", ALL,
        "The content of `ssl.certificate.location` as PEM text.";
    "ssl.key.location": Kind::Text, "", ALL,
        "A PEM file with the private key of the client's certificate. By default, klamm reads the key from the \
         certificate file.";
    "ssl.key.pem" or "ssl.keystore.key": Kind::Secret, "", ALL,
        "The content of `ssl.key.location` as PEM text.";
    "ssl.key.password": Kind::Secret, "", ALL,
        "The password of the private key, if the key is encrypted (PKCS #8).";
    "ssl.keystore.type": Kind::Choice(&["PEM"]), "PEM", ALL,
        "Accepted for compatibility with the Java client. Convert JKS and PKCS12 files to PEM.";
    "ssl.endpoint.identification.algorithm": Kind::Choice(&["https", "none"]), "https", ALL,
        "Whether the client checks that a broker's certificate is for the host that it connects to. `none` or \
         empty text disables the check. Then everyone who owns a certificate of the same authority can read and \
         change the traffic.";
    "ssl.enabled.protocols": Kind::List, "TLSv1.2,TLSv1.3", ALL,
        "The TLS versions that the client accepts.";
    "request.timeout.ms": Kind::Int(1, i32::MAX as i64), "30000", ALL,
        "How long the client waits for the answer to a request.";
    "default.api.timeout.ms": Kind::Int(1, i32::MAX as i64), "60000", ALL,
        "The timeout of calls that name none.";
    "close.timeout": Kind::Seconds, "2", CLOSERS,
        "How long, in seconds, a `with` block that ends by an exception waits for the close. A consumer then commits, \
         leaves its group or both. After Ctrl+C, another Ctrl+C ends the wait. A producer waits so long for its records \
         after Ctrl+C, `SystemExit` or the cancellation of its task. After another exception it waits for all of them.";
    "socket.connection.setup.timeout.ms": Kind::Int(1, i32::MAX as i64), "10000", ALL,
        "How long setting up a connection may take.";
    "socket.keepalive.enable": Kind::Bool, "true", ALL,
        "Whether the operating system probes idle connections (TCP keep-alive), from 60 seconds on.";
    "connections.max.idle.ms": Kind::Int(-1, i32::MAX as i64), "540000", ALL,
        "How long a connection may be idle before the client closes it. `0` and `-1` never close it. Whatever the value, \
         the client checks a connection that was idle for some seconds before it sends a request on it.";
    "broker.version.fallback": Kind::Text, "auto", ALL,
        "The release that klamm assumes for brokers before 0.10, which do not report their versions. `auto` finds \
         it out with harmless requests. Otherwise set a release from 0.8.0 on.";
    "api.version.request.timeout.ms": Kind::Int(1, i32::MAX as i64), "1000", ALL,
        "How long a broker may take to report its versions. After that, klamm checks whether it is a broker before \
         0.10. Brokers of 0.9 never answer.";
    "reconnect.backoff.ms": MS, "50", ALL,
        "The wait before the first attempt to reconnect. It doubles with each failure.";
    "reconnect.backoff.max.ms": MS, "1000", ALL,
        "The longest wait between attempts to reconnect.";
    "retry.backoff.ms": MS, "100", ALL,
        "The wait before the first retry of a request. It doubles with each failure.";
    "retry.backoff.max.ms": MS, "1000", ALL,
        "The longest wait between retries of a request.";
    "metadata.max.age.ms" or "topic.metadata.refresh.interval.ms": Kind::Int(1, i32::MAX as i64), "300000", ALL,
        "How often the client refreshes its metadata about brokers and topics, even if nothing fails.";
    "metadata.recovery.strategy": Kind::Choice(&["rebootstrap"]), "rebootstrap", ALL,
        "What the client does if no broker of the cluster answers, or if a broker asks for it (KIP-899, KIP-1102): \
         it resolves `bootstrap.servers` again and starts from them. klamm does not support `none`, which gives \
         up.";
    "enable.metrics.push": Kind::Bool, "true", ALL,
        "Whether the client pushes metrics to brokers whose operators ask for them (KIP-714).";
    "statistics.interval.ms": MS, "0", ALL,
        "How often the client calls `stats_cb`. `0` never does.";
    "allow.auto.create.topics": Kind::Bool, "true", &[ClientType::Producer, ClientType::Consumer],
        "Whether a broker may create a topic that the client uses. The broker's `auto.create.topics.enable` must \
         be true as well.";
    "acks" or "request.required.acks": Kind::Acks, "all", PRODUCER,
        "Which replicas must have a record before the broker acknowledges it: `all` in-sync replicas, only the \
         leader (`1`), or none (`0`). Brokers before 0.9 accept a number of replicas.";
    "metadata.max.idle.ms": Kind::Int(5000, i32::MAX as i64), "300000", PRODUCER,
        "How long the producer keeps the metadata of a topic to which it sends nothing.";
    "linger.ms" or "queue.buffering.max.ms": MS, "0", PRODUCER,
        "How long a batch waits for more records. With `0`, a record is sent at once, and batches form while \
         earlier requests are in flight.";
    "batch.size": Kind::Int(128, 1 << 30), "131072", PRODUCER,
        "The size of a batch, in bytes, at which it is sent without waiting.";
    "buffer.memory": BYTES, "67108864", PRODUCER,
        "The memory, in bytes, for records that wait or are in flight. When it is used up, sending blocks.";
    "drop.when.full": Kind::Bool, "false", PRODUCER,
        "Whether sending raises `BufferFullError` at once if the buffer is full, instead of waiting for room.";
    "max.block.ms": MS, "60000", PRODUCER,
        "How long sending may wait for room in the buffer, and how long a record may wait for the metadata of its \
         topic.";
    "max.request.size" or "message.max.bytes": Kind::Int(256, 1 << 30), "1048576", PRODUCER,
        "The largest request and the largest record, in bytes.";
    "compression.type" or "compression.codec": Kind::Choice(&["none", "gzip", "snappy", "lz4", "zstd"]), "none", PRODUCER,
        "How batches are compressed.";
    "compression.gzip.level": Kind::Int(-1, 9), "-1", PRODUCER,
        "The compression level of gzip, from 1 to 9. `-1` is the default of gzip.";
    "compression.zstd.level": Kind::Int(-131_072, 22), "3", PRODUCER,
        "The compression level of zstd.";
    "delivery.timeout.ms" or "message.timeout.ms": Kind::Int(1, i32::MAX as i64), "120000", PRODUCER,
        "The time between sending a record and its result, including retries.";
    "retries" or "message.send.max.retries": Kind::Int(0, i32::MAX as i64), "2147483647", PRODUCER,
        "How often a batch is retried within `delivery.timeout.ms`.";
    "enable.idempotence": Kind::Bool, "true", PRODUCER,
        "Whether brokers remove the duplicates that retries may cause. Requires `acks=all`. If only `acks` is set, \
         and to another value, idempotence is off.";
    "max.in.flight.requests.per.connection" or "max.in.flight": Kind::Int(1, 1000), "5", PRODUCER,
        "How many requests to one broker may be in flight. At most 5 with idempotence.";
    "partitioner" or "partitioner.class": Kind::Choice(Partitioner::NAMES), "murmur2_random", PRODUCER,
        "How the producer picks the partition of a record that names none. `murmur2_random`, `consistent_random` (CRC-32) \
         and `fnv1a_random` hash the key like the Java client, librdkafka and Sarama. They send records without a key to \
         one partition per batch. `round_robin` and `uniform` ignore the key: they pick the next partition for each record, \
         or one partition per batch.";
    "partitioner.adaptive.partitioning.enable": Kind::Bool, "true", PRODUCER,
        "Whether records without a key avoid partitions whose broker is slow (KIP-794).";
    "transactional.id": Kind::Text, "", PRODUCER,
        "The ID that identifies the producer across restarts. Setting it enables transactions, and the producer \
         then sends only within transactions.";
    "transaction.timeout.ms": Kind::Int(1, i32::MAX as i64), "60000", PRODUCER,
        "How long a transaction may stay open before the broker aborts it.";
    "group.id": Kind::Text, "", CONSUMERS,
        "The consumer group that the consumer joins and whose committed offsets it uses. For a share consumer, the \
         share group.";
    "auto.offset.reset": Kind::Reset, "latest", CONSUMER,
        "Where to start without a committed offset, or if the offset no longer exists. `by_duration:PT12H` starts \
         at the first record that is at most 12 hours old. klamm also accepts `smallest` and `beginning`, \
         `largest` and `end`, and `error`.";
    "group.instance.id": Kind::Text, "", CONSUMER,
        "The name of a static member. It may restart within `session.timeout.ms` without a rebalance (KIP-345).";
    "group.protocol": Kind::Choice(&["classic", "consumer"]), "classic", CONSUMER,
        "Whether a member of the group assigns the partitions (`classic`), or the coordinator (`consumer`, \
         KIP-848, from Kafka 4.0 on).";
    "group.remote.assignor": Kind::Text, "", CONSUMER,
        "The assignor of the coordinator with `group.protocol=consumer`: `uniform` or `range`. By default, the \
         coordinator picks one.";
    "partition.assignment.strategy": Kind::List, "range,cooperative-sticky", CONSUMER,
        "The assignors of a classic group, the preferred one first: `range`, `roundrobin`, `sticky`, \
         `cooperative-sticky`.";
    "session.timeout.ms": MS, "45000", CONSUMER,
        "How long a member of a classic group may go without a heartbeat before the coordinator removes it. With \
         `group.protocol=consumer`, set the group's `consumer.session.timeout.ms` on the brokers instead.";
    "heartbeat.interval.ms": Kind::Int(1, i32::MAX as i64), "3000", CONSUMER,
        "The time between heartbeats of a member of a classic group. With `group.protocol=consumer`, set the \
         group's `consumer.heartbeat.interval.ms` on the brokers instead.";
    "max.poll.interval.ms": Kind::Int(1, i32::MAX as i64), "300000", CONSUMER,
        "How long the application may take between polls. After that, the group assigns its partitions to other \
         members.";
    "enable.auto.commit": Kind::Bool, "true", CONSUMER,
        "Whether the consumer commits the offsets of handled records in the background. It needs a group.";
    "auto.commit.interval.ms": Kind::Int(1, i32::MAX as i64), "5000", CONSUMER,
        "The time between automatic commits.";
    "offsets.retention.ms": Kind::Int(-1, 100 * 365 * 86_400_000), "-1", CONSUMER,
        "How long brokers keep the offsets that this consumer commits. `-1` leaves it to the brokers' \
         `offsets.retention.minutes`. Needs brokers from 0.9 on, and neither `group.protocol=consumer` nor \
         `group.instance.id`.";
    "fetch.min.bytes": Kind::Int(0, i32::MAX as i64), "1", CONSUMERS,
        "How many bytes a broker collects before it answers a fetch.";
    "fetch.max.wait.ms" or "fetch.wait.max.ms": MS, "500", CONSUMERS,
        "How long a broker waits for `fetch.min.bytes`.";
    "fetch.max.bytes": Kind::Int(1, i32::MAX as i64), "52428800", CONSUMERS,
        "Maximum size of one fetch response, in bytes. This is a soft limit: the first batch is returned even if \
         it is larger.";
    "max.partition.fetch.bytes" or "fetch.message.max.bytes": Kind::Int(1, i32::MAX as i64), "1048576", CONSUMER,
        "Maximum size of one partition's records in a fetch response, in bytes. This is a soft limit: the first \
         batch is returned even if it is larger.";
    "queued.max.bytes": BYTES, "67108864", CONSUMER,
        "How many bytes the consumer fetches ahead of the application, over all partitions. This is a soft limit.";
    "max.poll.records": Kind::Int(1, i32::MAX as i64), "500", CONSUMERS,
        "The maximum number of records that one poll returns.";
    "check.crcs": Kind::Bool, "true", CONSUMERS,
        "Whether the consumer verifies the checksums of batches.";
    "isolation.level": Kind::Choice(&["read_uncommitted", "read_committed"]), "read_uncommitted", CONSUMER,
        "Whether the consumer returns only records of committed transactions (`read_committed`), or also those of \
         aborted and open transactions.";
    "client.rack": Kind::Text, "", CONSUMERS,
        "Rack of this client, for fetching from the nearest replica (KIP-392).";
    "share.acknowledgement.mode": Kind::Choice(&["implicit", "explicit"]), "implicit", SHARE,
        "With `implicit`, the next poll accepts every record that the application did not acknowledge otherwise. \
         With `explicit`, the application must acknowledge each record.";
    "share.acquire.mode": Kind::Choice(&["batch_optimized", "record_limit"]), "batch_optimized", SHARE,
        "Whether brokers deliver whole batches, or never more than `max.poll.records` records at a time \
         (KIP-1206).";
}

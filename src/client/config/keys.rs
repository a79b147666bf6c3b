//! The table of configuration keys: the source for parsing, checks, defaults and the reference page
//! docs/configuration.md. The keys have the names that the Java client uses. The names that librdkafka uses are
//! aliases.

use crate::engine::producer::Partitioner;

/// The type of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientType {
    /// Sends records.
    Producer,
    /// Reads records.
    Consumer,
    /// Reads records as a member of a share group.
    ShareConsumer,
    /// Manages topics and groups.
    Admin,
}

impl ClientType {
    /// Returns the name of the type for messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Producer => "producer",
            Self::Consumer => "consumer",
            Self::ShareConsumer => "share consumer",
            Self::Admin => "admin",
        }
    }

    /// Returns the name with an article, for messages.
    pub fn with_article(self) -> &'static str {
        match self {
            Self::Producer => "a producer",
            Self::Consumer => "a consumer",
            Self::ShareConsumer => "a share consumer",
            Self::Admin => "an admin client",
        }
    }
}

/// The values that a key allows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Any text.
    Text,
    /// Text that messages never show.
    Secret,
    /// A function, which only Python callers can pass.
    Function,
    /// A logger object, which only Python callers can pass.
    Logger,
    /// A list of strings, or one string with commas.
    List,
    /// An integer within bounds.
    Int(i64, i64),
    /// A number of seconds, with or without decimals.
    Seconds,
    /// A number of milliseconds, with or without decimals.
    Millis,
    /// True or false.
    Bool,
    /// One of these strings.
    Choice(&'static [&'static str]),
    /// The value of `acks`.
    Acks,
    /// The value of `auto.offset.reset`.
    Reset,
}

/// Returns the key with this name or alias.
pub fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name || key.aliases.contains(&name))
}

/// One configuration key.
#[derive(Debug, PartialEq)]
pub struct Key {
    /// The name of the key, as in Kafka's Java client if that client has the key.
    pub name: &'static str,
    /// Other names of the key, mostly the names in librdkafka.
    pub aliases: &'static [&'static str],
    /// The values that the key allows.
    pub kind: Kind,
    /// The default as text, or an empty string without a default.
    pub default: &'static str,
    /// The types of clients that have the key.
    pub clients: &'static [ClientType],
    /// The description of the key for the reference page.
    pub doc: &'static str,
}

impl Key {
    /// Returns a description of the allowed values.
    pub fn allowed(&self) -> String {
        match self.kind {
            Kind::Text => "text".to_owned(),
            Kind::Secret => "text (klamm never shows the value)".to_owned(),
            Kind::Function => "a function".to_owned(),
            Kind::Logger => "a logger of Python's `logging`".to_owned(),
            Kind::List => "a list, or text with commas".to_owned(),
            Kind::Int(min, i64::MAX) => format!("a whole number from {min}"),
            Kind::Int(min, max) => format!("a whole number from {min} to {max}"),
            Kind::Seconds => "a number of seconds from 0 to 2147483".to_owned(),
            Kind::Millis => "a number from 0 to 2147483647".to_owned(),
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
        /// All configuration keys.
        pub static KEYS: &[Key] = &[
            $( Key { name: $name, aliases: &[$($alias),*], kind: $kind, default: $default, clients: $clients, doc: $doc }, )*
        ];
    };
}

keys! {
    "bootstrap.servers" or "metadata.broker.list": Kind::List, "", ALL,
        "The brokers that the client connects to first, as `host:port`. From these brokers, the client learns the \
         addresses of all brokers. The default port is 9092.";
    "bootstrap.controllers": Kind::List, "", &[ClientType::Admin],
        "The controllers of a KRaft cluster that the client connects to instead of brokers (Kafka 3.7). Controllers \
         support calls about the metadata quorum, features, configurations, ACLs and reassignments. Set either this \
         key or `bootstrap.servers`.";
    "client.id": Kind::Text, "klamm", ALL,
        "The name of the client in the brokers' logs, metrics and quotas.";
    "logger": Kind::Logger, "", ALL,
        "The logger for the client's log lines. By default, log lines go to children of the logger `klamm`, such as \
         `klamm.network` and `klamm.group`.";
    "error.cb" or "error_cb" or "on.error": Kind::Function, "", ALL,
        "A function that the client calls with an error when a problem makes the client retry. Examples of such \
         problems are an unreachable cluster, a missing topic, and a group that the client cannot join. The client \
         calls the function as soon as a problem occurs. While the problem lasts, the client repeats the call, with \
         waits that grow from 1 to 60 seconds. The function runs in a separate thread.";
    "log.level" or "log_level": Kind::Int(0, 7), "7", ALL,
        "The lowest severity of the log lines that the client writes, as a syslog number. `3` means errors, `4` also \
         warnings, `6` also information, `7` everything. The logger also drops lines below its own level.";
    "debug": Kind::List, "", ALL,
        "The parts of the client that write debug lines, even if the level of the logger is higher. The names are \
         librdkafka's, such as `broker`, `cgrp`, `security`, `fetch`, `msg` and `all`.";
    "flight.recorder.bytes": Kind::Int(0, 1 << 30), "1048576", ALL,
        "The memory, in bytes, of the flight recorder, which keeps the last requests, responses and changes of \
         state. `dump_flight()` writes the recorder's content to a file. The recorder keeps the keys and values of \
         records only if `flight.recorder.values` is true. It never keeps credentials. `0` turns the recorder off.";
    "flight.recorder.values": Kind::Bool, "false", ALL,
        "Whether the flight recorder keeps keys and values of records, and the contents of group and transaction \
         requests. With `true`, `DevBroker.replay` can replay the records of a dump. The recorder never keeps \
         credentials.";
    "flight.recorder.path": Kind::Text, "", ALL,
        "The file to which the client writes the content of its flight recorder when an error ends the client's \
         work: an internal error, a fenced producer, or the end of a group membership. By default, the client does \
         not write a file.";
    "security.protocol": Kind::Choice(PROTOCOLS), "PLAINTEXT", ALL,
        "How connections are protected: not at all (`PLAINTEXT`), with TLS (`SSL`), with SASL authentication but no \
         encryption (`SASL_PLAINTEXT`), or with TLS and SASL authentication (`SASL_SSL`).";
    "sasl.mechanism" or "sasl.mechanisms": Kind::Choice(&["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI"]), "", ALL,
        "The SASL mechanism with which the client authenticates. This key is required if `security.protocol` is \
         `SASL_PLAINTEXT` or `SASL_SSL`. `AWS_MSK_IAM`, the name in Amazon's library for Java, means `OAUTHBEARER` with \
         `sasl.oauthbearer.method=aws-msk-iam`.";
    "sasl.username": Kind::Text, "", ALL,
        "The user name for PLAIN and SCRAM.";
    "sasl.password": Kind::Secret, "", ALL,
        "The password for PLAIN and SCRAM.";
    "sasl.jaas.config": Kind::Secret, "", ALL,
        "User name and password in the form of the Java client: `...LoginModule required username=\"...\" \
         password=\"...\";`. For OAUTHBEARER, klamm reads `clientId`, `clientSecret` and `scope`. For GSSAPI, klamm \
         reads `principal` and `keyTab`.";
    "sasl.oauth.token.provider" or "oauth_cb": Kind::Function, "", ALL,
        "A function that returns a token for OAUTHBEARER and the token's expiry time, in seconds since 1970. A klamm \
         thread calls the function, and calls it again before the token expires.";
    "sasl.oauthbearer.method": Kind::Choice(&["default", "oidc", "aws-msk-iam"]), "default", ALL,
        "The source of OAUTHBEARER tokens: the function `sasl.oauth.token.provider` (`default`), the endpoint \
         `sasl.oauthbearer.token.endpoint.url` (`oidc`), or tokens for Amazon MSK that klamm signs itself \
         (`aws-msk-iam`, needs `klamm[aws]`).";
    "sasl.oauthbearer.aws.region": Kind::Text, "", ALL,
        "The region of the MSK cluster. By default, klamm takes the region from a host name of MSK in \
         `bootstrap.servers`, and otherwise from AWS_REGION, AWS_DEFAULT_REGION or the AWS profile.";
    "sasl.oauthbearer.token.endpoint.url": Kind::Text, "", ALL,
        "The HTTP(S) address of the token endpoint. Setting this key implies `sasl.oauthbearer.method=oidc`.";
    "sasl.oauthbearer.ca.location" or "https.ca.location": Kind::Text, "", ALL,
        "A PEM file with the CA certificates that the client trusts for the token endpoint. By default, the client \
         trusts Python's default CA certificates. This key does not affect connections to brokers.";
    "sasl.oauthbearer.ca.pem" or "https.ca.pem": Kind::Text, "", ALL,
        "The CA certificates for the token endpoint as PEM text, instead of the file `sasl.oauthbearer.ca.location`.";
    "sasl.oauthbearer.grant.type": Kind::Choice(&["client_credentials", "urn:ietf:params:oauth:grant-type:jwt-bearer"]), "client_credentials", ALL,
        "How the client authenticates to the token endpoint: with a client secret (`client_credentials`), or with a \
         signed assertion (`jwt-bearer`).";
    "sasl.oauthbearer.client.id" or "sasl.oauthbearer.client.credentials.client.id": Kind::Text, "", ALL,
        "The client ID for the token endpoint.";
    "sasl.oauthbearer.client.secret" or "sasl.oauthbearer.client.credentials.client.secret": Kind::Secret, "", ALL,
        "The client secret for the token endpoint.";
    "sasl.oauthbearer.assertion.file": Kind::Text, "", ALL,
        "The file with the signed assertion for the `jwt-bearer` grant. klamm reads the file again for every token.";
    "sasl.oauthbearer.scope": Kind::Text, "", ALL,
        "The scope of the requested token.";
    "sasl.oauthbearer.extensions": Kind::Text, "", ALL,
        "SASL extensions to send with the token, as `key=value,key=value`.";
    "sasl.kerberos.service.name": Kind::Text, "kafka", ALL,
        "The service name of the brokers' Kerberos principal, without host and realm.";
    "sasl.kerberos.principal": Kind::Text, "", ALL,
        "The Kerberos principal of the client. By default, klamm uses the principal of the keytab or of the ticket \
         cache.";
    "sasl.kerberos.keytab": Kind::Text, "", ALL,
        "The keytab file with which klamm fetches and renews the client's tickets. By default, klamm uses the ticket \
         cache that KRB5CCNAME names, or the keytab that KRB5_CLIENT_KTNAME names.";
    "ssl.ca.location" or "ssl.truststore.location": Kind::Text, "", ALL,
        "A PEM file with the CA certificates that the client trusts. By default, the client trusts the CA \
         certificates of the operating system. klamm reads certificate and key files again when they change.";
    "ssl.ca.pem" or "ssl.truststore.certificates": Kind::Text, "", ALL,
        "The trusted CA certificates as PEM text, instead of the file `ssl.ca.location`.";
    "ssl.truststore.type": Kind::Choice(&["PEM"]), "PEM", ALL,
        "klamm accepts this key for compatibility with the Java client. Convert JKS and PKCS12 files to PEM.";
    "ssl.certificate.location" or "ssl.keystore.location": Kind::Text, "", ALL,
        "A PEM file with the client's certificate and its chain, for brokers that require client certificates \
         (mTLS).";
    "ssl.certificate.pem" or "ssl.keystore.certificate.chain": Kind::Text, "", ALL,
        "The client's certificate and its chain as PEM text, instead of the file `ssl.certificate.location`.";
    "ssl.key.location": Kind::Text, "", ALL,
        "A PEM file with the private key of the client's certificate. By default, klamm reads the key from the \
         certificate file.";
    "ssl.key.pem" or "ssl.keystore.key": Kind::Secret, "", ALL,
        "The private key of the client's certificate as PEM text, instead of the file `ssl.key.location`.";
    "ssl.key.password": Kind::Secret, "", ALL,
        "The password of the private key, if the key is encrypted (PKCS #8).";
    "ssl.keystore.type": Kind::Choice(&["PEM"]), "PEM", ALL,
        "klamm accepts this key for compatibility with the Java client. Convert JKS and PKCS12 files to PEM.";
    "ssl.endpoint.identification.algorithm": Kind::Choice(&["https", "none"]), "https", ALL,
        "Whether the client checks that a broker's certificate contains the host name to which the client connects. \
         `none` or empty text disables the check. Without this check, anyone with a certificate of a trusted CA can \
         read and change the traffic.";
    "ssl.enabled.protocols": Kind::List, "TLSv1.2,TLSv1.3", ALL,
        "The TLS versions that the client accepts.";
    "request.timeout.ms": Kind::Int(1, i32::MAX as i64), "30000", ALL,
        "How long the client waits for the response to a request. After this time, the request fails. The client \
         retries the request if the timeout of the call allows.";
    "default.api.timeout.ms": Kind::Int(1, i32::MAX as i64), "60000", ALL,
        "The timeout of calls to which the program does not pass a timeout.";
    "default.close.timeout.ms": MS, "25000", CLOSERS,
        "How long `close()` waits if the program passes no timeout, and how long the end of a `with` block waits if \
         the block raised no exception. During this wait, a producer delivers its records, and a consumer commits its \
         offsets and leaves its group. After this time, the client closes anyway, and a producer drops the remaining \
         records. With the default, a client closes within the 30 seconds that Kubernetes gives a pod to end.";
    "outage": Kind::Choice(&["raise", "wait"]), "raise", CONSUMERS,
        "What the methods that return records do if no broker, or no group coordinator, responds for \
         `default.api.timeout.ms`. With `raise`, they raise `NetworkError` or `KafkaTimeoutError`, and again each time \
         that this much time passes. With `wait`, the client only logs the error, reports it to `on_error`, and keeps \
         retrying. klamm only.";
    "close.timeout": Kind::Seconds, "2", CLOSERS,
        "How long, in seconds, the end of a `with` block waits for the client to close after an exception. A consumer \
         commits its offsets and leaves its group during this wait. After Ctrl+C, `SystemExit` or the cancellation of \
         its task, a producer waits at most this long for its records. After a subclass of `Exception`, a producer \
         waits for its records for `default.close.timeout.ms`. A second Ctrl+C ends the wait.";
    "socket.connection.setup.timeout.ms": Kind::Int(1, i32::MAX as i64), "10000", ALL,
        "How long the client waits until a new connection is ready, including TLS and authentication.";
    "socket.keepalive.enable": Kind::Bool, "true", ALL,
        "Whether the operating system probes connections that have been idle for 60 seconds (TCP keep-alive).";
    "connections.max.idle.ms": Kind::Int(-1, i32::MAX as i64), "540000", ALL,
        "How long a connection may be idle before the client closes it. With `0` or `-1`, the client never closes idle \
         connections. Before a request, the client checks a connection that was idle for some seconds, regardless of \
         this key.";
    "broker.version.fallback": Kind::Text, "auto", ALL,
        "The release that klamm assumes for brokers before 0.10, which do not report their versions. With `auto`, \
         klamm detects the release with requests that change nothing. Besides `auto`, the allowed values are releases \
         from 0.8.0 on.";
    "api.version.request.timeout.ms": Kind::Int(1, i32::MAX as i64), "1000", ALL,
        "How long a broker may take to report its API versions. After this time, klamm checks whether the broker is \
         older than 0.10. Brokers of Kafka 0.9 never respond to the request for API versions.";
    "reconnect.backoff.ms": MS, "50", ALL,
        "The wait before the first attempt to reconnect to a broker. The wait doubles with each failure, with 20 % \
         jitter.";
    "reconnect.backoff.max.ms": MS, "1000", ALL,
        "The longest wait between attempts to reconnect to a broker.";
    "retry.backoff.ms": MS, "100", ALL,
        "The wait before the first retry of a request. The wait doubles with each failure, with 20 % jitter.";
    "retry.backoff.max.ms": MS, "1000", ALL,
        "The longest wait between retries of a request.";
    "metadata.max.age.ms" or "topic.metadata.refresh.interval.ms": Kind::Int(1, i32::MAX as i64), "300000", ALL,
        "How often the client refreshes its metadata about brokers and topics, even without errors.";
    "metadata.recovery.strategy": Kind::Choice(&["rebootstrap"]), "rebootstrap", ALL,
        "What the client does if no broker of the cluster responds, or if a broker asks the client to bootstrap again \
         (KIP-899, KIP-1102). With `rebootstrap`, the client resolves `bootstrap.servers` again and connects to these \
         brokers. klamm does not support the Java client's value `none`.";
    "enable.metrics.push": Kind::Bool, "true", ALL,
        "Whether the client pushes metrics to brokers that request them (KIP-714).";
    "statistics.interval.ms": MS, "0", ALL,
        "How often the client calls the function `stats.cb`. With `0`, the client never calls this function.";
    "stats.cb" or "stats_cb": Kind::Function, "", CLOSERS,
        "A function that the client calls with statistics as JSON, in librdkafka's format, every \
         `statistics.interval.ms`. The function runs in a separate thread.";
    "allow.auto.create.topics": Kind::Bool, "true", &[ClientType::Producer, ClientType::Consumer],
        "Whether the broker may create a missing topic when a producer sends a record to it, or when a consumer \
         subscribes to it or assigns its partitions. After a topic was deleted, only a producer with records for it \
         creates it again. The broker's `auto.create.topics.enable` must be true as well.";
    "acks" or "request.required.acks": Kind::Acks, "all", PRODUCER,
        "Which replicas must have a record before the leader acknowledges it: `all` in-sync replicas, only the \
         leader (`1`), or none (`0`). With `acks=1` or `acks=0`, a record can be lost although the producer reported \
         success. Brokers before 0.9 also accept a number of replicas.";
    "metadata.max.idle.ms": Kind::Int(5000, i32::MAX as i64), "300000", PRODUCER,
        "How long the producer keeps the metadata of a topic after the last record for the topic.";
    "linger.ms" or "queue.buffering.max.ms": Kind::Millis, "0", PRODUCER,
        "How long a batch waits for more records before the producer sends it. With `0`, the producer sends a \
         single record at once, and batches form while earlier requests are in flight.";
    "batch.size": Kind::Int(128, 1 << 30), "131072", PRODUCER,
        "The maximum size of a batch, in bytes. The producer sends a full batch without waiting for `linger.ms`.";
    "buffer.memory": BYTES, "67108864", PRODUCER,
        "The memory, in bytes, for records that wait to be sent or are in flight. If the buffer is full, sending \
         waits for at most `max.block.ms`.";
    "drop.when.full": Kind::Bool, "false", PRODUCER,
        "Whether sending raises `BufferFullError` at once if the buffer is full, instead of waiting for room.";
    "max.block.ms": MS, "60000", PRODUCER,
        "How long sending may wait for room in the buffer, and how long a record may wait for the metadata of its \
         topic. If the buffer is still full after this time, sending raises an error. If the metadata is still missing \
         after this time, the delivery of the record fails.";
    "max.request.size" or "message.max.bytes": Kind::Int(256, 1 << 30), "1048576", PRODUCER,
        "The maximum size of a request, in bytes. Sending a larger record raises an error.";
    "compression.type" or "compression.codec": Kind::Choice(&["none", "gzip", "snappy", "lz4", "zstd"]), "none", PRODUCER,
        "The compression codec of batches.";
    "compression.gzip.level": Kind::Int(-1, 9), "-1", PRODUCER,
        "The compression level of gzip, from 1 to 9. `-1` is gzip's own default. A higher level needs more CPU \
         time.";
    "compression.zstd.level": Kind::Int(-131_072, 22), "3", PRODUCER,
        "The compression level of zstd. A higher level needs more CPU time.";
    "delivery.timeout.ms" or "message.timeout.ms": Kind::Int(1, i32::MAX as i64), "120000", PRODUCER,
        "The maximum time between sending a record and its result, including waits and retries. After this time, the \
         delivery of the record fails.";
    "retries" or "message.send.max.retries": Kind::Int(0, i32::MAX as i64), "2147483647", PRODUCER,
        "How many times the producer retries a batch before the batch fails. `delivery.timeout.ms` usually ends the \
         retries earlier.";
    "enable.idempotence": Kind::Bool, "true", PRODUCER,
        "Whether brokers remove the duplicates that retries may cause. Idempotence requires `acks=all`. If `acks` is \
         not `all` and the program does not set this key, idempotence is off.";
    "max.in.flight.requests.per.connection" or "max.in.flight": Kind::Int(1, 1000), "5", PRODUCER,
        "How many requests to one broker may be in flight. The maximum with idempotence is 5.";
    "partitioner" or "partitioner.class": Kind::Choice(Partitioner::NAMES), "murmur2_random", PRODUCER,
        "How the producer chooses the partition of a record without a given partition. `murmur2_random`, \
         `consistent_random` (CRC-32) and `fnv1a_random` hash the key as the Java client, librdkafka and Sarama do. \
         The three hash partitioners send records without a key to one partition for each batch. `round_robin` and \
         `uniform` ignore the key. `round_robin` takes the next partition for each record. `uniform` takes a random \
         partition for each batch.";
    "partitioner.adaptive.partitioning.enable": Kind::Bool, "true", PRODUCER,
        "Whether records without a key avoid partitions whose broker is slow (KIP-794).";
    "transactional.id": Kind::Text, "", PRODUCER,
        "The ID that identifies the producer across restarts. This key enables transactions. A producer with this \
         key sends records only within transactions.";
    "transaction.timeout.ms": Kind::Int(1, i32::MAX as i64), "60000", PRODUCER,
        "How long a transaction may stay open before the broker aborts it. The broker's \
         `transaction.max.timeout.ms` is the upper limit.";
    "group.id": Kind::Text, "", CONSUMERS,
        "The consumer group that the consumer joins, and whose committed offsets the consumer uses. For a share \
         consumer, this key names the share group.";
    "auto.offset.reset": Kind::Reset, "latest", CONSUMER,
        "Where the consumer starts in a partition if there is no committed offset, or if the next offset to read no \
         longer exists. With `none`, the consumer raises an error. `by_duration:PT12H` starts at the first record \
         that is at most 12 hours old. klamm also accepts `smallest` and `beginning` for `earliest`, `largest` and \
         `end` for `latest`, and `error` for `none`.";
    "group.instance.id": Kind::Text, "", CONSUMER,
        "The name of a static member. The member may restart within `session.timeout.ms` without a rebalance \
         (KIP-345).";
    "group.protocol": Kind::Choice(&["classic", "consumer"]), "classic", CONSUMER,
        "The protocol of the group. With `classic`, a member of the group assigns the partitions. With `consumer` \
         (KIP-848, Kafka 4.0), the group coordinator assigns the partitions.";
    "group.remote.assignor": Kind::Text, "", CONSUMER,
        "The assignor that the group coordinator uses with `group.protocol=consumer`: `uniform` or `range`. By \
         default, the coordinator chooses the assignor.";
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
        "How long the application may take between two polls. After this time, the member leaves the group, and the \
         group assigns the member's partitions to other members.";
    "enable.auto.commit": Kind::Bool, "true", CONSUMER,
        "Whether the consumer commits the offsets of processed records in the background. Automatic commits need \
         `group.id`.";
    "auto.commit.interval.ms": Kind::Int(1, i32::MAX as i64), "5000", CONSUMER,
        "The time between automatic commits.";
    "offsets.retention.ms": Kind::Int(-1, 100 * 365 * 86_400_000), "-1", CONSUMER,
        "How long brokers keep the offsets that this consumer commits. `-1` uses the brokers' \
         `offsets.retention.minutes`. This key needs Kafka 0.9 or newer. It cannot be combined with \
         `group.protocol=consumer` or `group.instance.id`.";
    "fetch.min.bytes": Kind::Int(0, i32::MAX as i64), "1", CONSUMERS,
        "How many bytes a broker collects before it responds to a fetch request.";
    "fetch.max.wait.ms" or "fetch.wait.max.ms": MS, "500", CONSUMERS,
        "How long a broker waits for `fetch.min.bytes` before it responds with fewer bytes. If the broker responds \
         sooner without records, and the application does not poll, the client fetches at most ten times per second.";
    "fetch.max.bytes": Kind::Int(1, i32::MAX as i64), "52428800", CONSUMERS,
        "Maximum size of one fetch response, in bytes. This is a soft limit: the first batch is returned even if \
         it is larger.";
    "max.partition.fetch.bytes" or "fetch.message.max.bytes": Kind::Int(1, i32::MAX as i64), "1048576", CONSUMER,
        "Maximum size of one partition's records in a fetch response, in bytes. This is a soft limit: the first \
         batch is returned even if it is larger.";
    "queued.max.bytes": BYTES, "67108864", CONSUMER,
        "How many bytes the consumer fetches ahead of the application, over all partitions. This is a soft \
         limit.";
    "max.poll.records": Kind::Int(1, i32::MAX as i64), "500", CONSUMERS,
        "The maximum number of records that one poll returns.";
    "check.crcs": Kind::Bool, "true", CONSUMERS,
        "Whether the consumer verifies the checksums of batches.";
    "isolation.level": Kind::Choice(&["read_uncommitted", "read_committed"]), "read_uncommitted", CONSUMER,
        "Whether the consumer returns only records of committed transactions (`read_committed`), or also records of \
         aborted and open transactions.";
    "client.rack": Kind::Text, "", CONSUMERS,
        "The rack of this client, for fetching from the nearest replica (KIP-392).";
    "share.acknowledgement.mode": Kind::Choice(&["implicit", "explicit"]), "implicit", SHARE,
        "With `implicit`, the next poll accepts every record that the application has not acknowledged itself. With \
         `explicit`, the application must acknowledge each record.";
    "share.acquire.mode": Kind::Choice(&["batch_optimized", "record_limit"]), "batch_optimized", SHARE,
        "With `batch_optimized`, brokers deliver whole batches. With `record_limit`, brokers deliver at most \
         `max.poll.records` records at a time (KIP-1206).";
}

//! The configuration keys: one table for parsing, checking, defaults and the reference page. Names are those of the
//! Java client; librdkafka's are taken as aliases.

use crate::engine::producer::Partitioner;

/// What a client is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Sends records.
    Producer,
    /// Reads records.
    Consumer,
    /// Reads records that a share group hands out one by one.
    ShareConsumer,
    /// Looks after topics and groups.
    Admin,
}

impl Role {
    /// Its name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Producer => "producer",
            Self::Consumer => "consumer",
            Self::ShareConsumer => "share consumer",
            Self::Admin => "admin",
        }
    }
}

/// What a key's value may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Any text.
    Text,
    /// Text that nobody may see.
    Secret,
    /// Something to call, which only Python has.
    Function,
    /// Texts, or one text with commas.
    List,
    /// A whole number within bounds.
    Int(i64, i64),
    /// True or false.
    Bool,
    /// One of these.
    Choice(&'static [&'static str]),
    /// Who acknowledges.
    Acks,
    /// Where to start reading.
    Reset,
}

/// One key.
#[derive(Debug)]
pub struct Key {
    /// Kafka's name.
    pub name: &'static str,
    /// Other names for it, librdkafka's mostly.
    pub aliases: &'static [&'static str],
    /// What its value may be.
    pub kind: Kind,
    /// Its default as text; empty for none.
    pub default: &'static str,
    /// The clients that have it.
    pub roles: &'static [Role],
    /// What it does.
    pub doc: &'static str,
}

impl Key {
    /// What its value may be, in words.
    pub fn allowed(&self) -> String {
        match self.kind {
            Kind::Text => "text".to_owned(),
            Kind::Secret => "text, which is never shown".to_owned(),
            Kind::Function => "a function".to_owned(),
            Kind::List => "a list, or text with commas".to_owned(),
            Kind::Int(min, i64::MAX) => format!("a whole number from {min}"),
            Kind::Int(min, max) => format!("a whole number from {min} to {max}"),
            Kind::Bool => "true or false".to_owned(),
            Kind::Choice(names) => names.join(", "),
            Kind::Reset => "earliest, latest, none, by_duration:PnDTnHnMnS".to_owned(),
            Kind::Acks => "all, -1, 0, 1; brokers before 0.9 take any number of replicas".to_owned(),
        }
    }
}

const ALL: &[Role] = &[Role::Producer, Role::Consumer, Role::ShareConsumer, Role::Admin];
const PRODUCER: &[Role] = &[Role::Producer];
const CONSUMER: &[Role] = &[Role::Consumer];
const SHARE: &[Role] = &[Role::ShareConsumer];
const CONSUMERS: &[Role] = &[Role::Consumer, Role::ShareConsumer];
const MS: Kind = Kind::Int(0, i32::MAX as i64);
const BYTES: Kind = Kind::Int(1, i64::MAX);

/// What connections may be like; without TLS in the build there is less.
const PROTOCOLS: &[&str] = if cfg!(feature = "tls") {
    &["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
} else {
    &["PLAINTEXT", "SASL_PLAINTEXT"]
};

macro_rules! keys {
    ($($name:literal $(or $alias:literal)*: $kind:expr, $default:literal, $roles:expr, $doc:literal;)*) => {
        /// Every key.
        pub static KEYS: &[Key] = &[
            $( Key { name: $name, aliases: &[$($alias),*], kind: $kind, default: $default, roles: $roles, doc: $doc }, )*
        ];
    };
}

keys! {
    "bootstrap.servers" or "metadata.broker.list": Kind::List, "", ALL, "Brokers to get in by, host:port; the port is 9092 if left out.";
    "client.id": Kind::Text, "klamm", ALL, "The client's name in the brokers' logs, metrics and quotas.";
    "security.protocol": Kind::Choice(PROTOCOLS), "PLAINTEXT", ALL, "How connections are protected: by TLS (SSL), and whether the client says who it is (SASL).";
    "sasl.mechanism" or "sasl.mechanisms": Kind::Choice(&["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI"]), "", ALL, "How the client proves who it is; needed with SASL.";
    "sasl.username": Kind::Text, "", ALL, "The user, for PLAIN and SCRAM.";
    "sasl.password": Kind::Secret, "", ALL, "Its password.";
    "sasl.jaas.config": Kind::Secret, "", ALL, "User and password as Java programs have them: `...LoginModule required username=\"...\" password=\"...\";`. The OAuth module's clientId, clientSecret and scope are taken, too.";
    "sasl.oauth.token.provider" or "oauth_cb": Kind::Function, "", ALL, "For OAUTHBEARER: returns a token and when it expires, in seconds since 1970. Called on a thread of its own, again before the token expires.";
    "sasl.oauthbearer.method": Kind::Choice(&["default", "oidc", "aws-msk-iam"]), "default", ALL, "Whether tokens come from sasl.oauth.token.provider, from sasl.oauthbearer.token.endpoint.url (oidc), or are signed for Amazon MSK (aws-msk-iam; needs klamm[aws]).";
    "sasl.oauthbearer.aws.region": Kind::Text, "", ALL, "The region of the MSK cluster; that of AWS_REGION, AWS_DEFAULT_REGION or the profile if left out.";
    "sasl.oauthbearer.token.endpoint.url": Kind::Text, "", ALL, "Where tokens are asked for, by HTTP(S); implies sasl.oauthbearer.method=oidc.";
    "sasl.oauthbearer.grant.type": Kind::Choice(&["client_credentials", "urn:ietf:params:oauth:grant-type:jwt-bearer"]), "client_credentials", ALL, "What proves to the token endpoint who the client is: a secret, or a signed assertion.";
    "sasl.oauthbearer.client.id" or "sasl.oauthbearer.client.credentials.client.id": Kind::Text, "", ALL, "The client's name at the token endpoint.";
    "sasl.oauthbearer.client.secret" or "sasl.oauthbearer.client.credentials.client.secret": Kind::Secret, "", ALL, "Its secret there.";
    "sasl.oauthbearer.assertion.file": Kind::Text, "", ALL, "A file with the assertion for jwt-bearer, read anew every time.";
    "sasl.oauthbearer.scope": Kind::Text, "", ALL, "What the token is to allow.";
    "sasl.oauthbearer.extensions": Kind::Text, "", ALL, "SASL extensions that go with the token, as key=value,key=value.";
    "sasl.kerberos.service.name": Kind::Text, "kafka", ALL, "The brokers' principal without host and realm, for GSSAPI.";
    "sasl.kerberos.principal": Kind::Text, "", ALL, "Who the client is; the one of its keytab or ticket cache if left out.";
    "sasl.kerberos.keytab": Kind::Text, "", ALL, "A file with its keys; tickets are then fetched and renewed with them. Otherwise those of KRB5CCNAME or KRB5_CLIENT_KTNAME are used.";
    "ssl.ca.location" or "ssl.truststore.location": Kind::Text, "", ALL, "A PEM file with the certificates of the authorities that may vouch for brokers; the system's if left out. Files are read anew when they change.";
    "ssl.ca.pem" or "ssl.truststore.certificates": Kind::Text, "", ALL, "The same as PEM text.";
    "ssl.truststore.type": Kind::Choice(&["PEM"]), "PEM", ALL, "Accepted for configurations of Java programs; JKS and PKCS12 have to be converted.";
    "ssl.certificate.location" or "ssl.keystore.location": Kind::Text, "", ALL, "A PEM file with the client's certificate and those that vouch for it, where brokers ask for one (mTLS).";
    "ssl.certificate.pem" or "ssl.keystore.certificate.chain": Kind::Text, "", ALL, "The same as PEM text.";
    "ssl.key.location": Kind::Text, "", ALL, "A PEM file with the private key of the certificate; the file of the certificate if left out.";
    "ssl.key.pem" or "ssl.keystore.key": Kind::Secret, "", ALL, "The same as PEM text.";
    "ssl.key.password": Kind::Secret, "", ALL, "The password of the private key, if it is encrypted (PKCS #8).";
    "ssl.keystore.type": Kind::Choice(&["PEM"]), "PEM", ALL, "Accepted for configurations of Java programs; JKS and PKCS12 have to be converted.";
    "ssl.endpoint.identification.algorithm": Kind::Choice(&["https", "none"]), "https", ALL, "Whether a broker's certificate has to be for the host that was connected to. `none` (or empty text) switches that off, and whoever has any certificate of the same authority can then read and change everything.";
    "ssl.enabled.protocols": Kind::List, "TLSv1.2,TLSv1.3", ALL, "The versions of TLS to use.";
    "request.timeout.ms": Kind::Int(1, i32::MAX as i64), "30000", ALL, "How long a broker may take to answer a request.";
    "default.api.timeout.ms": Kind::Int(1, i32::MAX as i64), "60000", ALL, "How long a call may take that names no timeout.";
    "socket.connection.setup.timeout.ms": Kind::Int(1, i32::MAX as i64), "10000", ALL, "How long a connection may take to stand.";
    "broker.version.fallback": Kind::Text, "auto", ALL, "What a broker is taken for that does not say its versions, as those before 0.10 do not: auto finds out with harmless questions; or a release from 0.8.0 on.";
    "api.version.request.timeout.ms": Kind::Int(1, i32::MAX as i64), "1000", ALL, "How long a broker may be silent about its versions until it is asked whether it is one before 0.10; 0.9 never answers.";
    "reconnect.backoff.ms": MS, "50", ALL, "First wait before connecting again; doubles with each failure.";
    "reconnect.backoff.max.ms": MS, "1000", ALL, "Longest wait before connecting again.";
    "retry.backoff.ms": MS, "100", ALL, "First wait before asking again; doubles with each failure.";
    "retry.backoff.max.ms": MS, "1000", ALL, "Longest wait before asking again.";
    "metadata.max.age.ms" or "topic.metadata.refresh.interval.ms": Kind::Int(1, i32::MAX as i64), "300000", ALL, "When what is known of the cluster is asked for again.";
    "metadata.recovery.strategy": Kind::Choice(&["rebootstrap"]), "rebootstrap", ALL, "What happens when no broker of the cluster answers, or one says so (KIP-899, KIP-1102): bootstrap.servers are asked again, their names looked up anew. Java's `none` would give up.";
    "allow.auto.create.topics": Kind::Bool, "true", &[Role::Producer, Role::Consumer], "Whether using a topic may create it, if the broker does so.";
    "acks" or "request.required.acks": Kind::Acks, "all", PRODUCER, "Who must have a record before it is acknowledged: all in-sync replicas, the leader (1), nobody (0); so many replicas, to brokers before 0.9.";
    "metadata.max.idle.ms": Kind::Int(5000, i32::MAX as i64), "300000", PRODUCER, "For how long a topic is kept known to which nothing is sent.";
    "linger.ms" or "queue.buffering.max.ms": MS, "0", PRODUCER, "How long a batch waits for more records. With 0 a lone record leaves at once, and batches grow while requests are in flight.";
    "batch.size": Kind::Int(128, 1 << 30), "131072", PRODUCER, "A batch of this size is sent without waiting, bytes.";
    "buffer.memory": BYTES, "67108864", PRODUCER, "Bytes of records that may wait or be in flight; sending waits when they are used up.";
    "drop.when.full": Kind::Bool, "false", PRODUCER, "Whether sending raises BufferFullError at once when the buffer is full, instead of waiting for room.";
    "max.block.ms": MS, "60000", PRODUCER, "How long sending may wait for room in the buffer, and a record for its topic to be known.";
    "max.request.size" or "message.max.bytes": Kind::Int(256, 1 << 30), "1048576", PRODUCER, "The largest request and record, bytes.";
    "compression.type" or "compression.codec": Kind::Choice(&["none", "gzip", "snappy", "lz4", "zstd"]), "none", PRODUCER, "How batches are compressed.";
    "compression.gzip.level": Kind::Int(-1, 9), "-1", PRODUCER, "How hard gzip works, from 1 to 9; -1 is its default.";
    "compression.zstd.level": Kind::Int(-131_072, 22), "3", PRODUCER, "How hard zstd works.";
    "delivery.timeout.ms" or "message.timeout.ms": Kind::Int(1, i32::MAX as i64), "120000", PRODUCER, "From sending to the outcome, retries included.";
    "retries" or "message.send.max.retries": Kind::Int(0, i32::MAX as i64), "2147483647", PRODUCER, "How often a batch is tried again within delivery.timeout.ms.";
    "enable.idempotence": Kind::Bool, "true", PRODUCER, "Whether the broker drops the duplicates of retries. Needs acks=all; off if acks is set otherwise and this is not.";
    "max.in.flight.requests.per.connection" or "max.in.flight": Kind::Int(1, 1000), "5", PRODUCER, "Requests that may wait for an answer of one broker; at most 5 with idempotence.";
    "partitioner" or "partitioner.class": Kind::Choice(Partitioner::NAMES), "murmur2_random", PRODUCER, "Which partition a record goes to that names none: by a hash of its key (murmur2 as the Java client, CRC-32 as librdkafka, FNV-1a as Sarama), or whatever the key to each in turn or to one for a batch. Records without a key stick to a partition for a batch.";
    "partitioner.adaptive.partitioning.enable": Kind::Bool, "true", PRODUCER, "Whether records that stick to a partition for a batch avoid those that are slow (KIP-794).";
    "transactional.id": Kind::Text, "", PRODUCER, "Who the producer is over restarts; makes transactions possible, and everything it sends part of one.";
    "transaction.timeout.ms": Kind::Int(1, i32::MAX as i64), "60000", PRODUCER, "After this time the broker aborts a transaction that was not ended.";
    "group.id": Kind::Text, "", CONSUMERS, "The group whose committed offsets are used; of a share consumer, the share group.";
    "auto.offset.reset": Kind::Reset, "latest", CONSUMER, "Where to start without a committed offset, or when the offset is gone; by_duration: at the first record that is no older, as by_duration:PT12H. smallest and beginning, largest and end, and error are taken, too.";
    "group.instance.id": Kind::Text, "", CONSUMER, "The name of a static member: it may restart within session.timeout.ms without a rebalance (KIP-345).";
    "group.protocol": Kind::Choice(&["classic", "consumer"]), "classic", CONSUMER, "Whether members assign partitions or, from Kafka 4.0 on, the coordinator does (KIP-848).";
    "group.remote.assignor": Kind::Text, "", CONSUMER, "The coordinator's assignor, uniform or range, with group.protocol=consumer; it chooses one by itself.";
    "partition.assignment.strategy": Kind::List, "range,cooperative-sticky", CONSUMER, "The assignors of a classic group, the preferred one first: range, roundrobin, sticky, cooperative-sticky.";
    "session.timeout.ms": MS, "45000", CONSUMER, "After how long without a heartbeat a member of a classic group is taken for dead; not with group.protocol=consumer, where the brokers decide it (the group's consumer.session.timeout.ms).";
    "heartbeat.interval.ms": Kind::Int(1, i32::MAX as i64), "3000", CONSUMER, "Between heartbeats of a member of a classic group; not with group.protocol=consumer, where the brokers decide it (the group's consumer.heartbeat.interval.ms).";
    "max.poll.interval.ms": Kind::Int(1, i32::MAX as i64), "300000", CONSUMER, "How long the reader may take between polls before its partitions go to other members.";
    "enable.auto.commit": Kind::Bool, "true", CONSUMER, "Whether offsets of records the reader is done with are committed in the background, if there is a group.";
    "auto.commit.interval.ms": Kind::Int(1, i32::MAX as i64), "5000", CONSUMER, "How often they are.";
    "offsets.retention.ms": Kind::Int(-1, 100 * 365 * 86_400_000), "-1", CONSUMER, "How long brokers keep offsets that are committed from now on, whatever their offsets.retention.minutes; -1 leaves it to that. Brokers take it from 0.9 on; not with group.protocol=consumer or group.instance.id.";
    "fetch.min.bytes": Kind::Int(0, i32::MAX as i64), "1", CONSUMERS, "Bytes the broker waits for before it answers.";
    "fetch.max.wait.ms" or "fetch.wait.max.ms": MS, "500", CONSUMERS, "How long it waits for them.";
    "fetch.max.bytes": Kind::Int(1, i32::MAX as i64), "52428800", CONSUMERS, "Bytes of one answer, about.";
    "max.partition.fetch.bytes" or "fetch.message.max.bytes": Kind::Int(1, i32::MAX as i64), "1048576", CONSUMER, "Bytes of one partition in an answer, about.";
    "queued.max.bytes": BYTES, "67108864", CONSUMER, "Bytes fetched ahead of the reader over all partitions, about.";
    "max.poll.records": Kind::Int(1, i32::MAX as i64), "500", CONSUMERS, "Records of one poll, at most.";
    "check.crcs": Kind::Bool, "true", CONSUMERS, "Whether checksums of batches are checked.";
    "isolation.level": Kind::Choice(&["read_uncommitted", "read_committed"]), "read_uncommitted", CONSUMER, "Whether records of transactions that were given up or are undecided are kept back.";
    "client.rack": Kind::Text, "", CONSUMERS, "Where the client stands.";
    "share.acknowledgement.mode": Kind::Choice(&["implicit", "explicit"]), "implicit", SHARE, "Whether records are accepted when the reader asks for more, unless it said otherwise, or each has to be acknowledged.";
    "share.acquire.mode": Kind::Choice(&["batch_optimized", "record_limit"]), "batch_optimized", SHARE, "Whether brokers hand out whole batches, or never more than max.poll.records at a time (KIP-1206).";
}

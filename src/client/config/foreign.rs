//! The options of other clients that klamm does not have: librdkafka's, the Java client's, and those of clients that
//! follow the two. Each option is either ignored or rejected, with a reason.
//!
//! klamm ignores an option if a program works the same without it, for example an option that sizes a buffer of another
//! client. klamm rejects an option that affects which records the program sends or reads, security, or a callback: if
//! klamm ignored such an option, a user might notice the difference only in production. In this file, texts contain
//! klamm's keys in braces. A message shows klamm's keys in the style of the caller, with dots or with underscores.

use super::keys::ClientType;

/// Options of other clients that klamm treats alike.
#[derive(Debug)]
pub struct ForeignOption {
    /// The names of the options.
    pub names: &'static [&'static str],
    /// The types of clients that have these options.
    pub clients: &'static [ClientType],
    treatment: Treatment,
    hint: &'static str,
}

#[derive(Debug)]
enum Treatment {
    /// klamm ignores the option. The text says why.
    Ignore,
    /// klamm rejects the option. The text says what to use instead.
    Reject,
    /// klamm ignores the option if it has one of these values, and otherwise rejects it.
    RejectExcept(&'static [&'static str]),
}

impl ForeignOption {
    /// Returns why klamm ignores the option, or what to use instead. `spell` formats the names of klamm's keys.
    pub fn hint(&self, spell: impl Fn(&str) -> String) -> String {
        let mut parts = self.hint.split('{');
        let mut text = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (key, rest) = part.split_once('}').unwrap_or((part, ""));
            text += &spell(key);
            text += rest;
        }
        text
    }

    /// Returns whether klamm ignores the option, whatever its value is.
    pub fn is_ignored(&self) -> bool {
        matches!(self.treatment, Treatment::Ignore)
    }

    /// Returns the values with which klamm ignores an option that it otherwise rejects.
    pub fn ignored_values(&self) -> &'static [&'static str] {
        match self.treatment {
            Treatment::RejectExcept(values) => values,
            _ => &[],
        }
    }

    /// Returns whether klamm ignores the option only because it has this value.
    pub(super) fn ignores(&self, value: Option<&str>) -> bool {
        let is_known = |value: &str| self.ignored_values().iter().any(|known| known.eq_ignore_ascii_case(value));
        value.is_some_and(|value| is_known(value.trim()))
    }
}

/// Returns the option of other clients with this name, in dots.
pub(super) fn find(client: ClientType, name: &str) -> Option<&'static ForeignOption> {
    FOREIGN_OPTIONS.iter().find(|option| option.clients.contains(&client) && option.names.contains(&name))
}

/// Returns the types of clients that have an option of other clients with this name.
pub(super) fn clients(name: &str) -> &'static [ClientType] {
    FOREIGN_OPTIONS.iter().find(|option| option.names.contains(&name)).map_or(&[], |option| option.clients)
}

const PRODUCER: &[ClientType] = &[ClientType::Producer];
const CONSUMER: &[ClientType] = &[ClientType::Consumer];
const SHARE: &[ClientType] = &[ClientType::ShareConsumer];
const READERS: &[ClientType] = &[ClientType::Consumer, ClientType::ShareConsumer];
const ALL: &[ClientType] = &[ClientType::Producer, ClientType::Consumer, ClientType::ShareConsumer, ClientType::Admin];

macro_rules! treatment {
    (ignore) => {
        Treatment::Ignore
    };
    (reject) => {
        Treatment::Reject
    };
    (reject $values:expr) => {
        Treatment::RejectExcept(&$values)
    };
}

macro_rules! options {
    ($($treatment:ident $([$($value:literal),+])? $($name:literal)+: $clients:expr, $hint:literal;)*) => {
        /// The options of other clients that klamm does not have.
        pub static FOREIGN_OPTIONS: &[ForeignOption] = &[$( ForeignOption {
            names: &[$($name),+],
            clients: $clients,
            treatment: treatment!($treatment $([$($value),+])?),
            hint: $hint,
        }, )*];
    };
}

options! {
    reject "queue.buffering.max.kbytes": PRODUCER, "use {buffer.memory}, which is in bytes: multiply the value by 1024";
    reject "queue.buffering.max.messages": PRODUCER, "klamm limits bytes, not records: use {buffer.memory}";
    ignore "queue.buffering.backpressure.threshold" "queuing.strategy": PRODUCER, "batches grow while {max.in.flight.requests.per.connection} requests are in flight, and the producer sends batches in order";
    reject "batch.num.messages": PRODUCER, "klamm limits the bytes of a batch, not its records: use {batch.size}";
    reject "max.batch.size": PRODUCER, "use {batch.size}, in bytes";
    ignore "sticky.partitioning.linger.ms": PRODUCER, "records without a key move to another partition after {batch.size} bytes";
    reject ["-1"] "compression.level": PRODUCER, "each codec has its own scale: use {compression.gzip.level} or {compression.zstd.level}; snappy and lz4 have none";
    ignore "compression.lz4.level" "compression.snappy.level": PRODUCER, "klamm has only one level for each of these codecs";
    reject ["false"] "partitioner.ignore.keys": PRODUCER, "use {partitioner}=uniform";
    ignore "partitioner.availability.timeout.ms" "partitioner.rack.aware": PRODUCER, "{partitioner.adaptive.partitioning.enable} avoids partitions with waiting batches";
    reject "partitioner.cb" "msg.order.cmp": PRODUCER, "pass a function of topic, key, value and the number of partitions as `partitioner`";
    ignore "message.copy.max.bytes": PRODUCER, "klamm copies a value only once, when the program sends the record";
    reject ["false"] "enable.gapless.guarantee": PRODUCER, "remove this option: if a batch fails, an idempotent producer continues with a new epoch and still sends the later batches";
    reject ["false"] "delivery.report.only.error": PRODUCER, "pass a function as `on_error` for failures only";
    reject "dr.cb" "dr.msg.cb" "on.delivery": PRODUCER, "pass a function as `on_delivery`; for failures of send_nowait only, pass a function as `on_error`";
    ignore "produce.offset.report": PRODUCER, "every acknowledgement has the offset";
    reject "key.serializer" "value.serializer" "serializer.class" "key.serializer.class": PRODUCER, "klamm runs no Java classes: pass functions as `key_serializer` and `value_serializer`";
    reject "interceptor.classes": PRODUCER, "klamm runs no Java classes: pass objects with on_send or on_delivery as `interceptors`";
    reject ["false"] "transaction.two.phase.commit.enable": PRODUCER, "klamm does not support two-phase commit (KIP-939)";
    reject "block.on.buffer.full" "queue.enqueue.timeout.ms": PRODUCER, "use {max.block.ms}, in milliseconds, or {drop.when.full}=true to fail without waiting";
    reject "metadata.fetch.timeout.ms" "topic.metadata.propagation.max.ms": PRODUCER, "use {max.block.ms}, in milliseconds, which limits the wait for the metadata of a topic";
    reject "timeout.ms": PRODUCER, "use {request.timeout.ms} for one request, or {delivery.timeout.ms} for a record with its retries, both in milliseconds";
    reject "producer.type": PRODUCER, "remove this option: use `send`, which returns a Delivery to wait for, or `send_nowait`, which returns nothing";
    reject "auto.commit.enable": CONSUMER, "use {enable.auto.commit}";
    reject ["true"] "enable.auto.offset.store": CONSUMER, "remove this option: the next poll marks records as handled; use commit(offsets) to commit other offsets";
    reject "on.commit" "offset.commit.cb": CONSUMER, "pass the function to commit_nowait(on_commit=...)";
    reject "on.rebalance" "rebalance.cb": CONSUMER, "pass the function to subscribe(topics, on_rebalance=...)";
    reject ["false"] "enable.partition.eof": CONSUMER, "remove this option: lag() returns the number of remaining records, and assign() accepts end offsets";
    reject "pattern": CONSUMER, "pass the pattern to subscribe(pattern=...)";
    reject "topic": READERS, "pass a list as the argument `topics`";
    reject "consumer.timeout.ms": READERS, "remove this option: poll(timeout=seconds) returns an empty result after the timeout";
    reject "fetch.error.backoff.ms": READERS, "use {retry.backoff.ms}, in milliseconds";
    reject "max.partition.bytes": CONSUMER, "use {max.partition.fetch.bytes}";
    reject "receive.message.max.bytes": READERS, "use {fetch.max.bytes}";
    reject "queued.max.messages.kbytes": CONSUMER, "use {queued.max.bytes}, which is in bytes: multiply the value by 1024";
    reject "queued.min.messages": CONSUMER, "klamm limits the bytes that it fetches ahead, not the records: use {queued.max.bytes}";
    reject "key.deserializer" "value.deserializer": READERS, "klamm runs no Java classes: pass functions as `key_deserializer` and `value_deserializer`";
    reject "interceptor.classes": CONSUMER, "klamm runs no Java classes: pass objects with on_consume or on_commit as `interceptors`";
    reject "interceptor.classes": SHARE, "klamm runs no Java classes: pass objects with on_consume or on_acknowledge as `interceptors`";
    reject ["true"] "enable.ssl.certificate.verification": ALL, "klamm always checks certificates: set {ssl.ca.location} to the CA certificate of the brokers";
    ignore "metadata.recovery.rebootstrap.trigger.ms": ALL, "klamm returns to {bootstrap.servers} as soon as no broker of the cluster answers";
    reject "socket.timeout.ms": ALL, "use {request.timeout.ms}, in milliseconds";
    reject "topic.metadata.refresh.fast.interval.ms": ALL, "use {retry.backoff.ms}, in milliseconds";
    ignore "metric.reporters" "metrics.num.samples" "metrics.recording.level" "metrics.sample.window.ms": ALL, "`metrics()` of a client, `klamm.prometheus` and `klamm.otel` report metrics";
    ignore "socket.send.buffer.bytes" "socket.receive.buffer.bytes" "send.buffer.bytes" "receive.buffer.bytes" "socket.nagle.disable": ALL, "the operating system sizes socket buffers, and klamm disables Nagle's algorithm";
    reject ["true"] "api.version.request": ALL, "use {broker.version.fallback}, which only brokers before Kafka 0.10 need";
    ignore "api.version.fallback.ms": ALL, "klamm asks each broker for its versions, and {broker.version.fallback} is for brokers before Kafka 0.10";
    reject "api.version": ALL, "use {broker.version.fallback}, which only brokers before Kafka 0.10 need";
    reject "api.version.auto.timeout.ms": ALL, "use {api.version.request.timeout.ms}, in milliseconds";
    reject "sasl.plain.username" "sasl.plain.password": ALL, "use {sasl.username} and {sasl.password}";
    reject "ssl.cafile" "ssl.certfile" "ssl.keyfile" "ssl.password" "ssl.context": ALL, "use {ssl.ca.location}, {ssl.certificate.location}, {ssl.key.location} and {ssl.key.password}, with PEM files";
    reject ["true"] "ssl.check.hostname": ALL, "set {ssl.endpoint.identification.algorithm} to https or none";
    ignore "buffer.memory.allocation.strategy": PRODUCER, "the buffer grows as records need memory, up to {buffer.memory}";
    ignore "internal.throw.on.fetch.stable.offset.unsupported": CONSUMER, "klamm waits for stable offsets if the brokers support them";
    reject ["true"] "exclude.internal.topics": CONSUMER, "a pattern never matches Kafka's internal topics; subscribe to them by name";
    ignore "coordinator.query.interval.ms" "group.protocol.type": CONSUMER, "klamm looks up the coordinator when it is needed";
    ignore "consume.callback.max.messages" "fetch.queue.backoff.ms": CONSUMER, "{max.poll.records} and {queued.max.bytes} limit what the consumer reads ahead";
    reject ["broker"] "offset.store.method": CONSUMER, "klamm commits offsets only to brokers";
    ignore "offset.store.path" "offset.store.sync.interval.ms": CONSUMER, "klamm commits offsets only to brokers";
    reject "consume.cb": CONSUMER, "iterate over the consumer, or call poll()";
    reject "topic.blacklist": CONSUMER, "pass a pattern to subscribe(pattern=...) that does not match these topics";
    ignore "bootstrap.resolve.timeout.ms" "broker.address.ttl": ALL, "klamm resolves host names again for each connection, within {socket.connection.setup.timeout.ms}";
    reject ["use_all_dns_ips", "default"] "client.dns.lookup": ALL, "leave this option out: klamm tries all addresses of a host name";
    reject ["any"] "broker.address.family": ALL, "leave this option out: klamm tries all IPv4 and IPv6 addresses of a host name";
    ignore "metadata.cluster.check.enable": ALL, "klamm does not tell brokers which cluster it expects";
    ignore "socket.connection.setup.timeout.max.ms": ALL, "each attempt to connect has {socket.connection.setup.timeout.ms}";
    ignore "socket.max.fails" "socket.blocking.max.ms" "reconnect.backoff.jitter.ms": ALL, "klamm closes a connection on which a response is late, and waits between {reconnect.backoff.ms} and {reconnect.backoff.max.ms}";
    ignore "topic.metadata.refresh.fast.cnt" "topic.metadata.refresh.sparse": ALL, "klamm requests only the metadata of topics that it uses";
    ignore "log.connection.close" "log.queue" "log.thread.name": ALL, "{logger} and {log.level} decide about log lines";
    ignore "builtin.features" "enable.random.seed" "enabled.events" "internal.termination.signal" "opaque": ALL, "only librdkafka has what this option controls";
    ignore "auto.include.jmx.reporter" "security.providers": ALL, "only Java has what this option controls";
    reject "background.event.cb" "closesocket.cb" "connect.cb" "interceptors" "open.cb" "plugin.library.paths" "resolve.cb" "socket.cb": ALL, "klamm calls no C functions; remove this option";
    reject "throttle.cb": ALL, "`metrics()` of a client has the throttle times";
    reject "log.cb": ALL, "pass a logger of Python's logging as {logger}";
    reject "default.topic.conf": ALL, "write its keys into the dict of the client";
    reject "config.providers": ALL, "klamm runs no Java classes: put the values themselves into the configuration";
    reject "oauthbearer.token.refresh.cb" "sasl.oauthbearer.config": ALL, "pass a function that returns a token as {sasl.oauth.token.provider}";
    reject ["false"] "enable.sasl.oauthbearer.unsecure.jwt": ALL, "klamm makes no unsigned tokens: pass a function that returns a token as {sasl.oauth.token.provider}";
    reject ["org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler", "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler"] "sasl.login.callback.handler.class": ALL, "klamm runs no Java classes: use {sasl.oauthbearer.method}, or pass a function that returns a token as {sasl.oauth.token.provider}";
    reject ["software.amazon.msk.auth.iam.IAMClientCallbackHandler"] "sasl.client.callback.handler.class": ALL, "klamm runs no Java classes: use {sasl.oauthbearer.method}, which can also get tokens for AWS (aws-msk-iam)";
    reject ["org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever", "org.apache.kafka.common.security.oauthbearer.ClientCredentialsJwtRetriever"] "sasl.oauthbearer.jwt.retriever.class": ALL, "klamm runs no Java classes: use {sasl.oauthbearer.method}, or pass a function that returns a token as {sasl.oauth.token.provider}";
    reject "sasl.login.class": ALL, "klamm runs no Java classes: use {sasl.oauthbearer.method}, which can also get tokens for AWS (aws-msk-iam)";
    ignore "sasl.login.connect.timeout.ms" "sasl.login.read.timeout.ms": ALL, "klamm limits the whole call to the token endpoint";
    ignore "sasl.login.refresh.buffer.seconds" "sasl.login.refresh.min.period.seconds" "sasl.login.refresh.window.factor" "sasl.login.refresh.window.jitter" "sasl.login.retry.backoff.max.ms" "sasl.login.retry.backoff.ms": ALL, "klamm requests the next token after 80 % of a token's lifetime, and decides itself when to retry";
    ignore "sasl.oauthbearer.allow.unverified.audience" "sasl.oauthbearer.allow.unverified.issuer" "sasl.oauthbearer.clock.skew.seconds" "sasl.oauthbearer.expected.audience" "sasl.oauthbearer.expected.issuer" "sasl.oauthbearer.jwks.endpoint.refresh.ms" "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms" "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms" "sasl.oauthbearer.jwks.endpoint.url" "sasl.oauthbearer.jwt.validator.class" "sasl.oauthbearer.scope.claim.name" "sasl.oauthbearer.sub.claim.name": ALL, "brokers check a token, and klamm reads only its lifetime";
    reject ["false"] "sasl.oauthbearer.header.urlencode": ALL, "leave this option out: klamm sends the client ID and the secret without URL encoding; encode them in {sasl.oauthbearer.client.id} and {sasl.oauthbearer.client.secret} if the token endpoint requires it";
    reject "sasl.oauthbearer.assertion.algorithm" "sasl.oauthbearer.assertion.claim.aud" "sasl.oauthbearer.assertion.claim.exp.seconds" "sasl.oauthbearer.assertion.claim.iss" "sasl.oauthbearer.assertion.claim.jti.include" "sasl.oauthbearer.assertion.claim.nbf.seconds" "sasl.oauthbearer.assertion.claim.sub" "sasl.oauthbearer.assertion.private.key.file" "sasl.oauthbearer.assertion.private.key.passphrase" "sasl.oauthbearer.assertion.private.key.pem" "sasl.oauthbearer.assertion.template.file" "sasl.oauthbearer.assertion.jwt.template.file": ALL, "klamm signs no assertions: use {sasl.oauthbearer.assertion.file}, or pass a function that returns a token as {sasl.oauth.token.provider}";
    reject ["none"] "sasl.oauthbearer.metadata.authentication.type": ALL, "pass a function that returns a token as {sasl.oauth.token.provider}";
    ignore "sasl.kerberos.kinit.cmd" "sasl.kerberos.min.time.before.relogin" "sasl.kerberos.ticket.renew.jitter" "sasl.kerberos.ticket.renew.window.factor": ALL, "klamm runs no kinit: it uses the ticket cache, or gets a ticket with {sasl.kerberos.keytab}";
    ignore "ssl.keymanager.algorithm" "ssl.protocol" "ssl.provider" "ssl.secure.random.implementation" "ssl.trustmanager.algorithm": ALL, "klamm uses no Java classes for TLS; {ssl.enabled.protocols} chooses the versions";
    reject "ssl.engine.factory.class" "ssl.certificate.verify.cb" "ssl.engine.callback.data" "ssl.engine.id" "ssl.engine.location" "ssl.providers": ALL, "klamm has its own TLS, and always checks certificates: use {ssl.ca.location}, {ssl.certificate.location} and {ssl.key.location}";
    reject "ssl.cipher.suites" "ssl.curves.list" "ssl.sigalgs.list": ALL, "leave this option out: klamm always offers the cipher suites of TLS 1.3, and those of TLS 1.2 with forward secrecy";
    reject "ssl.crl.location": ALL, "klamm does not check revocation lists";
    reject "ssl.ca.certificate.stores": ALL, "set {ssl.ca.location} to a PEM file; by default, klamm trusts the certificates of the system";
    reject "ssl.ca" "ssl.certificate" "ssl.key": ALL, "use {ssl.ca.pem}, {ssl.certificate.pem} and {ssl.key.pem}";
    reject "ssl.keystore.password" "ssl.truststore.password": ALL, "klamm reads PEM files, whose private key has {ssl.key.password}; docs/security.md shows how to convert JKS and PKCS #12";
}

#[cfg(test)]
mod tests {
    use super::super::keys::KEYS;
    use super::*;

    #[test]
    fn texts_name_existing_keys_and_no_option_has_two_meanings() {
        for option in FOREIGN_OPTIONS {
            option.hint(|key| {
                let known = KEYS.iter().find(|k| k.name == key).unwrap_or_else(|| panic!("{key}: {}", option.hint));
                let lacks = option.clients.iter().find(|client| !known.clients.contains(client));
                assert_eq!(lacks, None, "{key}");
                String::new()
            });
            for name in option.names {
                assert!(!KEYS.iter().any(|k| k.name == *name || k.aliases.contains(name)), "{name}");
                for client in option.clients {
                    let same = FOREIGN_OPTIONS.iter().filter(|o| o.names.contains(name) && o.clients.contains(client));
                    assert_eq!(same.count(), 1, "{name}");
                }
            }
        }
    }

    #[test]
    fn a_value_decides_about_some_options() {
        let lookup = find(ClientType::Admin, "client.dns.lookup").unwrap();
        assert!(lookup.ignores(Some("use_all_dns_ips")));
        assert!(!lookup.ignores(Some("resolve_canonical_bootstrap_servers_only")) && !lookup.ignores(None));
        assert!(find(ClientType::Admin, "log.connection.close").unwrap().is_ignored());
        assert!(find(ClientType::Consumer, "queuing.strategy").is_none());
    }
}

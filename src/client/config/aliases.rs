//! Hints for options and values of other Kafka clients that klamm has under another name, in another unit, or not at
//! all.
//!
//! If an option of another client has the same meaning as a key of klamm, `keys.rs` lists the option's name as an
//! alias. Values that mean the same as a value of klamm are in [`VALUE_ALIASES`]. klamm rejects the options in
//! [`REJECTED_OPTIONS`], and the error contains a hint. If klamm accepted an option whose meaning differs, a user might
//! notice the difference only in production. In this file, hints contain klamm's keys in braces. The error message
//! shows klamm's keys in the style of the caller, with dots or with underscores.

use super::keys::{ClientType, KEYS};
use std::collections::BTreeSet;

/// Options of other clients that klamm rejects with the same hint.
#[derive(Debug)]
pub struct RejectedOption {
    /// The names of the options.
    pub names: &'static [&'static str],
    /// The types of clients that have these options.
    pub clients: &'static [ClientType],
    hint: &'static str,
}

impl RejectedOption {
    /// Returns the hint, which contains the dotted names of keys.
    pub fn hint(&self) -> String {
        spelt(self.hint, str::to_owned)
    }
}

/// Returns a suggestion for an unknown option: the hint for an option of another client, or the key with the most
/// similar name. `spell` formats the names of klamm's keys.
pub fn suggestion(client: ClientType, name: &str, spell: impl Fn(&str) -> String) -> Option<String> {
    // Some options of librdkafka have underscores in dicts, too.
    let name = name.replace('_', ".");
    let name = name.strip_prefix(SPARK).unwrap_or(&name);
    let alias = REJECTED_OPTIONS.iter().find(|f| f.clients.contains(&client) && f.names.contains(&name));
    match alias {
        Some(alias) => Some(spelt(alias.hint, spell)),
        None => nearest(client, name).map(|key| format!("did you mean {}?", spell(key))),
    }
}

/// Returns the key that begins with this word, if there is only one. Otherwise, returns the key whose name differs in
/// few letters, or the key that has at least half of all words in common with this name.
fn nearest(client: ClientType, name: &str) -> Option<&'static str> {
    let keys = || KEYS.iter().filter(|key| key.clients.contains(&client));
    let mut begun = keys().filter(|key| key.name.strip_prefix(name).is_some_and(|rest| rest.starts_with('.')));
    if let (Some(only), None) = (begun.next(), begun.next()) {
        return Some(only.name);
    }
    let names = keys().flat_map(|key| key.aliases.iter().copied().chain([key.name]));
    let apart = |key: &str| strsim::damerau_levenshtein(key, name);
    let few = names.map(|key| (apart(key), key)).min().filter(|(apart, key)| *apart <= key.len() / 3);
    few.map(|(_, key)| key).or_else(|| {
        let words: BTreeSet<&str> = name.split('.').collect();
        let alike = keys().filter_map(|key| {
            let own: BTreeSet<&str> = key.name.split('.').collect();
            let (both, either) = (own.intersection(&words).count(), own.union(&words).count());
            (2 * both >= either).then_some((key.name, both * 100 / either))
        });
        alike.max_by_key(|(key, alike)| (*alike, std::cmp::Reverse(apart(key)))).map(|(key, _)| key)
    })
}

/// Values of other clients that klamm accepts. Each entry has the key, the other client's value, and klamm's value.
pub static VALUE_ALIASES: &[(&str, &str, &str)] = &[
    // Kafka 4.0 removed this class and the third one. Its default without a class does the same.
    (PARTITIONER, "org.apache.kafka.clients.producer.internals.DefaultPartitioner", "murmur2_random"),
    (PARTITIONER, "org.apache.kafka.clients.producer.RoundRobinPartitioner", "round_robin"),
    (PARTITIONER, "org.apache.kafka.clients.producer.UniformStickyPartitioner", "uniform"),
    (RESET, "smallest", "earliest"),
    (RESET, "beginning", "earliest"),
    (RESET, "largest", "latest"),
    (RESET, "end", "latest"),
    (RESET, "error", "none"),
];

/// Returns klamm's value that means the same as a value of another client.
pub(super) fn same_value(key: &str, value: &str) -> Option<&'static str> {
    VALUE_ALIASES.iter().find(|(of, theirs, _)| *of == key && *theirs == value).map(|(_, _, ours)| *ours)
}

/// Returns a hint for a value of another client that klamm rejects.
pub(super) fn value_hint(key: &str, value: &str) -> Option<&'static str> {
    match (key, value) {
        (PARTITIONER, "murmur2") => Some(
            "murmur2 would send all records without a key to one partition; use murmur2_random, which spreads these records and is otherwise the same",
        ),
        (PARTITIONER, "consistent") => Some(
            "consistent would send all records without a key to one partition; use consistent_random, which spreads these records and is otherwise the same",
        ),
        (PARTITIONER, "fnv1a") => Some(
            "fnv1a would send all records without a key to one partition; use fnv1a_random, which spreads these records and is otherwise the same",
        ),
        (PARTITIONER, "random") => Some(
            "use uniform, which picks a random partition per batch instead of per record, and ignores keys as well",
        ),
        (PARTITIONER, class) if class.contains('.') => Some(
            "klamm runs no Java classes; it accepts the full names of DefaultPartitioner, RoundRobinPartitioner and UniformStickyPartitioner, or a Python function",
        ),
        _ => None,
    }
}

fn spelt(hint: &str, spell: impl Fn(&str) -> String) -> String {
    let mut parts = hint.split('{');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (key, rest) = part.split_once('}').unwrap_or((part, ""));
        text += &spell(key);
        text += rest;
    }
    text
}

/// The prefix of Kafka client options in Spark.
const SPARK: &str = "kafka.";
const PARTITIONER: &str = "partitioner";
const RESET: &str = "auto.offset.reset";
const PRODUCER: &[ClientType] = &[ClientType::Producer];
const CONSUMER: &[ClientType] = &[ClientType::Consumer];
const SHARE: &[ClientType] = &[ClientType::ShareConsumer];
const READERS: &[ClientType] = &[ClientType::Consumer, ClientType::ShareConsumer];
const ALL: &[ClientType] = &[ClientType::Producer, ClientType::Consumer, ClientType::ShareConsumer, ClientType::Admin];

macro_rules! alias {
    ($($($name:literal)+: $clients:expr, $hint:literal;)*) => {
        /// The options of other clients that klamm rejects.
        pub static REJECTED_OPTIONS: &[RejectedOption] = &[$( RejectedOption { names: &[$($name),+], clients: $clients, hint: $hint }, )*];
    };
}

alias! {
    "queue.buffering.max.kbytes": PRODUCER, "use {buffer.memory}, which is in bytes: multiply the value by 1024";
    "queue.buffering.max.messages": PRODUCER, "klamm limits bytes, not records: use {buffer.memory}";
    "queue.buffering.backpressure.threshold" "queuing.strategy": PRODUCER, "remove this option: batches grow while {max.in.flight.requests.per.connection} requests are in flight, and the producer sends batches in order";
    "batch.num.messages": PRODUCER, "klamm limits the bytes of a batch, not its records: use {batch.size}";
    "max.batch.size": PRODUCER, "use {batch.size}, in bytes";
    "sticky.partitioning.linger.ms": PRODUCER, "remove this option: records without a key move to another partition after {batch.size} bytes";
    "compression.level": PRODUCER, "each codec has its own scale: use {compression.gzip.level} or {compression.zstd.level}; snappy and lz4 have none";
    "compression.lz4.level" "compression.snappy.level": PRODUCER, "remove this option: klamm has only one level for each of these codecs";
    "partitioner.ignore.keys": PRODUCER, "use {partitioner}=uniform";
    "partitioner.availability.timeout.ms" "partitioner.rack.aware": PRODUCER, "remove this option: {partitioner.adaptive.partitioning.enable} avoids partitions with waiting batches";
    "partitioner.cb" "msg.order.cmp": PRODUCER, "pass a function of topic, key, value and the number of partitions as `partitioner`";
    "message.copy.max.bytes": PRODUCER, "remove this option: klamm copies a value only once, when the program sends the record";
    "enable.gapless.guarantee": PRODUCER, "remove this option: if a batch fails, an idempotent producer continues with a new epoch and still sends the later batches";
    "delivery.report.only.error" "dr.cb" "dr.msg.cb" "on.delivery": PRODUCER, "pass a function as `on_delivery`; for failures of send_nowait only, pass a function as `on_error`";
    "produce.offset.report": PRODUCER, "remove this option: every acknowledgement has the offset";
    "key.serializer" "value.serializer" "serializer.class" "key.serializer.class": PRODUCER, "klamm runs no Java classes: pass functions as `key_serializer` and `value_serializer`";
    "interceptor.classes": PRODUCER, "klamm runs no Java classes: pass objects with on_send or on_delivery as `interceptors`";
    "transaction.two.phase.commit.enable": PRODUCER, "klamm does not support two-phase commit (KIP-939)";
    "block.on.buffer.full" "queue.enqueue.timeout.ms": PRODUCER, "use {max.block.ms}, in milliseconds, or {drop.when.full}=true to fail without waiting";
    "metadata.fetch.timeout.ms" "topic.metadata.propagation.max.ms": PRODUCER, "use {max.block.ms}, in milliseconds, which limits the wait for the metadata of a topic";
    "timeout.ms": PRODUCER, "use {request.timeout.ms} for one request, or {delivery.timeout.ms} for a record with its retries, both in milliseconds";
    "producer.type": PRODUCER, "remove this option: use `send`, which returns a Delivery to wait for, or `send_nowait`, which returns nothing";
    "auto.commit.enable": CONSUMER, "use {enable.auto.commit}";
    "enable.auto.offset.store": CONSUMER, "remove this option: the next poll marks records as handled; use commit(offsets) to commit other offsets";
    "on.commit" "offset.commit.cb": CONSUMER, "pass the function to commit_nowait(on_commit=...)";
    "on.rebalance" "rebalance.cb": CONSUMER, "pass the function to subscribe(topics, on_rebalance=...)";
    "enable.partition.eof": CONSUMER, "remove this option: lag() returns the number of remaining records, and assign() accepts end offsets";
    "pattern": CONSUMER, "pass the pattern to subscribe(pattern=...)";
    "topic": READERS, "pass a list as the argument `topics`";
    "consumer.timeout.ms": READERS, "remove this option: poll(timeout=seconds) returns an empty result after the timeout";
    "fetch.error.backoff.ms": READERS, "use {retry.backoff.ms}, in milliseconds";
    "max.partition.bytes": CONSUMER, "use {max.partition.fetch.bytes}";
    "receive.message.max.bytes": READERS, "use {fetch.max.bytes}";
    "queued.max.messages.kbytes": CONSUMER, "use {queued.max.bytes}, which is in bytes: multiply the value by 1024";
    "queued.min.messages": CONSUMER, "klamm limits the bytes that it fetches ahead, not the records: use {queued.max.bytes}";
    "key.deserializer" "value.deserializer": READERS, "klamm runs no Java classes: pass functions as `key_deserializer` and `value_deserializer`";
    "interceptor.classes": CONSUMER, "klamm runs no Java classes: pass objects with on_consume or on_commit as `interceptors`";
    "interceptor.classes": SHARE, "klamm runs no Java classes: pass objects with on_consume or on_acknowledge as `interceptors`";
    "enable.ssl.certificate.verification": ALL, "klamm always checks certificates: set {ssl.ca.location} to the CA certificate of the brokers";
    "sasl.kerberos.kinit.cmd": ALL, "klamm runs no kinit: use {sasl.kerberos.keytab}";
    "metadata.recovery.rebootstrap.trigger.ms": ALL, "remove this option: klamm returns to {bootstrap.servers} as soon as no broker of the cluster answers";
    "socket.timeout.ms": ALL, "use {request.timeout.ms}, in milliseconds";
    "topic.metadata.refresh.fast.interval.ms": ALL, "use {retry.backoff.ms}, in milliseconds";
    "metric.reporters" "metrics.num.samples" "metrics.recording.level" "metrics.sample.window.ms": ALL, "call `metrics()` of the client, or use `klamm.prometheus` or `klamm.otel`";
    "socket.send.buffer.bytes" "socket.receive.buffer.bytes" "send.buffer.bytes" "receive.buffer.bytes" "socket.nagle.disable": ALL, "remove this option: the operating system sizes socket buffers, and klamm disables Nagle's algorithm";
    "api.version.request" "api.version.fallback.ms" "api.version": ALL, "use {broker.version.fallback}, which only brokers before Kafka 0.10 need";
    "api.version.auto.timeout.ms": ALL, "use {api.version.request.timeout.ms}, in milliseconds";
    "sasl.plain.username" "sasl.plain.password": ALL, "use {sasl.username} and {sasl.password}";
    "ssl.cafile" "ssl.certfile" "ssl.keyfile" "ssl.password" "ssl.context": ALL, "use {ssl.ca.location}, {ssl.certificate.location}, {ssl.key.location} and {ssl.key.password}, with PEM files";
    "ssl.check.hostname": ALL, "set {ssl.endpoint.identification.algorithm} to https or none";
}

#[cfg(test)]
mod tests {
    use super::super::keys::KEYS;
    use super::*;

    #[test]
    fn hints_name_existing_keys_and_no_option_is_both_accepted_and_rejected() {
        for alias in REJECTED_OPTIONS {
            spelt(alias.hint, |key| {
                let known = KEYS.iter().find(|k| k.name == key).unwrap_or_else(|| panic!("{key}: {}", alias.hint));
                let lacks = alias.clients.iter().find(|client| !known.clients.contains(client));
                assert_eq!(lacks, None, "{key}");
                String::new()
            });
            for name in alias.names {
                assert!(!KEYS.iter().any(|k| k.name == *name || k.aliases.contains(name)), "{name}");
            }
        }
    }

    #[test]
    fn a_hint_is_spelt_as_the_caller_spells() {
        let hint = suggestion(ClientType::Producer, "batch.num.messages", |key| key.replace('.', "_"));
        assert_eq!(hint.as_deref(), Some("klamm limits the bytes of a batch, not its records: use batch_size"));
        assert_eq!(suggestion(ClientType::Consumer, "batch.num.messages", str::to_owned), None);
    }

    #[test]
    fn keys_are_found_by_letters_and_by_words() {
        for (name, near) in [
            ("fetch.min.byte", Some("did you mean fetch.min.bytes?")),
            ("kafka_fetch_min_bytes", Some("did you mean fetch.min.bytes?")),
            ("isolation", Some("did you mean isolation.level?")),
            ("max.records", Some("did you mean max.poll.records?")),
            ("offset.reset", Some("did you mean auto.offset.reset?")),
            ("pattern", Some("pass the pattern to subscribe(pattern=...)")),
            ("zzz", None),
        ] {
            assert_eq!(suggestion(ClientType::Consumer, name, str::to_owned).as_deref(), near, "{name}");
        }
    }
}

//! What other clients call things: options and values that klamm has under another name, in another unit, or not at all.
//!
//! Names that mean the same are aliases in `keys.rs`, and values that do are [`same_value`]'s. Everything else is refused
//! with a hint, because an option that is taken and does something else is found out in production. In a hint a key of
//! klamm's stands in braces, so that it is spelt as the caller spells: with dots, or with underscores.

use super::keys::{KEYS, Role};
use std::collections::BTreeSet;

/// Options that klamm does not have.
#[derive(Debug)]
pub struct Foreign {
    /// Their names.
    pub names: &'static [&'static str],
    /// The clients that have them elsewhere.
    pub roles: &'static [Role],
    hint: &'static str,
}

impl Foreign {
    /// What to use instead, with keys in dots.
    pub fn hint(&self) -> String {
        spelt(self.hint, str::to_owned)
    }
}

/// What may have been meant by an option that klamm does not have: of another client, or one spelt almost as it is.
/// `spell` writes klamm's keys.
pub fn meant(role: Role, name: &str, spell: impl Fn(&str) -> String) -> Option<String> {
    // Some of librdkafka's have underscores in dicts, too.
    let name = name.replace('_', ".");
    let name = name.strip_prefix(SPARK).unwrap_or(&name);
    let foreign = FOREIGN.iter().find(|f| f.roles.contains(&role) && f.names.contains(&name));
    match foreign {
        Some(foreign) => Some(spelt(foreign.hint, spell)),
        None => nearest(role, name).map(|key| format!("did you mean {}?", spell(key))),
    }
}

/// The key that differs in few letters, or else has half of the words.
fn nearest(role: Role, name: &str) -> Option<&'static str> {
    let keys = || KEYS.iter().filter(|key| key.roles.contains(&role));
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

/// Values of other clients' that klamm takes: the key, the value there, and klamm's own.
pub static SAME_VALUES: &[(&str, &str, &str)] = &[
    // Kafka 4.0 dropped this class and the third; without any class it does the same.
    (PARTITIONER, "org.apache.kafka.clients.producer.internals.DefaultPartitioner", "murmur2_random"),
    (PARTITIONER, "org.apache.kafka.clients.producer.RoundRobinPartitioner", "round_robin"),
    (PARTITIONER, "org.apache.kafka.clients.producer.UniformStickyPartitioner", "uniform"),
    (RESET, "smallest", "earliest"),
    (RESET, "beginning", "earliest"),
    (RESET, "largest", "latest"),
    (RESET, "end", "latest"),
    (RESET, "error", "none"),
];

/// The value of klamm's that another client's value means.
pub(super) fn same_value(key: &str, value: &str) -> Option<&'static str> {
    SAME_VALUES.iter().find(|(of, theirs, _)| *of == key && *theirs == value).map(|(_, _, ours)| *ours)
}

/// What to use instead of another client's value that klamm's key does not take.
pub(super) fn value_hint(key: &str, value: &str) -> Option<&'static str> {
    match (key, value) {
        (PARTITIONER, "murmur2") => Some(
            "it sends all records without a key to one partition; murmur2_random does the same with keys, and spreads the others",
        ),
        (PARTITIONER, "consistent") => Some(
            "it sends all records without a key to one partition; consistent_random does the same with keys, and spreads the others",
        ),
        (PARTITIONER, "fnv1a") => Some(
            "it sends all records without a key to one partition; fnv1a_random does the same with keys, and spreads the others",
        ),
        (PARTITIONER, "random") => {
            Some("it draws a partition for each record; uniform draws one for each batch, whatever the key, too")
        }
        (PARTITIONER, class) if class.contains('.') => Some(
            "klamm runs no Java classes; of Java's own it takes DefaultPartitioner, RoundRobinPartitioner and UniformStickyPartitioner by their full names, in Python a function",
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

/// What Spark writes before the options of its clients.
const SPARK: &str = "kafka.";
const PARTITIONER: &str = "partitioner";
const RESET: &str = "auto.offset.reset";
const PRODUCER: &[Role] = &[Role::Producer];
const CONSUMER: &[Role] = &[Role::Consumer];
const READERS: &[Role] = &[Role::Consumer, Role::ShareConsumer];
const ALL: &[Role] = &[Role::Producer, Role::Consumer, Role::ShareConsumer, Role::Admin];

macro_rules! foreign {
    ($($($name:literal)+: $roles:expr, $hint:literal;)*) => {
        /// Every option of another client that klamm knows of and does not have.
        pub static FOREIGN: &[Foreign] = &[$( Foreign { names: &[$($name),+], roles: $roles, hint: $hint }, )*];
    };
}

foreign! {
    "queue.buffering.max.kbytes": PRODUCER, "use {buffer.memory}, in bytes: 1024 times as many";
    "queue.buffering.max.messages": PRODUCER, "klamm bounds bytes, not records: use {buffer.memory}";
    "queue.buffering.backpressure.threshold" "queuing.strategy": PRODUCER, "leave it out: records gather while {max.in.flight.requests.per.connection} requests are under way, and go first in, first out";
    "batch.num.messages": PRODUCER, "klamm bounds a batch by its bytes: use {batch.size}";
    "max.batch.size": PRODUCER, "use {batch.size}, in bytes";
    "sticky.partitioning.linger.ms": PRODUCER, "records without a key turn to another partition after {batch.size} bytes, not after a time";
    "compression.level": PRODUCER, "each codec has its own scale: use {compression.gzip.level} or {compression.zstd.level}; snappy and lz4 have none";
    "compression.lz4.level" "compression.snappy.level": PRODUCER, "leave it out: klamm's lz4 and snappy have one level";
    "partitioner.ignore.keys": PRODUCER, "use {partitioner}=uniform";
    "partitioner.availability.timeout.ms" "partitioner.rack.aware": PRODUCER, "leave it out: {partitioner.adaptive.partitioning.enable} avoids partitions that batches wait for";
    "partitioner.cb" "msg.order.cmp": PRODUCER, "give `partitioner` a function of topic, key, value and the number of partitions";
    "message.copy.max.bytes": PRODUCER, "leave it out: a value is copied once, when it is sent";
    "enable.gapless.guarantee": PRODUCER, "leave it out: a batch that fails moves an idempotent producer to its next epoch, and those behind it are still sent";
    "delivery.report.only.error" "dr.cb" "dr.msg.cb" "on.delivery": PRODUCER, "give `on_delivery` a function, or `on_error` one that hears of failures of send_nowait alone";
    "produce.offset.report": PRODUCER, "leave it out: every acknowledgement has its offset";
    "key.serializer" "value.serializer" "serializer.class" "key.serializer.class": PRODUCER, "klamm runs no Java classes: give the arguments `key_serializer` and `value_serializer` functions";
    "interceptor.classes": PRODUCER, "klamm runs no Java classes: give the argument `interceptors` objects with on_send or on_delivery";
    "transaction.two.phase.commit.enable": PRODUCER, "klamm has no two-phase commit (KIP-939)";
    "block.on.buffer.full" "queue.enqueue.timeout.ms": PRODUCER, "use {max.block.ms}, in milliseconds, or {drop.when.full}=true for no wait at all";
    "metadata.fetch.timeout.ms" "topic.metadata.propagation.max.ms": PRODUCER, "use {max.block.ms}: how long a record may wait for its topic to be known, milliseconds";
    "timeout.ms": PRODUCER, "use {request.timeout.ms} for one request, or {delivery.timeout.ms} for a record with its retries, both in milliseconds";
    "producer.type": PRODUCER, "leave it out: `send` gives a Delivery to wait for, `send_nowait` none";
    "auto.commit.enable": CONSUMER, "use {enable.auto.commit}";
    "enable.auto.offset.store": CONSUMER, "an offset counts once the program asks for more; commit(offsets) says it otherwise";
    "on.commit" "offset.commit.cb": CONSUMER, "commit_nowait(on_commit=...) takes it";
    "on.rebalance" "rebalance.cb": CONSUMER, "subscribe(topics, on_rebalance=...) takes it";
    "enable.partition.eof": CONSUMER, "leave it out; lag() says what is left to read, and assign() takes end offsets";
    "pattern": CONSUMER, "subscribe(pattern=...) takes it";
    "topic": READERS, "use the argument topics, a list";
    "consumer.timeout.ms": READERS, "leave it out, and read with poll(timeout=seconds), which is empty then";
    "fetch.error.backoff.ms": READERS, "use {retry.backoff.ms}, in milliseconds";
    "max.partition.bytes": CONSUMER, "use {max.partition.fetch.bytes}";
    "receive.message.max.bytes": READERS, "use {fetch.max.bytes}";
    "queued.max.messages.kbytes": CONSUMER, "use {queued.max.bytes}, in bytes: 1024 times as many";
    "queued.min.messages": CONSUMER, "klamm reads ahead by bytes, not records: use {queued.max.bytes}";
    "key.deserializer" "value.deserializer": READERS, "klamm runs no Java classes: give the arguments `key_deserializer` and `value_deserializer` functions";
    "interceptor.classes": READERS, "klamm has none for readers: do it where records are handled";
    "error.cb": ALL, "leave it out: calls raise what went wrong, and a producer has `on_error` for what nobody waits for";
    "connections.max.idle.ms": ALL, "leave it out: connections stay until they end";
    "enable.ssl.certificate.verification": ALL, "certificates are always checked: name their authority with {ssl.ca.location}";
    "sasl.kerberos.kinit.cmd": ALL, "klamm runs no kinit: use {sasl.kerberos.keytab}";
    "metadata.recovery.rebootstrap.trigger.ms": ALL, "leave it out: {bootstrap.servers} are asked again as soon as no broker of the cluster answers";
    "socket.timeout.ms": ALL, "use {request.timeout.ms}, in milliseconds";
    "topic.metadata.refresh.fast.interval.ms": ALL, "use {retry.backoff.ms}, in milliseconds";
    "statistics.interval.ms" "stats.cb" "metric.reporters" "metrics.num.samples" "metrics.recording.level" "metrics.sample.window.ms" "enable.metrics.push": ALL, "nothing is reported by itself: a producer's `metrics()` has counters, whenever it is called";
    "socket.send.buffer.bytes" "socket.receive.buffer.bytes" "send.buffer.bytes" "receive.buffer.bytes" "socket.keepalive.enable" "socket.nagle.disable": ALL, "leave it out: the system sizes the buffers of sockets, and klamm sends without Nagle's delay";
    "api.version.request" "api.version.fallback.ms" "api.version": ALL, "use {broker.version.fallback}; brokers from 0.10 on say their versions";
    "api.version.auto.timeout.ms": ALL, "use {api.version.request.timeout.ms}, in milliseconds";
    "sasl.plain.username" "sasl.plain.password": ALL, "use {sasl.username} and {sasl.password}";
    "ssl.cafile" "ssl.certfile" "ssl.keyfile" "ssl.password" "ssl.context": ALL, "use {ssl.ca.location}, {ssl.certificate.location}, {ssl.key.location} and {ssl.key.password}, with files of PEM";
    "ssl.check.hostname": ALL, "use {ssl.endpoint.identification.algorithm}, https or none";
}

#[cfg(test)]
mod tests {
    use super::super::keys::KEYS;
    use super::*;

    #[test]
    fn hints_name_keys_of_klamms_and_no_option_is_both_taken_and_refused() {
        for foreign in FOREIGN {
            spelt(foreign.hint, |key| {
                let known = KEYS.iter().find(|k| k.name == key).unwrap_or_else(|| panic!("{key}: {}", foreign.hint));
                let lacks = foreign.roles.iter().find(|role| !known.roles.contains(role));
                assert_eq!(lacks, None, "{key}");
                String::new()
            });
            for name in foreign.names {
                assert!(!KEYS.iter().any(|k| k.name == *name || k.aliases.contains(name)), "{name}");
            }
        }
    }

    #[test]
    fn a_hint_is_spelt_as_the_caller_spells() {
        let asked = meant(Role::Producer, "batch.num.messages", |key| key.replace('.', "_"));
        assert_eq!(asked.as_deref(), Some("klamm bounds a batch by its bytes: use batch_size"));
        assert_eq!(meant(Role::Consumer, "batch.num.messages", str::to_owned), None);
    }

    #[test]
    fn keys_are_found_by_letters_and_by_words() {
        for (name, near) in [
            ("fetch.min.byte", Some("did you mean fetch.min.bytes?")),
            ("kafka_fetch_min_bytes", Some("did you mean fetch.min.bytes?")),
            ("max.records", Some("did you mean max.poll.records?")),
            ("offset.reset", Some("did you mean auto.offset.reset?")),
            ("pattern", Some("subscribe(pattern=...) takes it")),
            ("zzz", None),
        ] {
            assert_eq!(meant(Role::Consumer, name, str::to_owned).as_deref(), near, "{name}");
        }
    }
}

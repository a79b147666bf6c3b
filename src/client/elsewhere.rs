//! Keys that klamm does not have: what a program may have meant that gives one.
//!
//! A word for those that other clients have and that are something else here, and the nearest of klamm's keys for the rest.

use super::keys::{KEYS, Role};
use std::collections::BTreeSet;

/// What to do in place of a key.
#[derive(Clone, Copy, Debug)]
enum Instead {
    /// Klamm has it under this name.
    Key(&'static str),
    /// It is no key of klamm's.
    Do(&'static str),
}

use Instead::{Do, Key};

/// What kafka-python, aiokafka, confluent-kafka, the Java client or klamm's own methods call something.
static ELSEWHERE: &[(&str, Instead)] = &[
    ("api.version", Key("broker.version.fallback")),
    ("api.version.auto.timeout.ms", Key("api.version.request.timeout.ms")),
    (
        "api.version.request",
        Do("brokers are always asked what they speak; broker.version.fallback says it of old ones"),
    ),
    ("auto.commit.enable", Key("enable.auto.commit")),
    ("connections.max.idle.ms", Do("leave it out: connections stay until they end")),
    ("consumer.timeout.ms", Do("leave it out, and read with poll(timeout=seconds), which is empty then")),
    ("delivery.report.only.error", Do("leave it out: on_error= hears of failures alone, on_delivery= of every record")),
    (
        "enable.auto.offset.store",
        Do("an offset counts once the program asks for more; commit(offsets) says it otherwise"),
    ),
    ("enable.partition.eof", Do("leave it out; lag() says what is left to read, and assign() takes end offsets")),
    ("enable.ssl.certificate.verification", Key("ssl.endpoint.identification.algorithm")),
    ("error.cb", Do("leave it out: calls raise what went wrong, and a producer has on_error=")),
    ("fetch.error.backoff.ms", Key("retry.backoff.ms")),
    ("interceptor.classes", Do("a producer takes interceptors=[...], objects with on_send and on_delivery")),
    ("key.deserializer", Do("give the class a function: key_deserializer=...")),
    ("key.serializer", Do("give the class a function: key_serializer=...")),
    ("max.partition.bytes", Key("max.partition.fetch.bytes")),
    ("on.commit", Do("commit_nowait(on_commit=...) takes it")),
    ("on.delivery", Do("a producer takes on_delivery=, a function of the Delivery")),
    ("on.rebalance", Do("consumer.subscribe(topics, on_rebalance=...) takes it")),
    ("partitioner.class", Key("partitioner")),
    ("pattern", Do("consumer.subscribe(pattern=...) takes it")),
    ("queue.buffering.max.kbytes", Key("buffer.memory")),
    ("queue.buffering.max.messages", Key("buffer.memory")),
    ("queued.max.messages.kbytes", Key("queued.max.bytes")),
    ("queued.min.messages", Key("queued.max.bytes")),
    ("receive.buffer.bytes", Do("leave it out: the system sizes the sockets")),
    ("receive.message.max.bytes", Key("fetch.max.bytes")),
    ("rebalance.cb", Do("consumer.subscribe(topics, on_rebalance=...) takes it")),
    ("sasl.kerberos.kinit.cmd", Key("sasl.kerberos.keytab")),
    ("sasl.plain.password", Key("sasl.password")),
    ("sasl.plain.username", Key("sasl.username")),
    ("send.buffer.bytes", Do("leave it out: the system sizes the sockets")),
    ("socket.timeout.ms", Key("request.timeout.ms")),
    ("ssl.cafile", Key("ssl.ca.location")),
    ("ssl.certfile", Key("ssl.certificate.location")),
    ("ssl.check.hostname", Key("ssl.endpoint.identification.algorithm")),
    ("ssl.context", Do("name files: ssl.ca.location, ssl.certificate.location, ssl.key.location")),
    ("ssl.keyfile", Key("ssl.key.location")),
    ("stats.cb", Do("a producer has metrics()")),
    ("statistics.interval.ms", Do("a producer has metrics()")),
    ("topic", Do("a consumer takes topics=[...]")),
    ("value.deserializer", Do("give the class a function: value_deserializer=...")),
    ("value.serializer", Do("give the class a function: value_serializer=...")),
];

/// What to say of a key that there is not, dotted; `spell` writes klamm's keys as the program does.
pub fn hint(role: Role, name: &str, spell: impl Fn(&str) -> String) -> Option<String> {
    let bare = name.strip_prefix(SPARK).unwrap_or(name);
    if let Some((_, instead)) = ELSEWHERE.iter().find(|(known, _)| *known == bare) {
        return Some(match instead {
            Key(key) => format!("what comes nearest is {}", spell(key)),
            Do(what) => (*what).to_owned(),
        });
    }
    nearest(role, bare).map(|key| format!("did you mean {}?", spell(key)))
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

/// What Spark writes before the options of its clients.
const SPARK: &str = "kafka.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_named_is_there_and_what_is_elsewhere_is_not() {
        let is_key = |name: &str| KEYS.iter().any(|key| key.name == name || key.aliases.contains(&name));
        for (name, instead) in ELSEWHERE {
            assert!(!is_key(name), "{name}");
            assert!(!matches!(instead, Key(key) if !is_key(key)), "{name}");
        }
    }

    #[test]
    fn keys_are_found_by_letters_and_by_words() {
        let hint = |name| hint(Role::Consumer, name, str::to_owned).unwrap_or_default();
        for (name, near) in [
            ("fetch.min.byte", "did you mean fetch.min.bytes?"),
            ("kafka.fetch.min.bytes", "did you mean fetch.min.bytes?"),
            ("max.records", "did you mean max.poll.records?"),
            ("offset.reset", "did you mean auto.offset.reset?"),
            ("queued.min.messages", "what comes nearest is queued.max.bytes"),
            ("pattern", "consumer.subscribe(pattern=...) takes it"),
            ("zzz", ""),
        ] {
            assert_eq!(hint(name), near, "{name}");
        }
    }
}

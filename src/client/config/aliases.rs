//! Suggestions for unknown options, and values of other Kafka clients that mean the same as a value of klamm.
//!
//! If an option of another client has the same meaning as a key of klamm, `keys.rs` lists the option's name as an
//! alias. `foreign.rs` lists the options of other clients that klamm does not have.

use super::foreign;
use super::keys::{self, ClientType, KEYS, Key};
use std::collections::BTreeSet;

/// What an option means for a client.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// The option is this key, or an alias of this key.
    Key(&'static Key),
    /// The option has no effect, for this reason.
    Ignored(String),
    /// klamm rejects an option of another client. The hint says what to use instead.
    Rejected(String),
    /// klamm does not know the option. The hint names a similar key, if there is one.
    Unknown(Option<String>),
}

/// Returns what an option with this value means for a client. `spell` formats the names of klamm's keys in hints.
pub fn verdict(client: ClientType, name: &str, value: Option<&str>, spell: impl Fn(&str) -> String) -> Verdict {
    if let Some(key) = keys::find(name) {
        if key.clients.contains(&client) {
            return Verdict::Key(key);
        }
        return of_others(client, key.clients, "a key");
    }
    let name = dotted(name);
    match foreign::find(client, &name) {
        Some(option) if option.is_ignored() => Verdict::Ignored(option.hint(spell)),
        Some(option) if option.ignores(value) => Verdict::Ignored("klamm does what this value says".to_owned()),
        Some(option) => Verdict::Rejected(option.hint(spell)),
        None => match foreign::clients(&name) {
            [] => Verdict::Unknown(nearest(client, &name).map(|key| format!("did you mean {}?", spell(key)))),
            clients => of_others(client, clients, "an option"),
        },
    }
}

/// Returns the verdict about an option of other types of clients. Programs often share one dict between their clients.
/// There are two exceptions. The group of a share consumer decides what the keys of a consumer set, as in Java. A client
/// that cannot connect to the controllers in a configuration must not look for brokers elsewhere.
fn of_others(client: ClientType, clients: &[ClientType], what: &str) -> Verdict {
    let names: Vec<&str> = clients.iter().map(|c| c.name()).collect();
    let why = format!("it is {what} of the {}", names.join(" and "));
    let is_misleading = client == ClientType::ShareConsumer && clients.contains(&ClientType::Consumer)
        || clients == [ClientType::Admin];
    if is_misleading { Verdict::Rejected(why) } else { Verdict::Ignored(why) }
}

/// Returns the name of an option in dots, without Spark's prefix. Some options of librdkafka have underscores in dicts,
/// too.
fn dotted(name: &str) -> String {
    let name = name.replace('_', ".");
    name.strip_prefix(SPARK).map_or_else(|| name.clone(), str::to_owned)
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
    if is_about_security(name) {
        // A wrong suggestion could make a program trust, or send, what it should not: only a misspelling is corrected.
        return names.filter(|key| is_misspelt(name, key)).min_by_key(|key| apart(key));
    }
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

fn is_about_security(name: &str) -> bool {
    ["ssl.", "sasl.", "security."].iter().any(|family| name.starts_with(family))
}

/// Returns whether a name is a key in which each word has at most one wrong letter.
fn is_misspelt(name: &str, key: &str) -> bool {
    let words = || name.split('.').zip(key.split('.'));
    name.split('.').count() == key.split('.').count()
        && words().all(|(given, own)| strsim::damerau_levenshtein(given, own) <= usize::from(own.len() > 2))
}

/// Values of other clients that klamm accepts. Each entry has the key, the other client's value, and klamm's value.
static VALUE_ALIASES: &[(&str, &str, &str)] = &[
    // Kafka 4.0 removed this class and the third one. Its default without a class does the same.
    (PARTITIONER, "org.apache.kafka.clients.producer.internals.DefaultPartitioner", "murmur2_random"),
    (PARTITIONER, "org.apache.kafka.clients.producer.RoundRobinPartitioner", "round_robin"),
    (PARTITIONER, "org.apache.kafka.clients.producer.UniformStickyPartitioner", "uniform"),
    (ASSIGNORS, "org.apache.kafka.clients.consumer.RangeAssignor", "range"),
    (ASSIGNORS, "org.apache.kafka.clients.consumer.RoundRobinAssignor", "roundrobin"),
    (ASSIGNORS, "org.apache.kafka.clients.consumer.StickyAssignor", "sticky"),
    (ASSIGNORS, "org.apache.kafka.clients.consumer.CooperativeStickyAssignor", "cooperative-sticky"),
    ("sasl.mechanism", "AWS_MSK_IAM", "OAUTHBEARER"),
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

/// The prefix of Kafka client options in Spark.
const SPARK: &str = "kafka.";
const PARTITIONER: &str = "partitioner";
const ASSIGNORS: &str = "partition.assignment.strategy";
const RESET: &str = "auto.offset.reset";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_is_spelt_as_the_caller_spells() {
        let of = |client, name| verdict(client, name, None, |key| key.replace('.', "_"));
        let hint = "klamm limits the bytes of a batch, not its records: use batch_size".to_owned();
        assert_eq!(of(ClientType::Producer, "batch.num.messages"), Verdict::Rejected(hint));
        let other = "it is an option of the producer".to_owned();
        assert_eq!(of(ClientType::Consumer, "batch.num.messages"), Verdict::Ignored(other));
    }

    #[test]
    fn keys_are_found_by_letters_and_by_words() {
        for (name, near) in [
            ("fetch.min.byte", Some("did you mean fetch.min.bytes?")),
            ("kafka_fetch_min_bytes", Some("did you mean fetch.min.bytes?")),
            ("isolation", Some("did you mean isolation.level?")),
            ("max.records", Some("did you mean max.poll.records?")),
            ("offset.reset", Some("did you mean auto.offset.reset?")),
            ("zzz", None),
            ("ssl.ca.locatoin", Some("did you mean ssl.ca.location?")),
            ("ssl.cb.location", None),
            ("sasl.oauthbearer.assertion.fil", Some("did you mean sasl.oauthbearer.assertion.file?")),
            ("sasl.oauthbearer.private.file", None),
        ] {
            let near = near.map(str::to_owned);
            assert_eq!(verdict(ClientType::Consumer, name, None, str::to_owned), Verdict::Unknown(near), "{name}");
        }
    }
}

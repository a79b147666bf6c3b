//! From keys and values to what the machines are made with; which keys there are stands in `keys.rs`.

use super::keys::{KEYS, Key, Kind, Role};
use super::{Error, ErrorKind, foreign, security};
use crate::api::Release;
use crate::compress::{Codec, Compression, DEFAULT_LIMIT};
use crate::engine::NetworkConfig;
use crate::engine::consumer::{ConsumerConfig, Reset};
use crate::engine::group::{CustomAssignor, GroupConfig, Protocol, ShareMemberConfig, Strategy, assignor};
use crate::engine::producer::{Partitioner, ProducerConfig};
use crate::engine::sasl::Nonces;
use crate::engine::share::ShareConfig;
use crate::engine::version_probe::SAYS_VERSIONS;
use crate::frame::DEFAULT_MAX_FRAME;
use crate::net::tls;
use std::collections::{BTreeMap, hash_map::RandomState};
use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A value as it comes from a caller. Text is read as whatever the key wants.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Text.
    String(String),
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f64),
    /// True or false.
    Bool(bool),
    /// Several texts.
    List(Vec<String>),
    /// Nothing: the default.
    Null,
}

/// Where a client connects to, and how.
pub(super) struct Connecting {
    pub network: NetworkConfig,
    pub tls: Option<Arc<tls::Client>>,
}

/// A checked configuration.
#[derive(Clone)]
pub struct Config {
    role: Role,
    values: BTreeMap<&'static str, Value>,
    assignors: Vec<Arc<dyn CustomAssignor>>,
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |(name, value): (&&'static str, &Value)| (*name, show(find(name), value));
        write!(f, "{:?}: {:?}", self.role, self.values.iter().map(shown).collect::<BTreeMap<_, _>>())
    }
}

pub(super) fn bad(message: String, hint: String) -> Error {
    Error::new(ErrorKind::Config, message).with_hint(hint)
}

fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|k| k.name == name || k.aliases.contains(&name))
}

fn unknown(role: Role, name: &str) -> Error {
    let hint = match find(name) {
        Some(key) => {
            let roles: Vec<&str> = key.roles.iter().map(|r| r.name()).collect();
            format!("it is a key of the {}", roles.join(" and "))
        }
        None => {
            foreign::meant(role, name, str::to_owned).unwrap_or_else(|| "the reference page lists all keys".to_owned())
        }
    };
    bad(format!("unknown configuration key {name:?} for a {}", role.name()), hint)
}

/// A value as it may be shown.
fn show(key: Option<&Key>, value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        _ if key.is_none_or(|k| k.kind == Kind::Secret) => "(secret)".to_owned(),
        Value::String(s) => format!("{s:?}"),
        Value::Int(n) => n.to_string(),
        Value::Float(n) => n.to_string(),
        Value::Bool(b) => b.to_string(),
        Value::List(l) => format!("{l:?}"),
    }
}

fn check(key: &Key, value: Value) -> Result<Value, Error> {
    let shown = show(Some(key), &value);
    let wrong = || bad(format!("{} cannot be {shown}", key.name), format!("allowed: {}", key.allowed()));
    match (key.kind, value) {
        (Kind::Text | Kind::Secret, Value::String(s)) => Ok(Value::String(s)),
        (Kind::List, Value::String(s)) => {
            let items = s.split(',').map(|i| i.trim().to_owned()).filter(|i| !i.is_empty());
            Ok(Value::List(items.collect()))
        }
        (Kind::List, Value::List(items)) => Ok(Value::List(items)),
        (Kind::Int(min, max), value) => {
            let n = match value {
                Value::Int(n) => Some(n),
                Value::String(s) => s.trim().parse().ok(),
                Value::Float(n) if n.fract() == 0.0 && n.abs() < 1e15 => Some(n as i64),
                _ => None,
            };
            n.filter(|n| (min..=max).contains(n)).map(Value::Int).ok_or_else(wrong)
        }
        (Kind::Bool, Value::Bool(b)) => Ok(Value::Bool(b)),
        (Kind::Bool, Value::String(s)) => match s.trim().to_ascii_lowercase().as_str() {
            "true" => Ok(Value::Bool(true)),
            "false" => Ok(Value::Bool(false)),
            _ => Err(wrong()),
        },
        (Kind::Acks, value) => {
            let text = match value {
                Value::String(s) => s.trim().to_ascii_lowercase(),
                Value::Int(n) => n.to_string(),
                _ => return Err(wrong()),
            };
            let text = if text == "all" { "-1".to_owned() } else { text };
            let acks = text.parse::<i16>().ok().filter(|n| *n >= -1).ok_or_else(wrong)?;
            Ok(Value::Int(acks.into()))
        }
        (Kind::Reset, Value::String(text)) => {
            let text = text.trim();
            let is_age = || text.strip_prefix(BY_DURATION).and_then(age).is_some();
            match text.to_ascii_lowercase().as_str() {
                name @ ("earliest" | "latest" | "none") => Ok(Value::String(name.to_owned())),
                _ if is_age() => Ok(Value::String(text.to_owned())),
                other => foreign::same_value(key.name, other).map(|v| Value::String(v.to_owned())).ok_or_else(wrong),
            }
        }
        (Kind::Choice(names), value) => {
            let text = match value {
                Value::String(s) => s,
                Value::Int(n) => n.to_string(),
                _ => return Err(wrong()),
            };
            let text = text.trim();
            let meant = foreign::same_value(key.name, text).unwrap_or(text);
            let found = names.iter().find(|n| n.eq_ignore_ascii_case(meant));
            let refused = || foreign::value_hint(key.name, text).map_or_else(wrong, |hint| wrong().with_hint(hint));
            found.map(|n| Value::String((*n).to_owned())).ok_or_else(refused)
        }
        _ => Err(wrong()),
    }
}

impl Config {
    /// Checks keys and values; the error names the key, the value, and what is allowed or was meant.
    pub fn parse(role: Role, pairs: impl IntoIterator<Item = (String, Value)>) -> Result<Self, Error> {
        Self::parse_with(role, pairs, Vec::new())
    }

    /// The same with assignors that `partition.assignment.strategy` may name besides klamm's own.
    pub fn parse_with(
        role: Role,
        pairs: impl IntoIterator<Item = (String, Value)>,
        assignors: Vec<Arc<dyn CustomAssignor>>,
    ) -> Result<Self, Error> {
        let mut values = BTreeMap::new();
        for (name, value) in pairs {
            let key = find(&name).filter(|k| k.roles.contains(&role)).ok_or_else(|| unknown(role, &name))?;
            // Java switches the check off with nothing.
            let is_none = key.name == security::HOST_CHECK && value == Value::String(String::new());
            let value = if is_none { Value::String("none".to_owned()) } else { value };
            if value != Value::Null {
                values.insert(key.name, check(key, value)?);
            }
        }
        let this = Self { role, values, assignors };
        this.connecting()?;
        match role {
            Role::Producer => this.producer().map(|_| ())?,
            Role::Consumer => this.consumer().map(|_| ())?,
            Role::ShareConsumer => this.share_consumer().map(|_| ())?,
            Role::Admin => {}
        }
        Ok(this)
    }

    /// An error if the configuration is for another kind of client.
    pub(super) fn expect(&self, role: Role) -> Result<(), Error> {
        if self.role == role {
            return Ok(());
        }
        Err(bad(
            format!("this is the configuration of a {}", self.role.name()),
            format!("parse it for a {}", role.name()),
        ))
    }

    pub(super) fn value(&self, name: &'static str) -> Option<&Value> {
        self.values.get(name)
    }

    pub(super) fn text(&self, name: &'static str) -> String {
        match self.values.get(name) {
            Some(Value::String(s)) => s.clone(),
            Some(Value::Int(n)) => n.to_string(),
            _ => find(name).map_or_else(String::new, |k| k.default.to_owned()),
        }
    }

    /// A name that is left out where nothing is to have it. One without a letter, as of a variable that was not set, is
    /// refused, as by the Java client: the program would go on without transactions, or without commits.
    fn id(&self, name: &'static str, why: &str) -> Result<Option<String>, Error> {
        match self.values.get(name).map(|_| self.text(name)) {
            Some(text) if text.trim().is_empty() => {
                Err(bad(format!("{name} cannot be {text:?}"), format!("leave it out {why}")))
            }
            given => Ok(given),
        }
    }

    /// A number; the table's default is one by the test below.
    fn int(&self, name: &'static str) -> i64 {
        match self.values.get(name) {
            Some(Value::Int(n)) => *n,
            _ => self.text(name).parse().unwrap_or(0),
        }
    }

    fn bool(&self, name: &'static str) -> bool {
        match self.values.get(name) {
            Some(Value::Bool(b)) => *b,
            _ => self.text(name) == "true",
        }
    }

    fn ms(&self, name: &'static str) -> Duration {
        Duration::from_millis(self.int(name).unsigned_abs())
    }

    fn size(&self, name: &'static str) -> usize {
        usize::try_from(self.int(name)).unwrap_or(usize::MAX)
    }

    fn i32(&self, name: &'static str) -> i32 {
        i32::try_from(self.int(name)).unwrap_or(i32::MAX)
    }

    /// Whether a full buffer is an error at once.
    pub(super) fn drop_when_full(&self) -> bool {
        self.bool("drop.when.full")
    }

    /// How long a call may take that names no timeout.
    pub fn api_timeout(&self) -> Result<Duration, Error> {
        Ok(self.ms("default.api.timeout.ms"))
    }

    /// Records of one poll, at most.
    pub fn max_poll_records(&self) -> usize {
        self.size("max.poll.records")
    }

    fn bootstrap(&self) -> Result<Vec<(String, u16)>, Error> {
        let Some(Value::List(servers)) = self.values.get("bootstrap.servers") else {
            return Err(bad(
                "bootstrap.servers is missing".to_owned(),
                "give one broker at least, host:port".to_owned(),
            ));
        };
        let parse = |server: &String| {
            let wrong = || bad(format!("bootstrap.servers has {server:?}"), "an address is host:port".to_owned());
            let address = server.rsplit_once("://").map_or(server.as_str(), |(_, address)| address);
            let (host, port) = match address.rsplit_once(':') {
                // The colons of a bare IPv6 address are no port's.
                Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
                    (host, port.parse().ok().filter(|p| *p > 0).ok_or_else(wrong)?)
                }
                _ => (address, 9092),
            };
            if host.is_empty() || host.contains(char::is_whitespace) {
                Err(wrong())
            } else {
                Ok((host.to_owned(), port))
            }
        };
        let addresses = servers.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
        if addresses.is_empty() {
            return Err(bad("bootstrap.servers is empty".to_owned(), "give one broker at least, host:port".to_owned()));
        }
        Ok(addresses)
    }

    /// Where and how to connect.
    pub(super) fn connecting(&self) -> Result<Connecting, Error> {
        Ok(Connecting { network: self.network()?, tls: self.tls()? })
    }

    pub(super) fn network(&self) -> Result<NetworkConfig, Error> {
        Ok(NetworkConfig {
            bootstrap: self.bootstrap()?,
            client_id: self.text("client.id"),
            request_timeout: self.ms("request.timeout.ms"),
            setup_timeout: self.ms("socket.connection.setup.timeout.ms"),
            reconnect_backoff: (self.ms("reconnect.backoff.ms"), self.ms("reconnect.backoff.max.ms")),
            retry_backoff: self.retry_backoff(),
            metadata_max_age: self.ms("metadata.max.age.ms"),
            allow_auto_topic_creation: self.role != Role::Admin && self.bool("allow.auto.create.topics"),
            // An answer is at least as large as what was asked for, and one batch more.
            max_frame: DEFAULT_MAX_FRAME.max(2 * self.size("fetch.max.bytes")),
            seed: seed(),
            versions_timeout: self.ms("api.version.request.timeout.ms"),
            version_fallback: self.version_fallback()?,
            credentials: self.credentials()?.map(Arc::new),
            // Hash keys come from the system's random numbers: four of them are no less than a nonce needs.
            nonces: Nonces::new(std::array::from_fn(|i| seed().to_le_bytes()[i % 8])),
        })
    }

    /// What a broker is taken for that does not say its versions; from 0.10 on they do.
    fn version_fallback(&self) -> Result<Option<Release>, Error> {
        let text = self.text("broker.version.fallback");
        if text == "auto" {
            return Ok(None);
        }
        let release = Release::parse(&text).ok_or_else(|| {
            let hint = "give auto, or a release from 0.8.0 on; klamm.legacy speaks to those before".to_owned();
            bad(format!("broker.version.fallback is {text:?}"), hint)
        })?;
        Ok(Some(release).filter(|release| *release < SAYS_VERSIONS))
    }

    pub(super) fn retry_backoff(&self) -> (Duration, Duration) {
        (self.ms("retry.backoff.ms"), self.ms("retry.backoff.max.ms"))
    }

    pub(super) fn producer(&self) -> Result<ProducerConfig, Error> {
        let acks = match self.values.get("acks") {
            Some(Value::Int(acks)) => i16::try_from(*acks).unwrap_or(-1),
            _ => -1,
        };
        let transactions = self.id("transactional.id", "for a producer without transactions")?;
        let transactions = transactions.map(|id| (id.into(), self.ms("transaction.timeout.ms")));
        let asked = self.values.contains_key("enable.idempotence") || transactions.is_some();
        let idempotent = self.bool("enable.idempotence") && (asked || acks == -1);
        if transactions.is_some() && !idempotent {
            let hint = "leave enable.idempotence=true, or transactional.id out".to_owned();
            return Err(bad("transactional.id needs enable.idempotence".to_owned(), hint));
        }
        if idempotent && acks != -1 {
            let hint = "set acks=all, or enable.idempotence=false".to_owned();
            return Err(bad(format!("enable.idempotence needs acks=all, acks is {acks}"), hint));
        }
        let max_in_flight = self.size("max.in.flight.requests.per.connection");
        if idempotent && max_in_flight > 5 {
            let hint = "set it to 5 or less, or enable.idempotence=false".to_owned();
            let message = format!(
                "enable.idempotence needs max.in.flight.requests.per.connection of 5 or less, not {max_in_flight}"
            );
            return Err(bad(message, hint));
        }
        Ok(ProducerConfig {
            acks,
            linger: self.ms("linger.ms"),
            batch_size: self.size("batch.size"),
            buffer_memory: self.size("buffer.memory"),
            max_request_size: self.size("max.request.size"),
            compression: self.codec()?,
            delivery_timeout: self.ms("delivery.timeout.ms"),
            request_timeout: self.ms("request.timeout.ms"),
            max_block: self.ms("max.block.ms"),
            retry_backoff: self.retry_backoff(),
            retries: u32::try_from(self.int("retries")).unwrap_or(u32::MAX),
            idempotent,
            idempotence_required: asked && idempotent,
            transactions,
            partitioner: Partitioner::from_name(&self.text("partitioner")),
            adaptive: self.bool("partitioner.adaptive.partitioning.enable"),
            max_in_flight,
            metadata_max_idle: self.ms("metadata.max.idle.ms"),
            seed: seed(),
        })
    }

    fn codec(&self) -> Result<Codec, Error> {
        let compression = Compression::from_name(&self.text("compression.type")).unwrap_or_default();
        let key = match compression {
            Compression::Gzip => "compression.gzip.level",
            Compression::Zstd => "compression.zstd.level",
            _ => return Ok(compression.into()),
        };
        let level = i32::try_from(self.int(key)).unwrap_or(-1);
        Codec::with_level(compression, level).map_err(|why| bad(format!("{key} cannot be {level}"), why))
    }

    pub(super) fn consumer(&self) -> Result<ConsumerConfig, Error> {
        let group = self.id("group.id", "to read without a group")?;
        self.id("group.instance.id", "for a member that is not static")?;
        let auto = self.bool("enable.auto.commit") && group.is_some();
        let strategies = self.strategies()?;
        let group = group.map(|group| self.group(group, strategies)).transpose()?;
        Ok(ConsumerConfig {
            group,
            reset: match self.text("auto.offset.reset").as_str() {
                "earliest" => Reset::Earliest,
                "latest" => Reset::Latest,
                other => other.strip_prefix(BY_DURATION).and_then(age).map_or(Reset::None, Reset::ByDuration),
            },
            started_ms: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as i64),
            auto_commit: auto.then(|| self.ms("auto.commit.interval.ms")),
            offsets_retention: self.offsets_retention()?,
            min_bytes: self.i32("fetch.min.bytes"),
            max_wait: self.ms("fetch.max.wait.ms"),
            max_bytes: self.i32("fetch.max.bytes"),
            max_partition_bytes: self.i32("max.partition.fetch.bytes"),
            prefetch_bytes: self.size("queued.max.bytes"),
            check_crcs: self.bool("check.crcs"),
            read_committed: self.text("isolation.level") == "read_committed",
            rack: self.text("client.rack"),
            replica_max_age: self.ms("metadata.max.age.ms"),
            retry_backoff: self.retry_backoff(),
            request_timeout: self.ms("request.timeout.ms"),
            api_timeout: self.ms("default.api.timeout.ms"),
            decompress_limit: DEFAULT_LIMIT,
        })
    }
}

impl Config {
    fn offsets_retention(&self) -> Result<Option<Duration>, Error> {
        let key = "offsets.retention.ms";
        let refused = |with: &str| {
            let hint = "leave it out, and set offsets.retention.minutes of the brokers".to_owned();
            Err(bad(format!("{key} does not go with {with}: requests have one or the other"), hint))
        };
        match u64::try_from(self.int(key)) {
            Err(_) => Ok(None),
            Ok(_) if self.text("group.protocol") == "consumer" => refused("group.protocol=consumer"),
            Ok(_) if !self.text("group.instance.id").is_empty() => refused("group.instance.id"),
            Ok(ms) => Ok(Some(Duration::from_millis(ms))),
        }
    }

    pub(super) fn share_consumer(&self) -> Result<ShareConfig, Error> {
        let group = self.text("group.id");
        if group.is_empty() {
            let hint = "give it a group_id; without a group use a consumer".to_owned();
            return Err(bad("a share consumer needs a group.id".to_owned(), hint));
        }
        Ok(ShareConfig {
            member: ShareMemberConfig {
                group,
                rack: self.text("client.rack"),
                request_timeout: self.ms("request.timeout.ms"),
                api_timeout: self.ms("default.api.timeout.ms"),
                retry_backoff: self.retry_backoff(),
                seed: seed(),
            },
            record_limit: self.text("share.acquire.mode") == "record_limit",
            max_records: self.i32("max.poll.records"),
            min_bytes: self.i32("fetch.min.bytes"),
            max_wait: self.ms("fetch.max.wait.ms"),
            max_bytes: self.i32("fetch.max.bytes"),
            check_crcs: self.bool("check.crcs"),
            decompress_limit: DEFAULT_LIMIT,
        })
    }

    /// Whether each record has to be acknowledged.
    pub fn acknowledges_explicitly(&self) -> bool {
        self.text("share.acknowledgement.mode") == "explicit"
    }

    /// The assignors of a classic group, checked whether or not there is one: a name that was typed wrong would be found out by
    /// whoever adds a group later.
    fn strategies(&self) -> Result<Vec<Strategy>, Error> {
        let given = OF_CLASSIC_GROUPS.iter().find(|(key, ..)| self.values.contains_key(key));
        if let Some((key, why, instead)) = given.filter(|_| self.text("group.protocol") == "consumer") {
            let message = format!("{key} does not go with group.protocol=consumer: {why}");
            return Err(bad(message, format!("leave it out; {instead}")));
        }
        let key = "partition.assignment.strategy";
        let names = match self.values.get(key) {
            Some(Value::List(names)) => names.clone(),
            _ => vec!["range".to_owned(), "cooperative-sticky".to_owned()],
        };
        let wrong = |what: String| {
            let known: Vec<&str> = assignor::ALL.iter().map(|a| a.name()).collect();
            bad(format!("{key} {what}"), format!("allowed are {}", known.join(", ")))
        };
        if names.is_empty() {
            return Err(wrong("names no assignor".to_owned()));
        }
        if let Some(name) = names.iter().enumerate().find_map(|(i, name)| names[..i].contains(name).then_some(name)) {
            return Err(wrong(format!("has {name:?} twice")));
        }
        let assignor = |name: &String| {
            if let Some(custom) = self.assignors.iter().find(|a| a.name() == name) {
                return Ok(Strategy::Custom(custom.clone()));
            }
            assignor::by_name(name).map(Strategy::Known).ok_or_else(|| wrong(format!("has {name:?}")))
        };
        names.iter().map(assignor).collect()
    }

    fn group(&self, group: String, strategies: Vec<Strategy>) -> Result<GroupConfig, Error> {
        let protocol = match self.text("group.protocol").as_str() {
            "consumer" => Protocol::Consumer(Some(self.text("group.remote.assignor")).filter(|a| !a.is_empty())),
            _ => Protocol::Classic(strategies),
        };
        let (session_timeout, heartbeat_interval) = (self.ms("session.timeout.ms"), self.ms("heartbeat.interval.ms"));
        if heartbeat_interval >= session_timeout {
            let message =
                format!("heartbeat.interval.ms is {heartbeat_interval:?} and session.timeout.ms {session_timeout:?}");
            return Err(bad(message, "the interval should be at most a third of the timeout".to_owned()));
        }
        Ok(GroupConfig {
            group,
            instance: Some(self.text("group.instance.id")).filter(|i| !i.is_empty()),
            rack: self.text("client.rack"),
            protocol,
            session_timeout,
            heartbeat_interval,
            max_poll_interval: self.ms("max.poll.interval.ms"),
            request_timeout: self.ms("request.timeout.ms"),
            api_timeout: self.ms("default.api.timeout.ms"),
            retry_backoff: self.retry_backoff(),
            seed: seed(),
        })
    }
}

/// What a member of a group of KIP-848 has no say in, why, and where it is said instead: an error, as in the Java client.
const OF_CLASSIC_GROUPS: [(&str, &str, &str); 3] = [
    (
        "partition.assignment.strategy",
        "the coordinator assigns",
        "group.remote.assignor names one of the coordinator's",
    ),
    (
        "session.timeout.ms",
        "the brokers decide how long a session is",
        "set consumer.session.timeout.ms of the group, as with admin.alter_configs(\"group\", ...)",
    ),
    (
        "heartbeat.interval.ms",
        "the brokers say when the next heartbeat is due",
        "set consumer.heartbeat.interval.ms of the group, as with admin.alter_configs(\"group\", ...)",
    ),
];

const BY_DURATION: &str = "by_duration:";

/// A duration of ISO 8601 in days, hours, minutes and whole seconds: `P1DT12H`.
fn age(text: &str) -> Option<Duration> {
    let (days, time) = text.strip_prefix('P')?.split_once('T').unwrap_or((text.strip_prefix('P')?, ""));
    let (mut seconds, mut count) = (0u64, 0);
    for (mut part, units) in [(days, &[('D', 86_400)][..]), (time, &[('H', 3_600), ('M', 60), ('S', 1)][..])] {
        for (unit, size) in units {
            if let Some((number, rest)) = part.split_once(*unit) {
                seconds = seconds.checked_add(number.parse::<u64>().ok()?.checked_mul(*size)?)?;
                (part, count) = (rest, count + 1);
            }
        }
        if !part.is_empty() {
            return None;
        }
    }
    (count > 0).then(|| Duration::from_secs(seconds))
}

/// A seed that differs between clients; the standard library's hash keys are random for each process and count up.
fn seed() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(role: Role, name: &str, value: &str) -> Result<Config, Error> {
        let pair = |k: &str, v: &str| (k.to_owned(), Value::String(v.to_owned()));
        Config::parse(role, [pair("bootstrap.servers", "localhost:1"), pair(name, value)])
    }

    #[test]
    fn every_default_is_a_value_its_key_allows() {
        for key in KEYS.iter().filter(|k| !k.default.is_empty()) {
            check(key, Value::String(key.default.to_owned())).unwrap();
        }
    }

    #[test]
    fn an_unknown_key_names_the_nearest_one() {
        let error = parse(Role::Producer, "linger.mss", "1").unwrap_err();
        assert_eq!(error.hint(), Some("did you mean linger.ms?"));
        let error = parse(Role::Consumer, "linger.ms", "1").unwrap_err();
        assert_eq!(error.hint(), Some("it is a key of the producer"));
    }

    #[test]
    fn a_bad_value_names_itself_and_what_is_allowed() {
        let error = parse(Role::Producer, "acks", "al").unwrap_err();
        assert_eq!(error.message(), "acks cannot be \"al\"");
        assert_eq!(error.hint(), Some("allowed: all, -1, 0, 1; brokers before 0.9 take any number of replicas"));
        assert!(parse(Role::Producer, "linger.ms", "-1").is_err());
        assert!(parse(Role::Producer, "queue.buffering.max.ms", "7").is_ok());
    }

    #[test]
    fn idempotence_wants_all_acks_unless_it_is_not_asked_for() {
        assert!(!parse(Role::Producer, "acks", "1").unwrap().producer().unwrap().idempotent);
        assert!(parse(Role::Producer, "max.in.flight", "6").is_err());
    }

    #[test]
    fn a_name_that_says_nothing_is_refused() {
        let producer = |id: &str| parse(Role::Producer, "transactional.id", id).and_then(|c| c.producer());
        let consumer = |key: &str, id: &str| parse(Role::Consumer, key, id).and_then(|c| c.consumer());
        for blank in ["", " "] {
            assert_eq!(producer(blank).unwrap_err().hint(), Some("leave it out for a producer without transactions"));
            assert_eq!(consumer("group.id", blank).unwrap_err().hint(), Some("leave it out to read without a group"));
            assert!(consumer("group.instance.id", blank).is_err());
        }
        assert!(producer("a").is_ok() && consumer("group.id", "a").is_ok() && consumer("client.id", "").is_ok());
    }

    #[test]
    fn reading_may_start_some_time_ago() {
        let of =
            |value: &str| parse(Role::Consumer, "auto.offset.reset", value).and_then(|c| c.consumer()).map(|c| c.reset);
        for earliest in ["Earliest", "smallest", "beginning"] {
            assert_eq!(of(earliest).unwrap(), Reset::Earliest);
        }
        for latest in ["latest", "largest", "End"] {
            assert_eq!(of(latest).unwrap(), Reset::Latest);
        }
        assert_eq!(of("error").unwrap(), of("none").unwrap());
        assert_eq!(of("by_duration:P1DT2H3M4S").unwrap(), Reset::ByDuration(Duration::from_secs(93_784)));
        assert_eq!(of("by_duration:PT90M").unwrap(), Reset::ByDuration(Duration::from_secs(5_400)));
        for wrong in
            ["by_duration:", "by_duration:P", "by_duration:PT", "by_duration:1H", "by_duration:PT1H2", "sooner"]
        {
            assert!(of(wrong).unwrap_err().to_string().contains("by_duration:PnDTnHnMnS"), "{wrong}");
        }
    }

    #[test]
    fn a_level_goes_to_its_codec() {
        let of = |codec: &str, key: &str, level: &str| {
            let pair = |k: &str, v: &str| (k.to_owned(), Value::String(v.to_owned()));
            let pairs = [pair("bootstrap.servers", "h:1"), pair("compression.type", codec), pair(key, level)];
            Config::parse(Role::Producer, pairs).and_then(|c| c.producer()).map(|p| p.compression)
        };
        let level = |compression, level| Codec::with_level(compression, level).unwrap();
        assert_eq!(of("gzip", "compression.gzip.level", "9").unwrap(), level(Compression::Gzip, 9));
        assert_eq!(of("zstd", "compression.zstd.level", "-5").unwrap(), level(Compression::Zstd, -5));
        assert_eq!(of("lz4", "compression.gzip.level", "9").unwrap(), Compression::Lz4.into());
        assert!(of("gzip", "compression.gzip.level", "0").unwrap_err().message().contains("cannot be 0"));
    }

    #[test]
    fn partitioners_of_the_java_client_are_those_of_klamm() {
        let of = |name: &str| parse(Role::Producer, "partitioner.class", name).and_then(|c| c.producer());
        let java = |class: &str| of(&format!("org.apache.kafka.clients.producer.{class}")).unwrap().partitioner;
        assert_eq!(java("internals.DefaultPartitioner"), Partitioner::Murmur2);
        assert_eq!(java("RoundRobinPartitioner"), Partitioner::RoundRobin);
        assert_eq!(java("UniformStickyPartitioner"), Partitioner::Uniform);
        assert!(of("murmur2").unwrap_err().hint().unwrap().contains("murmur2_random"));
    }

    #[test]
    fn addresses_come_with_and_without_port() {
        let of = |s: &str| {
            Config::parse(Role::Admin, [("bootstrap.servers".to_owned(), Value::String(s.to_owned()))])
                .and_then(|c| c.bootstrap())
        };
        let expected = [("a".to_owned(), 1), ("b".to_owned(), 9092), ("[::1]".to_owned(), 2)];
        assert_eq!(of("a:1, b,PLAINTEXT://[::1]:2").unwrap(), expected);
        assert!(of("a:x").is_err() && of(":1").is_err() && of("").is_err() && of("a:0").is_err());
    }
}

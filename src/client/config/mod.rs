//! The configuration of a client: converts keys and values to the settings of the state machines and sockets.

mod addresses;
pub(super) mod aliases;
mod foreign;
pub(super) mod keys;
mod log_levels;
mod security;
mod values;

pub use addresses::parse_address;
pub use aliases::{Verdict, verdict};
pub use foreign::{FOREIGN_OPTIONS, ForeignOption};
pub use keys::{ClientType, KEYS, Key, Kind, find as find_key};
pub use values::Value;

use super::Error;
use crate::api::Release;
use crate::compress::{Codec, Compression, DEFAULT_LIMIT};
use crate::engine::consumer::{ConsumerConfig, Reset};
use crate::engine::group::{CustomAssignor, GroupConfig, Protocol, ShareMemberConfig, Strategy, assignor};
use crate::engine::producer::{Partitioner, ProducerConfig};
use crate::engine::sasl::Nonces;
use crate::engine::share::ShareConfig;
use crate::engine::telemetry::TelemetryConfig;
use crate::engine::version_probe::SAYS_VERSIONS;
use crate::engine::{Endpoints, NetworkConfig};
use crate::frame::DEFAULT_MAX_FRAME;
use crate::logging::flight::Flight;
use crate::logging::{Levels, LogIdentity, Sink};
use crate::net::tls;
use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use values::{BY_DURATION, Values, age, invalid};

/// The brokers to which a client connects, and the settings of the connections.
pub(super) struct Connecting {
    pub network: NetworkConfig,
    pub tls: Option<Arc<tls::Client>>,
    pub telemetry: TelemetryConfig,
    pub log: Arc<LogIdentity>,
}

/// A checked configuration.
#[derive(Clone)]
pub struct Config {
    values: Values,
    assignors: Vec<Arc<dyn CustomAssignor>>,
    sink: Option<Arc<dyn Sink>>,
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.values.fmt(f)
    }
}

impl Config {
    /// Checks keys and values. The error names the key, the value, and the allowed values.
    pub fn parse(client: ClientType, pairs: impl IntoIterator<Item = (String, Value)>) -> Result<Self, Error> {
        Self::parse_with(client, pairs, Vec::new())
    }

    /// Checks keys and values like [`Config::parse`], but `partition.assignment.strategy` may also name one of these
    /// assignors.
    pub fn parse_with(
        client: ClientType,
        pairs: impl IntoIterator<Item = (String, Value)>,
        assignors: Vec<Arc<dyn CustomAssignor>>,
    ) -> Result<Self, Error> {
        let this = Self { values: Values::parse(client, pairs)?, assignors, sink: None };
        security::check_effect(&this.values)?;
        this.connecting()?;
        match client {
            ClientType::Producer => this.producer().map(|_| ())?,
            ClientType::Consumer => this.consumer().map(|_| ())?,
            ClientType::ShareConsumer => this.share_consumer().map(|_| ())?,
            ClientType::Admin => {}
        }
        Ok(this)
    }

    /// Fails if the configuration is for another type of client.
    pub(super) fn expect(&self, client: ClientType) -> Result<(), Error> {
        let own = self.values.client();
        if own == client {
            return Ok(());
        }
        Err(invalid(
            format!("this is the configuration of {}", own.with_article()),
            format!("parse it for {}", client.with_article()),
        ))
    }

    /// Returns the names of the options that have no effect, and the reasons: keys of another client, and options of
    /// librdkafka and the Java client for which klamm needs no setting.
    pub fn ignored(&self) -> &[(String, String)] {
        self.values.ignored()
    }

    /// Sends log lines to this sink instead of the crate `log`.
    pub fn log_to(&mut self, sink: Arc<dyn Sink>) {
        self.sink = Some(sink);
    }

    /// Returns whether the configuration enables log lines of level debug.
    pub fn debugs(&self) -> bool {
        self.log_levels().is_ok_and(|levels| !levels.demanded.is_empty())
    }

    fn log_levels(&self) -> Result<Levels, Error> {
        let contexts = match self.values.get("debug") {
            Some(Value::List(contexts)) => contexts.as_slice(),
            _ => &[],
        };
        log_levels::levels(self.values.int("log.level"), contexts)
    }

    /// Returns whether a call fails at once if the buffer is full.
    pub(super) fn drop_when_full(&self) -> bool {
        self.values.bool("drop.when.full")
    }

    /// Returns the timeout of calls without a timeout of their own.
    pub fn api_timeout(&self) -> Duration {
        self.values.ms("default.api.timeout.ms")
    }

    /// Returns how long closing a client waits if the program passes no timeout.
    pub fn default_close_timeout(&self) -> Duration {
        self.values.ms("default.close.timeout.ms")
    }

    /// Returns whether polls wait for the end of an outage instead of raising an error.
    pub fn waits_in_outage(&self) -> bool {
        self.values.text("outage") == "wait"
    }

    /// Returns how long closing a client waits after an exception.
    pub fn close_timeout(&self) -> Duration {
        self.values.seconds("close.timeout")
    }

    /// Returns the largest number of records that one poll returns.
    pub fn max_poll_records(&self) -> usize {
        self.values.size("max.poll.records")
    }

    /// Returns the type and the addresses of the nodes to which the client connects first.
    fn bootstrap(&self) -> Result<(Endpoints, Vec<(String, u16)>), Error> {
        let lists = [Endpoints::Brokers, Endpoints::Controllers].map(|endpoints| {
            let Some(Value::List(list)) = self.values.get(endpoints.key()) else { return None };
            Some((endpoints, list))
        });
        let (endpoints, servers) = match lists {
            [Some((brokers, servers)), Some((controllers, list))] if !servers.is_empty() && !list.is_empty() => {
                return Err(invalid(
                    format!("{} and {} cannot both be set", brokers.key(), controllers.key()),
                    "leave out bootstrap.controllers, unless no broker can be reached".to_owned(),
                ));
            }
            [_, Some(controllers)] if !controllers.1.is_empty() => controllers,
            [Some(brokers), _] => brokers,
            [None, _] => {
                return Err(invalid(
                    "bootstrap.servers is missing".to_owned(),
                    "set at least one broker as host:port".to_owned(),
                ));
            }
        };
        let key = endpoints.key();
        let protocol = self.values.optional("security.protocol").filter(|_| self.values.is_set("security.protocol"));
        let parse = |server: &String| parse_address(key, server, protocol.as_deref());
        let addresses = servers.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
        if addresses.is_empty() {
            return Err(invalid(
                "bootstrap.servers is empty".to_owned(),
                "set at least one broker as host:port".to_owned(),
            ));
        }
        Ok((endpoints, addresses))
    }

    /// Returns whether the client accepts a certificate for another host name.
    pub fn trusts_any_host(&self) -> bool {
        security::trusts_any_host(&self.values)
    }

    /// Returns what the client sends to brokers without encryption: a password, a token, or nothing.
    pub fn exposed_secret(&self) -> Option<&'static str> {
        security::exposed_secret(&self.values)
    }

    /// Returns the settings for tokens or Kerberos tickets, including the settings in `sasl.jaas.config`.
    pub fn token_settings(&self) -> Result<Vec<(&'static str, String)>, Error> {
        security::token_settings(&self.values)
    }

    /// Returns the brokers to which the client connects, and the settings of the connections.
    pub(super) fn connecting(&self) -> Result<Connecting, Error> {
        let telemetry = TelemetryConfig {
            is_enabled: self.values.bool("enable.metrics.push"),
            labels: self.telemetry_labels(),
            started_ms: wall_ms(),
            request_timeout: self.values.ms("request.timeout.ms"),
            seed: seed(),
        };
        let (client_id, limit) = (self.values.text("client.id"), self.values.size("flight.recorder.bytes"));
        let path = self.values.optional("flight.recorder.path").map(PathBuf::from);
        let keeps_values = self.values.bool("flight.recorder.values");
        let flight = (limit > 0).then(|| Flight::new(&client_id, limit, path, keeps_values));
        let log = Arc::new(LogIdentity::new(&client_id, self.log_levels()?, self.sink.clone(), flight));
        Ok(Connecting { network: self.network()?, tls: security::tls(&self.values)?, telemetry, log })
    }

    /// Returns the labels of the client in its telemetry, as in the Java client.
    fn telemetry_labels(&self) -> Vec<(&'static str, String)> {
        let labels: &[(&'static str, &'static str)] = match self.values.client() {
            ClientType::Producer => &[("transactional.id", "transactional_id")],
            ClientType::Consumer => {
                &[("group.id", "group_id"), ("group.instance.id", "group_instance_id"), ("client.rack", "client_rack")]
            }
            ClientType::ShareConsumer => &[("group.id", "group_id"), ("client.rack", "client_rack")],
            ClientType::Admin => &[],
        };
        let value = |(key, label): &(&'static str, &'static str)| (*label, self.values.text(key));
        labels.iter().map(value).filter(|(_, value)| !value.is_empty()).collect()
    }

    pub(super) fn network(&self) -> Result<NetworkConfig, Error> {
        let (endpoints, bootstrap) = self.bootstrap()?;
        Ok(NetworkConfig {
            bootstrap,
            endpoints,
            client_id: self.values.text("client.id"),
            request_timeout: self.values.ms("request.timeout.ms"),
            keep_alive: self.values.bool("socket.keepalive.enable"),
            max_idle: Some(self.values.int("connections.max.idle.ms"))
                .filter(|ms| *ms > 0)
                .map(|ms| Duration::from_millis(ms.unsigned_abs())),
            setup_timeout: self.values.ms("socket.connection.setup.timeout.ms"),
            reconnect_backoff: (self.values.ms("reconnect.backoff.ms"), self.values.ms("reconnect.backoff.max.ms")),
            retry_backoff: self.retry_backoff(),
            metadata_max_age: self.values.ms("metadata.max.age.ms"),
            allow_auto_topic_creation: self.values.client() != ClientType::Admin
                && self.values.bool("allow.auto.create.topics"),
            // A fetch response may exceed fetch.max.bytes by one batch.
            max_frame: DEFAULT_MAX_FRAME.max(2 * self.values.size("fetch.max.bytes")),
            seed: seed(),
            versions_timeout: self.values.ms("api.version.request.timeout.ms"),
            version_fallback: self.version_fallback()?,
            credentials: security::credentials(&self.values)?.map(Arc::new),
            // The hash keys behind a seed come from the system's random numbers, so four seeds are random enough for a
            // nonce.
            nonces: Nonces::new(std::array::from_fn(|i| seed().to_le_bytes()[i % 8])),
        })
    }

    /// Returns the assumed release of a broker that does not support ApiVersions. Brokers support ApiVersions from
    /// Kafka 0.10 on.
    fn version_fallback(&self) -> Result<Option<Release>, Error> {
        let text = self.values.text("broker.version.fallback");
        if text == "auto" {
            return Ok(None);
        }
        let release = Release::parse(&text).ok_or_else(|| {
            let hint = "set auto, or a release from 0.8.0 on; use klamm.legacy for earlier releases".to_owned();
            invalid(format!("broker.version.fallback cannot be {text:?}"), hint)
        })?;
        Ok(Some(release).filter(|release| *release < SAYS_VERSIONS))
    }

    pub(super) fn retry_backoff(&self) -> (Duration, Duration) {
        (self.values.ms("retry.backoff.ms"), self.values.ms("retry.backoff.max.ms"))
    }

    pub(super) fn producer(&self) -> Result<ProducerConfig, Error> {
        let acks = match self.values.get("acks") {
            Some(Value::Int(acks)) => i16::try_from(*acks).unwrap_or(-1),
            _ => -1,
        };
        let transactions = self.values.id("transactional.id", "for a producer without transactions")?;
        let transactions = transactions.map(|id| (id.into(), self.values.ms("transaction.timeout.ms")));
        let is_requested = self.values.is_set("enable.idempotence") || transactions.is_some();
        let idempotent = self.values.bool("enable.idempotence") && (is_requested || acks == -1);
        if transactions.is_some() && !idempotent {
            let hint = "set enable.idempotence=true, or leave transactional.id out".to_owned();
            return Err(invalid("transactional.id needs enable.idempotence".to_owned(), hint));
        }
        if idempotent && acks != -1 {
            let hint = "set acks=all, or enable.idempotence=false".to_owned();
            return Err(invalid(format!("enable.idempotence needs acks=all, acks is {acks}"), hint));
        }
        let max_in_flight = self.values.size("max.in.flight.requests.per.connection");
        if idempotent && max_in_flight > 5 {
            let hint = "set max.in.flight.requests.per.connection to 5 or less, or enable.idempotence=false".to_owned();
            let message = format!(
                "enable.idempotence needs max.in.flight.requests.per.connection of 5 or less, not {max_in_flight}"
            );
            return Err(invalid(message, hint));
        }
        Ok(ProducerConfig {
            acks,
            linger: self.values.ms("linger.ms"),
            batch_size: self.values.size("batch.size"),
            buffer_memory: self.values.size("buffer.memory"),
            max_request_size: self.values.size("max.request.size"),
            compression: self.codec()?,
            delivery_timeout: self.values.ms("delivery.timeout.ms"),
            request_timeout: self.values.ms("request.timeout.ms"),
            max_block: self.values.ms("max.block.ms"),
            retry_backoff: self.retry_backoff(),
            retries: u32::try_from(self.values.int("retries")).unwrap_or(u32::MAX),
            idempotent,
            idempotence_required: is_requested && idempotent,
            transactions,
            partitioner: Partitioner::from_name(&self.values.text("partitioner")),
            adaptive: self.values.bool("partitioner.adaptive.partitioning.enable"),
            max_in_flight,
            metadata_max_idle: self.values.ms("metadata.max.idle.ms"),
            seed: seed(),
        })
    }

    fn codec(&self) -> Result<Codec, Error> {
        let compression = Compression::from_name(&self.values.text("compression.type")).unwrap_or_default();
        let key = match compression {
            Compression::Gzip => "compression.gzip.level",
            Compression::Zstd => "compression.zstd.level",
            _ => return Ok(compression.into()),
        };
        let level = i32::try_from(self.values.int(key)).unwrap_or(-1);
        Codec::with_level(compression, level).map_err(|why| invalid(format!("{key} cannot be {level}"), why))
    }

    pub(super) fn consumer(&self) -> Result<ConsumerConfig, Error> {
        let group = self.values.id("group.id", "to read without a group")?;
        self.values.id("group.instance.id", "for a member that is not static")?;
        let auto = self.values.bool("enable.auto.commit") && group.is_some();
        let strategies = self.strategies()?;
        let group = group.map(|group| self.group(group, strategies)).transpose()?;
        Ok(ConsumerConfig {
            group,
            reset: match self.values.text("auto.offset.reset").as_str() {
                "earliest" => Reset::Earliest,
                "latest" => Reset::Latest,
                other => other.strip_prefix(BY_DURATION).and_then(age).map_or(Reset::None, Reset::ByDuration),
            },
            started_ms: wall_ms(),
            auto_commit: auto.then(|| self.values.ms("auto.commit.interval.ms")),
            offsets_retention: self.offsets_retention()?,
            min_bytes: self.values.i32("fetch.min.bytes"),
            max_wait: self.values.ms("fetch.max.wait.ms"),
            max_bytes: self.values.i32("fetch.max.bytes"),
            max_partition_bytes: self.values.i32("max.partition.fetch.bytes"),
            prefetch_bytes: self.values.size("queued.max.bytes"),
            check_crcs: self.values.bool("check.crcs"),
            read_committed: self.values.text("isolation.level") == "read_committed",
            rack: self.values.text("client.rack"),
            replica_max_age: self.values.ms("metadata.max.age.ms"),
            retry_backoff: self.retry_backoff(),
            request_timeout: self.values.ms("request.timeout.ms"),
            api_timeout: self.values.ms("default.api.timeout.ms"),
            decompress_limit: DEFAULT_LIMIT,
        })
    }
}

impl Config {
    fn offsets_retention(&self) -> Result<Option<Duration>, Error> {
        let key = "offsets.retention.ms";
        let refused = |with: &str| {
            let hint = "leave offsets.retention.ms out, and set offsets.retention.minutes on the brokers".to_owned();
            Err(invalid(format!("{key} cannot be combined with {with}: a request has only one of them"), hint))
        };
        match u64::try_from(self.values.int(key)) {
            Err(_) => Ok(None),
            Ok(_) if self.values.text("group.protocol") == "consumer" => refused("group.protocol=consumer"),
            Ok(_) if !self.values.text("group.instance.id").is_empty() => refused("group.instance.id"),
            Ok(ms) => Ok(Some(Duration::from_millis(ms))),
        }
    }

    pub(super) fn share_consumer(&self) -> Result<ShareConfig, Error> {
        let group = self.values.text("group.id");
        if group.is_empty() {
            let hint = "set group_id, or use a consumer to read without a group".to_owned();
            return Err(invalid("a share consumer needs a group.id".to_owned(), hint));
        }
        Ok(ShareConfig {
            member: ShareMemberConfig {
                group,
                rack: self.values.text("client.rack"),
                request_timeout: self.values.ms("request.timeout.ms"),
                api_timeout: self.values.ms("default.api.timeout.ms"),
                retry_backoff: self.retry_backoff(),
                seed: seed(),
            },
            started_ms: wall_ms(),
            record_limit: self.values.text("share.acquire.mode") == "record_limit",
            max_records: self.values.i32("max.poll.records"),
            min_bytes: self.values.i32("fetch.min.bytes"),
            max_wait: self.values.ms("fetch.max.wait.ms"),
            max_bytes: self.values.i32("fetch.max.bytes"),
            check_crcs: self.values.bool("check.crcs"),
            decompress_limit: DEFAULT_LIMIT,
        })
    }

    /// Returns whether the application has to acknowledge each record.
    pub fn acknowledges_explicitly(&self) -> bool {
        self.values.text("share.acknowledgement.mode") == "explicit"
    }

    /// Returns the assignors of a classic group. The assignors are checked even without a group, so that the user sees
    /// a typing error at once.
    fn strategies(&self) -> Result<Vec<Strategy>, Error> {
        let classic_key = OF_CLASSIC_GROUPS.iter().find(|(key, ..)| self.values.is_set(key));
        if let Some((key, why, instead)) = classic_key.filter(|_| self.values.text("group.protocol") == "consumer") {
            let message = format!("{key} cannot be combined with group.protocol=consumer: {why}");
            return Err(invalid(message, format!("leave it out; {instead}")));
        }
        let key = "partition.assignment.strategy";
        let names = match self.values.get(key) {
            Some(Value::List(names)) => names.clone(),
            _ => vec!["range".to_owned(), "cooperative-sticky".to_owned()],
        };
        let wrong = |what: String| {
            let names: Vec<&str> = assignor::ALL.iter().map(|a| a.name()).collect();
            invalid(format!("{key} {what}"), format!("allowed are {}", names.join(", ")))
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
        let protocol = match self.values.text("group.protocol").as_str() {
            "consumer" => Protocol::Consumer(Some(self.values.text("group.remote.assignor")).filter(|a| !a.is_empty())),
            _ => Protocol::Classic(strategies),
        };
        let (session_timeout, heartbeat_interval) =
            (self.values.ms("session.timeout.ms"), self.values.ms("heartbeat.interval.ms"));
        if heartbeat_interval >= session_timeout {
            let message =
                format!("heartbeat.interval.ms is {heartbeat_interval:?} and session.timeout.ms {session_timeout:?}");
            return Err(invalid(message, "the interval should be at most a third of the timeout".to_owned()));
        }
        Ok(GroupConfig {
            group,
            instance: Some(self.values.text("group.instance.id")).filter(|i| !i.is_empty()),
            rack: self.values.text("client.rack"),
            protocol,
            session_timeout,
            heartbeat_interval,
            max_poll_interval: self.values.ms("max.poll.interval.ms"),
            request_timeout: self.values.ms("request.timeout.ms"),
            api_timeout: self.values.ms("default.api.timeout.ms"),
            retry_backoff: self.retry_backoff(),
            seed: seed(),
        })
    }
}

/// Keys that klamm rejects with group.protocol=consumer (KIP-848), like the Java client. Each entry has the key, the
/// reason, and what to do instead.
const OF_CLASSIC_GROUPS: [(&str, &str, &str); 3] = [
    (
        "partition.assignment.strategy",
        "the coordinator assigns the partitions",
        "use group.remote.assignor to pick an assignor of the coordinator",
    ),
    (
        "session.timeout.ms",
        "the brokers set the session timeout",
        "set consumer.session.timeout.ms of the group, with admin.alter_configs(\"group\", ...)",
    ),
    (
        "heartbeat.interval.ms",
        "the brokers set the heartbeat interval",
        "set consumer.heartbeat.interval.ms of the group, with admin.alter_configs(\"group\", ...)",
    ),
];

/// Returns the time in milliseconds since 1970.
fn wall_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as i64)
}

/// Returns a seed that differs between clients. The seed comes from the standard library's hash keys, which are random
/// for each process and differ for each call.
fn seed() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::values::check;
    use super::*;

    fn parse(client: ClientType, name: &str, value: &str) -> Result<Config, Error> {
        let pair = |k: &str, v: &str| (k.to_owned(), Value::String(v.to_owned()));
        Config::parse(client, [pair("bootstrap.servers", "localhost:1"), pair(name, value)])
    }

    #[test]
    fn every_default_is_allowed() {
        for key in KEYS.iter().filter(|k| !k.default.is_empty()) {
            check(key, Value::String(key.default.to_owned())).unwrap();
        }
    }

    #[test]
    fn the_error_of_an_unknown_key_suggests_a_similar_one() {
        let error = parse(ClientType::Producer, "linger.mss", "1").unwrap_err();
        assert_eq!(error.hint(), Some("did you mean linger.ms?"));
        let error = parse(ClientType::ShareConsumer, "isolation.level", "read_committed").unwrap_err();
        assert_eq!(error.hint(), Some("it is a key of the consumer"));
    }

    #[test]
    fn options_of_other_clients_are_ignored_or_rejected_with_a_reason() {
        let ignored = |name: &str, value: &str| {
            parse(ClientType::Consumer, name, value)
                .map(|c| c.ignored().iter().map(|(name, _)| name.clone()).collect::<Vec<_>>())
        };
        for (name, value) in [("linger.ms", "x"), ("log.connection.close", "false"), ("client.dns.lookup", "default")] {
            assert_eq!(ignored(name, value).unwrap(), [name.to_owned()]);
        }
        assert_eq!(ignored("fetch.min.bytes", "1").unwrap(), Vec::<String>::new());
        assert!(ignored("ssl.crl.location", "crl.pem").unwrap_err().hint().unwrap().contains("revocation"));
        let strategies = "org.apache.kafka.clients.consumer.RoundRobinAssignor, sticky";
        assert!(parse(ClientType::Consumer, "partition.assignment.strategy", strategies).is_ok());
    }

    #[test]
    fn linger_may_be_a_fraction() {
        let linger = |value: Value| {
            let pairs = [("bootstrap.servers", Value::String("h:1".to_owned())), ("linger.ms", value)];
            let pairs = pairs.map(|(key, value)| (key.to_owned(), value));
            Config::parse(ClientType::Producer, pairs).and_then(|c| c.producer()).map(|p| p.linger)
        };
        assert_eq!(linger(Value::Float(0.5)).unwrap(), Duration::from_micros(500));
        assert_eq!(linger(Value::String("0.5".to_owned())).unwrap(), Duration::from_micros(500));
        assert_eq!(linger(Value::Int(7)).unwrap(), Duration::from_millis(7));
        for wrong in [f64::NAN, f64::INFINITY, -1.0, 1e300] {
            assert!(linger(Value::Float(wrong)).is_err());
        }
    }

    #[test]
    fn the_error_of_an_invalid_value_shows_it_and_what_is_allowed() {
        let error = parse(ClientType::Producer, "acks", "al").unwrap_err();
        assert_eq!(error.message(), "acks cannot be \"al\"");
        assert_eq!(error.hint(), Some("allowed: all, -1, 0, 1; brokers before 0.9 take any number of replicas"));
        assert_eq!(parse(ClientType::Producer, "linger.ms", "-1").unwrap_err().message(), "linger.ms cannot be \"-1\"");
        assert!(parse(ClientType::Producer, "queue.buffering.max.ms", "7").is_ok());
    }

    #[test]
    fn idempotence_needs_all_acks_unless_only_acks_is_set() {
        assert!(!parse(ClientType::Producer, "acks", "1").unwrap().producer().unwrap().idempotent);
        let error = parse(ClientType::Producer, "max.in.flight", "6").unwrap_err();
        assert!(error.message().contains("max.in.flight"), "{error}");
    }

    #[test]
    fn a_blank_id_is_rejected() {
        let producer = |id: &str| parse(ClientType::Producer, "transactional.id", id).and_then(|c| c.producer());
        let consumer = |key: &str, id: &str| parse(ClientType::Consumer, key, id).and_then(|c| c.consumer());
        for blank in ["", " "] {
            assert_eq!(producer(blank).unwrap_err().hint(), Some("leave it out for a producer without transactions"));
            assert_eq!(consumer("group.id", blank).unwrap_err().hint(), Some("leave it out to read without a group"));
            assert!(consumer("group.instance.id", blank).unwrap_err().message().contains("group.instance.id"));
        }
        assert!(producer("a").is_ok() && consumer("group.id", "a").is_ok() && consumer("client.id", "").is_ok());
    }

    #[test]
    fn auto_offset_reset_accepts_names_and_ages() {
        let of = |value: &str| {
            parse(ClientType::Consumer, "auto.offset.reset", value).and_then(|c| c.consumer()).map(|c| c.reset)
        };
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
    fn a_compression_level_applies_to_its_codec() {
        let of = |codec: &str, key: &str, level: &str| {
            let pair = |k: &str, v: &str| (k.to_owned(), Value::String(v.to_owned()));
            let pairs = [pair("bootstrap.servers", "h:1"), pair("compression.type", codec), pair(key, level)];
            Config::parse(ClientType::Producer, pairs).and_then(|c| c.producer()).map(|p| p.compression)
        };
        let level = |compression, level| Codec::with_level(compression, level).unwrap();
        assert_eq!(of("gzip", "compression.gzip.level", "9").unwrap(), level(Compression::Gzip, 9));
        assert_eq!(of("zstd", "compression.zstd.level", "-5").unwrap(), level(Compression::Zstd, -5));
        assert_eq!(of("lz4", "compression.gzip.level", "9").unwrap(), Compression::Lz4.into());
        assert!(of("gzip", "compression.gzip.level", "0").unwrap_err().message().contains("cannot be 0"));
    }

    #[test]
    fn class_names_of_java_partitioners_are_accepted() {
        let of = |name: &str| parse(ClientType::Producer, "partitioner.class", name).and_then(|c| c.producer());
        let java = |class: &str| of(&format!("org.apache.kafka.clients.producer.{class}")).unwrap().partitioner;
        assert_eq!(java("internals.DefaultPartitioner"), Partitioner::Murmur2);
        assert_eq!(java("RoundRobinPartitioner"), Partitioner::RoundRobin);
        assert_eq!(java("UniformStickyPartitioner"), Partitioner::Uniform);
        assert!(of("murmur2").unwrap_err().hint().unwrap().contains("murmur2_random"));
    }
}

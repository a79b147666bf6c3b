//! Metrics of the network: connections, logins, and the requests and responses of each broker and each API.

use crate::api::Info;
use crate::engine::Time;
use crate::engine::connection::Exchange;
use crate::engine::metrics::{Family, Stat, Timing};
use std::collections::BTreeMap;

/// The requests to one broker or to all brokers, and their responses.
#[derive(Clone, Debug, Default)]
struct Traffic {
    /// Sizes of requests.
    requests: Stat,
    /// Sizes of responses.
    responses: Stat,
    latency: Timing,
}

impl Traffic {
    fn note(&mut self, now: Time, exchange: &Exchange) {
        match exchange {
            Exchange::Sent(size) => drop(self.requests.record(now, *size as f64)),
            Exchange::Received { size, latency, .. } => {
                self.responses.record(now, *size as f64);
                self.latency.note(now, *latency);
            }
            Exchange::Login { .. } => {}
        }
    }

    fn put(&self, family: &mut Family, now: Time) {
        family.events("request", &self.requests, now);
        family.spread("request-size", &self.requests, now);
        family.sums("outgoing-byte", &self.requests, now);
        family.events("response", &self.responses, now);
        family.sums("incoming-byte", &self.responses, now);
        family.percentiles("request-latency", &self.latency, now);
    }
}

/// The network's metrics.
#[derive(Clone, Debug, Default)]
pub struct NetworkMetrics {
    all: Traffic,
    brokers: BTreeMap<i32, Traffic>,
    /// Latencies of the APIs, by API key.
    apis: BTreeMap<i16, (&'static str, Timing)>,
    opened: Stat,
    closed: Stat,
    reopened: Stat,
    /// Attempts to connect that failed before the connection was established.
    pub(super) unconnected: Stat,
    logged_in: Stat,
    logged_in_again: Stat,
    login_failed: Stat,
    /// When the last response of each API arrived.
    last: BTreeMap<i16, Time>,
}

impl NetworkMetrics {
    pub(super) fn note(&mut self, now: Time, node: i32, exchange: &Exchange) {
        self.all.note(now, exchange);
        self.brokers.entry(node).or_default().note(now, exchange);
        match exchange {
            Exchange::Received { api, latency, .. } => {
                self.apis.entry(api.key).or_insert_with(|| (api.name, Timing::default())).1.note(now, *latency);
                self.last.insert(api.key, now);
            }
            Exchange::Login { again } => self.note_login(now, *again),
            Exchange::Sent(_) => {}
        }
    }

    pub(super) fn note_opened(&mut self, now: Time, again: bool) {
        self.opened.note(now);
        if again {
            self.reopened.note(now);
        }
    }

    pub(super) fn note_closed(&mut self, now: Time) {
        self.closed.note(now);
    }

    pub(super) fn note_login(&mut self, now: Time, again: bool) {
        if again { self.logged_in_again.note(now) } else { self.logged_in.note(now) }
    }

    pub(super) fn note_refused_login(&mut self, now: Time) {
        self.login_failed.note(now);
    }

    /// Returns the latency of an API, and when its last response arrived.
    pub fn api(&self, api: &Info) -> (Timing, Option<Time>) {
        let timing = self.apis.get(&api.key).map(|(_, timing)| timing.clone()).unwrap_or_default();
        (timing, self.last.get(&api.key).copied())
    }

    /// Returns the metrics of all connections, of each broker, and of each API. `prefix` is the Java client's name for
    /// the type of the client: `producer`, `consumer`, `consumer-share` or `admin-client`.
    pub fn families(&self, prefix: &str, now: Time) -> Vec<Family> {
        let mut all = Family::new(format!("{prefix}-metrics"));
        all.put("connection-count", self.opened.count().saturating_sub(self.closed.count()));
        all.events("connection-creation", &self.opened, now);
        all.events("connection-close", &self.closed, now);
        all.events("connection-failure", &self.unconnected, now);
        all.events("reconnection", &self.reopened, now);
        all.events("successful-authentication", &self.logged_in, now);
        all.events("successful-reauthentication", &self.logged_in_again, now);
        all.events("failed-authentication", &self.login_failed, now);
        self.all.put(&mut all, now);
        let (sent, received) = (self.all.requests.recent(now), self.all.responses.recent(now));
        all.put("network-io-total", self.all.requests.count() + self.all.responses.count());
        all.put("network-io-rate", sent.event_rate() + received.event_rate());
        let brokers = self.brokers.iter().map(|(node, traffic)| {
            let mut family = Family::new(format!("{prefix}-node-metrics")).tag("node-id", format!("node-{node}"));
            traffic.put(&mut family, now);
            family
        });
        let apis = self.apis.values().map(|(name, timing)| {
            let mut family = Family::new(format!("{prefix}-request-metrics")).tag("request", name);
            family.events("response", timing.stat(), now);
            family.percentiles("latency", timing, now);
            family
        });
        std::iter::once(all).chain(brokers).chain(apis).collect()
    }
}

/// The state of a connection.
#[derive(Clone, Debug)]
pub struct LinkState {
    /// The broker's ID, or -1 for an address of the bootstrap list.
    pub node: i32,
    /// The broker's host.
    pub host: String,
    /// The broker's port.
    pub port: u16,
    /// librdkafka's name of the state.
    pub state: &'static str,
    /// The number of requests in flight.
    pub in_flight: usize,
    /// The number of requests that wait for the connection.
    pub waiting: usize,
    /// How many connections the client has established.
    pub connects: u64,
}

impl NetworkMetrics {
    /// Returns the latencies of each broker in the form of librdkafka's statistics.
    pub fn windows(&self, now: Time) -> impl Iterator<Item = Family> {
        self.brokers.iter().map(move |(node, traffic)| {
            let mut family = Family::new("klamm-windows").tag("node-id", format!("node-{node}")).tag("window", "rtt");
            family.values = traffic.latency.window(now);
            family
        })
    }
}

//! The metrics of a client: the metrics of its state machine and of its connections.

use super::Cluster;
use super::shared::ClientRole;
use crate::api::{
    Info, consumer_group_heartbeat, fetch, heartbeat, join_group, offset_commit, share_fetch, share_group_heartbeat,
    sync_group,
};
pub use crate::engine::metrics::{Family, Number};
use crate::engine::{LinkState, NetworkMetrics, Time, address};
use std::sync::Arc;
use std::time::Duration;

/// A snapshot of a client's network.
#[derive(Clone, Debug, Default)]
pub struct NetworkSnapshot {
    /// The metrics of the connections.
    pub metrics: NetworkMetrics,
    /// The age of the metadata.
    pub metadata_age: Duration,
    /// When the client was closed.
    pub closed_at: Option<Time>,
    /// The state of the connections, for [`details`].
    pub links: Vec<LinkState>,
    /// The state of the cluster.
    pub cluster: Arc<Cluster>,
}

impl NetworkSnapshot {
    /// Adds the latency and the number of fetches.
    pub fn put_fetches(&self, family: &mut Family, api: &Info, now: Time) {
        let (latency, _) = self.metrics.api(api);
        family.events("fetch", latency.stat(), now);
        family.percentiles("fetch-latency", &latency, now);
    }

    /// Adds the metrics of the coordinator's responses.
    pub fn put_coordinator(&self, family: &mut Family, heartbeats: &[&Info], now: Time) {
        for (latency, at) in heartbeats.iter().map(|api| self.metrics.api(api)).filter(|(_, at)| at.is_some()) {
            family.events("heartbeat", latency.stat(), now);
            family.put("heartbeat-response-time-max", latency.stat().recent(now).max);
            let ago = at.map_or(-1.0, |at| now.since(at).as_secs_f64());
            family.put("last-heartbeat-seconds-ago", ago);
        }
    }

    fn put_classic(&self, family: &mut Family, now: Time) {
        let (commits, _) = self.metrics.api(&offset_commit::API);
        family.events("commit", commits.stat(), now);
        family.percentiles("commit-latency", &commits, now);
        for (name, api) in [("join", &join_group::API), ("sync", &sync_group::API)] {
            let (latency, _) = self.metrics.api(api);
            family.events(name, latency.stat(), now);
            family.spread(&format!("{name}-time"), latency.stat(), now);
        }
    }

    /// Adds the latencies of a consumer's requests to its families.
    pub(super) fn add_to_consumer(&self, families: &mut [Family], now: Time) {
        for family in families.iter_mut().filter(|f| f.tags.is_empty()) {
            match &*family.group {
                "consumer-fetch-manager-metrics" => self.put_fetches(family, &fetch::API, now),
                "consumer-coordinator-metrics" => {
                    self.put_coordinator(family, &[&heartbeat::API, &consumer_group_heartbeat::API], now);
                    self.put_classic(family, now);
                }
                "consumer-share-fetch-manager-metrics" => self.put_fetches(family, &share_fetch::API, now),
                "consumer-share-coordinator-metrics" => {
                    self.put_coordinator(family, &[&share_group_heartbeat::API], now);
                }
                _ => {}
            }
        }
    }
}

/// Merges families about the same object. If two families have the same metric, the value of the earlier family counts.
fn merge(families: impl IntoIterator<Item = Family>) -> Vec<Family> {
    let mut merged: Vec<Family> = Vec::new();
    for family in families {
        match merged.iter_mut().find(|f| f.group == family.group && f.tags == family.tags) {
            Some(known) => {
                let is_new = |name: &str| !known.values.iter().any(|(n, _)| n == name);
                let more: Vec<_> = family.values.into_iter().filter(|(name, _)| is_new(name)).collect();
                known.values.extend(more);
            }
            None => merged.push(family),
        }
    }
    merged
}

/// Returns the metrics of a client with this state and network.
pub(super) fn families<R: ClientRole>(
    shared: &super::shared::Shared<R>,
    network: &NetworkSnapshot,
    now: Time,
) -> Vec<Family> {
    let mut of_role = R::families(&shared.state(), &shared.unlocked, now);
    network.add_to_consumer(&mut of_role, now);
    let mut all = Family::new(format!("{}-metrics", R::METRICS));
    all.put("metadata-age", network.metadata_age.as_secs_f64());
    let all = merge(of_role.into_iter().chain(network.metrics.families(R::METRICS, now)).chain([all]));
    all.into_iter().chain(shared.identity.application()).collect()
}

/// Returns the state of connections and partitions. These values are not metrics, but librdkafka's statistics contain
/// them.
pub(super) fn details<R: ClientRole>(
    shared: &super::shared::Shared<R>,
    network: &NetworkSnapshot,
    now: Time,
) -> Vec<Family> {
    let links = network.links.iter().map(|link| {
        let mut family = Family::new("klamm-connections")
            .tag("node-id", format!("node-{}", link.node))
            .tag("address", address(&link.host, link.port))
            .tag("state", link.state);
        family.put("in-flight", link.in_flight);
        family.put("waiting", link.waiting);
        family.put("connects", link.connects);
        family.put("disconnects", link.connects.saturating_sub(u64::from(matches!(link.state, "UP" | "AUTH_REQ"))));
        family
    });
    let topics = network.cluster.topics.iter().filter(|(_, topic)| !topic.error.is_error());
    let partitions = topics.flat_map(|(name, topic)| {
        topic.partitions.iter().zip(0..).map(move |(partition, number)| {
            let mut family = Family::new("klamm-leaders").tag("topic", name).tag("partition", number);
            family.put("leader", f64::from(partition.leader));
            family
        })
    });
    let mut all = Family::new("klamm-client");
    all.put("age-us", now.0);
    let windows = network.metrics.windows(now).chain(R::windows(&shared.state(), now));
    links.chain(partitions).chain(windows).chain([all]).collect()
}

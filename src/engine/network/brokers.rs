//! Reads metadata responses, and updates the peers: each broker of the cluster has one peer, with the current address
//! of the broker.

use super::peer::{Link, MetadataPurpose, Peer, PeerId};
use super::{Action, Endpoints, Network, REFUSED_WAIT};
use crate::api::{ErrorCode, metadata};
use crate::engine::cluster::MetadataCall;
use crate::engine::{Cluster, Error, ErrorKind, Reply, Target, Time};
use std::collections::BTreeMap;
use std::sync::Arc;

impl Network {
    /// Handles a metadata response.
    pub(super) fn handle_metadata_response(
        &mut self,
        now: Time,
        id: PeerId,
        purpose: MetadataPurpose,
        result: Result<Reply, Error>,
    ) {
        self.metadata_in_flight = false;
        let requested_all =
            result.as_ref().is_ok_and(|reply| reply.version < MetadataCall::MIN_VERSION_WITHOUT_CREATION)
                && !matches!(purpose, MetadataPurpose::Create);
        let endpoints = self.config.endpoints;
        match result.and_then(|reply| endpoints.read(reply)) {
            Ok(metadata::Response { error_code: ErrorCode::REBOOTSTRAP_REQUIRED, .. }) => {
                self.schedule_metadata_retry(now, purpose);
                self.rebootstrap(now);
            }
            Ok(metadata::Response { cluster_id: Some(cluster_id), .. })
                if self.cluster.id.as_ref().is_some_and(|expected| *expected != cluster_id) =>
            {
                let error = Error::other_cluster(&cluster_id, self.cluster.id.as_deref().unwrap_or_default());
                self.schedule_metadata_retry(now, purpose);
                self.disconnect(now, id, &error);
            }
            Ok(mut response) => {
                let all = matches!(purpose, MetadataPurpose::All(_));
                if matches!(purpose, MetadataPurpose::Refresh | MetadataPurpose::Create) {
                    // The producer or consumer may no longer need some of the topics.
                    response.topics.retain(|t| t.name.as_deref().is_some_and(|name| self.topics.contains(name)));
                }
                let mut cluster = self.cluster.updated(now, response, all);
                self.forget_old(now, &mut cluster);
                let needed = self.topics.iter().map(|name| &**name);
                if all {
                    cluster.add_unknown(needed);
                } else if requested_all {
                    cluster.keep(needed);
                }
                self.apply_metadata(now, cluster);
            }
            Err(error) => {
                self.schedule_metadata_retry(now, purpose);
                self.disconnect_after_failed_metadata(now, id, &error);
            }
        }
    }

    fn apply_metadata(&mut self, now: Time, cluster: Cluster) {
        let is_incomplete = self.topics.iter().any(|name| {
            cluster.topics.get(name).is_none_or(|t| {
                (t.error.is_error() && !t.error.is_permanent())
                    || t.partitions.iter().any(|p| !cluster.brokers.contains_key(&p.leader))
            })
        });
        let wait = if is_incomplete || cluster.brokers.is_empty() {
            self.metadata_backoff.next_wait()
        } else {
            self.metadata_backoff.reset();
            // An administrator may have granted a permission since.
            let is_refused = |name: &Arc<str>| cluster.topics.get(name).is_some_and(|t| t.error.is_error());
            let max_age = self.config.metadata_max_age;
            if self.topics.iter().any(is_refused) { max_age.min(REFUSED_WAIT) } else { max_age }
        };
        self.refresh_at = Some(self.refresh_at.unwrap_or(Time::NEVER).min(now + wait));
        self.note_created(now + wait, &cluster);
        let has_left = |id: &PeerId| id.node() >= 0 && !cluster.brokers.contains_key(&id.node());
        let removed: Vec<PeerId> = self.peers.keys().copied().filter(has_left).collect();
        self.log_cluster(now, &cluster);
        self.cluster = Arc::new(cluster);
        self.cluster_changed = true;
        self.update_peers(now);
        for id in removed {
            self.drop_peer(now, id, &Error::new(ErrorKind::Network, "broker left the cluster"));
        }
        if !self.cluster.brokers.is_empty() {
            self.submit_waiting(now);
        }
    }

    /// Closes the connection to a peer that cannot return metadata, so that the client tries another peer.
    pub(super) fn disconnect_after_failed_metadata(&mut self, now: Time, id: PeerId, error: &Error) {
        let Some(Peer { link: Link::Up(connection, _), .. }) = self.peers.get(&id) else {
            return;
        };
        self.actions.push_back(Action::Close(*connection));
        if error.kind() == ErrorKind::WrongEndpoint {
            return self.fail_peer(now, id, error);
        }
        let why = Error::new(ErrorKind::Network, format!("metadata request failed: {}", error.message()));
        let endpoints = self.config.endpoints;
        let hint = || format!("{} must name {}s", endpoints.key(), endpoints.node());
        self.fail_peer(now, id, &why.with_hint(error.hint().map_or_else(hint, str::to_owned)));
    }

    /// Adds missing peers, and drops peers whose broker now has another address.
    pub(super) fn update_peers(&mut self, now: Time) {
        let cluster = self.cluster.clone();
        for b in cluster.brokers.values() {
            let has_current_address = |p: &Peer| (&p.host, p.port) == (&b.host, b.port);
            for id in [PeerId::Broker(b.id), PeerId::Fetch(b.id), PeerId::Group(b.id)] {
                if self.peers.get(&id).is_some_and(|p| !has_current_address(p)) {
                    self.drop_peer(now, id, &Error::new(ErrorKind::Network, "broker moved to another address"));
                }
            }
            if !self.peers.contains_key(&PeerId::Broker(b.id)) {
                self.add_peer(PeerId::Broker(b.id), b.host.clone(), b.port);
                self.adopt_bootstrap(PeerId::Broker(b.id));
            }
        }
    }

    /// Turns a bootstrap connection to the address of a broker into the connection of that broker.
    fn adopt_bootstrap(&mut self, id: PeerId) {
        let Some((host, port)) = self.peers.get(&id).map(|p| (p.host.clone(), p.port)) else {
            return;
        };
        let is_bootstrap = |id: &PeerId| matches!(id, PeerId::Bootstrap(_));
        let ready =
            self.peers.iter_mut().find(|(b, p)| is_bootstrap(b) && p.port == port && p.host == host && p.is_ready());
        let Some((_, bootstrap)) = ready else { return };
        let link = std::mem::replace(&mut bootstrap.link, Link::Idle);
        let connects = std::mem::take(&mut bootstrap.connects);
        let is_logged = std::mem::take(&mut bootstrap.attempt.is_logged);
        if let (Link::Up(connection, _), Some(peer)) = (&link, self.peers.get_mut(&id)) {
            self.connections.insert(*connection, id);
            peer.link = link;
            peer.connects += connects;
            peer.attempt.is_logged = is_logged;
        }
    }

    /// Bootstraps again, because a broker or a proxy requested it (KIP-1102). Drops all peers. Topics stay known, but
    /// their partitions have no leaders.
    pub(super) fn rebootstrap(&mut self, now: Time) {
        let error =
            Error::new(ErrorKind::Network, "the cluster asked the client to bootstrap again (REBOOTSTRAP_REQUIRED)");
        // The addresses may belong to another cluster now.
        let cluster = Cluster { id: None, brokers: BTreeMap::new(), controller: -1, ..(*self.cluster).clone() };
        self.cluster = Arc::new(cluster);
        self.cluster_changed = true;
        // Feature epochs of different clusters cannot be compared.
        self.finalized_features_epoch = -1;
        // No metadata request must be sent before all peers are dropped.
        self.metadata_in_flight = true;
        let is_idle = |p: &Peer| matches!(p.link, Link::Idle);
        self.peers.retain(|id, p| id.node() < 0 || !is_idle(p));
        let busy = self.peers.iter().filter(|(_, p)| !is_idle(p)).map(|(id, _)| *id);
        for id in busy.collect::<Vec<_>>() {
            match id {
                PeerId::Bootstrap(_) => self.disconnect(now, id, &error),
                _ => self.drop_peer(now, id, &error),
            }
        }
        self.metadata_in_flight = false;
    }

    /// Returns the error for a node of the wrong type, which does not support the client's request for the nodes of the
    /// cluster.
    pub(super) fn wrong_endpoint(&self, id: PeerId) -> Option<Error> {
        let Some(Peer { link: Link::Up(_, c), .. }) = self.peers.get(&id) else { return None };
        self.config.endpoints.wrong_type(|api| c.newest(api))
    }

    /// Returns the node for a request. A request for the controller goes to the active controller, or to any node while
    /// the controller is unknown. If the bootstrap list contains controllers, every request that names no known node is
    /// a request for the controller.
    pub(super) fn resolve(&self, target: Target) -> Target {
        let is_known = |id: i32| self.cluster.brokers.contains_key(&id);
        let takes_active = match target {
            Target::Controller => true,
            Target::Any => self.config.endpoints == Endpoints::Controllers,
            // Controllers change the configurations of brokers.
            Target::Node(id) => self.config.endpoints == Endpoints::Controllers && !is_known(id),
            Target::Fetch(_) | Target::Group(_) | Target::Telemetry => false,
        };
        match target {
            _ if takes_active && is_known(self.cluster.controller) => Target::Node(self.cluster.controller),
            _ if takes_active => Target::Any,
            other => other,
        }
    }

    pub(super) fn disconnect(&mut self, now: Time, id: PeerId, error: &Error) {
        if let Some(Peer { link: Link::Connecting(c, _) | Link::Up(c, _), .. }) = self.peers.get(&id) {
            self.actions.push_back(Action::Close(*c));
        }
        self.fail_peer(now, id, error);
    }

    fn drop_peer(&mut self, now: Time, id: PeerId, error: &Error) {
        self.disconnect(now, id, error);
        self.peers.remove(&id);
    }
}

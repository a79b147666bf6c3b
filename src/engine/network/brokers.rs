//! Reads metadata responses, and updates the peers: each broker of the cluster has one peer, with the current address
//! of the broker.

use super::peer::{Link, Peer, PeerId};
use super::{Action, Endpoints, Network};
use crate::api::{ErrorCode, metadata};
use crate::engine::cluster::AskMetadata;
use crate::engine::{Cluster, Error, ErrorKind, Reply, Target, Time};
use crate::wire::Uuid;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl Network {
    /// Takes in a response about all topics, the topics with these IDs, or the demanded ones.
    pub(super) fn take_metadata(
        &mut self,
        now: Time,
        id: PeerId,
        (all, ids): (bool, BTreeSet<Uuid>),
        result: Result<Reply, Error>,
    ) {
        self.metadata_in_flight = false;
        let asked_for_all = result.as_ref().is_ok_and(|reply| reply.version < AskMetadata::MAY_LEAVE)
            && !self.config.allow_auto_topic_creation;
        let endpoints = self.config.endpoints;
        match result.and_then(|reply| endpoints.read(reply)) {
            Ok(metadata::Response { error_code: ErrorCode::REBOOTSTRAP_REQUIRED, .. }) => {
                self.ask_again(now, all, ids);
                self.begin_at_bootstrap(now);
            }
            Ok(metadata::Response { cluster_id: Some(found), .. })
                if self.cluster.id.as_ref().is_some_and(|expected| *expected != found) =>
            {
                let error = Error::other_cluster(&found, self.cluster.id.as_deref().unwrap_or_default());
                self.ask_again(now, all, ids);
                self.hang_up(now, id, &error);
            }
            Ok(mut response) => {
                if !all && ids.is_empty() {
                    // The role may need some topics no longer.
                    response.topics.retain(|t| t.name.as_deref().is_some_and(|name| self.topics.contains(name)));
                }
                let mut cluster = self.cluster.updated(now, response, all);
                self.forget_old(now, &mut cluster);
                let wanted = self.topics.iter().map(|name| &**name);
                if all {
                    cluster.add_unknown(wanted);
                } else if asked_for_all {
                    cluster.keep(wanted);
                }
                self.handle_metadata(now, cluster);
            }
            Err(error) => {
                self.ask_again(now, all, ids);
                self.give_up_on(now, id, &error);
            }
        }
    }

    /// Repeats a failed metadata request after a wait.
    fn ask_again(&mut self, now: Time, all: bool, ids: BTreeSet<Uuid>) {
        let at = now + self.metadata_backoff.next_wait();
        self.all_topics |= all;
        self.refresh_at = Some(self.refresh_at.map_or(at, |t| t.max(at)));
        self.ids.extend(ids);
        self.ids_at = at;
    }

    fn handle_metadata(&mut self, now: Time, cluster: Cluster) {
        let unsettled = self.topics.iter().any(|name| {
            cluster.topics.get(name).is_none_or(|t| {
                t.error.is_retriable() || t.partitions.iter().any(|p| !cluster.brokers.contains_key(&p.leader))
            })
        });
        let wait = if unsettled || cluster.brokers.is_empty() {
            self.metadata_backoff.next_wait()
        } else {
            self.metadata_backoff.reset();
            self.config.metadata_max_age
        };
        self.refresh_at = Some(self.refresh_at.unwrap_or(Time::NEVER).min(now + wait));
        let left = |id: &PeerId| id.node() >= 0 && !cluster.brokers.contains_key(&id.node());
        let gone: Vec<PeerId> = self.peers.keys().copied().filter(left).collect();
        self.log_cluster(now, &cluster);
        self.cluster = Arc::new(cluster);
        self.cluster_changed = true;
        self.update_peers(now);
        for id in gone {
            self.drop_peer(now, id, &Error::new(ErrorKind::Network, "broker left the cluster"));
        }
        if !self.cluster.brokers.is_empty() {
            self.submit_waiting(now);
        }
    }

    /// Closes the connection to a peer that cannot return metadata, so that another one is tried.
    pub(super) fn give_up_on(&mut self, now: Time, id: PeerId, error: &Error) {
        let Some(Peer { link: Link::Up(connection, _), .. }) = self.peers.get(&id) else {
            return;
        };
        self.actions.push_back(Action::Close(*connection));
        if error.kind() == ErrorKind::WrongEndpoint {
            return self.lose(now, id, error);
        }
        let why = Error::new(ErrorKind::Network, format!("metadata request failed: {}", error.message()));
        let endpoints = self.config.endpoints;
        let hint = || format!("{} must name {}s", endpoints.key(), endpoints.node());
        self.lose(now, id, &why.with_hint(error.hint().map_or_else(hint, str::to_owned)));
    }

    /// Adds missing peers, and drops those whose broker has another address now.
    pub(super) fn update_peers(&mut self, now: Time) {
        let cluster = self.cluster.clone();
        for b in cluster.brokers.values() {
            let here = |p: &Peer| (&p.host, p.port) == (&b.host, b.port);
            for id in [PeerId::Broker(b.id), PeerId::Fetch(b.id), PeerId::Group(b.id)] {
                if self.peers.get(&id).is_some_and(|p| !here(p)) {
                    self.drop_peer(now, id, &Error::new(ErrorKind::Network, "broker moved to another address"));
                }
            }
            if !self.peers.contains_key(&PeerId::Broker(b.id)) {
                self.add_peer(PeerId::Broker(b.id), b.host.clone(), b.port);
                self.adopt_bootstrap(PeerId::Broker(b.id));
            }
        }
    }

    /// Gives a bootstrap connection to the same address to the broker.
    fn adopt_bootstrap(&mut self, id: PeerId) {
        let Some((host, port)) = self.peers.get(&id).map(|p| (p.host.clone(), p.port)) else {
            return;
        };
        let ready =
            self.peers.iter_mut().find(|(b, p)| b.node() < 0 && p.port == port && p.host == host && p.is_ready());
        let Some((_, bootstrap)) = ready else { return };
        let link = std::mem::replace(&mut bootstrap.link, Link::Idle);
        let connects = std::mem::take(&mut bootstrap.connects);
        let is_announced = std::mem::take(&mut bootstrap.attempt.is_announced);
        if let (Link::Up(connection, _), Some(peer)) = (&link, self.peers.get_mut(&id)) {
            self.connections.insert(*connection, id);
            peer.link = link;
            peer.connects += connects;
            peer.attempt.is_announced = is_announced;
        }
    }

    /// Starts again with the bootstrap list, because a broker or a proxy asked for it (KIP-1102). Drops all peers.
    /// Topics stay known, but their partitions have no leaders.
    pub(super) fn begin_at_bootstrap(&mut self, now: Time) {
        let error =
            Error::new(ErrorKind::Network, "the cluster asked the client to bootstrap again (REBOOTSTRAP_REQUIRED)");
        // The cluster may lead the client to another one.
        let cluster = Cluster { id: None, brokers: BTreeMap::new(), controller: -1, ..(*self.cluster).clone() };
        self.cluster = Arc::new(cluster);
        self.cluster_changed = true;
        // The epoch says nothing about another cluster.
        self.features = -1;
        // No metadata request must be sent before all peers are dropped.
        self.metadata_in_flight = true;
        let is_idle = |p: &Peer| matches!(p.link, Link::Idle);
        self.peers.retain(|id, p| id.node() < 0 || !is_idle(p));
        let busy = self.peers.iter().filter(|(_, p)| !is_idle(p)).map(|(id, _)| *id);
        for id in busy.collect::<Vec<_>>() {
            match id {
                PeerId::Bootstrap(_) => self.hang_up(now, id, &error),
                _ => self.drop_peer(now, id, &error),
            }
        }
        self.metadata_in_flight = false;
    }

    /// Returns the error for a node of the wrong type, which does not serve the request for the nodes of the cluster.
    pub(super) fn wrong_endpoint(&self, id: PeerId) -> Option<Error> {
        let Some(Peer { link: Link::Up(_, c), .. }) = self.peers.get(&id) else { return None };
        self.config.endpoints.wrong_type(|api| c.newest(api))
    }

    /// Returns the node for a request: the active controller, unless the request names a known node or any broker will do.
    pub(super) fn resolve(&self, target: Target) -> Target {
        let is_known = |id: i32| self.cluster.brokers.contains_key(&id);
        let takes_active = match target {
            Target::Controller => true,
            Target::Any => self.config.endpoints == Endpoints::Controllers,
            // Controllers change the configurations of brokers.
            Target::Node(id) => self.config.endpoints == Endpoints::Controllers && !is_known(id),
            Target::Fetch(_) | Target::Group(_) => false,
        };
        match target {
            _ if takes_active && is_known(self.cluster.controller) => Target::Node(self.cluster.controller),
            _ if takes_active => Target::Any,
            other => other,
        }
    }

    pub(super) fn hang_up(&mut self, now: Time, id: PeerId, error: &Error) {
        if let Some(Peer { link: Link::Connecting(c, _) | Link::Up(c, _), .. }) = self.peers.get(&id) {
            self.actions.push_back(Action::Close(*c));
        }
        self.lose(now, id, error);
    }

    fn drop_peer(&mut self, now: Time, id: PeerId, error: &Error) {
        self.hang_up(now, id, error);
        self.peers.remove(&id);
    }
}

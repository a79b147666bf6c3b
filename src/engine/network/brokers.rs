//! Who is in the cluster: each of its brokers is a peer, under the address it has now.

use super::{Action, Network};
use crate::api::{ErrorCode, metadata};
use crate::engine::cluster::AskMetadata;
use crate::engine::peer::{Link, Peer, PeerId};
use crate::engine::{Cluster, Error, ErrorKind, Reply, Time};
use crate::wire::Uuid;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl Network {
    /// Takes in what a peer says of the cluster, asked about all topics, those of ids, or those that are wanted.
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
        match result.and_then(Reply::decode) {
            Ok(metadata::Response { error_code: ErrorCode::REBOOTSTRAP_REQUIRED, .. }) => {
                self.ask_again(now, all, ids);
                self.begin_at_bootstrap(now);
            }
            Ok(mut response) => {
                if !all && ids.is_empty() {
                    // Whoever wanted to know the others let go of them meanwhile.
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

    /// Has a question that was not answered be asked again, a little later.
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
        self.cluster = Arc::new(cluster);
        self.cluster_changed = true;
        self.meet_brokers(now);
        for id in gone {
            self.drop_peer(now, id, &Error::new(ErrorKind::Network, "broker left the cluster"));
        }
        if !self.cluster.brokers.is_empty() {
            self.submit_waiting(now);
        }
    }

    /// A peer that is there but cannot tell the cluster is of no use; another one may be.
    pub(super) fn give_up_on(&mut self, now: Time, id: PeerId, error: &Error) {
        let Some(Peer { link: Link::Up(connection, _), .. }) = self.peers.get(&id) else {
            return;
        };
        self.actions.push_back(Action::Close(*connection));
        let why = Error::new(ErrorKind::Network, format!("cannot tell who is in the cluster: {}", error.message()));
        self.lose(now, id, &why.with_hint(error.hint().unwrap_or("bootstrap.servers must name brokers")));
    }

    /// Sees to it that every broker of the cluster is a peer, under the address it has now.
    pub(super) fn meet_brokers(&mut self, now: Time) {
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

    /// A bootstrap connection to the same address serves the broker from now on.
    fn adopt_bootstrap(&mut self, id: PeerId) {
        let Some((host, port)) = self.peers.get(&id).map(|p| (p.host.clone(), p.port)) else {
            return;
        };
        let ready =
            self.peers.iter_mut().find(|(b, p)| b.node() < 0 && p.port == port && p.host == host && p.is_ready());
        let Some((_, bootstrap)) = ready else { return };
        let link = std::mem::replace(&mut bootstrap.link, Link::Idle);
        if let (Link::Up(connection, _), Some(peer)) = (&link, self.peers.get_mut(&id)) {
            self.connections.insert(*connection, id);
            peer.link = link;
        }
    }

    /// Begins anew with the bootstrap list, as a broker or what stands before it asks for (KIP-1102): nobody who was reached
    /// before is asked again. Topics stay as they were, without anybody who leads their partitions.
    pub(super) fn begin_at_bootstrap(&mut self, now: Time) {
        let error = Error::new(ErrorKind::Network, "the cluster asked to begin anew with bootstrap.servers");
        self.cluster = Arc::new(Cluster { brokers: BTreeMap::new(), controller: -1, ..(*self.cluster).clone() });
        self.cluster_changed = true;
        // Of another cluster this says nothing.
        self.features = -1;
        // Whoever is left must not be asked before all are dropped.
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

    fn hang_up(&mut self, now: Time, id: PeerId, error: &Error) {
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

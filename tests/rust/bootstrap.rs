//! Getting in again by the bootstrap list: when nobody of the cluster is left, and when a cluster asks for it (KIP-899,
//! KIP-1102).

use crate::network::network_config;
use bytes::Bytes;
use klamm::api::header::{RequestHeader, put_response_header};
use klamm::api::{self, ErrorCode, api_versions, list_groups, metadata};
use klamm::engine::{Action, ConnectionId, ErrorKind, Network, Outgoing, Target, Time, Wish};
use klamm::frame::Frames;
use klamm::wire::{Reader, Value, Writer};
use std::collections::BTreeMap;
use std::time::Duration;

/// The one address that the client was told.
const BOOTSTRAP: u16 = 1;
const MINUTE: Duration = Duration::from_secs(60);

/// Who is where, under a clock.
struct World {
    now: Time,
    network: Network,
    /// What those who can be reached say of the cluster, by port: the ports of its brokers, which are their ids, too.
    says: BTreeMap<u16, Vec<u16>>,
    /// Who asks for beginning anew instead, and how often yet.
    sends_away: BTreeMap<u16, u32>,
    connections: BTreeMap<ConnectionId, (u16, Frames)>,
    /// Ports that were connected to, in order.
    tried: Vec<u16>,
    /// How much of an answer comes.
    most: usize,
}

impl World {
    fn new() -> Self {
        let network = network_config("cluster", BOOTSTRAP);
        let (says, sends_away, connections) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let network = Network::new(network);
        Self { now: Time(0), network, says, sends_away, connections, tried: Vec::new(), most: usize::MAX }
    }

    /// These brokers can be reached and nobody else, and the bootstrap address leads to one of them.
    fn is_cluster_of(&mut self, ports: &[u16]) {
        self.says = ports.iter().chain([&BOOTSTRAP]).map(|port| (*port, ports.to_vec())).collect();
        for id in std::mem::take(&mut self.connections).into_keys() {
            self.network.handle_closed(self.now, id, None);
        }
    }

    /// Has a request be answered within a minute.
    fn ask(&mut self, target: Target) {
        let (call, deadline) = (Box::new(list_groups::Request::default()), self.now + MINUTE);
        self.network.submit(self.now, Outgoing { target, call, token: 0, deadline, max_version: i16::MAX });
        while !self.play(deadline) {
            assert!(self.now < deadline, "no answer");
        }
    }

    fn wait(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.play(end);
        }
    }

    /// Plays until something is answered, or the time that something is due; says whether there was an answer.
    fn play(&mut self, end: Time) -> bool {
        self.network.handle_timeout(self.now);
        while let Some(action) = self.network.poll_action() {
            self.act(action);
            self.network.handle_timeout(self.now);
        }
        let is_answered = std::iter::from_fn(|| self.network.poll_answer()).any(|answer| answer.result.is_ok());
        if !is_answered {
            self.now = self.network.next_timeout(self.now).map_or(end, |at| at.min(end));
        }
        is_answered
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Connect(id, _, port) => {
                self.tried.push(port);
                if self.says.contains_key(&port) {
                    self.connections.insert(id, (port, Frames::new(1 << 20)));
                    self.network.handle_connected(self.now, id);
                } else {
                    self.network.handle_closed(self.now, id, Some("connection refused".to_owned()));
                }
            }
            Action::Send(id, bytes) => {
                let Some((_, frames)) = self.connections.get_mut(&id) else { return };
                frames.buffer().extend_from_slice(&bytes);
                while let Some((port, frames)) = self.connections.get_mut(&id)
                    && let Ok(Some(frame)) = frames.next_frame()
                {
                    let port = *port;
                    self.answer(id, port, frame);
                }
            }
            Action::Close(id) => drop(self.connections.remove(&id)),
        }
    }

    fn answer(&mut self, id: ConnectionId, port: u16, frame: Bytes) {
        let mut r = Reader::new(frame, 0, false);
        let header = RequestHeader::get(&mut r, |key| api::by_key(key).map(|entry| entry.info)).unwrap();
        let (key, version) = (header.request_api_key, header.request_api_version);
        let entry = api::by_key(key).unwrap();
        let mut w = Writer::new(version, entry.info.is_flexible(version));
        w.buf.extend_from_slice(&[0; 4]);
        put_response_header(entry.info, version, header.correlation_id, &mut w);
        let mut bytes = w.parts().unwrap().concat();
        bytes.extend(if key == api_versions::API.key {
            let all = |e: &api::Entry| api_versions::ApiVersion {
                api_key: e.info.key,
                min_version: e.info.min,
                max_version: e.info.max,
            };
            let api_keys = api::APIS.iter().map(all).collect();
            api::encode(version, &api_versions::Response { api_keys, ..Default::default() }).unwrap()
        } else if key == metadata::API.key {
            api::encode(version, &self.metadata(port)).unwrap()
        } else {
            entry.response.encode(version, Value::Struct(Vec::new())).unwrap()
        });
        bytes.truncate(self.most);
        let length = u32::try_from(bytes.len() - 4).unwrap().to_be_bytes();
        bytes[..4].copy_from_slice(&length);
        if let Some(frames) = self.network.frames(id) {
            frames.buffer().extend_from_slice(&bytes);
            self.network.handle_received(self.now, id);
        }
    }

    fn metadata(&mut self, port: u16) -> metadata::Response {
        let broker = |port: &u16| metadata::Broker {
            node_id: i32::from(*port),
            host: "cluster".to_owned(),
            port: i32::from(*port),
            rack: None,
        };
        let mut error_code = ErrorCode::NONE;
        if let Some(times) = self.sends_away.get_mut(&port).filter(|times| **times > 0) {
            *times -= 1;
            error_code = ErrorCode::REBOOTSTRAP_REQUIRED;
        }
        let brokers = self.says[&port].iter().map(broker).collect();
        metadata::Response { brokers, error_code, ..Default::default() }
    }

    fn knows(&self) -> Vec<i32> {
        self.network.cluster().brokers.keys().copied().collect()
    }

    /// A client that is connected to the brokers 11 and 12.
    fn settled() -> Self {
        let mut world = Self::new();
        world.is_cluster_of(&[11, 12]);
        world.network.wish(world.now, Wish { refresh: true, ..Wish::default() });
        world.wait(Duration::from_secs(1));
        assert_eq!(world.knows(), [11, 12]);
        world.ask(Target::Node(11));
        world.ask(Target::Node(12));
        world.tried.clear();
        world
    }
}

#[test]
fn a_broker_that_is_named_before_the_metadata_is_there_is_asked_when_it_is() {
    let mut world = World::new();
    world.is_cluster_of(&[7, 8]);
    world.ask(Target::Node(8));
    assert_eq!((world.now, world.knows()), (Time(0), vec![7, 8]));
}

#[test]
fn when_all_brokers_are_gone_the_bootstrap_list_leads_to_those_that_took_their_place() {
    let mut world = World::settled();
    let before = world.now;
    world.is_cluster_of(&[21, 22]);
    world.ask(Target::Any);
    world.wait(Duration::from_secs(1));
    assert_eq!(world.knows(), [21, 22]);
    assert!(world.tried.contains(&BOOTSTRAP), "{:?}", world.tried);
    assert!(world.now.since(before) < Duration::from_secs(3), "{:?}", world.now.since(before));
}

#[test]
fn a_cluster_that_asks_for_it_is_left_for_the_bootstrap_list() {
    let mut world = World::settled();
    // Those known so far can be reached still, and say so of themselves; the list leads elsewhere.
    let elsewhere = vec![21, 22];
    world.says.extend([(BOOTSTRAP, elsewhere.clone()), (21, elsewhere.clone()), (22, elsewhere)]);
    world.sends_away.extend([(11, u32::MAX), (12, u32::MAX)]);
    world.network.wish(world.now, Wish { refresh: true, ..Wish::default() });
    world.wait(Duration::from_secs(2));
    assert_eq!(world.knows(), [21, 22]);
    let old: Vec<_> = world.tried.iter().filter(|port| (11..20).contains(*port)).collect();
    assert!(old.is_empty() && world.tried.contains(&BOOTSTRAP), "{:?}", world.tried);
    assert!(world.connections.values().all(|(port, _)| *port == BOOTSTRAP || *port > 20));
}

#[test]
fn who_is_sent_away_again_and_again_waits_longer_each_time() {
    let mut world = World::new();
    world.is_cluster_of(&[11]);
    world.sends_away.insert(BOOTSTRAP, 1_000);
    world.network.wish(world.now, Wish { refresh: true, ..Wish::default() });
    world.wait(MINUTE);
    let asked = 1_000 - world.sends_away[&BOOTSTRAP];
    assert!((10..100).contains(&asked), "asked {asked} times in a minute");
    world.sends_away.clear();
    world.wait(Duration::from_secs(3));
    assert_eq!(world.knows(), [11]);
}

#[test]
fn a_request_whose_answer_has_no_whole_header_ends_at_once() {
    let mut world = World::settled();
    world.most = 6;
    let (call, deadline) = (Box::new(list_groups::Request::default()), world.now + MINUTE);
    world
        .network
        .submit(world.now, Outgoing { target: Target::Node(11), call, token: 7, deadline, max_version: i16::MAX });
    while let Some(action) = world.network.poll_action() {
        world.act(action);
    }
    let answer = world.network.poll_answer().expect("an end");
    assert_eq!((answer.token, answer.result.err().map(|e| e.kind())), (7, Some(ErrorKind::Network)));
}

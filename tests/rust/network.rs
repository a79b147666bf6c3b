//! Helpers for other tests: default network settings, and simulated brokers with a simulated clock.

use bytes::Bytes;
use klamm::api::header::{RequestHeader, put_response_header};
use klamm::api::{self, ErrorCode, api_versions, describe_cluster, list_groups, metadata};
use klamm::engine::sasl::Nonces;
use klamm::engine::{
    Action, ConnectionId, Deadline, Endpoints, MetadataDemand, Network, NetworkConfig, Outgoing, Target, Time,
};
use klamm::frame::Frames;
use klamm::wire::{Reader, Uuid, Value, Writer};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The only bootstrap address.
pub const BOOTSTRAP: u16 = 1;
pub const MINUTE: Duration = Duration::from_secs(60);

/// Returns a network with this bootstrap address.
pub fn network_config(host: &str, port: u16) -> NetworkConfig {
    NetworkConfig {
        bootstrap: vec![(host.to_owned(), port)],
        endpoints: Endpoints::Brokers,
        client_id: "test".to_owned(),
        request_timeout: Duration::from_secs(30),
        keep_alive: true,
        max_idle: None,
        setup_timeout: Duration::from_secs(10),
        reconnect_backoff: (Duration::from_millis(50), Duration::from_secs(1)),
        retry_backoff: (Duration::from_millis(100), Duration::from_secs(1)),
        metadata_max_age: Duration::from_secs(300),
        allow_auto_topic_creation: true,
        max_frame: 1 << 20,
        seed: 1,
        versions_timeout: Duration::from_secs(1),
        version_fallback: None,
        credentials: None,
        nonces: Nonces::new([0; 32]),
    }
}

/// Simulated brokers and their clock.
pub struct World {
    pub now: Time,
    pub network: Network,
    /// Reachable brokers by port, and the ports of the brokers in their metadata. A port is also the broker's ID.
    pub says: BTreeMap<u16, Vec<u16>>,
    /// Ports that neither accept nor refuse connections.
    pub silent: BTreeSet<u16>,
    /// Ports that answer REBOOTSTRAP_REQUIRED, and how often.
    pub sends_away: BTreeMap<u16, u32>,
    pub connections: BTreeMap<ConnectionId, (u16, Frames)>,
    /// Ports that were connected to, in order.
    pub tried: Vec<u16>,
    /// Number of bytes of a response that arrive.
    pub most: usize,
    /// Existing topics, and the requests about topics.
    pub topics: BTreeMap<String, Uuid>,
    pub asked: Vec<metadata::Request>,
    /// The active controller, if the nodes are controllers.
    pub active: Option<u16>,
    /// Ports that responded to ListGroups, in order.
    pub served: Vec<u16>,
    /// Number of ApiVersions requests.
    pub probes: usize,
    /// Number of requests about topics that close their connection instead.
    pub loses: usize,
}

impl World {
    pub fn new() -> Self {
        Self::with(network_config("cluster", BOOTSTRAP))
    }

    pub fn with(network: NetworkConfig) -> Self {
        let (says, sends_away, connections) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let network = Network::new(network);
        let (silent, tried, asked, topics) = (BTreeSet::new(), Vec::new(), Vec::new(), BTreeMap::new());
        let (now, most, loses, probes) = (Time(0), usize::MAX, 0, 0);
        let (active, served) = (None, Vec::new());
        Self {
            now,
            network,
            says,
            silent,
            sends_away,
            connections,
            tried,
            most,
            topics,
            asked,
            active,
            served,
            probes,
            loses,
        }
    }

    /// Makes only these brokers reachable. The bootstrap address leads to one of them.
    pub fn is_cluster_of(&mut self, ports: &[u16]) {
        self.says = ports.iter().chain([&BOOTSTRAP]).map(|port| (*port, ports.to_vec())).collect();
        for id in std::mem::take(&mut self.connections).into_keys() {
            self.network.handle_closed(self.now, id, None);
        }
    }

    /// Makes a node unreachable that the others still name. The bootstrap address leads to the others.
    pub fn kill(&mut self, port: u16) {
        self.says.remove(&port);
        for (id, (other, frames)) in std::mem::take(&mut self.connections) {
            if other == port {
                self.network.handle_closed(self.now, id, None);
            } else {
                self.connections.insert(id, (other, frames));
            }
        }
    }

    /// Sends a request that must be answered within a minute.
    pub fn ask(&mut self, target: Target) {
        let (call, deadline) = (Box::new(list_groups::Request::default()), self.now + MINUTE);
        self.network.submit(
            self.now,
            Outgoing { target, call, token: 0, deadline: Deadline::ToAnswer(deadline), max_version: i16::MAX },
        );
        while !self.play(deadline) {
            assert!(self.now < deadline, "no answer");
        }
    }

    pub fn wait(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.play(end);
        }
    }

    /// Runs until a response arrives or the next deadline. Returns whether there was a response.
    fn play(&mut self, end: Time) -> bool {
        self.network.handle_timeout(self.now);
        while let Some(action) = self.network.poll_action() {
            self.act(action);
            self.network.handle_timeout(self.now);
        }
        let is_answered = std::iter::from_fn(|| self.network.poll_response()).any(|answer| answer.result.is_ok());
        if !is_answered {
            self.now = self.network.next_timeout(self.now).map_or(end, |at| at.min(end));
        }
        is_answered
    }

    pub fn act(&mut self, action: Action) {
        match action {
            Action::Connect(id, _, port) => {
                self.tried.push(port);
                if self.silent.contains(&port) {
                    return;
                }
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
            self.probes += 1;
            let all = |e: &api::Entry| api_versions::ApiVersion {
                api_key: e.info.key,
                min_version: e.info.min,
                max_version: e.info.max,
            };
            let is_served = |e: &&api::Entry| self.active.is_none() || e.info.key != metadata::API.key;
            let api_keys = api::APIS.iter().filter(is_served).map(all).collect();
            api::encode(version, &api_versions::Response { api_keys, ..Default::default() }).unwrap()
        } else if key == metadata::API.key {
            let request: metadata::Request = api::decode(version, r.rest()).unwrap();
            self.asked.push(request.clone());
            if self.loses > 0 {
                self.loses -= 1;
                self.connections.remove(&id);
                return self.network.handle_closed(self.now, id, None);
            }
            api::encode(version, &self.metadata(port, request)).unwrap()
        } else if key == describe_cluster::API.key {
            api::encode(version, &self.describe_cluster(port)).unwrap()
        } else {
            self.served.push(port);
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

    fn describe_cluster(&self, port: u16) -> describe_cluster::Response {
        let node = |port: &u16| describe_cluster::Broker {
            broker_id: i32::from(*port),
            host: "cluster".to_owned(),
            port: i32::from(*port),
            ..Default::default()
        };
        describe_cluster::Response {
            brokers: self.says[&port].iter().map(node).collect(),
            controller_id: self.active.map_or(-1, i32::from),
            endpoint_type: describe_cluster::CONTROLLERS,
            ..Default::default()
        }
    }

    fn metadata(&mut self, port: u16, request: metadata::Request) -> metadata::Response {
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
        metadata::Response { brokers, error_code, topics: self.describe(request, port), ..Default::default() }
    }

    /// Like Kafka, ignores the names in a request with IDs.
    fn describe(&self, request: metadata::Request, port: u16) -> Vec<metadata::Topic> {
        let lead = |leader_id| metadata::Partition { leader_id, ..Default::default() };
        let found = |(name, id): (&String, &Uuid)| metadata::Topic {
            name: Some(name.clone()),
            topic_id: *id,
            partitions: vec![lead(self.says[&port].first().map_or(-1, |broker| i32::from(*broker)))],
            ..Default::default()
        };
        let Some(asked) = request.topics else { return self.topics.iter().map(found).collect() };
        let has_ids = asked.iter().any(|t| !t.topic_id.is_zero());
        let describe = |t: metadata::TopicRequest| match (has_ids, t) {
            (true, t) => self.topics.iter().find(|(_, id)| **id == t.topic_id).map(found),
            (false, metadata::TopicRequest { name: Some(name), .. }) => {
                let error_code = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
                let absent = metadata::Topic { name: Some(name.clone()), error_code, ..Default::default() };
                Some(self.topics.get_key_value(&name).map_or(absent, found))
            }
            (false, _) => None,
        };
        asked.into_iter().filter_map(describe).collect()
    }

    pub fn knows(&self) -> Vec<i32> {
        self.network.cluster().brokers.keys().copied().collect()
    }

    /// Returns a client that is connected to the brokers 11 and 12.
    pub fn settled() -> Self {
        let mut world = Self::new();
        world.is_cluster_of(&[11, 12]);
        world.network.demand(world.now, MetadataDemand { refresh: true, ..MetadataDemand::default() });
        world.wait(Duration::from_secs(1));
        assert_eq!(world.knows(), [11, 12]);
        world.ask(Target::Node(11));
        world.ask(Target::Node(12));
        world.tried.clear();
        world
    }
}

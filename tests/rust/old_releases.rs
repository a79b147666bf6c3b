//! Tests brokers without ApiVersions, and brokers that fail during the version probes: which release the client
//! assumes, and when the client drops that assumption.

use crate::network::network_config;
use bytes::Bytes;
use klamm::api::header::{RequestHeader, put_response_header};
use klamm::api::{
    self, ErrorCode, Release, api_versions, find_coordinator, heartbeat, list_groups, list_offsets, offset_fetch,
};
use klamm::engine::{Action, Call, ConnectionId, Deadline, Error, Network, NetworkConfig, Outgoing, Target, Time};
use klamm::frame::Frames;
use klamm::wire::{Reader, Value, Writer};
use std::collections::BTreeMap;
use std::time::Duration;

/// The broker's behaviour on its next connection, if it differs from its release.
#[derive(Clone, Copy, PartialEq)]
enum Trouble {
    /// The broker is down.
    Refuses,
    /// It closes the connection at the first request.
    Closes,
    /// It closes the connection at the second request.
    AnswersOnce,
    /// It does not answer.
    IsSilent,
}

/// One broker, one client and a clock.
struct World {
    now: Time,
    network: Network,
    release: Release,
    trouble: Vec<Trouble>,
    connections: BTreeMap<ConnectionId, (Frames, Option<Trouble>)>,
    /// Number of connections, and the APIs requested on the last one.
    made: usize,
    asked: Vec<i16>,
}

impl World {
    fn new(release: Release, fallback: Option<Release>) -> Self {
        let network = NetworkConfig { version_fallback: fallback, ..network_config("old", 9092) };
        Self {
            now: Time(0),
            network: Network::new(network),
            release,
            trouble: Vec::new(),
            connections: BTreeMap::new(),
            made: 0,
            asked: Vec::new(),
        }
    }

    /// Returns the result of a request.
    fn ask(&mut self, call: impl Call + 'static) -> Result<i16, Error> {
        let deadline = Deadline::ToAnswer(self.now + Duration::from_secs(60));
        let call = Box::new(call);
        self.network
            .submit(self.now, Outgoing { target: Target::Any, call, token: 0, deadline, max_version: i16::MAX });
        loop {
            while let Some(action) = self.network.poll_action() {
                self.act(action);
            }
            if let Some(answer) = self.network.poll_response() {
                return answer.result.map(|reply| reply.version);
            }
            self.now = self.network.next_timeout(self.now).expect("nothing is waited for");
            self.network.handle_timeout(self.now);
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Connect(id, ..) => {
                self.made += 1;
                self.asked.clear();
                let trouble = (!self.trouble.is_empty()).then(|| self.trouble.remove(0));
                if trouble == Some(Trouble::Refuses) {
                    return self.network.handle_closed(self.now, id, Some("connection refused".to_owned()));
                }
                self.connections.insert(id, (Frames::new(1 << 20), trouble));
                self.network.handle_connected(self.now, id);
            }
            Action::Send(id, bytes) => {
                let Some((frames, trouble)) = self.connections.get_mut(&id) else { return };
                let trouble = *trouble;
                frames.buffer().extend_from_slice(&bytes);
                if let Ok(Some(frame)) = frames.next_frame() {
                    match trouble {
                        Some(Trouble::IsSilent) => {}
                        Some(Trouble::AnswersOnce) if self.asked.is_empty() => self.answer(id, frame),
                        Some(_) => self.close(id),
                        None => self.answer(id, frame),
                    }
                }
            }
            Action::Close(id) => drop(self.connections.remove(&id)),
        }
    }

    fn close(&mut self, id: ConnectionId) {
        self.connections.remove(&id);
        self.network.handle_closed(self.now, id, None);
    }

    fn answer(&mut self, id: ConnectionId, frame: Bytes) {
        let mut r = Reader::new(frame, 0, false);
        let header = RequestHeader::get(&mut r, |key| api::by_key(key).map(|entry| entry.info)).unwrap();
        let (key, version) = (header.request_api_key, header.request_api_version);
        self.asked.push(key);
        let entry = api::by_key(key).unwrap();
        let has = self.release.versions(entry.info);
        let is_served = has.is_some_and(|(min, max)| (min..=max).contains(&version));
        let is_versions = key == api_versions::API.key;
        if !(is_served || is_versions && has.is_some()) {
            // 0.9 is silent about what it does not know.
            if self.release != Release::V0_9_0 {
                self.close(id);
            }
            return;
        }
        let answered = if is_served { version } else { 0 };
        let mut w = Writer::new(answered, entry.info.is_flexible(answered));
        w.buf.extend_from_slice(&[0; 4]);
        put_response_header(entry.info, answered, header.correlation_id, &mut w);
        let mut bytes = w.parts().unwrap().concat();
        bytes.extend(if is_versions {
            let served = |entry: &api::Entry| {
                let (min_version, max_version) = self.release.versions(entry.info)?;
                Some(api_versions::ApiVersion { api_key: entry.info.key, min_version, max_version })
            };
            let api_keys = api::APIS.iter().filter_map(served).collect();
            let error_code = if is_served { ErrorCode::NONE } else { ErrorCode::UNSUPPORTED_VERSION };
            api::encode(answered, &api_versions::Response { api_keys, error_code, ..Default::default() }).unwrap()
        } else {
            entry.response.encode(answered, Value::Struct(Vec::new())).unwrap()
        });
        let length = u32::try_from(bytes.len() - 4).unwrap().to_be_bytes();
        bytes[..4].copy_from_slice(&length);
        if let Some(frames) = self.network.frames(id) {
            frames.buffer().extend_from_slice(&bytes);
            self.network.handle_received(self.now, id);
        }
    }
}

fn ends() -> list_offsets::Request {
    list_offsets::Request { replica_id: -1, ..Default::default() }
}

const OLD: [Release; 4] = [Release::V0_8_0, Release::V0_8_1, Release::V0_8_2, Release::V0_9_0];

#[test]
fn every_old_release_is_found_out_once() {
    for release in OLD {
        let mut world = World::new(release, None);
        assert_eq!(world.ask(ends()).unwrap(), 0, "{release}");
        // Only 0.9 has to be waited for.
        let is_silent = release == Release::V0_9_0;
        assert_eq!((world.made, world.now > Time(0)), (if is_silent { 4 } else { 5 }, is_silent), "{release}");
        let made = world.made;
        let found = world.now;
        let id = *world.connections.keys().next_back().unwrap();
        world.close(id);
        assert_eq!(world.ask(ends()).unwrap(), 0, "{release}");
        assert_eq!((world.made, world.asked.as_slice()), (made + 1, [list_offsets::API.key].as_slice()), "{release}");
        assert!(world.now.since(found) < Duration::from_millis(500), "{release}");
    }
}

#[test]
fn what_an_old_release_lacks_is_refused_with_the_name_of_the_one_that_has_it() {
    for release in OLD.into_iter().filter(|release| *release < Release::V0_9_0) {
        let error = World::new(release, None).ask(heartbeat::Request::default()).unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::UNSUPPORTED_VERSION));
        assert!(error.hint().unwrap().contains("requires Kafka 0.9.0"), "{error}");
    }
    assert_eq!(World::new(Release::V0_9_0, None).ask(heartbeat::Request::default()).unwrap(), 0);
}

#[test]
fn a_release_that_was_named_is_not_looked_for() {
    let mut world = World::new(Release::V0_8_2, Some(Release::V0_8_1));
    assert_eq!(world.ask(ends()).unwrap(), 0);
    assert_eq!(world.made, 2);
    let error = world.ask(find_coordinator::Request::default()).unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::UNSUPPORTED_VERSION), "0.8.1 has none");
    // Who says its versions is believed.
    assert_eq!(World::new(Release::V2_8, Some(Release::V0_8_1)).ask(ends()).unwrap(), 6);
}

#[test]
fn a_broker_that_goes_away_or_is_slow_while_it_is_asked_is_none_of_the_old_ones() {
    for release in [Release::V0_10_0, Release::V2_8, Release::V3_9, Release::V4_4] {
        let newest = release.versions(&list_offsets::API).unwrap().1;
        for first in [Trouble::Closes, Trouble::IsSilent] {
            for second in [None, Some(Trouble::Closes), Some(Trouble::IsSilent)] {
                let mut world = World::new(release, None);
                world.trouble = [Some(first), second].into_iter().flatten().collect();
                let mut result = world.ask(ends());
                // If the second connection gave no result, the requests fail as after any lost connection.
                for _ in 0..2 {
                    if result.as_ref().is_err_and(Error::is_retriable) {
                        result = world.ask(ends());
                    }
                }
                assert_eq!(result.unwrap(), newest, "{release}");
            }
        }
    }
}

#[test]
fn a_line_that_is_cut_three_times_is_no_old_broker() {
    let mut world = World::new(Release::V2_8, None);
    world.trouble = vec![Trouble::Closes, Trouble::AnswersOnce, Trouble::AnswersOnce];
    let mut result = world.ask(ends());
    if result.as_ref().is_err_and(Error::is_retriable) {
        result = world.ask(ends());
    }
    assert_eq!(result.unwrap(), 6);
}

#[test]
fn a_broker_that_reported_its_versions_is_never_treated_as_an_old_release() {
    let mut world = World::new(Release::V4_4, None);
    world.ask(ends()).unwrap();
    let id = *world.connections.keys().next_back().unwrap();
    world.close(id);
    // It is asked for nothing but its versions, however often it hangs up.
    world.trouble = vec![Trouble::Closes];
    assert_eq!(world.ask(ends()).unwrap(), 11);
    assert_eq!((world.made, world.asked), (3, vec![api_versions::API.key, list_offsets::API.key]));
}

#[test]
fn a_broker_that_was_upgraded_is_asked_again() {
    for release in OLD {
        let mut world = World::new(release, None);
        world.ask(ends()).unwrap();
        world.release = Release::V4_4;
        world.trouble = vec![Trouble::Refuses];
        let id = *world.connections.keys().next_back().unwrap();
        world.close(id);
        let newest = Release::V4_4.versions(&list_offsets::API).unwrap().1;
        let mut result = world.ask(ends());
        if result.is_err() {
            result = world.ask(ends());
        }
        assert_eq!(result.unwrap(), newest, "{release}");
    }
}

#[test]
fn questions_are_asked_from_the_oldest_on_and_one_at_a_time() {
    let mut world = World::new(Release::V0_9_0, None);
    world.trouble = vec![Trouble::Closes];
    // The connection that finds out is the second one; it ends with what 0.9 does not answer.
    let asked = [&list_offsets::API, &offset_fetch::API, &find_coordinator::API, &list_groups::API, &api_versions::API];
    let mut seen = Vec::new();
    let call = Box::new(ends());
    let deadline = Deadline::ToAnswer(Time(60_000_000));
    world.network.submit(world.now, Outgoing { target: Target::Any, call, token: 0, deadline, max_version: i16::MAX });
    while world.made < 3 {
        while let Some(action) = world.network.poll_action() {
            world.act(action);
            seen = if world.made == 2 { world.asked.clone() } else { seen };
        }
        if world.made < 3 {
            world.now = world.network.next_timeout(world.now).unwrap();
            world.network.handle_timeout(world.now);
        }
    }
    assert_eq!(seen, asked.map(|api| api.key));
}

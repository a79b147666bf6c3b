//! Faults: what goes wrong on purpose with a request that fits, and the transformations of answers that takes.
//!
//! Rules are looked at in the order they were given, and the first that fits strikes. Chance is seeded, so that a run
//! can be repeated. What a request is about is found by reading it by name, which only rules with a topic pay for.

use super::handlers::Opened;
use super::state::State;
use crate::api::{self, ErrorCode};
use crate::random::Random;
use crate::wire::{Uuid, Value};
use bytes::{Bytes, BytesMut};
use std::time::Duration;

/// Pieces that a dripping answer comes in.
const DRIPS: usize = 10;

/// Bytes at the start of an answer that corruption spares, so that the client finds out by reading the body: the
/// length and the correlation id.
const SPARED: usize = 8;

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The request is handled, and its answer comes so much later; what is behind it on the connection waits.
    Delay(Duration),
    /// The connection is closed, and the request is not handled.
    Drop,
    /// The request is handled, and the connection is closed instead of answering.
    LoseAnswer,
    /// The request is handled, and the connection is closed after half of the answer.
    Cut,
    /// The request is not handled but refused with this code.
    Error(ErrorCode),
    /// The answer says that the client was throttled for so long, in versions that can say it.
    Throttle(Duration),
    /// One bit of the answer's body is wrong.
    Corrupt,
    /// The answer comes in ten pieces, which takes so long in all.
    Drip(Duration),
}

/// Which requests an [`Action`] strikes.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// What goes wrong.
    pub action: Action,
    /// Only requests of this API, by its key.
    pub api: Option<i16>,
    /// Only requests to this node.
    pub node: Option<i32>,
    /// Only requests that name this topic.
    pub topic: Option<String>,
    /// Only so many of them.
    pub times: Option<u32>,
    /// How likely each of them is struck, 0 to 1.
    pub probability: f64,
    /// What chance starts from.
    pub seed: u64,
}

impl Fault {
    /// Strikes every request.
    pub fn always(action: Action) -> Self {
        Self { action, api: None, node: None, topic: None, times: None, probability: 1.0, seed: 0 }
    }
}

/// All rules.
#[derive(Debug, Default)]
pub(super) struct Faults(Vec<Rule>);

#[derive(Debug)]
struct Rule {
    fault: Fault,
    random: Random,
}

impl Faults {
    pub fn add(&mut self, fault: Fault) {
        let random = Random::new(fault.seed);
        self.0.push(Rule { fault, random });
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// What goes wrong with a request, and a random number for it.
    pub fn strike(&mut self, state: &State, request: &Opened) -> Option<(Action, u64)> {
        let index = self.0.iter_mut().position(|rule| rule.fits(state, request) && rule.strikes())?;
        let Rule { fault, random } = self.0.get_mut(index)?;
        let struck = (fault.action, random.next_u64());
        if let Some(times) = &mut fault.times {
            *times = times.saturating_sub(1);
            if *times == 0 {
                self.0.remove(index);
            }
        }
        Some(struck)
    }
}

impl Rule {
    fn fits(&self, state: &State, request: &Opened) -> bool {
        let Fault { api, node, topic, .. } = &self.fault;
        api.is_none_or(|key| key == request.api.key)
            && node.is_none_or(|node| node == request.context.node)
            && topic.as_ref().is_none_or(|topic| {
                let id = state.topics.get(topic).map(|t| t.id);
                let decode = |entry: &api::Entry| entry.request.decode(request.context.version, request.body.clone());
                let value = api::by_key(request.api.key).and_then(|entry| decode(entry).ok());
                value.is_some_and(|value| {
                    names(&value, topic, id)
                        || session(request, &value)
                            .is_some_and(|session| state.fetch_sessions.holds(request.context.node, session, topic, id))
                })
            })
    }

    fn strikes(&mut self) -> bool {
        // 53 bits are what a float holds exactly.
        self.fault.probability >= 1.0 || self.random.next_f64() <= self.fault.probability
    }
}

/// The session that a Fetch goes on with.
fn session(request: &Opened, value: &Value) -> Option<i32> {
    let Value::Struct(fields) = value else { return None };
    let of_fetch = || fields.iter().find(|(name, _)| **name == *"sessionId");
    match (request.api.key == api::fetch::API.key).then(of_fetch)?? {
        (_, Value::Int(id)) => i32::try_from(*id).ok(),
        _ => None,
    }
}

/// Whether a topic is named anywhere in a request.
fn names(value: &Value, topic: &str, id: Option<Uuid>) -> bool {
    match value {
        Value::Struct(fields) => fields.iter().any(|(field, value)| match (&**field, value) {
            ("name" | "topic" | "topicName", Value::String(name)) => name == topic,
            ("topicId", Value::Uuid(other)) => Some(*other) == id,
            ("topicNames", Value::List(names)) => {
                names.iter().any(|name| matches!(name, Value::String(name) if name == topic))
            }
            _ => names(value, topic, id),
        }),
        Value::List(values) => values.iter().any(|value| names(value, topic, id)),
        _ => false,
    }
}

/// The first half of an answer.
pub(super) fn half(parts: &[Bytes]) -> Bytes {
    let mut whole = join(parts);
    whole.truncate(whole.len() / 2);
    whole.freeze()
}

/// An answer with one bit wrong.
pub(super) fn corrupt(parts: &[Bytes], random: u64) -> Bytes {
    let mut whole = join(parts);
    if let Some(body) = whole.get_mut(SPARED..).filter(|body| !body.is_empty()) {
        let bit = (random % (body.len() as u64 * 8)) as usize;
        if let Some(byte) = body.get_mut(bit / 8) {
            *byte ^= 1 << (bit % 8);
        }
    }
    whole.freeze()
}

/// An answer in pieces.
pub(super) fn drips(parts: &[Bytes]) -> Vec<Bytes> {
    let mut rest = join(parts).freeze();
    let size = rest.len().div_ceil(DRIPS).max(1);
    let mut pieces = Vec::with_capacity(DRIPS);
    while !rest.is_empty() {
        pieces.push(rest.split_to(size.min(rest.len())));
    }
    pieces
}

fn join(parts: &[Bytes]) -> BytesMut {
    let mut whole = BytesMut::with_capacity(parts.iter().map(Bytes::len).sum());
    for part in parts {
        whole.extend_from_slice(part);
    }
    whole
}

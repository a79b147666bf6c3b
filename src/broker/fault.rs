//! Fault injection: the faults that tests request, the requests that a fault affects, and how a fault changes replies.
//!
//! Only the first fault that matches a request applies. Faults with a probability have a seed, so that a test can
//! repeat a run. If a fault is limited to a topic, this file decodes the request and looks for fields that contain
//! topic names. The search for topic names works for every API.

use super::request::RawRequest;
use super::state::State;
use crate::api::{self, ErrorCode};
use crate::random::Random;
use crate::wire::{Uuid, Value};
use bytes::{Bytes, BytesMut};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Number of pieces in which [`Action::Drip`] sends a reply.
const DRIPS: usize = 10;

/// Number of bytes at the start of a reply that corruption does not change: the length and the correlation ID. The
/// client therefore finds the damage when it decodes the body.
const SPARED: usize = 8;

/// The effect of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The broker handles the request and sends its reply later. Later requests on the connection wait.
    Delay(Duration),
    /// The broker closes the connection and does not handle the request.
    Drop,
    /// The broker handles the request and closes the connection instead of replying.
    LoseAnswer,
    /// The broker handles the request, sends half of the reply, and closes the connection.
    Cut,
    /// The broker does not handle the request and returns this error code.
    Error(ErrorCode),
    /// The reply reports this throttle time, in versions that have the field.
    Throttle(Duration),
    /// The broker flips one bit of the reply's body.
    Corrupt,
    /// The broker sends the reply in ten pieces, which together take this time.
    Drip(Duration),
}

/// A fault: an [`Action`], and the requests to which the action applies.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// The effect of the fault.
    pub action: Action,
    /// Limits the fault to the API with this key.
    pub api: Option<i16>,
    /// Limits the fault to requests to this node.
    pub node: Option<i32>,
    /// Limits the fault to requests that name this topic.
    pub topic: Option<String>,
    /// Limits the fault to this number of requests.
    pub times: Option<u32>,
    /// Probability that the fault applies to a matching request, from 0 to 1.
    pub probability: f64,
    /// Seed of the random numbers that decide whether the fault applies.
    pub seed: u64,
}

impl Fault {
    /// Returns a fault that applies to every request.
    pub fn always(action: Action) -> Self {
        Self { action, api: None, node: None, topic: None, times: None, probability: 1.0, seed: 0 }
    }
}

/// The active faults.
#[derive(Debug, Default)]
pub(super) struct Faults {
    rules: Vec<Rule>,
    /// The recorded results of the requests of each API, in order. `None` is a response without an error. The last
    /// result repeats.
    recorded: BTreeMap<i16, VecDeque<Option<Action>>>,
}

#[derive(Debug)]
struct Rule {
    fault: Fault,
    random: Random,
}

impl Faults {
    pub fn add(&mut self, fault: Fault) {
        let random = Random::new(fault.seed);
        self.rules.push(Rule { fault, random });
    }

    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Adds a recorded result for the next requests of an API.
    pub fn repeat(&mut self, api: i16, result: Option<Action>) {
        self.recorded.entry(api).or_default().push_back(result);
    }

    /// Returns the fault that applies to a request, and a random number for the fault.
    pub fn select(&mut self, state: &State, request: &RawRequest) -> Option<(Action, u64)> {
        if let Some(results) = self.recorded.get_mut(&request.api.key) {
            let result = if results.len() > 1 { results.pop_front() } else { results.front().copied() };
            if let Some(action) = result.flatten() {
                return Some((action, 0));
            }
        }
        let index = self.rules.iter_mut().position(|rule| rule.fits(state, request) && rule.hits())?;
        let Rule { fault, random } = self.rules.get_mut(index)?;
        let selected = (fault.action, random.next_u64());
        if let Some(times) = &mut fault.times {
            *times = times.saturating_sub(1);
            if *times == 0 {
                self.rules.remove(index);
            }
        }
        Some(selected)
    }
}

impl Rule {
    fn fits(&self, state: &State, request: &RawRequest) -> bool {
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

    fn hits(&mut self) -> bool {
        self.fault.probability >= 1.0 || self.random.next_f64() <= self.fault.probability
    }
}

/// Returns the session that a Fetch continues.
fn session(request: &RawRequest, value: &Value) -> Option<i32> {
    let Value::Struct(fields) = value else { return None };
    let of_fetch = || fields.iter().find(|(name, _)| **name == *"sessionId");
    match (request.api.key == api::fetch::API.key).then(of_fetch)?? {
        (_, Value::Int(id)) => i32::try_from(*id).ok(),
        _ => None,
    }
}

/// Returns whether any field of a request contains the topic's name or ID.
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

/// Returns the first half of a reply.
pub(super) fn half(parts: &[Bytes]) -> Bytes {
    let mut whole = join(parts);
    whole.truncate(whole.len() / 2);
    whole.freeze()
}

/// Returns a reply with one bit flipped.
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

/// Splits a reply into pieces.
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

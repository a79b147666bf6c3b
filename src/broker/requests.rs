//! What clients asked, for tests to look at: the last requests of all nodes.

use super::Time;
use std::collections::VecDeque;

/// Requests that are remembered.
const REMEMBERED: usize = 10_000;

/// A request that arrived in a version that is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// When, by the cluster's clock.
    pub time: Time,
    /// The node it was sent to.
    pub node: i32,
    /// The API's name.
    pub api: &'static str,
    /// The version of the API.
    pub version: i16,
    /// What the client calls itself.
    pub client_id: Option<String>,
    /// The number the client gave it.
    pub correlation_id: i32,
}

/// The last requests, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Requests(VecDeque<Seen>);

impl Requests {
    pub fn note(&mut self, seen: Seen) {
        if self.0.len() == REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back(seen);
    }

    pub fn all(&self) -> impl Iterator<Item = &Seen> {
        self.0.iter()
    }
}

//! The request log: the most recent requests to the nodes of a cluster, for tests.

use super::Time;
use std::collections::VecDeque;

/// Maximum number of requests in the log.
const MAX_REQUESTS: usize = 10_000;

/// A request in a served version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedRequest {
    /// The time at which the request arrived, by the cluster's clock.
    pub time: Time,
    /// The node that received the request.
    pub node: i32,
    /// The API's name.
    pub api: &'static str,
    /// The version of the API.
    pub version: i16,
    /// The client ID.
    pub client_id: Option<String>,
    /// The correlation ID.
    pub correlation_id: i32,
}

/// The last requests, the oldest first.
#[derive(Debug, Default)]
pub(super) struct RequestLog(VecDeque<LoggedRequest>);

impl RequestLog {
    pub fn add(&mut self, request: LoggedRequest) {
        if self.0.len() == MAX_REQUESTS {
            self.0.pop_front();
        }
        self.0.push_back(request);
    }

    pub fn all(&self) -> impl Iterator<Item = &LoggedRequest> {
        self.0.iter()
    }
}

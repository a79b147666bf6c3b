//! The events that a connection reports to the metrics: requests, responses and logins.

use crate::api::Info;
use std::time::Duration;

/// A request, a response or a login.
#[derive(Clone, Copy, Debug)]
pub enum Exchange {
    /// A request of this size in bytes was sent.
    Sent(usize),
    /// A response arrived.
    Received {
        /// The API of the request.
        api: &'static Info,
        /// The size of the response in bytes.
        size: usize,
        /// The time since the request was sent.
        latency: Duration,
    },
    /// A login succeeded.
    Login {
        /// Whether the connection had logged in before.
        again: bool,
    },
}

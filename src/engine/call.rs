//! The request that a role (producer, consumer, …) passes to the network, and the broker's response.

use super::{Error, ErrorKind};
use crate::api::{self, Info, Release};
use crate::wire::{self, Wire, Writer};
use bytes::Bytes;
use std::time::Duration;

/// A request of any type, for use as a trait object.
pub trait Call: Send {
    /// Returns the API.
    fn api(&self) -> &'static Info;
    /// Appends the body of the request.
    fn put(&self, w: &mut Writer);
    /// Returns the oldest version that can encode the request.
    fn min_version(&self) -> i16 {
        self.api().min
    }
    /// Returns the first release that supports the feature, if the versions of the API do not show this.
    fn min_release(&self) -> Option<Release> {
        None
    }
    /// Returns the name of the feature, for the error of a broker that lacks it.
    fn feature(&self) -> &'static str {
        self.api().name
    }
    /// Returns whether the broker responds to this request. A broker does not respond to Produce with `acks` 0.
    fn is_answered(&self) -> bool {
        true
    }
    /// Returns how long the broker may hold back the response on purpose, for example in a long poll.
    fn max_broker_wait(&self) -> Duration {
        Duration::ZERO
    }
}

/// Every request is a call. Calls that need more, such as Produce in the producer, have their own implementations.
impl<R: api::Request> Call for R {
    fn api(&self) -> &'static Info {
        R::API
    }
    fn put(&self, w: &mut Writer) {
        Wire::put(self, w);
    }
}

/// A request together with the oldest version that can encode it.
pub(super) struct AtLeast<R>(pub R, pub i16);

impl<R: api::Request> Call for AtLeast<R> {
    fn api(&self) -> &'static Info {
        R::API
    }
    fn put(&self, w: &mut Writer) {
        Wire::put(&self.0, w);
    }
    fn min_version(&self) -> i16 {
        self.1
    }
}

/// A broker's response: the body and its version.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The version of the request.
    pub version: i16,
    /// The body, which is empty if the broker does not respond to the request.
    pub body: Bytes,
}

impl Reply {
    /// Decodes the body.
    pub fn decode<R: api::Message>(self) -> Result<R, Error> {
        api::decode_padded(self.version, self.body).map_err(malformed)
    }
}

/// After this many malformed responses in a row, the client blames the broker, and not the network.
pub(super) const MAX_MALFORMED: u32 = 3;

pub(super) fn malformed(e: wire::Error) -> Error {
    Error::new(ErrorKind::Decode, format!("broker sent a malformed message: {e}"))
}

//! What a connection writes to the log and to the flight recorder.

use super::{Connection, InFlight};
use crate::api::Info;
use crate::engine::Time;
use crate::logging::flight::{Frame, checksum};
use crate::logging::{self, Place};
use bytes::Bytes;

impl<T> Connection<T> {
    /// Records a request, which leaves at about the time of the last use.
    pub(super) fn record_request(&self, api: &'static Info, version: i16, correlation_id: i32, parts: &[Bytes]) {
        logging::record(|| Frame {
            at: self.used_at.0,
            is_response: false,
            broker: self.address.clone(),
            api: api.name,
            version,
            correlation_id,
            size: parts.iter().map(Bytes::len).sum(),
            checksum: parts.first().map_or(0, |part| checksum(part)),
        });
    }

    /// Records a response.
    pub(super) fn record_response(&self, now: Time, request: &InFlight<T>, frame: &Bytes) {
        logging::record(|| Frame {
            at: now.0,
            is_response: true,
            broker: self.address.clone(),
            api: request.api.name,
            version: request.version,
            correlation_id: request.correlation_id,
            size: frame.len(),
            checksum: checksum(frame),
        });
    }

    /// Logs that the session cannot be renewed yet.
    pub(super) fn log_expired_token(&self) {
        let place = Place::broker(&self.address);
        event!(
            Warn,
            Auth,
            place,
            "the OAUTHBEARER token expired, so that the session cannot be renewed; hint: check the token provider"
        );
    }

    /// Logs a response.
    pub(super) fn log_response(&self, now: Time, request: &InFlight<T>) {
        let InFlight { api, version, sent_at, .. } = request;
        let milliseconds = now.since(*sent_at).as_secs_f64() * 1000.0;
        let place = Place::broker(&self.address);
        event!(Debug, Network, place, "{} version {version} was answered after {milliseconds:.3} ms", api.name);
    }
}

//! Errors of requests and responses that exceed a limit of the broker or of the client.

use super::{Connection, InFlight, LARGE_REQUEST, Owner};
use crate::api::{ErrorCode, fetch, share_fetch};
use crate::engine::{Error, ErrorKind};
use crate::frame::BadLength;

impl<T> Connection<T> {
    /// Completes the first request in flight with an error, if its response is larger than the limit. The other
    /// requests fail together with the connection. Returns whether the bytes that identify the response have not
    /// arrived yet.
    pub(super) fn handle_oversized(&mut self, bad: BadLength) -> bool {
        let (Ok(size), Some(asked)) = (u32::try_from(i32::from_be_bytes(bad.found)), self.in_flight.front()) else {
            return false;
        };
        let Some(correlation_id) = self.frames.buffer().get(4..8) else { return true };
        let is_fetch = [fetch::API.key, share_fetch::API.key].contains(&asked.api.key);
        if !is_fetch || correlation_id != asked.correlation_id.to_be_bytes() {
            return false;
        }
        let what = format!("the response has {size} bytes, and this client accepts {} bytes", bad.max);
        let error = Error::refused(ErrorCode::RECORD_LIST_TOO_LARGE, what).with_hint(format!(
            "set fetch.max.bytes to {} or more (the client accepts twice that size), or seek past the record",
            size.div_ceil(2)
        ));
        if let Some(InFlight { owner: Owner::Caller(token), .. }) = self.in_flight.pop_front() {
            self.responses.push_back((token, Err(error)));
        }
        false
    }

    /// Returns the error for a connection that was lost during a large request. Brokers close the connection if a
    /// request exceeds their limit.
    pub fn lost_with_large_request(&self) -> Option<Error> {
        let size = self.in_flight.iter().map(|f| f.size).max().filter(|size| *size >= LARGE_REQUEST)?;
        let message = format!("connection closed by the broker during a request of {size} bytes");
        let hint = "if this happens again, the request exceeds socket.request.max.bytes of the broker: reduce \
                    max.request.size and batch.size, or increase the broker's limit";
        Some(Error::new(ErrorKind::Oversized, message).with_hint(hint))
    }
}

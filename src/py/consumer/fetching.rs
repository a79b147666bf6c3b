//! Waits for records, moves them from the client into the delivery buffer, and delivers them to the program.

use super::ConsumerCore;
use crate::client::Slice;
use crate::py::deadline::{Deadline, wait_for};
use crate::py::delivery_buffer::Chunk;
use crate::py::error::exception;
use crate::py::record::Record;
use crate::py::records::Records;
use pyo3::prelude::*;

/// Number of bytes that an iteration takes from the client at a time. These bytes no longer count towards the prefetch
/// limit.
pub(super) const CHUNK_BYTES: usize = 4 << 20;

/// Maximum number of bytes that one call collects, so that an Arrow column stays far below its limit of 2 GiB.
pub(super) const POLL_BYTES: usize = 64 << 20;

/// The result of waiting for records.
#[derive(PartialEq)]
pub(super) enum Fetched {
    Records,
    /// Every partition with an end offset has reached its end offset.
    End,
    Nothing,
}

impl ConsumerCore {
    /// Fails if a wait without a timeout could never end.
    pub(super) fn check_has_source(&self, py: Python<'_>) -> PyResult<()> {
        if !self.client.reads_nothing() {
            return Ok(());
        }
        let message = "the consumer has neither topics nor partitions to read, so it would wait for ever";
        Err(exception(py, "ConfigError", message, Some("call subscribe() or assign() first")))
    }

    /// Moves records that the client has fetched into the delivery buffer, without waiting.
    pub(super) fn try_fetch(&self, most: usize, bytes: usize) -> PyResult<Fetched> {
        let slices = self.client.try_poll(most, bytes)?;
        if slices.is_empty() {
            return Ok(if self.client.is_finished() { Fetched::End } else { Fetched::Nothing });
        }
        Ok(if self.keep(slices) { Fetched::Records } else { Fetched::Nothing })
    }

    /// Appends slices to the delivery buffer. Returns whether the buffer holds a record.
    fn keep(&self, slices: Vec<Slice>) -> bool {
        let mut buffer = self.buffer();
        buffer.chunks.extend(slices.into_iter().filter(|s| !s.records.is_empty()).map(Chunk::new));
        !buffer.chunks.is_empty()
    }

    /// Waits for records until the deadline, and moves them into the delivery buffer.
    pub(super) fn fetch(&self, py: Python<'_>, end: Deadline, most: usize, bytes: usize) -> PyResult<Fetched> {
        loop {
            self.follow(py)?;
            let fetched = self.try_fetch(most, bytes)?;
            if fetched != Fetched::Nothing || end.left().is_zero() {
                return Ok(fetched);
            }
            let _waiting = self.client.may_wait()?;
            if end.is_never() {
                self.check_has_source(py)?;
            }
            py.check_signals()?;
            wait_for(py, end, |slice| {
                // Another thread may unsubscribe during the wait.
                let reads_nothing = || end.is_never() && self.client.reads_nothing();
                self.client.wait_for_records(slice) || self.commits.is_due() || reads_nothing()
            })?;
        }
    }

    #[inline]
    pub(super) fn next_record(&self, py: Python<'_>) -> PyResult<Option<Record>> {
        self.client.note_progress();
        loop {
            self.follow(py)?;
            let next = self.buffer().next(&self.client);
            if next.is_some() {
                return Ok(next);
            }
            self.check()?;
            if self.fetch(py, Deadline::after(None), usize::MAX, CHUNK_BYTES)? == Fetched::End {
                return Ok(None);
            }
        }
    }

    /// Collects up to `most` records from the delivery buffer and from the client, without waiting.
    pub(super) fn gather(&self, most: usize, bytes: usize) -> PyResult<Records> {
        let (mut parts, mut rows, mut size) = (Vec::new(), 0, 0);
        loop {
            for part in self.buffer().take(most - rows, bytes - size) {
                rows += part.range.len();
                size += part.size();
                parts.push(part);
            }
            if rows >= most || size >= bytes {
                return Ok(Records::new(parts));
            }
            let more = if parts.is_empty() {
                self.try_fetch(most, bytes)? == Fetched::Records
            } else {
                self.keep(self.client.try_more(most - rows, bytes - size))
            };
            if !more {
                return Ok(Records::new(parts));
            }
        }
    }
}

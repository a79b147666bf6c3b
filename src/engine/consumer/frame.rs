//! Counts the memory that fetch responses occupy in addition to the buffered batches.
//!
//! A batch that is uncompressed, or not decompressed yet, is a slice of the response. The whole response stays
//! allocated as long as the buffer contains one of its batches, or the application keeps one of its records.

use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The prefetch limit divided by this number is the most that responses count for if only the application still uses
/// them. With a higher limit, an application that keeps its records would have to wait for each response.
const MAX_DELIVERED: usize = 2;

/// The number of bytes of responses that are still allocated, but that belong to no buffered batch.
#[derive(Clone, Debug, Default)]
pub struct Leftover(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    /// Bytes of responses that have a buffered batch, without the bytes of the buffered batches.
    buffered: AtomicUsize,
    /// Bytes of responses without a buffered batch, if the application still keeps records of the response.
    delivered: AtomicUsize,
}

impl Leftover {
    /// Returns the bytes that count against the prefetch limit `bound`.
    pub fn bytes(&self, bound: usize) -> usize {
        self.0.buffered.load(Relaxed).saturating_add(self.0.delivered.load(Relaxed).min(bound / MAX_DELIVERED))
    }
}

/// The bytes of a response, which are dropped together with their last slice.
struct Body(Bytes, Leftover);

impl AsRef<[u8]> for Body {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        self.1.0.delivered.fetch_sub(self.0.len(), Relaxed);
    }
}

/// A response that has at least one buffered batch.
#[derive(Debug)]
pub struct Frame {
    /// This slice keeps the body alive until `drop` has counted it as delivered.
    body: Bytes,
    leftover: Leftover,
}

impl Frame {
    /// Wraps the bytes of a response, and counts them.
    pub fn new(body: Bytes, leftover: Leftover) -> (Arc<Self>, Bytes) {
        leftover.0.buffered.fetch_add(body.len(), Relaxed);
        let body = Bytes::from_owner(Body(body, leftover.clone()));
        (Arc::new(Self { body: body.clone(), leftover }), body)
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        self.leftover.0.buffered.fetch_sub(self.body.len(), Relaxed);
        self.leftover.0.delivered.fetch_add(self.body.len(), Relaxed);
    }
}

/// The part of a response that belongs to one batch. The part counts as buffered until it is dropped.
#[derive(Debug)]
pub struct FrameSlice {
    frame: Arc<Frame>,
    size: usize,
}

impl FrameSlice {
    /// Marks `size` bytes of the frame as buffered. Slices must not overlap.
    pub fn new(frame: &Arc<Frame>, size: usize) -> Self {
        frame.leftover.0.buffered.fetch_sub(size, Relaxed);
        Self { frame: frame.clone(), size }
    }
}

impl Drop for FrameSlice {
    fn drop(&mut self) {
        self.frame.leftover.0.buffered.fetch_add(self.size, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delivered_batches_count_until_the_whole_response_is_delivered_and_no_record_is_kept() {
        let leftover = Leftover::default();
        let (frame, body) = Frame::new(vec![0; 100].into(), leftover.clone());
        let (first, last) = (FrameSlice::new(&frame, 60), FrameSlice::new(&frame, 30));
        drop(frame);
        assert_eq!(leftover.bytes(1_000), 10);
        drop(first);
        assert_eq!(leftover.bytes(1_000), 70);
        let record = body.slice(90..);
        drop((last, body));
        assert_eq!([1_000, 100, 0].map(|bound| leftover.bytes(bound)), [100, 50, 0]);
        drop(record);
        assert_eq!(leftover.bytes(1_000), 0);
    }

    #[test]
    fn a_dropped_response_does_not_count() {
        let leftover = Leftover::default();
        drop(Frame::new(vec![0; 100].into(), leftover.clone()));
        assert_eq!(leftover.bytes(1_000), 0);
    }
}

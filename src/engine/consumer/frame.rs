//! Memory that answers keep beyond what is buffered: batches that came uncompressed, or are not decompressed yet, lie in the
//! answer that brought them, and all of it stays until the last of them was given out or thrown away, and until whoever
//! has records of one lets go of them.

use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Of what is fetched ahead, this part at most is held back for answers that the program alone has. One that collects
/// what it reads would have to wait for each answer otherwise.
const IN_HAND: usize = 2;

/// Bytes of answers that no batch in the buffers has any more, and that are in memory all the same.
#[derive(Clone, Debug, Default)]
pub struct Leftover(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    /// Of answers of which something is buffered.
    begun: AtomicUsize,
    /// Of answers that were given out, and records of which the program has.
    in_hand: AtomicUsize,
}

impl Leftover {
    /// `bound`: how much may be held in all.
    pub fn bytes(&self, bound: usize) -> usize {
        self.0.begun.load(Relaxed).saturating_add(self.0.in_hand.load(Relaxed).min(bound / IN_HAND))
    }
}

/// An answer's bytes, wherever slices of them go.
struct Body(Bytes, Leftover);

impl AsRef<[u8]> for Body {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        self.1.0.in_hand.fetch_sub(self.0.len(), Relaxed);
    }
}

/// An answer as it came, as long as something of it is buffered.
#[derive(Debug)]
pub struct Frame {
    /// Lives at least as long as this, so that it is in hand after it, if at all.
    body: Bytes,
    leftover: Leftover,
}

impl Frame {
    /// Puts what counts it around an answer's bytes.
    pub fn new(body: Bytes, leftover: Leftover) -> (Arc<Self>, Bytes) {
        leftover.0.begun.fetch_add(body.len(), Relaxed);
        let body = Bytes::from_owner(Body(body, leftover.clone()));
        (Arc::new(Self { body: body.clone(), leftover }), body)
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        self.leftover.0.begun.fetch_sub(self.body.len(), Relaxed);
        self.leftover.0.in_hand.fetch_add(self.body.len(), Relaxed);
    }
}

/// A batch's part of the answer it lies in: buffered as long as this lives.
#[derive(Debug)]
pub struct Share {
    frame: Arc<Frame>,
    size: usize,
}

impl Share {
    /// `size`: its bytes, which no other share of the frame has.
    pub fn new(frame: &Arc<Frame>, size: usize) -> Self {
        frame.leftover.0.begun.fetch_sub(size, Relaxed);
        Self { frame: frame.clone(), size }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.frame.leftover.0.begun.fetch_add(self.size, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_given_out_of_an_answer_counts_until_all_of_it_was_and_nobody_has_it() {
        let leftover = Leftover::default();
        let (frame, body) = Frame::new(vec![0; 100].into(), leftover.clone());
        let (first, last) = (Share::new(&frame, 60), Share::new(&frame, 30));
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
    fn an_answer_that_nobody_took_anything_of_does_not_count() {
        let leftover = Leftover::default();
        drop(Frame::new(vec![0; 100].into(), leftover.clone()));
        assert_eq!(leftover.bytes(1_000), 0);
    }
}

//! Memory that answers keep beyond what is buffered: batches that came uncompressed, or are not decompressed yet, lie in the
//! answer that brought them, and all of it stays until the last of them was given out or thrown away.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Bytes of answers that no batch in the buffers has any more, and that are in memory all the same.
#[derive(Clone, Debug, Default)]
pub struct Leftover(Arc<AtomicUsize>);

impl Leftover {
    pub fn bytes(&self) -> usize {
        self.0.load(Relaxed)
    }
}

/// An answer as it came.
#[derive(Debug)]
pub struct Frame {
    size: usize,
    leftover: Leftover,
}

impl Frame {
    pub fn new(size: usize, leftover: Leftover) -> Arc<Self> {
        leftover.0.fetch_add(size, Relaxed);
        Arc::new(Self { size, leftover })
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        self.leftover.0.fetch_sub(self.size, Relaxed);
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
        frame.leftover.0.fetch_sub(size, Relaxed);
        Self { frame: frame.clone(), size }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.frame.leftover.0.fetch_add(self.size, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_given_out_of_an_answer_counts_until_all_of_it_was() {
        let leftover = Leftover::default();
        let frame = Frame::new(100, leftover.clone());
        let (first, last) = (Share::new(&frame, 60), Share::new(&frame, 30));
        drop(frame);
        assert_eq!(leftover.bytes(), 10);
        drop(first);
        assert_eq!(leftover.bytes(), 70);
        drop(last);
        assert_eq!(leftover.bytes(), 0);
    }
}

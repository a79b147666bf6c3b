//! What a broker of a release stores of what producers send: topics it takes for a directory, sets whose messages hold.
//!
//! Nothing says why a set was refused: the connection is closed, and the set gone. A payload above the limit is worse:
//! from 0.7.2 on its set is dropped, and the connection stays.

use super::super::version::Old;
use crate::compress::{Compression, DEFAULT_LIMIT, decompress};
use crate::record::crc32;
use bytes::Bytes;

/// Wrappers around a message, at most; brokers go on until their stack ends.
const MAX_DEPTH: usize = 8;
/// A file's name has at most so many bytes.
const MAX_FILE_NAME: usize = 255;
/// A topic's name has at most so many characters from 0.7.2 on, those beyond Unicode's first plane counting twice.
const MAX_NAME: usize = 255;

/// What is done with a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// So many bytes of it are stored, in which are so many messages.
    Store { bytes: usize, messages: u64 },
    /// It is dropped, and nobody told.
    Drop,
    /// The connection is closed.
    Close,
}

/// Looks at a set as the release does.
pub(super) fn judge(release: Old, set: &Bytes, max_message_bytes: usize) -> Verdict {
    let mut walk = Walk { release, messages: 0, budget: DEFAULT_LIMIT };
    // What decides is the first message that is wrong in either way; then the insides of all.
    let limit = (release >= Old::V0_7_2).then_some(max_message_bytes);
    let valid = match walk.outer(set, limit) {
        Ok(valid) => valid,
        Err(Wrong::TooLarge) => return Verdict::Drop,
        Err(Wrong::Broken) => return Verdict::Close,
    };
    let bytes = if release >= Old::V0_7_1 { valid } else { set.len() };
    match walk.inside(set, 0) {
        Ok(()) => Verdict::Store { bytes, messages: walk.messages },
        Err(_) => Verdict::Close,
    }
}

/// Whether the release takes this for a topic's name.
pub(super) fn is_topic(release: Old, topic: &str) -> bool {
    let illegal = |c| matches!(c, '/' | '\0'..='\x1f' | '\x7f'..='\u{9f}' | '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..);
    match release {
        Old::V0_7_2 => {
            let is_short = topic.encode_utf16().count() <= MAX_NAME;
            !matches!(topic, "" | "." | "..") && is_short && !topic.contains(illegal)
        }
        _ => !topic.is_empty(),
    }
}

/// Whether there can be a directory for a partition.
pub(super) fn fits_a_file(topic: &str, partition: i32) -> bool {
    topic.rsplit('/').next().is_some_and(|name| name.len() + partition.to_string().len() < MAX_FILE_NAME)
}

enum Wrong {
    TooLarge,
    Broken,
}

struct Walk {
    release: Old,
    messages: u64,
    /// Bytes that may still come out of wrappers.
    budget: usize,
}

/// A message as it lies in a set.
struct Raw<'a> {
    payload: &'a [u8],
    codec: u8,
}

impl Walk {
    /// The bytes of all messages of the set itself, none of which is broken or too large.
    fn outer(&self, set: &[u8], limit: Option<usize>) -> Result<usize, Wrong> {
        let mut rest = set;
        while let Some((message, behind)) = self.next(rest, rest.len() == set.len())? {
            if limit.is_some_and(|limit| message.payload.len() > limit) {
                return Err(Wrong::TooLarge);
            }
            rest = behind;
        }
        Ok(set.len() - rest.len())
    }

    /// Counts the messages, those in wrappers too.
    fn inside(&mut self, set: &[u8], depth: usize) -> Result<(), Wrong> {
        let mut rest = set;
        while let Some((message, behind)) = self.next(rest, rest.len() == set.len())? {
            rest = behind;
            let compression = match message.codec {
                0 => {
                    self.messages += 1;
                    continue;
                }
                1 => Compression::Gzip,
                2 if self.release >= Old::V0_7_1 => Compression::Snappy,
                _ => return Err(Wrong::Broken),
            };
            if depth == MAX_DEPTH {
                return Err(Wrong::Broken);
            }
            let plain = decompress(compression, message.payload, self.budget).map_err(|_| Wrong::Broken)?;
            self.budget -= plain.len();
            self.inside(&plain, depth + 1)?;
        }
        Ok(())
    }

    /// The next message and what is behind it; one that is cut off ends a set, but is no beginning of one.
    fn next<'a>(&self, set: &'a [u8], is_first: bool) -> Result<Option<(Raw<'a>, &'a [u8])>, Wrong> {
        let Some((length, rest)) = set.split_first_chunk() else { return Ok(None) };
        let length = usize::try_from(i32::from_be_bytes(*length)).map_err(|_| Wrong::Broken)?;
        let Some((message, behind)) = rest.split_at_checked(length) else {
            return if is_first { Err(Wrong::Broken) } else { Ok(None) };
        };
        // 0.6 has one kind of message and does not look which one this is.
        let (codec, message) = match (self.release, message) {
            (Old::V0_6_1, [_, rest @ ..]) | (_, [0, rest @ ..]) => (0, rest),
            (_, [1, attributes, rest @ ..]) => (attributes & 3, rest),
            _ => return Err(Wrong::Broken),
        };
        match message.split_first_chunk() {
            Some((crc, payload)) if u32::from_be_bytes(*crc) == crc32(payload) => {
                Ok(Some((Raw { payload, codec }, behind)))
            }
            _ => Err(Wrong::Broken),
        }
    }
}

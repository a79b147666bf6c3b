//! Validates produce requests as a legacy broker does: checks topic names, and checks that the messages of message sets
//! are intact.
//!
//! If the broker rejects a message set, it drops the set and closes the connection without an error response. From
//! 0.7.2 on, the broker keeps the connection open if it drops a message set because a payload is above the size limit.

use super::super::version::LegacyVersion;
use crate::compress::{Compression, DEFAULT_LIMIT, decompress};
use crate::record::crc32;
use bytes::Bytes;

/// Maximum nesting of compressed messages. Real brokers recurse until their stack ends.
const MAX_DEPTH: usize = 8;
/// Maximum bytes in a file name.
const MAX_FILE_NAME: usize = 255;
/// Maximum number of characters in a topic name, from Kafka 0.7.2 on. Characters outside Unicode's first plane count
/// twice.
const MAX_NAME: usize = 255;

/// The decision about a message set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SetCheck {
    /// Store this many bytes, which contain this many messages.
    Store { bytes: usize, messages: u64 },
    /// Drop the message set silently.
    Drop,
    /// Close the connection.
    Close,
}

/// Checks a message set like a broker of the release.
pub(super) fn judge(release: LegacyVersion, set: &Bytes, max_message_bytes: usize) -> SetCheck {
    let mut walk = Walk { release, messages: 0, budget: DEFAULT_LIMIT };
    // The first bad message of the outer set decides; only then are nested sets checked.
    let limit = (release >= LegacyVersion::V0_7_2).then_some(max_message_bytes);
    let valid = match walk.outer(set, limit) {
        Ok(valid) => valid,
        Err(Wrong::TooLarge) => return SetCheck::Drop,
        Err(Wrong::Broken) => return SetCheck::Close,
    };
    let bytes = if release >= LegacyVersion::V0_7_1 { valid } else { set.len() };
    match walk.inside(set, 0) {
        Ok(()) => SetCheck::Store { bytes, messages: walk.messages },
        Err(_) => SetCheck::Close,
    }
}

/// Returns whether the release accepts a topic name.
pub(super) fn is_topic(release: LegacyVersion, topic: &str) -> bool {
    let illegal = |c| matches!(c, '/' | '\0'..='\x1f' | '\x7f'..='\u{9f}' | '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..);
    match release {
        LegacyVersion::V0_7_2 => {
            let is_short = topic.encode_utf16().count() <= MAX_NAME;
            !matches!(topic, "" | "." | "..") && is_short && !topic.contains(illegal)
        }
        _ => !topic.is_empty(),
    }
}

/// Returns whether a partition's directory name is short enough.
pub(super) fn fits_a_file(topic: &str, partition: i32) -> bool {
    topic.rsplit('/').next().is_some_and(|name| name.len() + partition.to_string().len() < MAX_FILE_NAME)
}

enum Wrong {
    TooLarge,
    Broken,
}

struct Walk {
    release: LegacyVersion,
    messages: u64,
    /// Number of bytes that nested message sets may still decompress to.
    budget: usize,
}

/// A message within a set.
struct Raw<'a> {
    payload: &'a [u8],
    codec: u8,
}

impl Walk {
    /// Returns the number of bytes of the outer messages, if no message is damaged or too large.
    fn outer(&self, set: &[u8], limit: Option<usize>) -> Result<usize, Wrong> {
        let mut rest = set;
        while let Some((message, next_rest)) = self.next(rest, rest.len() == set.len())? {
            if limit.is_some_and(|limit| message.payload.len() > limit) {
                return Err(Wrong::TooLarge);
            }
            rest = next_rest;
        }
        Ok(set.len() - rest.len())
    }

    /// Counts the messages, including messages inside wrappers.
    fn inside(&mut self, set: &[u8], depth: usize) -> Result<(), Wrong> {
        let mut rest = set;
        while let Some((message, next_rest)) = self.next(rest, rest.len() == set.len())? {
            rest = next_rest;
            let compression = match message.codec {
                0 => {
                    self.messages += 1;
                    continue;
                }
                1 => Compression::Gzip,
                2 if self.release >= LegacyVersion::V0_7_1 => Compression::Snappy,
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

    /// Returns the next message and the rest of the set. A truncated message ends a set, but a set must not start with
    /// a truncated message.
    fn next<'a>(&self, set: &'a [u8], is_first: bool) -> Result<Option<(Raw<'a>, &'a [u8])>, Wrong> {
        let Some((length, rest)) = set.split_first_chunk() else { return Ok(None) };
        let length = usize::try_from(i32::from_be_bytes(*length)).map_err(|_| Wrong::Broken)?;
        let Some((message, next_rest)) = rest.split_at_checked(length) else {
            return if is_first { Err(Wrong::Broken) } else { Ok(None) };
        };
        // 0.6 has one message format and does not check the magic byte.
        let (codec, message) = match (self.release, message) {
            (LegacyVersion::V0_6_1, [_, rest @ ..]) | (_, [0, rest @ ..]) => (0, rest),
            (_, [1, attributes, rest @ ..]) => (attributes & 3, rest),
            _ => return Err(Wrong::Broken),
        };
        match message.split_first_chunk() {
            Some((crc, payload)) if u32::from_be_bytes(*crc) == crc32(payload) => {
                Ok(Some((Raw { payload, codec }, next_rest)))
            }
            _ => Err(Wrong::Broken),
        }
    }
}

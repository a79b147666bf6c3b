//! Writes message sets. A message set is a sequence of uncompressed messages, or one compressed message that contains
//! all messages.

use super::{Magic, length};
use crate::compress::{Codec, Compression, compress};
use crate::record::crc32;
use crate::wire::{Error, Reason};

/// Collects messages for a message set. The offset of an error is the position in the set at which the message would
/// have started.
#[derive(Debug)]
pub struct MessageSetBuilder {
    buf: Vec<u8>,
    magic: Magic,
}

impl MessageSetBuilder {
    /// Creates a set of messages of one format. A broker of 0.7 can store both formats, so a program may concatenate
    /// sets of different formats.
    pub fn new(magic: Magic) -> Self {
        Self { buf: Vec::new(), magic }
    }

    /// Returns the size so far.
    pub fn size(&self) -> usize {
        self.buf.len()
    }

    /// Appends a message.
    pub fn append(&mut self, payload: &[u8]) -> Result<(), Error> {
        put(&mut self.buf, self.magic, Compression::None, payload)
    }

    /// Returns the messages uncompressed, or inside one wrapper with the same magic, like the Java producer of 0.7. An
    /// empty set has no wrapper. Kafka 0.7 has only gzip and snappy, and 0.6 has no compression.
    pub fn seal(self, codec: impl Into<Codec>) -> Result<Vec<u8>, Error> {
        let codec = codec.into();
        let refused = |reason| Error::new(reason, 0);
        match codec.compression() {
            Compression::None => return Ok(self.buf),
            Compression::Gzip | Compression::Snappy if self.magic == Magic::V1 => {}
            Compression::Gzip | Compression::Snappy => {
                return Err(refused(Reason::Invalid("messages of magic 0 cannot be compressed")));
            }
            _ => return Err(refused(Reason::Invalid("Kafka 0.7 has no compression but gzip and snappy"))),
        }
        if self.buf.is_empty() {
            return Ok(self.buf);
        }
        let (mut packed, mut set) = (Vec::with_capacity(self.buf.len() / 2), Vec::new());
        compress(codec, &self.buf, &mut packed).map_err(|e| refused(Reason::Compression(e.to_string())))?;
        put(&mut set, self.magic, codec.compression(), &packed)?;
        Ok(set)
    }
}

fn put(set: &mut Vec<u8>, magic: Magic, compression: Compression, payload: &[u8]) -> Result<(), Error> {
    set.extend_from_slice(&length(magic.header_size() + payload.len(), set.len())?);
    set.push(magic.number());
    if magic == Magic::V1 {
        // The numbers of gzip and snappy have not changed since.
        set.extend(u8::try_from(compression.number()));
    }
    set.extend_from_slice(&crc32(payload).to_be_bytes());
    set.extend_from_slice(payload);
    Ok(())
}

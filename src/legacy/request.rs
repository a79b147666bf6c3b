//! Requests of Kafka 0.6 and 0.7: each request has a type, and parameters for one or more partitions.
//!
//! ```text
//! length i32 | type i16 | part                                   Produce 0, Fetch 1, Offsets 4
//! length i32 | type i16 | count i16 | part*                      MultiFetch 2, MultiProduce 3
//! part = topic_length i16, topic | partition i32 | parameters of the type
//! ```
//!
//! The parts of a multi-request have neither a length nor a type. Values are not validated: a negative `max_size` or an
//! illegal topic decodes, because the broker decides how to respond.

use super::{frame_reader, framed, length, reader};
use crate::wire::{Error, Reader, Reason, Step, Wire};
use bytes::Bytes;

/// Type of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequestType {
    /// Stores messages. The request has no response.
    Produce,
    /// Reads bytes of one partition.
    Fetch,
    /// Reads bytes of several partitions.
    MultiFetch,
    /// Stores messages in several partitions. The request has no response.
    MultiProduce,
    /// Returns the offsets at which segments start.
    Offsets,
}

impl RequestType {
    /// All types, ordered by number.
    pub const ALL: [Self; 5] = [Self::Produce, Self::Fetch, Self::MultiFetch, Self::MultiProduce, Self::Offsets];

    /// Returns the number on the wire.
    pub fn number(self) -> i16 {
        self as i16
    }

    /// Returns the type for a number on the wire. A broker closes the connection if the number is unknown.
    pub fn from_number(number: i16) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.number() == number)
    }

    /// Returns the name in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Produce => "produce",
            Self::Fetch => "fetch",
            Self::MultiFetch => "multifetch",
            Self::MultiProduce => "multiproduce",
            Self::Offsets => "offsets",
        }
    }

    /// Returns the type with a lower-case name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// Messages for a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Produce {
    /// The topic, which is the name of a directory on the broker.
    pub topic: String,
    /// The partition. With -1, the broker chooses a partition.
    pub partition: i32,
    /// The messages.
    pub message_set: Bytes,
}

/// The range of bytes to read from a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// First byte to read, which should be the start of a message.
    pub offset: i64,
    /// The exact maximum number of bytes. Never send a negative number, because it breaks the broker's framing.
    pub max_size: i32,
}

/// Offsets to look up in a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offsets {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// Milliseconds since 1970, -1 for the latest, -2 for the earliest.
    pub time: i64,
    /// Maximum number of offsets.
    pub max_number: i32,
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Request {
    Produce(Produce),
    Fetch(Fetch),
    MultiFetch(Vec<Fetch>),
    MultiProduce(Vec<Produce>),
    Offsets(Offsets),
}

impl Request {
    /// Returns the type.
    pub fn request_type(&self) -> RequestType {
        match self {
            Self::Produce(_) => RequestType::Produce,
            Self::Fetch(_) => RequestType::Fetch,
            Self::MultiFetch(_) => RequestType::MultiFetch,
            Self::MultiProduce(_) => RequestType::MultiProduce,
            Self::Offsets(_) => RequestType::Offsets,
        }
    }

    /// Decodes a body: a frame without its length, which [`crate::frame::Frames`] returns.
    pub fn decode(body: Bytes) -> Result<Self, Error> {
        Self::read(reader(body))
    }

    /// Decodes a frame, including its length.
    pub fn decode_frame(frame: Bytes) -> Result<Self, Error> {
        Self::read(frame_reader(frame)?)
    }

    /// Decodes like [`Self::decode`], but ignores bytes after the request, as all brokers do.
    pub fn decode_lenient(body: Bytes) -> Result<Self, Error> {
        Self::take(&mut reader(body))
    }

    fn read(mut r: Reader) -> Result<Self, Error> {
        let request = Self::take(&mut r)?;
        r.finish().map(|()| request)
    }

    fn take(r: &mut Reader) -> Result<Self, Error> {
        let at = r.offset();
        let number = i16::get(r).map_err(|e| e.in_field("type"))?;
        let Some(kind) = RequestType::from_number(number) else {
            return Err(Error::new(Reason::Invalid("only the types 0 to 4 exist"), at).in_field("type"));
        };
        Ok(match kind {
            RequestType::Produce => Self::Produce(Produce::read(r)?),
            RequestType::Fetch => Self::Fetch(Fetch::read(r)?),
            RequestType::MultiFetch => Self::MultiFetch(counted(r, Fetch::MIN_SIZE, Fetch::read)?),
            RequestType::MultiProduce => Self::MultiProduce(counted(r, Produce::MIN_SIZE, Produce::read)?),
            RequestType::Offsets => Self::Offsets(Offsets::read(r)?),
        })
    }

    /// Encodes a frame, including its length.
    pub fn encode(&self) -> Result<Vec<u8>, Error> {
        framed(|out| {
            out.extend_from_slice(&self.request_type().number().to_be_bytes());
            match self {
                Self::Produce(part) => part.write(out),
                Self::Fetch(part) => part.write(out),
                Self::Offsets(part) => part.write(out),
                Self::MultiFetch(parts) => write_counted(out, parts, Fetch::write),
                Self::MultiProduce(parts) => write_counted(out, parts, Produce::write),
            }
        })
    }
}

impl Produce {
    /// Size of a part without its topic and messages.
    const MIN_SIZE: usize = 10;

    fn read(r: &mut Reader) -> Result<Self, Error> {
        let (topic, partition) = read_partition(r)?;
        Ok(Self { topic, partition, message_set: field(r, "message_set")? })
    }

    fn write(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        write_partition(&self.topic, self.partition, out)?;
        let size = length(self.message_set.len(), out.len()).map_err(|e| e.in_field("message_set"))?;
        out.extend_from_slice(&size);
        out.extend_from_slice(&self.message_set);
        Ok(())
    }
}

impl Fetch {
    /// Size of a part without its topic.
    const MIN_SIZE: usize = 18;

    fn read(r: &mut Reader) -> Result<Self, Error> {
        let (topic, partition) = read_partition(r)?;
        Ok(Self { topic, partition, offset: field(r, "offset")?, max_size: field(r, "max_size")? })
    }

    fn write(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        write_partition(&self.topic, self.partition, out)?;
        out.extend_from_slice(&self.offset.to_be_bytes());
        out.extend_from_slice(&self.max_size.to_be_bytes());
        Ok(())
    }
}

impl Offsets {
    fn read(r: &mut Reader) -> Result<Self, Error> {
        let (topic, partition) = read_partition(r)?;
        Ok(Self { topic, partition, time: field(r, "time")?, max_number: field(r, "max_number")? })
    }

    fn write(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        write_partition(&self.topic, self.partition, out)?;
        out.extend_from_slice(&self.time.to_be_bytes());
        out.extend_from_slice(&self.max_number.to_be_bytes());
        Ok(())
    }
}

fn field<T: Wire + Default>(r: &mut Reader, name: &'static str) -> Result<T, Error> {
    T::get(r).map_err(|e| super::never_null(e).in_field(name))
}

fn read_partition(r: &mut Reader) -> Result<(String, i32), Error> {
    Ok((field(r, "topic")?, field(r, "partition")?))
}

fn write_partition(topic: &str, partition: i32, out: &mut Vec<u8>) -> Result<(), Error> {
    let too_long =
        |_| Error::new(Reason::TooLong { length: topic.len(), limit: i16::MAX as usize }, out.len()).in_field("topic");
    let size = i16::try_from(topic.len()).map_err(too_long)?;
    out.extend_from_slice(&size.to_be_bytes());
    out.extend_from_slice(topic.as_bytes());
    out.extend_from_slice(&partition.to_be_bytes());
    Ok(())
}

/// Reads a count and the parts. Each part takes at least `min_size` bytes.
fn counted<T>(
    r: &mut Reader,
    min_size: usize,
    read: impl Fn(&mut Reader) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    let at = r.offset();
    let count: i16 = field(r, "count")?;
    let reason = match usize::try_from(count) {
        Err(_) => Reason::NegativeLength(count.into()),
        Ok(n) if n > r.remaining() / min_size => Reason::Length { length: count.into(), left: r.remaining() },
        Ok(n) => {
            let part = |i| read(r).map_err(|e| e.within(Step::Index(i)).in_field("parts"));
            return (0..n).map(part).collect();
        }
    };
    Err(Error::new(reason, at).in_field("count"))
}

fn write_counted<T>(
    out: &mut Vec<u8>,
    parts: &[T],
    write: impl Fn(&T, &mut Vec<u8>) -> Result<(), Error>,
) -> Result<(), Error> {
    let too_many =
        |_| Error::new(Reason::TooLong { length: parts.len(), limit: i16::MAX as usize }, out.len()).in_field("count");
    out.extend_from_slice(&i16::try_from(parts.len()).map_err(too_many)?.to_be_bytes());
    parts.iter().try_for_each(|part| write(part, out))
}

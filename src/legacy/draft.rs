//! The proposal for a new wire format ("New Wire Format Proposal"), which stands between Kafka 0.7 and the protocol that 0.8
//! got: produce and fetch, for several topics each, with versions, correlation ids and acknowledgements.
//!
//! ```text
//! request    size i32 | type i16 | version i16 | correlation i32 | client string | ...
//!   produce  acks i8 | timeout i32 | [topic, [partition i32, size i32, message set]]
//!   fetch    replica i32 | max_wait i32 | min_bytes i32 | [topic, [partition i32], [offset i32]]
//! response   size i32 | correlation i32 | version i16 | error i16 | ...
//!   produce  [error i16] | [offset i64]
//!   fetch    [topic, [partition i32, size i32, message set]]
//! ```
//!
//! A string has an int16 length, `[...]` is an int16 count and as many. Nobody ever served it; where the text leaves a
//! choice, this is how it is read here, and only here:
//!
//! | the proposal | is read as |
//! |---|---|
//! | the fetch request has the correlation id before the version, the table of common fields behind it | as in the table, which is "common to all requests", and as in the produce request |
//! | numbers of the request types are not given | those of 0.7: 0 produce, 1 fetch; the multi-requests are gone |
//! | a message set has no length | an int32, as in the produce request of 0.7 |
//! | offsets are int32 in the fetch request, int64 in the produce response | as written: what is behind 2 GiB cannot be asked for |
//! | a fetch request says nowhere how much it takes | the broker decides |
//! | per-partition errors are "all -1 if none" | as written, so that the code for an unknown error is the request's alone |
//! | a fetch response has no error for a partition | the request's, the first that there was; the partition has no messages |
//! | the response's line with version and error is one comment | both fields are there, as in the table |
//! | an optional client id | an empty string |

use super::{frame_reader, framed, length, reader};
use crate::wire::{Error, Reader, Reason, Step, Wire};
use bytes::Bytes;

/// What all requests begin with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The version of the request; there is 0 only.
    pub version: i16,
    /// A number that the response brings back.
    pub correlation_id: i32,
    /// What the client calls itself; may be empty.
    pub client_id: String,
}

/// Messages of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionData {
    /// The partition.
    pub partition: i32,
    /// The messages, in the format of 0.7.
    pub message_set: Bytes,
}

/// Messages of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicData {
    /// The topic.
    pub topic: String,
    /// By partition.
    pub partitions: Vec<PartitionData>,
}

/// Where to read a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetData {
    /// The topic.
    pub topic: String,
    /// The partitions.
    pub partitions: Vec<i32>,
    /// Where to begin in each of them.
    pub offsets: Vec<i32>,
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// To store messages.
    Produce {
        /// What all have.
        header: Header,
        /// How many replicas must have them before there is a response; 0 is none, and no response.
        required_acks: i8,
        /// After so many milliseconds the response is an error.
        ack_timeout: i32,
        /// The messages.
        data: Vec<TopicData>,
    },
    /// For messages.
    Fetch {
        /// What all have.
        header: Header,
        /// Which replica asks; -1 for any other.
        replica_id: i32,
        /// The response comes after so many milliseconds,
        max_wait: i32,
        /// or as soon as it has so many bytes.
        min_bytes: i32,
        /// Where to read.
        topics: Vec<OffsetData>,
    },
}

/// What all responses begin with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResponseHeader {
    /// The request's number.
    pub correlation_id: i32,
    /// The version of the response.
    pub version: i16,
    /// What went wrong with the request as a whole; 0 is nothing.
    pub error: i16,
}

/// A response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Response {
    /// To a produce request; both lists in the order of its message sets.
    Produce {
        /// What all have.
        header: ResponseHeader,
        /// What went wrong with each; -1 is nothing.
        errors: Vec<i16>,
        /// Where each begins.
        offsets: Vec<i64>,
    },
    /// To a fetch request.
    Fetch {
        /// What all have.
        header: ResponseHeader,
        /// The messages.
        data: Vec<TopicData>,
    },
}

impl Request {
    /// What all requests have.
    pub fn header(&self) -> &Header {
        match self {
            Self::Produce { header, .. } | Self::Fetch { header, .. } => header,
        }
    }

    /// Reads a body: a frame without its size.
    pub fn decode(body: Bytes) -> Result<Self, Error> {
        Self::read(reader(body))
    }

    /// Reads a whole frame, which begins with its size.
    pub fn decode_frame(frame: Bytes) -> Result<Self, Error> {
        Self::read(frame_reader(frame)?)
    }

    fn read(mut r: Reader) -> Result<Self, Error> {
        let r = &mut r;
        let at = r.offset();
        let kind: i16 = field(r, "request_type_id")?;
        let header = Header {
            version: field(r, "version_id")?,
            correlation_id: field(r, "correlation_id")?,
            client_id: field(r, "client_id")?,
        };
        let request = match kind {
            PRODUCE => Self::Produce {
                header,
                required_acks: field(r, "required_acks")?,
                ack_timeout: field(r, "ack_timeout")?,
                data: list(r, "data", TopicData::MIN_SIZE, TopicData::read)?,
            },
            FETCH => Self::Fetch {
                header,
                replica_id: field(r, "replica_id")?,
                max_wait: field(r, "max_wait")?,
                min_bytes: field(r, "min_bytes")?,
                topics: list(r, "topic_offsets", OffsetData::MIN_SIZE, OffsetData::read)?,
            },
            _ => return Err(Error::new(Reason::Invalid("is neither 0 nor 1"), at).in_field("request_type_id")),
        };
        r.finish().map(|()| request)
    }

    /// Writes a whole frame, which begins with its size.
    pub fn encode(&self) -> Result<Vec<u8>, Error> {
        framed(|out| {
            let kind = if matches!(self, Self::Produce { .. }) { PRODUCE } else { FETCH };
            let Header { version, correlation_id, client_id } = self.header();
            out.extend_from_slice(&kind.to_be_bytes());
            out.extend_from_slice(&version.to_be_bytes());
            out.extend_from_slice(&correlation_id.to_be_bytes());
            put_string(out, client_id, "client_id")?;
            match self {
                Self::Produce { required_acks, ack_timeout, data, .. } => {
                    out.extend_from_slice(&required_acks.to_be_bytes());
                    out.extend_from_slice(&ack_timeout.to_be_bytes());
                    put_list(out, data, "data", TopicData::write)
                }
                Self::Fetch { replica_id, max_wait, min_bytes, topics, .. } => {
                    for number in [replica_id, max_wait, min_bytes] {
                        out.extend_from_slice(&number.to_be_bytes());
                    }
                    put_list(out, topics, "topic_offsets", OffsetData::write)
                }
            }
        })
    }
}

impl Response {
    /// Reads a whole frame, which begins with its size. The response does not say what it answers.
    pub fn decode_frame(is_produce: bool, frame: Bytes) -> Result<Self, Error> {
        let r = &mut frame_reader(frame)?;
        let header = ResponseHeader {
            correlation_id: field(r, "correlation_id")?,
            version: field(r, "version_id")?,
            error: field(r, "error")?,
        };
        let response = if is_produce {
            let errors = list(r, "errors", 2, i16::get)?;
            Self::Produce { header, errors, offsets: list(r, "offsets", 8, i64::get)? }
        } else {
            Self::Fetch { header, data: list(r, "data", TopicData::MIN_SIZE, TopicData::read)? }
        };
        r.finish().map(|()| response)
    }

    /// Writes a whole frame, which begins with its size.
    pub fn encode(&self) -> Result<Vec<u8>, Error> {
        framed(|out| {
            let (Self::Produce { header, .. } | Self::Fetch { header, .. }) = self;
            out.extend_from_slice(&header.correlation_id.to_be_bytes());
            out.extend_from_slice(&header.version.to_be_bytes());
            out.extend_from_slice(&header.error.to_be_bytes());
            match self {
                Self::Produce { errors, offsets, .. } => {
                    put_list(out, errors, "errors", |error, out| put(out, &error.to_be_bytes()))?;
                    put_list(out, offsets, "offsets", |offset, out| put(out, &offset.to_be_bytes()))
                }
                Self::Fetch { data, .. } => put_list(out, data, "data", TopicData::write),
            }
        })
    }
}

impl TopicData {
    const MIN_SIZE: usize = 4;

    fn read(r: &mut Reader) -> Result<Self, Error> {
        let topic = field(r, "topic")?;
        let read = |r: &mut Reader| {
            Ok(PartitionData { partition: field(r, "partition")?, message_set: field(r, "messages")? })
        };
        Ok(Self { topic, partitions: list(r, "partition_data", 8, read)? })
    }

    fn write(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        put_string(out, &self.topic, "topic")?;
        put_list(out, &self.partitions, "partition_data", |part, out| {
            out.extend_from_slice(&part.partition.to_be_bytes());
            let size = length(part.message_set.len(), out.len()).map_err(|e| e.in_field("messages"))?;
            out.extend_from_slice(&size);
            put(out, &part.message_set)
        })
    }
}

impl OffsetData {
    const MIN_SIZE: usize = 6;

    fn read(r: &mut Reader) -> Result<Self, Error> {
        let topic = field(r, "topic")?;
        let partitions = list(r, "partitions", 4, i32::get)?;
        Ok(Self { topic, partitions, offsets: list(r, "offsets", 4, i32::get)? })
    }

    fn write(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        put_string(out, &self.topic, "topic")?;
        put_list(out, &self.partitions, "partitions", |partition, out| put(out, &partition.to_be_bytes()))?;
        put_list(out, &self.offsets, "offsets", |offset, out| put(out, &offset.to_be_bytes()))
    }
}

fn field<T: Wire + Default>(r: &mut Reader, name: &'static str) -> Result<T, Error> {
    T::get(r).map_err(|e| super::never_null(e).in_field(name))
}

/// A count and as many items, each of `min_size` bytes or more.
fn list<T>(
    r: &mut Reader,
    name: &'static str,
    min_size: usize,
    read: impl Fn(&mut Reader) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    let at = r.offset();
    let count: i16 = field(r, name)?;
    let reason = match usize::try_from(count) {
        Err(_) => Reason::NegativeLength(count.into()),
        Ok(n) if n > r.left() / min_size => Reason::Length { length: count.into(), left: r.left() },
        Ok(n) => return (0..n).map(|i| read(r).map_err(|e| e.within(Step::Index(i)).in_field(name))).collect(),
    };
    Err(Error::new(reason, at).in_field(name))
}

fn put(out: &mut Vec<u8>, bytes: &[u8]) -> Result<(), Error> {
    out.extend_from_slice(bytes);
    Ok(())
}

fn put_string(out: &mut Vec<u8>, text: &str, name: &'static str) -> Result<(), Error> {
    let too_long =
        |_| Error::new(Reason::TooLong { length: text.len(), limit: i16::MAX as usize }, out.len()).in_field(name);
    let size = i16::try_from(text.len()).map_err(too_long)?;
    out.extend_from_slice(&size.to_be_bytes());
    put(out, text.as_bytes())
}

fn put_list<T>(
    out: &mut Vec<u8>,
    items: &[T],
    name: &'static str,
    write: impl Fn(&T, &mut Vec<u8>) -> Result<(), Error>,
) -> Result<(), Error> {
    let too_many =
        |_| Error::new(Reason::TooLong { length: items.len(), limit: i16::MAX as usize }, out.len()).in_field(name);
    out.extend_from_slice(&i16::try_from(items.len()).map_err(too_many)?.to_be_bytes());
    items.iter().try_for_each(|item| write(item, out))
}

const PRODUCE: i16 = 0;
const FETCH: i16 = 1;

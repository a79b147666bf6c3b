//! The proposal for a new wire format ("New Wire Format Proposal"), an intermediate step between Kafka 0.7 and 0.8. The
//! proposal has produce and fetch requests for several topics, with versions, correlation IDs and acknowledgements.
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
//! A string has an int16 length. `[...]` is an int16 count followed by the items. No released broker implemented the
//! proposal. The table shows how klamm interprets the ambiguous parts of the proposal:
//!
//! | the proposal | klamm |
//! |---|---|
//! | the fetch request has the correlation ID before the version; the table of common fields has it after the version | after the version, because the table is "common to all requests" and the produce request agrees with it |
//! | the request types have no numbers | as in 0.7: 0 produce, 1 fetch; there are no multi-requests |
//! | a message set has no length | an int32, as in the produce request of 0.7 |
//! | offsets are int32 in the fetch request, int64 in the produce response | as written: data beyond 2 GiB cannot be fetched |
//! | a fetch request has no maximum size | the broker chooses the maximum size |
//! | per-partition errors are "all -1 if none" | as written; -1, the code for an unknown error, is therefore only used as the error of the whole request |
//! | a fetch response has no error for a partition | the response has the first error of any partition; the partition with the error has no messages |
//! | the response's line with version and error is one comment | both fields exist, as in the table |
//! | an optional client id | an empty string |

use super::{frame_reader, framed, length, reader};
use crate::wire::{Error, Reader, Reason, Step, Wire};
use bytes::Bytes;

/// Fields at the start of every request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Version of the request. Only version 0 exists.
    pub version: i16,
    /// A number that the response repeats.
    pub correlation_id: i32,
    /// Name of the client, which may be empty.
    pub client_id: String,
}

/// Messages for a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionData {
    /// The partition.
    pub partition: i32,
    /// The messages, in the format of 0.7.
    pub message_set: Bytes,
}

/// Messages for a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicData {
    /// The topic.
    pub topic: String,
    /// The partitions with their messages.
    pub partitions: Vec<PartitionData>,
}

/// A topic to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetData {
    /// The topic.
    pub topic: String,
    /// The partitions.
    pub partitions: Vec<i32>,
    /// The first offset to read in each partition.
    pub offsets: Vec<i32>,
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Stores messages.
    Produce {
        /// The common fields.
        header: Header,
        /// Number of replicas that must store the messages before the broker responds. With 0, the broker does not
        /// respond.
        required_acks: i8,
        /// Timeout in milliseconds.
        ack_timeout: i32,
        /// The messages.
        data: Vec<TopicData>,
    },
    /// Reads messages.
    Fetch {
        /// The common fields.
        header: Header,
        /// ID of the replica that reads, or -1.
        replica_id: i32,
        /// Maximum time that the broker may wait, in milliseconds.
        max_wait: i32,
        /// Number of available bytes at which the broker responds without waiting longer.
        min_bytes: i32,
        /// The topics to read.
        topics: Vec<OffsetData>,
    },
}

/// Fields at the start of every response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResponseHeader {
    /// The correlation ID of the request.
    pub correlation_id: i32,
    /// The version of the response.
    pub version: i16,
    /// Error of the whole request, or 0.
    pub error: i16,
}

/// A response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Response {
    /// Response to a produce request. The lists `errors` and `offsets` have the order of the request's message sets.
    Produce {
        /// The common fields.
        header: ResponseHeader,
        /// The error of each message set, or -1 for no error.
        errors: Vec<i16>,
        /// Offset of the first message of each set.
        offsets: Vec<i64>,
    },
    /// Response to a fetch request.
    Fetch {
        /// The common fields.
        header: ResponseHeader,
        /// The messages.
        data: Vec<TopicData>,
    },
}

impl Request {
    /// Returns the common fields.
    pub fn header(&self) -> &Header {
        match self {
            Self::Produce { header, .. } | Self::Fetch { header, .. } => header,
        }
    }

    /// Decodes a body: a frame without its length.
    pub fn decode(body: Bytes) -> Result<Self, Error> {
        Self::read(reader(body))
    }

    /// Decodes a frame, including its length.
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

    /// Encodes a frame, including its length.
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
    /// Decodes a frame, including its length. `is_produce` is the type of the request, which the response does not
    /// contain.
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

    /// Encodes a frame, including its length.
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

/// Reads a count and the items. Each item takes at least `min_size` bytes.
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
        Ok(n) if n > r.remaining() / min_size => Reason::Length { length: count.into(), left: r.remaining() },
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

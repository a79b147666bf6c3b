//! Decodes the keys or values of records into one column. The decoder needs a decoding plan for each schema. The Python
//! code compiles the plans for JSON and Protobuf from the schemas, and `typed` resolves Avro schemas.
//!
//! `unknown` returns the framings that have no plan yet. The caller adds a plan for each unknown framing before it
//! decodes the records.

use super::column::Column;
use super::frame::{Framed, Framing, Framings};
use super::json;
use super::protobuf;
use crate::arrow::Rows;
use crate::typed::decode::avro;
use crate::typed::fault::{Fault, Result};
use crate::typed::resolve;
use arrow_array::ArrayRef;
use arrow_schema::FieldRef;
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The plan for decoding the payloads of one schema.
pub enum Plan {
    /// Avro's binary encoding.
    Avro(Arc<resolve::Plan>),
    /// JSON text, with the unit of numbers for columns of times, in nanoseconds.
    Json(Option<i64>),
    /// Protobuf's wire format.
    Protobuf(protobuf::Message),
    /// The schema is not usable, for this reason.
    Fail(String),
}

impl Plan {
    /// Reads a plan from JSON: the format, and the format's own plan.
    pub fn parse(text: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(text).ok()?;
        Some(match value.get(0)?.as_str()? {
            "json" => Self::Json(value.get(1).and_then(Value::as_i64)),
            "protobuf" => Self::Protobuf(protobuf::Message::parse(value.get(1)?)?),
            "fail" => Self::Fail(value.get(1)?.as_str()?.to_owned()),
            _ => return None,
        })
    }

    /// Decodes a payload and appends it to a column.
    pub fn decode(&self, payload: &[u8], column: &mut Column) -> Result<()> {
        match self {
            Self::Avro(plan) => avro::decode(plan, payload, column),
            Self::Json(time_unit) => json::decode(payload, column, *time_unit),
            Self::Protobuf(message) => protobuf::decode(message, payload, column),
            Self::Fail(why) => Err(Fault::new(why.as_str())),
        }
    }
}

/// A record that the decoder could not decode.
#[derive(Debug)]
pub struct Failure {
    /// The position of the record among all records.
    pub row: usize,
    /// The framing, or no bytes if the framing is damaged.
    pub prefix: Box<[u8]>,
    /// The error.
    pub fault: Box<Fault>,
}

/// The decoded values of consecutive records.
pub struct Decoded {
    /// The values. The values of failed records are null.
    pub column: ArrayRef,
    /// The failed records, in order.
    pub failures: Vec<Failure>,
}

/// A decoder for the keys or values of a consumer.
pub struct Decoder {
    field: FieldRef,
    framing: Framing,
    plans: HashMap<Box<[u8]>, Plan>,
}

impl Decoder {
    /// Creates a decoder. Fails if klamm does not support columns of this type.
    pub fn new(field: FieldRef, framing: Framing) -> std::result::Result<Self, String> {
        Column::new(&field)?;
        Ok(Self { field, framing, plans: HashMap::new() })
    }

    /// Returns the column's field.
    pub fn field(&self) -> &FieldRef {
        &self.field
    }

    /// Sets the plan for a framing.
    pub fn add(&mut self, prefix: &[u8], plan: Plan) {
        self.plans.insert(prefix.into(), plan);
    }

    /// Removes the plan for a framing.
    pub fn remove(&mut self, prefix: &[u8]) {
        self.plans.remove(prefix);
    }

    /// Returns whether there is a plan for a framing.
    pub fn knows(&self, prefix: &[u8]) -> bool {
        self.plans.contains_key(prefix)
    }

    /// Decodes the records from `start` on. Stops when the column is large and, with `stop_at_failure`, at the first
    /// failure.
    ///
    /// The column has one value for each decoded record. Without `stop_at_failure`, the column also has a null for each
    /// failed record.
    pub fn decode(
        &self,
        rows: &[Rows<'_>],
        start: usize,
        stop_at_failure: bool,
    ) -> std::result::Result<Decoded, String> {
        let mut column = Column::new(&self.field)?;
        let mut failures = Vec::new();
        let mut last_plan: Option<(&[u8], &Plan)> = None;
        let mut unchecked = 0;
        for (row, (part, record)) in records(rows).enumerate().skip(start) {
            if unchecked >= SIZE_CHECK {
                if column.size() > LARGEST_COLUMN {
                    break;
                }
                unchecked = 0;
            }
            let length = column.len();
            column.begin_record();
            let Framings { first, second } = match self.framing.of(record, part.data) {
                Ok(None) => {
                    column.push_null();
                    continue;
                }
                Ok(Some(framings)) => framings,
                Err(fault) => {
                    failures.push(Failure { row, prefix: Box::default(), fault });
                    if stop_at_failure {
                        break;
                    }
                    column.push_null();
                    continue;
                }
            };
            let mut decode = |Framed { prefix, payload }, column: &mut Column| {
                let plan = match last_plan {
                    Some((last_prefix, plan)) if last_prefix == prefix => plan,
                    _ => self.plans.get(prefix).ok_or_else(|| Fault::new("the schema is unknown"))?,
                };
                last_plan = Some((prefix, plan));
                unchecked += EACH_RECORD + payload.len();
                let decoded = column.grow().and_then(|()| plan.decode(payload, column));
                unchecked += column.taken();
                if decoded.is_err() {
                    column.truncate(length);
                }
                decoded
            };
            let mut decoded = decode(first, &mut column);
            if let (Err(_), Some(second)) = (&decoded, second)
                && decode(second, &mut column).is_ok()
            {
                decoded = Ok(());
            }
            if let Err(fault) = decoded {
                if fault.is_too_large && length > 0 {
                    break; // the next batch begins with this record, and has more room
                }
                failures.push(Failure { row, prefix: first.prefix.into(), fault });
                if stop_at_failure {
                    break;
                }
                column.push_null();
            }
        }
        Ok(Decoded { column: column.finish(), failures })
    }
}

/// Returns each framing without a plan once, and whether it is the only framing that its record can have. Ignores
/// records with a damaged framing, for which `decode` reports the failure.
pub fn unknown(framing: Framing, rows: &[Rows<'_>], has_plan: impl Fn(&[u8]) -> bool) -> Vec<(Box<[u8]>, bool)> {
    let mut last: &[u8] = &[];
    let mut unknown = Vec::new();
    let mut seen = HashSet::new();
    for (part, record) in records(rows) {
        let Ok(Some(Framings { first, second })) = framing.of(record, part.data) else { continue };
        for Framed { prefix, .. } in [Some(first), second].into_iter().flatten() {
            if (prefix != last || unknown.is_empty()) && !has_plan(prefix) && seen.insert(prefix) {
                unknown.push((prefix.into(), second.is_none()));
            }
            last = prefix;
        }
    }
    unknown
}

fn records<'a>(rows: &'a [Rows<'a>]) -> impl Iterator<Item = (&'a Rows<'a>, &'a crate::record::Record)> {
    rows.iter().flat_map(|part| part.records.iter().map(move |record| (part, record)))
}

/// Number of bytes of records and columns after which the decoder checks the size of the column.
const SIZE_CHECK: usize = 1 << 20;

/// Number of bytes that each record counts in addition to its size, because a record can have items without bytes.
const EACH_RECORD: usize = 4096;

/// Size of a column at which a batch ends, in bytes. Arrow's offsets allow 2 GiB.
const LARGEST_COLUMN: usize = 256 << 20;

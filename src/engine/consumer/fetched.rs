//! What a fetch brought: checked, decompressed, aborted transactions and control batches taken out. All of it happens
//! outside of any lock, on the I/O thread, while Python works on the records before.

use crate::api::{ErrorCode, fetch};
use crate::engine::{Error, ErrorKind, Reply};
use crate::record::{Batch, Control, ControlType, RecordSet, TimestampType, batches};
use crate::wire::{self, Uuid};
use std::collections::HashSet;
use std::sync::Arc;

/// One partition that was asked for.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The consumer's number of the partition.
    pub slot: usize,
    /// Counts seeks: what was asked before one is thrown away.
    pub generation: u64,
    /// The offset asked for.
    pub offset: i64,
    pub topic: Arc<str>,
    pub id: Uuid,
    pub partition: i32,
}

/// How to read what comes.
#[derive(Clone, Copy, Debug)]
pub struct Checks {
    pub crcs: bool,
    pub read_committed: bool,
    /// Bytes a batch may decompress to.
    pub limit: usize,
}

/// Records of one batch, or just the knowledge that there are none up to an offset.
#[derive(Debug)]
pub struct Chunk {
    pub records: Option<RecordSet>,
    pub timestamp_type: TimestampType,
    /// The offset after the batch.
    pub next_offset: i64,
    pub bytes: usize,
}

/// What came for one partition.
#[derive(Debug)]
pub struct Fetched {
    pub asked: Asked,
    pub code: ErrorCode,
    pub high_watermark: i64,
    pub chunks: Vec<Chunk>,
    /// Why reading stopped before the end of what came.
    pub error: Option<Error>,
}

/// Reads a whole answer.
pub fn read(asked: Vec<Asked>, checks: Checks, reply: Reply) -> Result<Vec<Fetched>, Error> {
    let mut response: fetch::Response = reply.decode()?;
    response.error_code.check().map_err(|code| Error::refused(code, "fetch"))?;
    let mut all = Vec::with_capacity(asked.len());
    for asked in asked {
        let mut of_topic = response
            .responses
            .iter_mut()
            .filter(|t| if t.topic_id.is_zero() { *t.topic == *asked.topic } else { t.topic_id == asked.id });
        let found = of_topic.find_map(|t| t.partitions.iter_mut().find(|p| p.partition_index == asked.partition));
        all.push(match found {
            Some(p) => read_partition(asked, checks, p),
            None => Fetched { asked, code: ErrorCode::NONE, high_watermark: -1, chunks: Vec::new(), error: None },
        });
    }
    Ok(all)
}

fn read_partition(asked: Asked, checks: Checks, p: &mut fetch::PartitionResponse) -> Fetched {
    let mut aborted = p.aborted_transactions.take().unwrap_or_default();
    aborted.sort_by_key(|t| t.first_offset);
    let mut aborted = aborted.into_iter().peekable();
    let mut aborting = HashSet::new();
    let mut fetched =
        Fetched { code: p.error_code, high_watermark: p.high_watermark, chunks: Vec::new(), error: None, asked };
    for batch in batches(p.records.take().unwrap_or_default()).in_runs() {
        let batch = match batch.and_then(|b| if checks.crcs { b.check_crc().map(|()| b) } else { Ok(b) }) {
            Ok(batch) => batch,
            Err(e) => {
                fetched.error = Some(damaged(&fetched.asked, &fetched.chunks, &e));
                break;
            }
        };
        let next_offset = batch.header.next_offset();
        if next_offset <= fetched.asked.offset {
            continue;
        }
        if checks.read_committed {
            while let Some(t) = aborted.next_if(|t| t.first_offset <= batch.header.last_offset()) {
                aborting.insert(t.producer_id);
            }
        }
        let dropped = batch.header.is_transactional() && aborting.contains(&batch.header.producer_id);
        let records = if batch.header.is_control() {
            if checks.read_committed && is_abort(&batch, checks.limit) {
                aborting.remove(&batch.header.producer_id);
            }
            None
        } else if dropped {
            None
        } else {
            match batch.records(checks.limit) {
                Ok(records) => Some(if checks.crcs { records } else { records.skip_crcs() }),
                Err(e) => {
                    fetched.error = Some(damaged(&fetched.asked, &fetched.chunks, &e));
                    break;
                }
            }
        };
        let bytes = records.as_ref().map_or(0, |r| r.data().len().max(batch.data.len()));
        fetched.chunks.push(Chunk { records, timestamp_type: batch.header.timestamp_type(), next_offset, bytes });
    }
    fetched
}

/// The error for data that is damaged.
pub fn damaged(asked: &Asked, before: &[Chunk], e: &wire::Error) -> Error {
    let offset = before.last().map_or(asked.offset, |c| c.next_offset);
    let message = format!("batch at offset {offset} of {}-{} is damaged: {e}", asked.topic, asked.partition);
    Error::new(ErrorKind::Decode, message).at(&asked.topic, asked.partition).with_hint(format!(
        "seek past it, or check the broker's disk; check.crcs=false reads what can be read from {offset}"
    ))
}

/// Whether a control batch ends a transaction that was given up.
fn is_abort(batch: &Batch, limit: usize) -> bool {
    let Ok(mut records) = batch.records(limit) else {
        return false;
    };
    match records.next_view() {
        Some(Ok(view)) => {
            Control::parse(view.key(), view.value()).is_some_and(|c| c.control_type == ControlType::Abort)
        }
        _ => false,
    }
}

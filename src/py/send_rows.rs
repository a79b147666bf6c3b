//! Sends rows of Arrow data, while the buffer has room. Consecutive rows for the same topic share one call of the core.

use super::arrow::RowCursor;
use crate::api::ErrorCode;
use crate::arrow::{Invalid, Row};
use crate::client::{Appender, Error, ErrorKind, NOW, NewRecord, Producer, TopicIndex};

/// Appends rows to batches while there is room.
pub(super) fn send_rows(client: &Producer, topic: Option<&str>, cursor: &mut RowCursor) -> Result<(), SendStopReason> {
    // One batch at a time: Python code may compute the next one, and must not run under a lock.
    while cursor.fill().map_err(SendStopReason::Data)? {
        let Some((input, next)) = &mut cursor.current else { break };
        let rows = *next..input.len().min(*next + CHUNK);
        let headers = input.headers(rows.clone());
        let mut appender = client.batch().map_err(SendStopReason::Client)?;
        let fixed_topic = topic.map(|name| appender.topic(name)).transpose().map_err(SendStopReason::Client)?;
        let mut run = TopicRun { fixed_topic, topic: fixed_topic, records: Vec::with_capacity(rows.len()), sent: 0 };
        let mut result = Ok(());
        for (i, number) in rows.enumerate() {
            let row = headers
                .get(i)
                .and_then(|headers| input.row(number, headers))
                .map_err(|why| SendStopReason::Data(why.into()));
            result = row.and_then(|row| run.push(&mut appender, number, &row));
            if result.is_err() {
                break;
            }
        }
        // The rows before an invalid row are sent.
        let sent = run.send(&mut appender);
        *next += run.sent;
        cursor.sent += run.sent;
        sent.and(result).map_err(|stop| stop.at_row(*next))?;
        if appender.is_ahead() {
            return Err(SendStopReason::Full);
        }
    }
    Ok(())
}

/// Consecutive rows for the same topic.
struct TopicRun<'a> {
    /// The topic of all rows, if the caller named one.
    fixed_topic: Option<TopicIndex>,
    topic: Option<TopicIndex>,
    records: Vec<NewRecord<'a>>,
    /// The number of records sent.
    sent: usize,
}

impl<'a> TopicRun<'a> {
    #[inline]
    fn push(&mut self, appender: &mut Appender<'_>, number: usize, row: &Row<'a>) -> Result<(), SendStopReason> {
        let topic = match (self.fixed_topic, row.topic) {
            (Some(topic), _) => topic,
            (None, Some(name)) => appender.topic(name).map_err(SendStopReason::Client)?,
            (None, None) => {
                let why = format!("row {number}: there is no topic: neither an argument nor in the data");
                return Err(SendStopReason::Data(why.into()));
            }
        };
        if self.topic != Some(topic) {
            self.send(appender)?;
            self.topic = Some(topic);
        }
        let Row { partition, key, value, headers, .. } = *row;
        let timestamp = row.timestamp.unwrap_or(NOW);
        self.records.push(NewRecord { partition, timestamp, has_explicit_timestamp: false, key, value, headers });
        Ok(())
    }

    fn send(&mut self, appender: &mut Appender<'_>) -> Result<(), SendStopReason> {
        let Some(topic) = self.topic else { return Ok(()) };
        let (sent, result) = appender.send_many(topic, &mut self.records);
        self.records.clear();
        self.sent += sent;
        match result {
            Err(e) if e.kind() == ErrorKind::BufferFull => Err(SendStopReason::Full),
            result => result.map_err(SendStopReason::Client),
        }
    }
}

/// The reason why sending rows stopped early.
pub(super) enum SendStopReason {
    Full,
    Data(Invalid),
    Client(Error),
}

impl SendStopReason {
    /// Adds the row number to the error for a record that is too large. Other errors of a row already contain the row
    /// number.
    fn at_row(self, row: usize) -> Self {
        match self {
            Self::Client(e) if e.code() == Some(ErrorCode::MESSAGE_TOO_LARGE) => {
                let message = format!("row {row}: {}", e.message());
                Self::Client(e.with_message(message))
            }
            other => other,
        }
    }
}

/// Number of rows that are appended under one lock.
const CHUNK: usize = 256;

//! Control records, which brokers write into a log for each other and for consumers. For example, a control record
//! marks the end of a transaction (KIP-98). A control batch has one record, which takes up one offset of the partition.
//!
//! ```text
//! key    version i16 | type i16 | more fields in later versions
//! value  version i16 | coordinator_epoch i32 | more fields (of transaction markers; other types have their own)
//! ```

use super::header::at;

/// The type of a control record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlType {
    /// The transaction was aborted.
    Abort,
    /// The transaction was committed.
    Commit,
    /// Another type, by number. Consumers skip such records.
    Other(i16),
}

impl ControlType {
    /// Returns the number in the record's key.
    pub fn number(self) -> i16 {
        match self {
            Self::Abort => 0,
            Self::Commit => 1,
            Self::Other(number) => number,
        }
    }

    /// Returns Kafka's name of the type.
    pub fn name(self) -> &'static str {
        match self.number() {
            0 => "ABORT",
            1 => "COMMIT",
            2 => "LEADER_CHANGE",
            3 => "SNAPSHOT_HEADER",
            4 => "SNAPSHOT_FOOTER",
            5 => "KRAFT_VERSION",
            6 => "KRAFT_VOTERS",
            _ => "UNKNOWN",
        }
    }
}

/// A decoded control record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Control {
    /// The version of the record's key.
    pub version: i16,
    /// The type of the record.
    pub control_type: ControlType,
    /// In a transaction marker, the epoch of the coordinator that wrote it.
    pub coordinator_epoch: Option<i32>,
}

impl Control {
    /// Creates a transaction marker.
    pub fn end_of_transaction(committed: bool, coordinator_epoch: i32) -> Self {
        let control_type = if committed { ControlType::Commit } else { ControlType::Abort };
        Self { version: 0, control_type, coordinator_epoch: Some(coordinator_epoch) }
    }

    /// Decodes a record of a control batch. Returns `None` if the record is not a control record. The decoder ignores
    /// bytes that newer versions add at the end.
    pub fn parse(key: Option<&[u8]>, value: Option<&[u8]>) -> Option<Self> {
        let key = key?;
        let version = i16::from_be_bytes(at(key, 0)?);
        let control_type = match i16::from_be_bytes(at(key, 2)?) {
            0 => ControlType::Abort,
            1 => ControlType::Commit,
            number => ControlType::Other(number),
        };
        let ends = !matches!(control_type, ControlType::Other(_));
        let coordinator_epoch = value.filter(|_| ends).and_then(|value| at(value, 2)).map(i32::from_be_bytes);
        (version >= 0).then_some(Self { version, control_type, coordinator_epoch })
    }

    /// Encodes the key.
    pub fn key(&self) -> [u8; 4] {
        let ([a, b], [c, d]) = (self.version.to_be_bytes(), self.control_type.number().to_be_bytes());
        [a, b, c, d]
    }

    /// Encodes the value, if the record is a transaction marker.
    pub fn value(&self) -> Option<[u8; 6]> {
        let [a, b, c, d] = self.coordinator_epoch?.to_be_bytes();
        Some([0, 0, a, b, c, d])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_come_back_and_what_is_no_control_record_is_none() {
        for committed in [true, false] {
            let control = Control::end_of_transaction(committed, -7);
            assert_eq!(Control::parse(Some(&control.key()), control.value().as_ref().map(|v| &v[..])), Some(control));
        }
        assert_eq!(Control::parse(None, Some(&[0; 6])), None);
        assert_eq!(Control::parse(Some(&[0; 3]), Some(&[0; 6])), None);
        assert_eq!(Control::parse(Some(&[0xff, 0xff, 0, 0]), Some(&[0; 6])), None);
        assert_eq!(Control::parse(Some(&[0; 4]), Some(&[0; 5])).unwrap().coordinator_epoch, None);
        assert_eq!(Control::parse(Some(&[0, 0, 0, 9]), Some(&[0; 6])).unwrap().control_type, ControlType::Other(9));
    }
}

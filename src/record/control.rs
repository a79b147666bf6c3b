//! Control records: what brokers write into a log for one another and for readers, such as the mark that ends a
//! transaction (KIP-98). A batch holds one of them, and its offset is used up like any other.
//!
//! ```text
//! key    version i16 | type i16 | more, in versions to come
//! value  version i16 | coordinator_epoch i32 | more (of the marks that end a transaction; other types have their own)
//! ```

use super::header::at;

/// What a control record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlType {
    /// The producer's transaction was given up.
    Abort,
    /// The producer's transaction took place.
    Commit,
    /// Anything else, by number: readers pass over it.
    Other(i16),
}

impl ControlType {
    /// The number in a record's key.
    pub fn number(self) -> i16 {
        match self {
            Self::Abort => 0,
            Self::Commit => 1,
            Self::Other(number) => number,
        }
    }

    /// Kafka's name of it.
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

/// What a control record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Control {
    /// The version of its key.
    pub version: i16,
    /// What it is.
    pub control_type: ControlType,
    /// In the marks that end a transaction, the epoch of the coordinator that wrote it.
    pub coordinator_epoch: Option<i32>,
}

impl Control {
    /// The mark that ends a transaction.
    pub fn end_of_transaction(committed: bool, coordinator_epoch: i32) -> Self {
        let control_type = if committed { ControlType::Commit } else { ControlType::Abort };
        Self { version: 0, control_type, coordinator_epoch: Some(coordinator_epoch) }
    }

    /// Reads a record of a control batch; `None` if it is none. Versions that are newer have more bytes behind these.
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

    /// The key of the record.
    pub fn key(&self) -> [u8; 4] {
        let ([a, b], [c, d]) = (self.version.to_be_bytes(), self.control_type.number().to_be_bytes());
        [a, b, c, d]
    }

    /// The value of the record, if it is a mark that ends a transaction.
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

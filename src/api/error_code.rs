//! Kafka's error codes: number, name, whether a retry can succeed, and whether the client's metadata is stale.
//!
//! The table has the codes of Kafka 4.4. An unknown code keeps its number. `retriable` and `refresh` follow the
//! exception classes of the Java client.

use crate::wire::{Error, Reader, Reflect, ValueVisitor, Wire, Writer};
use std::fmt;

/// A Kafka error code. The code 0 means no error.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct ErrorCode(pub i16);

struct Row {
    code: i16,
    name: &'static str,
    retriable: bool,
    refresh: bool,
}

macro_rules! error_codes {
    ($($code:literal $name:ident $($flag:ident)*;)*) => {
        #[allow(missing_docs)]
        impl ErrorCode {
            $( pub const $name: Self = Self($code); )*
        }

        static TABLE: &[Row] = &[
            $( Row {
                code: $code,
                name: stringify!($name),
                retriable: error_codes!(@has retriable $($flag)*),
                refresh: error_codes!(@has refresh $($flag)*),
            }, )*
        ];
    };
    (@has retriable retriable $($rest:ident)*) => { true };
    (@has refresh refresh $($rest:ident)*) => { true };
    (@has $flag:ident $other:ident $($rest:ident)*) => { error_codes!(@has $flag $($rest)*) };
    (@has $flag:ident) => { false };
}

error_codes! {
      -1 UNKNOWN_SERVER_ERROR;
       0 NONE;
       1 OFFSET_OUT_OF_RANGE;
       2 CORRUPT_MESSAGE                            retriable;
       3 UNKNOWN_TOPIC_OR_PARTITION                 retriable refresh;
       4 INVALID_FETCH_SIZE;
       5 LEADER_NOT_AVAILABLE                       retriable refresh;
       6 NOT_LEADER_OR_FOLLOWER                     retriable refresh;
       7 REQUEST_TIMED_OUT                          retriable;
       8 BROKER_NOT_AVAILABLE;
       9 REPLICA_NOT_AVAILABLE                      retriable refresh;
      10 MESSAGE_TOO_LARGE;
      11 STALE_CONTROLLER_EPOCH;
      12 OFFSET_METADATA_TOO_LARGE;
      13 NETWORK_EXCEPTION                          retriable refresh;
      14 COORDINATOR_LOAD_IN_PROGRESS               retriable;
      15 COORDINATOR_NOT_AVAILABLE                  retriable;
      16 NOT_COORDINATOR                            retriable;
      17 INVALID_TOPIC_EXCEPTION;
      18 RECORD_LIST_TOO_LARGE;
      19 NOT_ENOUGH_REPLICAS                        retriable;
      20 NOT_ENOUGH_REPLICAS_AFTER_APPEND           retriable;
      21 INVALID_REQUIRED_ACKS;
      22 ILLEGAL_GENERATION;
      23 INCONSISTENT_GROUP_PROTOCOL;
      24 INVALID_GROUP_ID;
      25 UNKNOWN_MEMBER_ID;
      26 INVALID_SESSION_TIMEOUT;
      27 REBALANCE_IN_PROGRESS;
      28 INVALID_COMMIT_OFFSET_SIZE;
      29 TOPIC_AUTHORIZATION_FAILED;
      30 GROUP_AUTHORIZATION_FAILED;
      31 CLUSTER_AUTHORIZATION_FAILED;
      32 INVALID_TIMESTAMP;
      33 UNSUPPORTED_SASL_MECHANISM;
      34 ILLEGAL_SASL_STATE;
      35 UNSUPPORTED_VERSION;
      36 TOPIC_ALREADY_EXISTS;
      37 INVALID_PARTITIONS;
      38 INVALID_REPLICATION_FACTOR;
      39 INVALID_REPLICA_ASSIGNMENT;
      40 INVALID_CONFIG;
      41 NOT_CONTROLLER                             retriable;
      42 INVALID_REQUEST;
      43 UNSUPPORTED_FOR_MESSAGE_FORMAT;
      44 POLICY_VIOLATION;
      45 OUT_OF_ORDER_SEQUENCE_NUMBER;
      46 DUPLICATE_SEQUENCE_NUMBER;
      47 INVALID_PRODUCER_EPOCH;
      48 INVALID_TXN_STATE;
      49 INVALID_PRODUCER_ID_MAPPING;
      50 INVALID_TRANSACTION_TIMEOUT;
      51 CONCURRENT_TRANSACTIONS                    retriable;
      52 TRANSACTION_COORDINATOR_FENCED;
      53 TRANSACTIONAL_ID_AUTHORIZATION_FAILED;
      54 SECURITY_DISABLED;
      55 OPERATION_NOT_ATTEMPTED;
      56 KAFKA_STORAGE_ERROR                        retriable refresh;
      57 LOG_DIR_NOT_FOUND;
      58 SASL_AUTHENTICATION_FAILED;
      59 UNKNOWN_PRODUCER_ID;
      60 REASSIGNMENT_IN_PROGRESS;
      61 DELEGATION_TOKEN_AUTH_DISABLED;
      62 DELEGATION_TOKEN_NOT_FOUND;
      63 DELEGATION_TOKEN_OWNER_MISMATCH;
      64 DELEGATION_TOKEN_REQUEST_NOT_ALLOWED;
      65 DELEGATION_TOKEN_AUTHORIZATION_FAILED;
      66 DELEGATION_TOKEN_EXPIRED;
      67 INVALID_PRINCIPAL_TYPE;
      68 NON_EMPTY_GROUP;
      69 GROUP_ID_NOT_FOUND;
      70 FETCH_SESSION_ID_NOT_FOUND                 retriable;
      71 INVALID_FETCH_SESSION_EPOCH                retriable;
      72 LISTENER_NOT_FOUND                         retriable refresh;
      73 TOPIC_DELETION_DISABLED;
      74 FENCED_LEADER_EPOCH                        retriable refresh;
      75 UNKNOWN_LEADER_EPOCH                       retriable;
      76 UNSUPPORTED_COMPRESSION_TYPE;
      77 STALE_BROKER_EPOCH;
      78 OFFSET_NOT_AVAILABLE                       retriable;
      79 MEMBER_ID_REQUIRED;
      80 PREFERRED_LEADER_NOT_AVAILABLE             retriable refresh;
      81 GROUP_MAX_SIZE_REACHED;
      82 FENCED_INSTANCE_ID;
      83 ELIGIBLE_LEADERS_NOT_AVAILABLE             retriable refresh;
      84 ELECTION_NOT_NEEDED                        retriable refresh;
      85 NO_REASSIGNMENT_IN_PROGRESS;
      86 GROUP_SUBSCRIBED_TO_TOPIC;
      87 INVALID_RECORD;
      88 UNSTABLE_OFFSET_COMMIT                     retriable;
      89 THROTTLING_QUOTA_EXCEEDED                  retriable;
      90 PRODUCER_FENCED;
      91 RESOURCE_NOT_FOUND;
      92 DUPLICATE_RESOURCE;
      93 UNACCEPTABLE_CREDENTIAL;
      94 INCONSISTENT_VOTER_SET;
      95 INVALID_UPDATE_VERSION;
      96 FEATURE_UPDATE_FAILED;
      97 PRINCIPAL_DESERIALIZATION_FAILURE;
      98 SNAPSHOT_NOT_FOUND;
      99 POSITION_OUT_OF_RANGE;
     100 UNKNOWN_TOPIC_ID                           retriable refresh;
     101 DUPLICATE_BROKER_REGISTRATION;
     102 BROKER_ID_NOT_REGISTERED;
     103 INCONSISTENT_TOPIC_ID                      retriable refresh;
     104 INCONSISTENT_CLUSTER_ID;
     105 TRANSACTIONAL_ID_NOT_FOUND;
     106 FETCH_SESSION_TOPIC_ID_ERROR               retriable;
     107 INELIGIBLE_REPLICA;
     108 NEW_LEADER_ELECTED;
     109 OFFSET_MOVED_TO_TIERED_STORAGE;
     110 FENCED_MEMBER_EPOCH;
     111 UNRELEASED_INSTANCE_ID;
     112 UNSUPPORTED_ASSIGNOR;
     113 STALE_MEMBER_EPOCH;
     114 MISMATCHED_ENDPOINT_TYPE;
     115 UNSUPPORTED_ENDPOINT_TYPE;
     116 UNKNOWN_CONTROLLER_ID;
     117 UNKNOWN_SUBSCRIPTION_ID;
     118 TELEMETRY_TOO_LARGE;
     119 INVALID_REGISTRATION;
     120 TRANSACTION_ABORTABLE;
     121 INVALID_RECORD_STATE;
     122 SHARE_SESSION_NOT_FOUND                    retriable;
     123 INVALID_SHARE_SESSION_EPOCH                retriable;
     124 FENCED_STATE_EPOCH;
     125 INVALID_VOTER_KEY;
     126 DUPLICATE_VOTER;
     127 VOTER_NOT_FOUND;
     128 INVALID_REGULAR_EXPRESSION;
     129 REBOOTSTRAP_REQUIRED;
     130 STREAMS_INVALID_TOPOLOGY;
     131 STREAMS_INVALID_TOPOLOGY_EPOCH;
     132 STREAMS_TOPOLOGY_FENCED;
     133 SHARE_SESSION_LIMIT_REACHED                retriable;
     134 GROUP_DELETION_FAILED;
     135 STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED;
     136 CONTROLLER_ID_NOT_REGISTERED;
}

impl ErrorCode {
    fn row(self) -> Option<&'static Row> {
        let first = TABLE.first()?.code;
        TABLE.get(usize::try_from(i32::from(self.0) - i32::from(first)).ok()?)
    }

    /// All known codes.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|row| Self(row.code))
    }

    /// Returns whether the code is an error.
    pub fn is_error(self) -> bool {
        self != Self::NONE
    }

    /// Returns the name, such as `NOT_LEADER_OR_FOLLOWER`, or `UNKNOWN` for a code that is not in the table.
    pub fn name(self) -> &'static str {
        self.row().map_or("UNKNOWN", |row| row.name)
    }

    /// Returns whether the code gives no reason: UNKNOWN_SERVER_ERROR, or a code that is not in the table.
    pub fn is_unknown(self) -> bool {
        self == Self::UNKNOWN_SERVER_ERROR || self.row().is_none()
    }

    /// Returns whether a request with this error may succeed if it is sent again.
    pub fn is_retriable(self) -> bool {
        self.row().is_some_and(|row| row.retriable)
    }

    /// Returns whether a read of metadata, offsets or records will probably fail with this error again: a permission is
    /// missing, or a name, an offset, a size, a version or a format is not supported. A read may succeed after any other
    /// error, also after a code that is not in the table.
    pub fn is_permanent(self) -> bool {
        matches!(
            self,
            Self::OFFSET_OUT_OF_RANGE
                | Self::MESSAGE_TOO_LARGE
                | Self::RECORD_LIST_TOO_LARGE
                | Self::INVALID_TOPIC_EXCEPTION
                | Self::TOPIC_AUTHORIZATION_FAILED
                | Self::GROUP_AUTHORIZATION_FAILED
                | Self::CLUSTER_AUTHORIZATION_FAILED
                | Self::UNSUPPORTED_VERSION
                | Self::UNSUPPORTED_FOR_MESSAGE_FORMAT
                | Self::UNSUPPORTED_COMPRESSION_TYPE
        )
    }

    /// Returns whether the client's metadata about leaders or topics is stale.
    pub fn is_stale_metadata(self) -> bool {
        self.row().is_some_and(|row| row.refresh)
    }

    /// Returns `Ok` if the code is 0, and otherwise the code as an error.
    pub fn check(self) -> Result<(), Self> {
        if self.is_error() { Err(self) } else { Ok(()) }
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name(), self.0)
    }
}

impl fmt::Debug for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Wire for ErrorCode {
    fn put(&self, w: &mut Writer) {
        self.0.put(w);
    }
    fn read(&mut self, r: &mut Reader) -> Result<(), Error> {
        self.0.read(r)
    }
}

impl Reflect for ErrorCode {
    fn shape(&mut self, visit: &mut ValueVisitor<'_>) {
        self.0.shape(visit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_dense_so_that_a_code_is_an_index() {
        for (row, code) in TABLE.iter().zip(-1..) {
            assert_eq!(row.code, code, "{}", row.name);
            assert_eq!(ErrorCode(code).name(), row.name);
        }
    }

    #[test]
    fn an_unknown_code_survives() {
        assert_eq!(ErrorCode(9999).to_string(), "UNKNOWN (9999)");
        assert!(ErrorCode(9999).is_error() && !ErrorCode(9999).is_retriable() && !ErrorCode(9999).is_permanent());
        assert_eq!(ErrorCode(i16::MIN).name(), "UNKNOWN");
    }
}

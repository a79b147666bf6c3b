//! The error type of the engine and the client: what klamm tried, what happened, and a hint for the user.

use crate::api::ErrorCode;
use crate::logging::{self, Component, Location};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The kind of an error, which shows where the cause of the error is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// A broker responded with an error code.
    Broker,
    /// A connection could not be established, or was lost.
    Network,
    /// A connection was lost during a large request, which may exceed a limit of the broker.
    Oversized,
    /// The timeout passed before there was a result.
    Timeout,
    /// The configuration, or an argument of a call, is wrong.
    Config,
    /// A peer sent damaged data, or does not speak Kafka's protocol.
    Decode,
    /// The system has no memory for data of a peer.
    OutOfMemory,
    /// TLS or SASL authentication failed.
    Authentication,
    /// The client has no valid token until the token provider returns the next token.
    NoToken,
    /// Another client now has the same transactional ID or group instance ID.
    Fenced,
    /// The transaction was aborted.
    Aborted,
    /// The client is closed.
    Closed,
    /// The buffer of a producer is full.
    BufferFull,
    /// The client was created before a fork, and cannot be used in the child process.
    Forked,
    /// Another cluster answers at an address of the client's cluster.
    OtherCluster,
    /// An address in `bootstrap.servers` belongs to a controller, or an address in `bootstrap.controllers` belongs to a
    /// broker.
    WrongEndpoint,
    /// The client stopped because of a defect of its own.
    Internal,
}

/// An error of a client.
#[derive(Clone)]
pub struct Error(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    code: Option<ErrorCode>,
    message: String,
    hint: Option<String>,
    topic: Option<Arc<str>>,
    partition: Option<i32>,
    broker: Option<String>,
    node: Option<i32>,
    cause: Option<Error>,
}

impl Error {
    /// Creates an error. The message tells what the client tried and what happened, in lower case and without a full
    /// stop.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Arc::new(Inner {
            kind,
            code: None,
            message: message.into(),
            hint: None,
            topic: None,
            partition: None,
            broker: None,
            node: None,
            cause: None,
        }))
    }

    /// Creates the error for a broker's error code. `tried` is what the client tried.
    pub fn refused(code: ErrorCode, tried: impl fmt::Display) -> Self {
        let kind = match code {
            ErrorCode::PRODUCER_FENCED | ErrorCode::FENCED_INSTANCE_ID | ErrorCode::INVALID_PRODUCER_EPOCH => {
                ErrorKind::Fenced
            }
            ErrorCode::SASL_AUTHENTICATION_FAILED
            | ErrorCode::UNSUPPORTED_SASL_MECHANISM
            | ErrorCode::ILLEGAL_SASL_STATE => ErrorKind::Authentication,
            _ => ErrorKind::Broker,
        };
        let mut error = Self::new(kind, format!("{tried}: {code}"));
        error.inner().code = Some(code);
        match hint_of(code) {
            Some(hint) => error.with_hint(hint),
            None => error,
        }
    }

    /// Creates the error for a timeout, with the last known cause. The error has the cause's hint, or `hint` if the
    /// cause has no hint.
    pub fn in_vain(tried: impl fmt::Display, time: Duration, why: &Self, hint: &str) -> Self {
        // If no broker was ever reached, the user has to know that and not that the time has passed.
        let kind = if why.kind() == ErrorKind::Broker { ErrorKind::Timeout } else { why.kind() };
        let tried = format!("{tried} did not succeed in {} s", seconds(time));
        Self::because(kind, tried, why).with_hint(why.hint().unwrap_or(hint))
    }

    /// Creates an error whose cause is known. The error ends with the cause's message, and has the cause's broker and
    /// partition.
    pub fn because(kind: ErrorKind, tried: impl fmt::Display, why: &Self) -> Self {
        let mut error = Self::new(kind, format!("{tried}: {}", why.message())).caused_by(why);
        let Inner { topic, partition, broker, node, .. } = &*why.0;
        let inner = error.inner();
        (inner.topic, inner.partition) = (topic.clone(), *partition);
        (inner.broker, inner.node) = (broker.clone(), *node);
        error
    }

    /// Returns the error with another kind and without its error code.
    pub fn as_kind(mut self, kind: ErrorKind) -> Self {
        let inner = self.inner();
        (inner.kind, inner.code) = (kind, None);
        self
    }

    fn inner(&mut self) -> &mut Inner {
        Arc::make_mut(&mut self.0)
    }

    /// Adds a hint that tells the user what to do.
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.inner().hint = Some(hint.into());
        self
    }

    /// Adds the place where the error happened to the message.
    pub fn with_location(mut self, location: &str) -> Self {
        self.inner().message.push_str(location);
        self
    }

    /// Replaces the message.
    pub fn with_message(mut self, message: impl Into<String>) -> Self {
        self.inner().message = message.into();
        self
    }

    /// Adds the topic and the partition.
    pub fn at(mut self, topic: &Arc<str>, partition: impl Into<Option<i32>>) -> Self {
        let inner = self.inner();
        inner.topic = Some(topic.clone());
        inner.partition = partition.into();
        self
    }

    /// Adds the address of the broker.
    pub fn from_broker(mut self, broker: impl Into<String>) -> Self {
        self.inner().broker = Some(broker.into());
        self
    }

    /// Adds the ID of the broker, if it is known (not negative).
    pub fn of_node(mut self, node: i32) -> Self {
        self.inner().node = Some(node).filter(|node| *node >= 0);
        self
    }

    /// Adds the error that caused this error.
    pub fn caused_by(mut self, cause: &Self) -> Self {
        self.inner().cause = Some(cause.clone());
        self
    }

    /// Returns whether this is a clone of the other error.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Returns the error that caused this error.
    pub fn cause(&self) -> Option<&Self> {
        self.0.cause.as_ref()
    }

    /// Returns the kind.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the broker's error code, if there is one.
    pub fn code(&self) -> Option<ErrorCode> {
        self.0.code
    }

    /// Returns the message.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Returns the message with the broker's address, for use in the message of another error.
    pub fn message_with_broker(&self) -> String {
        match self.broker() {
            Some(broker) => format!("{} (broker {broker})", self.message()),
            None => self.message().to_owned(),
        }
    }

    /// Returns the hint.
    pub fn hint(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// Returns the hint as the end of a log line.
    pub fn advice(&self) -> String {
        self.hint().map_or_else(String::new, |hint| format!("; hint: {hint}"))
    }

    /// Returns the location of the error for a log line.
    pub fn location(&self) -> Location<'_> {
        Location { broker: self.broker(), topic: self.topic(), partition: self.partition() }
    }

    /// Reports a problem that the client keeps retrying: to the application, and as a log line of level warning.
    pub fn report(&self, component: Component) {
        logging::report(self);
        self.log_warning(component);
    }

    /// Writes the error as a log line, and makes the client write its flight recorder, because the error ends the
    /// client's work.
    pub fn log_fatal(&self, component: Component) {
        self.log_warning(component);
        logging::note_failure();
    }

    /// Writes the error as a log line of level warning.
    pub fn log_warning(&self, component: Component) {
        if logging::may_be_wanted(log::Level::Warn) {
            let text = format_args!("{}{}", self.message(), self.advice());
            logging::write(log::Level::Warn, component, self.location(), text);
        }
    }

    /// Returns the topic.
    pub fn topic(&self) -> Option<&str> {
        self.0.topic.as_deref()
    }

    /// Returns the partition.
    pub fn partition(&self) -> Option<i32> {
        self.0.partition
    }

    /// Returns the broker's address, `host:port`.
    pub fn broker(&self) -> Option<&str> {
        self.0.broker.as_deref()
    }

    /// Returns the broker's ID, if it is known.
    pub fn node(&self) -> Option<i32> {
        self.0.node
    }

    /// Returns whether the cause may be that no broker, or no coordinator, responds.
    pub fn is_outage(&self) -> bool {
        matches!(self.0.kind, ErrorKind::Network | ErrorKind::Timeout)
    }

    /// Returns whether the broker rejected the client, or is not one of the client's nodes, so that the next attempt
    /// would fail in the same way.
    pub fn is_refusal(&self) -> bool {
        matches!(self.0.kind, ErrorKind::Authentication | ErrorKind::OtherCluster | ErrorKind::WrongEndpoint)
    }

    /// Creates the error for a broker of another cluster.
    pub fn other_cluster(found: &str, expected: &str) -> Self {
        let message = format!("the address belongs to cluster {found:?} now, but the client uses cluster {expected:?}");
        Self::new(ErrorKind::OtherCluster, message)
            .with_hint("check bootstrap.servers and DNS; to use the other cluster, create a new client")
    }

    /// Returns whether a retry may succeed.
    pub fn is_retriable(&self) -> bool {
        match self.0.kind {
            ErrorKind::Network | ErrorKind::Oversized | ErrorKind::Timeout | ErrorKind::NoToken => true,
            ErrorKind::Broker => self.0.code.is_some_and(ErrorCode::is_retriable),
            _ => false,
        }
    }
}

/// Returns a time in seconds, cut to milliseconds, for messages. `as_secs_f64` would return 1.8010000000000002 for
/// 1.801 s.
pub fn seconds(time: Duration) -> f64 {
    time.as_millis() as f64 / 1000.0
}

/// Returns a number with its noun in the singular or plural, for messages.
pub fn counted(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

fn hint_of(code: ErrorCode) -> Option<&'static str> {
    Some(match code {
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION => {
            "check the topic's name, or create the topic first; the broker may not create topics automatically"
        }
        ErrorCode::INVALID_TOPIC_EXCEPTION => {
            "a name has 1 to 249 characters of a-z A-Z 0-9 . _ - and is not \".\" or \"..\""
        }
        ErrorCode::MESSAGE_TOO_LARGE => "send smaller records, or increase max.message.bytes of the topic",
        ErrorCode::TOPIC_AUTHORIZATION_FAILED | ErrorCode::GROUP_AUTHORIZATION_FAILED => {
            "ask an administrator for an ACL that allows this operation"
        }
        ErrorCode::CLUSTER_AUTHORIZATION_FAILED => {
            "ask an administrator for an ACL that allows this operation on the cluster"
        }
        ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED => {
            "ask an administrator for an ACL that allows WRITE and DESCRIBE on the transactional.id"
        }
        ErrorCode::DELEGATION_TOKEN_AUTH_DISABLED => "set delegation.token.secret.key of the brokers",
        ErrorCode::DELEGATION_TOKEN_NOT_FOUND | ErrorCode::DELEGATION_TOKEN_EXPIRED => {
            "create a new delegation token, or renew it before it expires"
        }
        ErrorCode::DELEGATION_TOKEN_REQUEST_NOT_ALLOWED => {
            "use a connection that authenticates with SASL, but not with a delegation token"
        }
        ErrorCode::DELEGATION_TOKEN_AUTHORIZATION_FAILED => {
            "ask an administrator for an ACL that allows DESCRIBE on the delegation token"
        }
        ErrorCode::DELEGATION_TOKEN_OWNER_MISMATCH => "use an owner or a renewer of the delegation token",
        ErrorCode::OFFSET_OUT_OF_RANGE => {
            "the offset was deleted or never written; seek, or set auto.offset.reset to earliest or latest"
        }
        ErrorCode::NOT_ENOUGH_REPLICAS | ErrorCode::NOT_ENOUGH_REPLICAS_AFTER_APPEND => {
            "fewer replicas are in sync than min.insync.replicas demands; check the brokers"
        }
        ErrorCode::TOPIC_ALREADY_EXISTS => "choose another name, or delete the topic first",
        ErrorCode::INVALID_REPLICATION_FACTOR => "the replication factor must not be larger than the number of brokers",
        ErrorCode::NON_EMPTY_GROUP => "the group has members; stop them first",
        ErrorCode::GROUP_SUBSCRIBED_TO_TOPIC => "members of the group subscribe to the topic; stop them first",
        ErrorCode::GROUP_ID_NOT_FOUND => {
            "check the name of the group; a group exists only while it has members or committed offsets"
        }
        ErrorCode::COORDINATOR_NOT_AVAILABLE => {
            "check that the partitions of __consumer_offsets (for transactions __transaction_state) have leaders"
        }
        ErrorCode::INCONSISTENT_GROUP_PROTOCOL => {
            "the group's members have no assignor of partition.assignment.strategy in common with this one, or they use \
             group.protocol=consumer, and the brokers do not allow both protocols in one group"
        }
        ErrorCode::UNKNOWN_MEMBER_ID | ErrorCode::ILLEGAL_GENERATION | ErrorCode::FENCED_MEMBER_EPOCH => {
            "the coordinator has dropped this member: poll more often, or increase max.poll.interval.ms; \
             other members continue from the last commit"
        }
        ErrorCode::FENCED_INSTANCE_ID | ErrorCode::UNRELEASED_INSTANCE_ID => {
            "another consumer uses the same group.instance.id"
        }
        ErrorCode::PRODUCER_FENCED | ErrorCode::INVALID_PRODUCER_EPOCH => {
            "another producer uses the same transactional.id: create a new producer, and give each instance its own ID"
        }
        ErrorCode::INVALID_REQUIRED_ACKS => "acks must be 0, 1 or all",
        ErrorCode::INVALID_SESSION_TIMEOUT => {
            "session.timeout.ms must be between group.min.session.timeout.ms and group.max.session.timeout.ms of the brokers"
        }
        ErrorCode::INVALID_PRODUCER_ID_MAPPING => {
            "the transactional.id was idle for longer than transactional.id.expiration.ms: create a new producer"
        }
        ErrorCode::UNSTABLE_OFFSET_COMMIT => {
            "an open transaction of another producer contains offsets of this group; wait until it is committed or \
             aborted, at the latest after its transaction.timeout.ms"
        }
        ErrorCode::CORRUPT_MESSAGE => "the data was damaged between client and disk; check the network and memory",
        _ => return None,
    })
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message_with_broker())?;
        if let Some(hint) = &self.0.hint {
            write!(f, "; hint: {hint}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.kind)
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_to_the_millisecond() {
        let shown = |nanoseconds| seconds(Duration::from_nanos(nanoseconds)).to_string();
        assert_eq!(shown(1_801_000_000), "1.801");
        assert_eq!(shown(15_000_000_000), "15");
        assert_eq!(shown(300_500_000), "0.3");
    }
}

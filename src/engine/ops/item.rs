//! The items of an operation whose fields are given by name: their brokers, their progress and their errors.

use super::fields::refused;
use crate::api::ErrorCode;
use crate::engine::call::MAX_MALFORMED;
use crate::engine::{Error, ErrorKind, Time, coordinator};
use crate::wire::Value;
use std::sync::Arc;

/// How many times in a row brokers may report an unknown topic before this is an error of the item. With the default
/// `retry.backoff.ms` of 100 ms, the retries take 0.7 s. All brokers know a new topic in this time.
pub(super) const MAX_UNKNOWN_TOPIC: u32 = 4;

/// How many metadata responses in a row may lack the broker of an item before this is an error. The first response may
/// be stale.
const MAX_UNKNOWN_BROKER: u32 = 2;

/// The broker to which a request goes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Route {
    /// Any broker.
    Any,
    /// The controller.
    Controller,
    /// The broker with this ID.
    Broker(i32),
    /// The coordinator of a key. The number is the key type of FindCoordinator.
    Coordinator(i8, String),
    /// The leader of a partition.
    Leader(Arc<str>, i32),
}

impl Route {
    /// Returns the errors after which a single request goes to another broker, or is sent later. If the caller has chosen
    /// a broker by its ID, the caller handles the errors about other leaders.
    pub(super) fn moved(&self) -> &'static [ErrorCode] {
        match self {
            Self::Controller | Self::Leader(..) => &[ErrorCode::NOT_CONTROLLER, ErrorCode::NOT_LEADER_OR_FOLLOWER],
            Self::Any | Self::Broker(_) => {
                &[ErrorCode::COORDINATOR_NOT_AVAILABLE, ErrorCode::COORDINATOR_LOAD_IN_PROGRESS]
            }
            Self::Coordinator(..) => &[
                ErrorCode::NOT_COORDINATOR,
                ErrorCode::COORDINATOR_NOT_AVAILABLE,
                ErrorCode::COORDINATOR_LOAD_IN_PROGRESS,
            ],
        }
    }
}

/// One item of an operation.
#[derive(Clone, Debug)]
pub struct Item {
    /// The request that has only this item. The requests of items with the same broker are merged: their lists are
    /// joined, and their other fields have to be equal.
    pub fields: Value,
    /// The broker of the item.
    pub route: Route,
    /// What the caller tries, for messages, such as `create topic 't'`.
    pub tried: String,
    /// Identifies the item's result in a response. See [`ByName::for_items`](super::ByName::for_items).
    pub key: Vec<String>,
    /// The topic and the partition of the item, for errors.
    pub location: Option<(Arc<str>, Option<i32>)>,
}

impl Item {
    /// Returns the error for an error code of this item. `why` is the broker's message.
    pub(super) fn refused(&self, code: ErrorCode, why: Option<&str>) -> Error {
        self.locate(refused(code, &self.tried, why))
    }

    pub(super) fn locate(&self, error: Error) -> Error {
        match &self.location {
            Some((topic, partition)) => error.at(topic, *partition),
            None => error,
        }
    }

    /// Returns how many responses in a row may have this error, or `None` if the error is not transient.
    fn patience(&self, error: &Error) -> Option<u32> {
        match (error.code(), &self.route) {
            (Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION | ErrorCode::UNKNOWN_TOPIC_ID), route) => {
                matches!(route, Route::Leader(..)).then_some(MAX_UNKNOWN_TOPIC)
            }
            (Some(ErrorCode::BROKER_NOT_AVAILABLE), Route::Broker(_)) => Some(MAX_UNKNOWN_BROKER),
            // The caller has chosen the broker.
            (Some(ErrorCode::NOT_LEADER_OR_FOLLOWER), Route::Broker(_)) => None,
            (None, _) if error.kind() == ErrorKind::Decode => Some(MAX_MALFORMED),
            _ => error.is_retriable().then_some(u32::MAX),
        }
    }
}

/// The result of an item.
#[derive(Clone, Debug)]
pub struct ItemResult {
    /// The fields of the response that belong to the item, or the error of the item.
    pub result: Result<Value, Error>,
    /// Whether an attempt had no response, so that the broker may already have made the change.
    pub repeated: bool,
}

/// An item and its progress.
pub(super) struct Progress {
    pub item: Item,
    /// The oldest and the newest version that have all fields of the item.
    pub versions: (i16, i16),
    pub coordinator: Option<i32>,
    /// The number of the request that is in flight.
    pub part: Option<u32>,
    pub repeated: bool,
    /// The error of the last attempt.
    pub error: Option<Error>,
    /// How many times in a row the item had an error with limited patience.
    pub failures: u32,
    /// The time of the last metadata that did not have the broker of the item.
    pub checked_at: Option<Time>,
    pub result: Option<Result<Value, Error>>,
}

impl Progress {
    pub fn is_idle(&self) -> bool {
        self.result.is_none() && self.part.is_none()
    }

    /// Handles an error. Returns the error if the item will be retried.
    pub fn fail(&mut self, error: Error) -> Result<(), Error> {
        if error.code().is_some_and(coordinator::is_moved) {
            self.coordinator = None;
        }
        self.repeated |= error.code() == Some(ErrorCode::REQUEST_TIMED_OUT) || error.kind() == ErrorKind::Decode;
        let patience = self.item.patience(&error);
        let is_limited = patience.is_some_and(|times| times < u32::MAX);
        self.failures = if is_limited { self.failures + 1 } else { 0 };
        if patience.is_none_or(|times| self.failures >= times) {
            self.result = Some(Err(error));
            return Ok(());
        }
        self.error = Some(error.clone());
        Err(error)
    }
}

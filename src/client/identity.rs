//! The client instance ID (KIP-714), the callers that wait for this ID, and the metrics that the application registered
//! (KIP-1076).

use super::{Error, Family, Pending, Promise};
use crate::wire::Uuid;
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Default)]
struct Known {
    id: Option<Uuid>,
    waiting: Vec<Promise<Uuid>>,
    application: Vec<Family>,
}

/// The client instance ID and the application's metrics, which a client and its telemetry share.
#[derive(Default)]
pub(super) struct Identity(Mutex<Known>);

impl Identity {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the ID as soon as it is known.
    pub fn wait(&self) -> Pending<Uuid> {
        let mut known = self.known();
        if let Some(id) = known.id {
            return Pending::ready(Ok(id));
        }
        let (promise, pending) = Pending::new();
        known.waiting.push(promise);
        pending
    }

    /// Returns whether callers wait for the ID.
    pub fn is_wanted(&self) -> bool {
        !self.known().waiting.is_empty()
    }

    /// Notes the ID.
    pub fn set(&self, id: Uuid) {
        let mut known = self.known();
        known.id = Some(id);
        let waiting = std::mem::take(&mut known.waiting);
        drop(known);
        waiting.into_iter().for_each(|promise| promise.complete(Ok(id)));
    }

    /// Completes the calls that wait for the ID with this error.
    pub fn fail(&self, error: &Error) {
        let waiting = std::mem::take(&mut self.known().waiting);
        waiting.into_iter().for_each(|promise| promise.complete(Err(error.clone())));
    }

    /// Replaces the metrics of the application.
    pub fn set_application(&self, families: Vec<Family>) {
        self.known().application = families;
    }

    /// Returns the metrics of the application.
    pub fn application(&self) -> Vec<Family> {
        self.known().application.clone()
    }
}

//! Timeouts of JoinGroup and SyncGroup. The coordinator responds to JoinGroup after all members have joined, and to
//! SyncGroup after the group leader has sent the assignments. The client therefore waits for these responses at least
//! as long as the coordinator waits for the members, even if `request.timeout.ms` is shorter.

use crate::api::{Info, Request, join_group};
use crate::engine::Call;
use crate::wire::{Wire, Writer};
use std::time::Duration;

/// The first version of JoinGroup with static members.
const STATIC_MEMBERS: i16 = 5;
/// The default of session.timeout.ms, and the longest session that Kafka 0.9 allows by default, in milliseconds. Kafka
/// 0.9 supports only JoinGroup v0. The client sends every configured value other than the default unchanged.
const DEFAULT_SESSION_MS: i32 = 45_000;
const MAX_SESSION_MS: i32 = 30_000;

/// A request, and how long the coordinator may hold back its response.
pub(super) struct Held<R>(pub R, pub Duration);

impl<R: Request> Call for Held<R> {
    fn api(&self) -> &'static Info {
        R::API
    }
    fn put(&self, w: &mut Writer) {
        Wire::put(&self.0, w);
    }
    fn max_broker_wait(&self) -> Duration {
        self.1
    }
}

/// JoinGroup, and how long the coordinator may hold back its response.
pub(super) struct Join(pub join_group::Request, pub Duration);

impl Call for Join {
    fn api(&self) -> &'static Info {
        &join_group::API
    }
    fn put(&self, w: &mut Writer) {
        let mut request = self.0.clone();
        if w.version == 0 && request.session_timeout_ms == DEFAULT_SESSION_MS {
            request.session_timeout_ms = MAX_SESSION_MS;
        }
        Wire::put(&request, w);
    }
    fn min_version(&self) -> i16 {
        if self.0.group_instance_id.is_some() { STATIC_MEMBERS } else { 0 }
    }
    fn max_broker_wait(&self) -> Duration {
        self.1
    }
}

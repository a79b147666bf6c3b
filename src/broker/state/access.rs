//! Authorization of requests: the principal of a connection, and the operations that the rules allow.

use super::State;
use crate::api::{ErrorCode, Release};
use crate::broker::authorizer::{Filter, Operation, Resource, Rule};
use crate::broker::group::Group;
use crate::broker::ids::Connection;
use crate::broker::journal::Entry;
use crate::broker::request::{ApiError, Context};
use crate::wire::Uuid;

/// The user name of clients that have not authenticated.
pub(in crate::broker) const ANONYMOUS: &str = "ANONYMOUS";

impl State {
    /// Adds a rule. Returns false if the memory limit is reached.
    pub fn add_rule(&mut self, rule: Rule) -> bool {
        let Self { authorizer: Some(authorizer), memory, journal, .. } = self else { return false };
        if authorizer.rules.contains(&rule) {
            return true;
        }
        let has_room = memory.try_reserve(rule.memory_size());
        if has_room {
            journal.append(|| Entry::rule(&rule, true));
            authorizer.rules.insert(rule);
        }
        has_room
    }

    /// Removes the rules that match a filter, and returns the removed rules.
    pub fn remove_rules(&mut self, filter: &Filter) -> Vec<Rule> {
        let Self { authorizer: Some(authorizer), memory, journal, .. } = self else { return Vec::new() };
        let removed: Vec<_> = authorizer.rules.extract_if(.., |rule| filter.fits(rule)).collect();
        for rule in &removed {
            memory.release(rule.memory_size());
            journal.append(|| Entry::rule(rule, false));
        }
        removed
    }

    /// Replays the change of a rule from a journal.
    pub fn replay_rule(&mut self, rule: Rule, is_there: bool) {
        let Self { authorizer: Some(authorizer), memory, .. } = self else { return };
        let memory_size = rule.memory_size();
        if is_there && authorizer.rules.insert(rule.clone()) {
            memory.reserve(memory_size);
        }
        if !is_there && authorizer.rules.remove(&rule) {
            memory.release(memory_size);
        }
    }

    /// Returns a group of the wanted type that the client may describe, if this node is the group's coordinator.
    pub fn group_to_describe<'a, G>(
        &'a self,
        context: &Context,
        group_id: &str,
        kind: &str,
        of_kind: impl Fn(&'a Group) -> Option<&'a G>,
    ) -> Result<&'a G, ApiError> {
        self.check_coordinator(context, Operation::Describe, Resource::Group(group_id))?;
        let not_found = |why| ApiError::new(ErrorCode::GROUP_ID_NOT_FOUND, why);
        let group = self.groups.get(group_id).ok_or_else(|| not_found(format!("Group {group_id} not found.")))?;
        of_kind(group).ok_or_else(|| not_found(format!("Group {group_id} is not a {kind} group.")))
    }

    /// Returns the name with which a client has authenticated, or `None` if the client has not authenticated.
    pub fn user(&self, connection: Connection) -> Option<&str> {
        let login = self.authenticator.as_ref().and_then(|auth| auth.user(connection));
        login.or_else(|| self.certified.get(&connection).map(String::as_str))
    }

    pub fn principal(&self, connection: Connection) -> String {
        format!("User:{}", self.user(connection).unwrap_or(ANONYMOUS))
    }

    /// Returns whether the client may perform an operation.
    pub fn allows(&self, context: &Context, operation: Operation, resource: Resource<'_>) -> bool {
        let Some(authorizer) = &self.authorizer else { return true };
        authorizer.allows(&self.principal(context.connection), operation, resource)
    }

    /// Checks whether the client may perform an operation. Otherwise returns the error code for the response.
    pub fn check(&self, context: &Context, operation: Operation, resource: Resource<'_>) -> Result<(), ErrorCode> {
        if self.allows(context, operation, resource) { Ok(()) } else { Err(resource.authorization_error()) }
    }

    /// Checks whether the client may perform an operation on a group or transactional ID, and whether this node is its
    /// coordinator.
    pub fn check_coordinator(
        &self,
        context: &Context,
        operation: Operation,
        resource: Resource<'_>,
    ) -> Result<(), ErrorCode> {
        self.check(context, operation, resource)?;
        let (id, invalid_id) = match resource {
            Resource::TransactionalId(id) => (id, ErrorCode::INVALID_REQUEST),
            Resource::Group(id) => (id, ErrorCode::INVALID_GROUP_ID),
            _ => return Err(ErrorCode::INVALID_REQUEST),
        };
        if id.is_empty() {
            return Err(invalid_id);
        }
        if self.is_coordinator(context.node, id) { Ok(()) } else { Err(ErrorCode::NOT_COORDINATOR) }
    }

    /// Checks whether the client may perform an operation on a topic, which the request gives by name or by ID. The
    /// topic need not exist.
    pub fn check_topic(&self, context: &Context, operation: Operation, name: &str, id: Uuid) -> Result<(), ErrorCode> {
        let name = if id.is_zero() { Some(name) } else { self.topics.name_of(id) };
        name.map_or(Ok(()), |name| self.check(context, operation, Resource::Topic(name)))
    }

    /// Checks whether the client may be an idempotent producer. Since Kafka 2.8, permission to write to at least one
    /// topic is enough (KIP-679).
    pub fn check_idempotent_write(&self, context: &Context) -> Result<(), ErrorCode> {
        let Some(authorizer) = &self.authorizer else { return Ok(()) };
        let is_strict = self.release.is_some_and(|release| release < Release::V2_8);
        if !is_strict && authorizer.may_write_somewhere(&self.principal(context.connection)) {
            return Ok(());
        }
        self.check(context, Operation::IdempotentWrite, Resource::Cluster)
    }

    /// Returns all operations that the client may perform, as a bit set of operation numbers.
    pub fn operations(&self, context: &Context, resource: Resource<'_>) -> i32 {
        let allowed = resource.operations().iter().filter(|operation| self.allows(context, **operation, resource));
        allowed.fold(0, |bits, operation| bits | operation.bit())
    }

    /// If the request asked for authorized operations, returns the operations that the client may perform. Otherwise
    /// returns Kafka's value for "not requested".
    pub fn operations_if(&self, wanted: bool, context: &Context, resource: Resource<'_>) -> i32 {
        if wanted { self.operations(context, resource) } else { i32::MIN }
    }

    /// Returns the operations on the cluster that the client may perform. A client that may not describe the cluster
    /// gets no operations.
    pub fn cluster_operations_if(&self, wanted: bool, context: &Context) -> i32 {
        match wanted && !self.allows(context, Operation::Describe, Resource::Cluster) {
            true => 0,
            false => self.operations_if(wanted, context, Resource::Cluster),
        }
    }
}

//! The assignor that a member of a classic group uses: one that klamm contains, or one that the application provides.
//! The assignor runs while the client holds no lock.

use super::assignor::{self, Assignment, Assignor, Member, Topics};
use crate::api::data::consumer_protocol;
use crate::engine::{Error, ErrorKind};
use bytes::Bytes;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// An assignor that the application provides.
pub trait CustomAssignor: Send + Sync {
    /// Returns the name that the members of a group agree on.
    fn name(&self) -> &str;
    /// Returns how members give up partitions in a rebalance.
    fn protocol(&self) -> assignor::Protocol;
    /// Returns the user data that a member sends to the leader together with its subscription.
    fn user_data(&self) -> Option<Bytes>;
    /// Assigns partitions to members.
    fn assign(&self, topics: &Topics, members: &[Member<'_>]) -> Result<Assignment, Error>;
}

/// An assignor of a classic group.
#[derive(Clone)]
pub enum Strategy {
    /// An [`assignor`] that klamm contains.
    Known(&'static dyn Assignor),
    /// An assignor that the application provides.
    Custom(Arc<dyn CustomAssignor>),
}

impl Strategy {
    /// Returns the name that the members of a group agree on.
    pub fn name(&self) -> &str {
        match self {
            Self::Known(a) => a.name(),
            Self::Custom(a) => a.name(),
        }
    }

    pub(super) fn is_cooperative(&self) -> bool {
        let protocol = match self {
            Self::Known(a) => a.protocol(),
            Self::Custom(a) => a.protocol(),
        };
        protocol == assignor::Protocol::Cooperative
    }

    fn assign(&self, topics: &Topics, members: &[Member<'_>]) -> Result<Assignment, Error> {
        match self {
            Self::Known(a) => Ok(a.assign(topics, members)),
            Self::Custom(a) => {
                a.assign(topics, members).and_then(|assignment| check(self.name(), topics, members, assignment))
            }
        }
    }
}

/// Checks the assignment of the application's assignor: every partition must exist and have exactly one owner, which
/// must be a member.
fn check(name: &str, topics: &Topics, members: &[Member<'_>], assignment: Assignment) -> Result<Assignment, Error> {
    let wrong = |what: String| {
        Err(Error::new(ErrorKind::Config, format!("assignor {name:?} assigned {what}"))
            .with_hint("assign each partition of the topics to at most one member"))
    };
    let mut assigned_partitions = BTreeSet::new();
    for (member, partitions) in &assignment {
        if !members.iter().any(|m| m.id == member) {
            return wrong(format!("partitions to {member:?}, which is not a member"));
        }
        for partition in partitions {
            let count = topics.0.get(&partition.topic).map_or(0, Vec::len);
            if !usize::try_from(partition.partition).is_ok_and(|p| p < count) {
                return wrong(format!("{partition}, which does not exist"));
            }
            if !assigned_partitions.insert(partition) {
                return wrong(format!("{partition} to two members"));
            }
        }
    }
    Ok(assignment)
}

/// An assignment to compute. The computation runs outside of all locks, because it may take long or call the
/// application's code.
pub struct Work {
    pub(super) round: u64,
    pub(super) assignor: Strategy,
    pub(super) topics: Topics,
    pub(super) members: Vec<Joined>,
}

/// A member of the group, as the leader knows it.
pub(super) struct Joined {
    pub id: String,
    pub instance: Option<String>,
    pub subscription: consumer_protocol::Subscription,
}

impl Joined {
    fn as_member(&self) -> Member<'_> {
        Member { id: &self.id, instance_id: self.instance.as_deref(), subscription: &self.subscription }
    }
}

/// The result of [`Work`].
pub struct Assignments {
    pub(super) round: u64,
    pub(super) result: Result<Assignment, Error>,
}

impl Work {
    /// Computes the assignment.
    pub fn run(self) -> Assignments {
        let members: Vec<Member<'_>> = self.members.iter().map(Joined::as_member).collect();
        Assignments { round: self.round, result: self.assignor.assign(&self.topics, &members) }
    }
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} for {} members", self.assignor.name(), self.members.len())
    }
}

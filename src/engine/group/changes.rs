//! A queue of assignment changes. The consumer takes one change at a time, handles it, and reports that the change is
//! done.

use crate::engine::TopicPartition;
use std::collections::{BTreeSet, VecDeque};

/// A change of the assignment. The consumer has to handle one change before it takes the next change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Partitions that other members get after the consumer has handled this change. Until then, the consumer may
    /// commit offsets of these partitions.
    Revoked(Vec<TopicPartition>),
    /// Partitions that the member has lost without a revocation. Other members may own these partitions already.
    Lost(Vec<TopicPartition>),
    /// Partitions that the consumer owns from now on.
    Assigned(Vec<TopicPartition>),
}

/// The queue of changes, and the partitions that the member owns: partitions that were assigned and not given up.
#[derive(Debug, Default)]
pub(super) struct Changes {
    pub owned: BTreeSet<TopicPartition>,
    pub queue: VecDeque<Change>,
    /// Whether the consumer has taken the first change but has not handled it yet.
    pub taken: bool,
}

impl Changes {
    pub fn push(&mut self, change: Change) {
        let (Change::Revoked(partitions) | Change::Lost(partitions) | Change::Assigned(partitions)) = &change;
        if !partitions.is_empty() {
            self.queue.push_back(change);
        }
    }

    /// Drops changes that the consumer has not taken, and queues the changes from the owned partitions to the `target`
    /// assignment, revocations first. Returns whether the member revokes partitions.
    pub fn follow(&mut self, target: &BTreeSet<TopicPartition>) -> bool {
        self.queue.truncate(usize::from(self.taken));
        let revoked: Vec<TopicPartition> = self.owned.difference(target).cloned().collect();
        let revokes_any = !revoked.is_empty();
        self.push(Change::Revoked(revoked));
        self.push(Change::Assigned(target.difference(&self.owned).cloned().collect()));
        revokes_any
    }

    pub fn revoke_all(&mut self) {
        self.push(Change::Revoked(self.owned.iter().cloned().collect()));
    }

    /// Gives up all partitions because the membership has ended. Drops changes that the consumer has not taken.
    pub fn lose_all(&mut self) {
        self.queue.truncate(usize::from(self.taken));
        let mut partitions = self.owned.clone();
        match self.queue.front() {
            Some(Change::Assigned(more)) => partitions.extend(more.iter().cloned()),
            Some(Change::Revoked(removed) | Change::Lost(removed)) => partitions.retain(|p| !removed.contains(p)),
            None => {}
        }
        self.push(Change::Lost(partitions.into_iter().collect()));
    }

    pub fn take(&mut self) -> Option<Change> {
        if self.taken {
            return None;
        }
        let change = self.queue.front()?.clone();
        self.taken = true;
        Some(change)
    }

    pub fn handled(&mut self) {
        if !std::mem::take(&mut self.taken) {
            return;
        }
        match self.queue.pop_front() {
            Some(Change::Assigned(partitions)) => self.owned.extend(partitions),
            Some(Change::Revoked(partitions) | Change::Lost(partitions)) => partitions.iter().for_each(|p| {
                self.owned.remove(p);
            }),
            None => {}
        }
    }

    pub fn all_handled(&self) -> bool {
        self.queue.is_empty()
    }

    /// Returns the partitions that no other member may have: owned partitions, and partitions about to be assigned.
    pub fn claimed(&self) -> BTreeSet<TopicPartition> {
        let mut claimed = self.owned.clone();
        for change in &self.queue {
            if let Change::Assigned(partitions) = change {
                claimed.extend(partitions.iter().cloned());
            }
        }
        claimed
    }
}

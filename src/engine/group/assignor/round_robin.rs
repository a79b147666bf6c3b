//! The assignor `roundrobin` assigns all partitions of all topics in order, one to each member in turn. The assignor
//! skips a member that does not subscribe to the partition's topic.

use super::interface::{Assignment, Assignor, Group, Member, Topics};

/// The assignor `roundrobin`.
pub struct RoundRobin;

impl Assignor for RoundRobin {
    fn name(&self) -> &'static str {
        "roundrobin"
    }

    fn assign(&self, topics: &Topics, members: &[Member<'_>]) -> Assignment {
        let group = Group::new(topics, members);
        let mut owned = vec![Vec::new(); group.members.len()];
        let mut turn = 0;
        for (t, topic) in group.topics.iter().enumerate() {
            for p in 0..topic.racks.len() {
                let next = topic.subscribers.partition_point(|m| *m < turn);
                // After the last member, the first one is next.
                let Some(&m) = topic.subscribers.get(next).or_else(|| topic.subscribers.first()) else {
                    continue;
                };
                owned[m].push((t, p));
                turn = m + 1;
            }
        }
        group.assignment(owned)
    }
}

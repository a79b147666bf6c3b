//! The assignor `cooperative-sticky` assigns like `sticky`, but members keep reading while they join (KIP-429). If a
//! partition has to move, the first round of the rebalance assigns it to no member. After the former owner has revoked
//! the partition, all members join again, and the second round assigns the partition to its new owner.
//!
//! A member lists its partitions in its subscription. From v2 on, the subscription also contains the generation
//! (KIP-792). Before v2, the user data of the subscription contains the generation.

use super::balance::{Claim, balance};
use super::interface::{Assignment, Assignor, Group, Member, Protocol, Topics};
use crate::api::data::consumer_protocol::Subscription;
use crate::engine::TopicPartition;
use bytes::Bytes;

/// The assignor `cooperative-sticky`.
pub struct CooperativeSticky;

impl Assignor for CooperativeSticky {
    fn name(&self) -> &'static str {
        "cooperative-sticky"
    }

    fn protocol(&self) -> Protocol {
        Protocol::Cooperative
    }

    fn user_data(&self, _owned: &[TopicPartition], generation: Option<i32>) -> Option<Bytes> {
        Some(Bytes::copy_from_slice(&generation.unwrap_or(-1).to_be_bytes()))
    }

    fn assign(&self, topics: &Topics, members: &[Member<'_>]) -> Assignment {
        let group = Group::new(topics, members);
        let claims: Vec<Claim<'_>> = group.members.iter().map(|m| claim(m.subscription)).collect();
        let mut balanced = balance(&group, &claims);
        for (got, contested) in balanced.got.iter_mut().zip(&mut balanced.contested) {
            contested.sort_unstable();
            got.retain(|partition| contested.binary_search(partition).is_err());
        }
        group.assignment(balanced.got)
    }
}

fn claim(subscription: &Subscription) -> Claim<'_> {
    let generation = match subscription.generation_id {
        0.. => subscription.generation_id,
        _ => {
            let data = subscription.user_data.as_deref().and_then(|data| data.first_chunk());
            data.map_or(-1, |data| i32::from_be_bytes(*data))
        }
    };
    Claim { generation, had: (&subscription.owned_partitions[..]).into() }
}

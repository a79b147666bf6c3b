//! `klamm.assignors`: what a group's leader computes, for tools and tests.

use super::error::exception;
use super::octets::optional_bytes;
use crate::api::data::consumer_protocol::{Subscription, TopicPartitions};
use crate::client::assignor::{ALL, Assignor, Member, Topics, by_name};
use bytes::Bytes;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A member: its id and instance id, its rack, the topics it wants, the partitions it had and in which generation, its
/// user data.
type MemberTuple<'py> =
    (String, Option<String>, Option<String>, Vec<String>, Vec<(String, i32)>, Option<i32>, Option<Bound<'py, PyAny>>);

/// What each member gets of topics, of whose partitions the racks are given.
#[pyfunction]
pub(super) fn assign(
    py: Python<'_>,
    name: &str,
    topics: Vec<(String, Vec<Vec<String>>)>,
    members: Vec<MemberTuple<'_>>,
) -> PyResult<BTreeMap<String, Vec<(String, i32)>>> {
    let assignor = find(py, name)?;
    let partition = |racks: Vec<String>| racks.into_iter().map(Arc::from).collect();
    let topic = |(name, racks): (String, Vec<Vec<String>>)| (name.into(), racks.into_iter().map(partition).collect());
    let topics = Topics(topics.into_iter().map(topic).collect());
    let mut peers = Vec::with_capacity(members.len());
    for (id, instance_id, rack_id, topics, owned, generation, user_data) in members {
        let user_data = user_data.map_or(Ok(None), |data| optional_bytes("user_data", data))?;
        let user_data = match user_data {
            Some(data) => Some(Bytes::copy_from_slice(data.as_bytes())),
            None => said(assignor, &owned, generation),
        };
        let subscription = Subscription {
            topics,
            user_data,
            owned_partitions: owned.into_iter().map(one_partition).collect(),
            generation_id: generation.unwrap_or(-1),
            rack_id,
        };
        peers.push((id, instance_id, subscription));
    }
    let members = peers.iter().map(|(id, instance_id, subscription)| Member {
        id,
        instance_id: instance_id.as_deref(),
        subscription,
    });
    let members: Vec<Member<'_>> = members.collect();
    let assignment = py.detach(|| assignor.assign(&topics, &members));
    let owned = |(topic, partition): (Arc<str>, i32)| ((*topic).to_owned(), partition);
    Ok(assignment.into_iter().map(|(id, places)| (id, places.into_iter().map(owned).collect())).collect())
}

/// What a member tells the leader besides its subscription.
#[pyfunction]
pub(super) fn user_data<'py>(
    py: Python<'py>,
    name: &str,
    owned: Vec<(String, i32)>,
    generation: Option<i32>,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    Ok(said(find(py, name)?, &owned, generation).map(|data| PyBytes::new(py, &data)))
}

/// What a member that had these partitions says; who had some without knowing when had them before there were generations.
fn said(assignor: &dyn Assignor, owned: &[(String, i32)], generation: Option<i32>) -> Option<Bytes> {
    let places: Vec<_> = owned.iter().map(|(topic, partition)| (topic.as_str().into(), *partition)).collect();
    assignor.user_data(&places, generation.or((!places.is_empty()).then_some(-1)))
}

fn one_partition((topic, partition): (String, i32)) -> TopicPartitions {
    TopicPartitions { topic, partitions: vec![partition] }
}

fn find(py: Python<'_>, name: &str) -> PyResult<&'static dyn Assignor> {
    by_name(name).ok_or_else(|| {
        let names: Vec<&str> = ALL.iter().map(|a| a.name()).collect();
        let message = format!("there is no assignor {name:?}");
        exception(py, "ConfigError", &message, Some(&format!("there are {}", names.join(", "))))
    })
}

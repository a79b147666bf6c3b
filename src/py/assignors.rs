//! Partition assignors, for `klamm.assignors` and for consumers with an assignor written in Python.
//!
//! klamm's built-in assignors are in `engine/group/assignor`. A consumer calls the code in this file only if its
//! assignor is written in Python.

use super::arguments;
use super::bytes_like::optional_bytes;
use super::construct::{GivenPartition, construct, list};
use super::error::exception;
use crate::api::data::consumer_protocol::{Subscription, TopicPartitions};
use crate::client::assignor::{ALL, Assignment, Assignor, Member, Protocol, Topics, by_name};
use crate::client::{CustomAssignor, Error, ErrorKind, TopicPartition};
use bytes::Bytes;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyMapping, PyString, PyType};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A `klamm.assignors.Member`.
#[derive(FromPyObject)]
pub(super) struct PythonMember<'py> {
    id: String,
    topics: Vec<String>,
    owned: Vec<GivenPartition>,
    generation: Option<i32>,
    instance_id: Option<String>,
    rack: Option<String>,
    user_data: Option<Bound<'py, PyAny>>,
}

/// Computes an assignment: the partitions of each member, by member ID.
///
/// For each partition, `topics` has a list with the racks of the replicas.
#[pyfunction]
pub(super) fn assign(
    py: Python<'_>,
    name: &str,
    topics: Vec<(String, Vec<Vec<String>>)>,
    members: Vec<PythonMember<'_>>,
) -> PyResult<BTreeMap<String, Vec<(String, i32)>>> {
    let assignor = find(py, name)?;
    let partition = |racks: Vec<String>| racks.into_iter().map(Arc::from).collect();
    let topic = |(name, racks): (String, Vec<Vec<String>>)| (name.into(), racks.into_iter().map(partition).collect());
    let topics = Topics(topics.into_iter().map(topic).collect());
    let mut subscribed = Vec::with_capacity(members.len());
    for member in members {
        let PythonMember { id, topics, owned, generation, instance_id, rack, user_data } = member;
        let owned: Vec<_> = owned.into_iter().map(|p| (p.topic, p.partition)).collect();
        let user_data = user_data.map_or(Ok(None), |data| optional_bytes("user_data", data))?;
        let user_data = match user_data {
            Some(data) => Some(Bytes::copy_from_slice(data.as_bytes())),
            None => default_user_data(assignor, &owned, generation),
        };
        let subscription = Subscription {
            topics,
            user_data,
            owned_partitions: owned.into_iter().map(one_partition).collect(),
            generation_id: generation.unwrap_or(-1),
            rack_id: rack,
        };
        subscribed.push((id, instance_id, subscription));
    }
    let members = subscribed.iter().map(|(id, instance_id, subscription)| Member {
        id,
        instance_id: instance_id.as_deref(),
        subscription,
    });
    let members: Vec<Member<'_>> = members.collect();
    let assignment = py.detach(|| assignor.assign(&topics, &members));
    let owned = |TopicPartition { topic, partition }| (topic.to_string(), partition);
    Ok(assignment.into_iter().map(|(id, partitions)| (id, partitions.into_iter().map(owned).collect())).collect())
}

/// Returns the user data that a member sends to the leader in its subscription.
#[pyfunction]
pub(super) fn user_data<'py>(
    py: Python<'py>,
    name: &str,
    owned: Vec<(String, i32)>,
    generation: Option<i32>,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    Ok(default_user_data(find(py, name)?, &owned, generation).map(|data| PyBytes::new(py, &data)))
}

/// Replaces the assignor objects in the setting `partition_assignment_strategy` by their names.
///
/// The setting is a keyword argument, or a key of the dict that is a client's first argument. The result is always a
/// keyword argument.
pub(super) fn take_assignors(
    first: Option<&Bound<'_, PyAny>>,
    keywords: &Bound<'_, PyDict>,
) -> PyResult<Vec<Arc<dyn CustomAssignor>>> {
    let mut assignors: Vec<Arc<dyn CustomAssignor>> = Vec::new();
    let from_dict = first.and_then(|first| first.cast::<PyMapping>().ok()?.get_item(STRATEGY.replace('_', ".")).ok());
    let setting = keywords.get_item(STRATEGY)?.or(from_dict);
    let Some(setting) = setting.filter(|setting| !setting.is_none() && !setting.is_instance_of::<PyString>()) else {
        return Ok(assignors);
    };
    let mut names = Vec::new();
    let allowed = "a list of names of assignors and of Assignor objects";
    for item in setting.try_iter().map_err(|_| arguments::of_type(STRATEGY, &setting, allowed, None))? {
        let item = item?;
        if item.is_instance_of::<PyString>() {
            names.push(arguments::text(STRATEGY, &item)?.to_owned());
            continue;
        }
        if item.is_instance_of::<PyType>() || !item.hasattr("assign")? {
            return Err(arguments::of_type("an assignor", &item, "a name or an Assignor object", None));
        }
        let assignor = PythonAssignor::new(&item)?;
        names.push(assignor.name().to_owned());
        assignors.push(Arc::new(assignor));
    }
    keywords.set_item(STRATEGY, names)?;
    Ok(assignors)
}

/// The setting that names assignors.
const STRATEGY: &str = "partition_assignment_strategy";

/// Returns the user data of a member that owned these partitions. If `generation` is `None`, the member owned the
/// partitions before user data contained generations.
fn default_user_data(assignor: &dyn Assignor, owned: &[(String, i32)], generation: Option<i32>) -> Option<Bytes> {
    let owned: Vec<_> =
        owned.iter().map(|(topic, partition)| TopicPartition::new(topic.as_str(), *partition)).collect();
    assignor.user_data(&owned, generation.or((!owned.is_empty()).then_some(-1)))
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

/// An assignor written in Python: a `klamm.assignors.Assignor`. The client's thread holds no lock when it calls the
/// assignor.
pub(super) struct PythonAssignor {
    name: String,
    is_cooperative: bool,
    user_data: Option<Bytes>,
    object: Py<PyAny>,
}

impl PythonAssignor {
    /// Reads the constant attributes of an assignor.
    pub(super) fn new(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let user_data = optional_bytes("user_data", object.getattr("user_data")?)?;
        Ok(Self {
            name: object.getattr("name")?.extract()?,
            is_cooperative: object.getattr("cooperative")?.extract()?,
            user_data: user_data.map(|data| Bytes::copy_from_slice(data.as_bytes())),
            object: object.clone().unbind(),
        })
    }

    fn call(&self, py: Python<'_>, topics: &Topics, members: &[Member<'_>]) -> PyResult<Assignment> {
        let racks = |partitions: &[Vec<Arc<str>>]| -> Vec<Vec<String>> {
            partitions.iter().map(|racks| racks.iter().map(ToString::to_string).collect()).collect()
        };
        let topics: BTreeMap<&str, _> = topics.0.iter().map(|(name, p)| (&**name, racks(p))).collect();
        let members = members.iter().map(|m| {
            let s = m.subscription;
            let owned = s.owned_partitions.iter().flat_map(|t| t.partitions.iter().map(|p| (t.topic.as_str(), *p)));
            let owned: Vec<_> = owned.map(TopicPartition::from).collect();
            construct!(py, "klamm.assignors.Member", {
                id: m.id,
                topics: &s.topics,
                owned: &owned,
                generation: Some(s.generation_id).filter(|g| *g >= 0),
                instance_id: m.instance_id,
                rack: &s.rack_id,
                user_data: s.user_data.as_ref().map(|data| PyBytes::new(py, data)),
            })
        });
        let members = list(py, members)?;
        let module = py.import("klamm.assignors")?;
        let made = module.call_method1("_ask", (self.object.bind(py), topics, members))?;
        let made: BTreeMap<String, Vec<(String, i32)>> = made.extract()?;
        let owned = |owned: Vec<(String, i32)>| owned.into_iter().map(TopicPartition::from).collect();
        Ok(made.into_iter().map(|(member, partitions)| (member, owned(partitions))).collect())
    }
}

impl CustomAssignor for PythonAssignor {
    fn name(&self) -> &str {
        &self.name
    }

    fn protocol(&self) -> Protocol {
        if self.is_cooperative { Protocol::Cooperative } else { Protocol::Eager }
    }

    fn user_data(&self) -> Option<Bytes> {
        self.user_data.clone()
    }

    fn assign(&self, topics: &Topics, members: &[Member<'_>]) -> Result<Assignment, Error> {
        Python::attach(|py| {
            self.call(py, topics, members).map_err(|e| {
                let message = format!(
                    "assignor {:?} failed: {}",
                    self.name,
                    e.value(py).repr().map_or_else(|_| e.get_type(py).to_string(), |text| text.to_string(),)
                );
                Error::new(ErrorKind::Config, message)
                    .with_hint("fix the assignor: the group has no assignment until it succeeds")
            })
        })
    }
}

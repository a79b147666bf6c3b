//! Replays a recording of a client's traffic with its brokers.
//!
//! `klamm.testing` reads the recording from a dump of the client's flight recorder. A cluster that replays a recording
//! has the recorded topics and records. The cluster serves the recorded versions and returns the recorded errors.

use super::clock::Clock;
use super::configs::Configs;
use super::fault::Action;
use super::state::State;
use crate::api::api_versions;
use crate::record;
use bytes::Bytes;
use std::collections::BTreeMap;

/// A recording of the traffic between a client and its brokers.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// Topics, with their numbers of partitions.
    pub topics: BTreeMap<String, usize>,
    /// Batches by topic and partition.
    pub records: BTreeMap<(String, i32), Vec<Bytes>>,
    /// The newest version of each API that the client used.
    pub versions: BTreeMap<i16, i16>,
    /// The results of the requests of each API, in order. `None` is a response without an error.
    pub results: Vec<(i16, Option<Action>)>,
}

impl State {
    /// Creates the recorded topics with their records, and serves no versions that are newer than the recorded
    /// versions. The error is a message.
    pub(super) fn restore_recording(&mut self, clock: Clock, recording: &Recording) -> Result<(), String> {
        for (name, partitions) in &recording.topics {
            let checked = self.topics.check_name(name).and_then(|()| self.topics.check_partitions(*partitions));
            checked.map_err(|(_, why)| format!("the recorded topic {name:?} cannot be created: {why}"))?;
            let (id, replicas) = (self.new_uuid(), self.assign_replicas(*partitions, 1));
            self.topics.create(name, id, replicas, Configs::of(self.topic_defaults.clone()));
            self.journal_topic(name);
        }
        for ((topic, partition), data) in &recording.records {
            let mut batches: Vec<_> =
                data.iter().flat_map(|data| record::batches(data.clone()).filter_map(Result::ok)).collect();
            // A client that sought back fetched the same batches twice.
            batches.sort_by_key(|batch| batch.header.base_offset);
            batches.dedup_by_key(|batch| batch.header.base_offset);
            if let Some(first) = batches.first().map(|batch| batch.header.base_offset) {
                batches
                    .iter()
                    .for_each(|batch| self.append_recorded_batch(clock, topic, *partition, batch.data.clone()));
                self.delete_before(topic, *partition, first);
            }
        }
        for served in &mut self.served {
            let version = recording.versions.get(&served.api.key).filter(|_| served.api.key != api_versions::API.key);
            served.max = version.map_or(served.max, |version| served.max.min(*version).max(served.min));
        }
        Ok(())
    }
}

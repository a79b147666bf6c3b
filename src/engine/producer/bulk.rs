//! Records that come many at a time, none of which anybody waits for. Where they go is found out for all of them first: the
//! hashes of several keys overlap then. They are appended in their order, in which memory is read ahead.

use super::accumulate::{Placed, TopicIndex};
use super::partitioner::Chosen;
use super::{NewRecord, Producer};
use crate::engine::{Error, Time};
use crate::record::{HEADER_SIZE, max_record_size};

impl<D> Producer<D> {
    /// Takes records as [`Producer::append`] takes each; says how many, and whether the network has something to do or why
    /// the next one was not taken.
    pub fn append_many(
        &mut self,
        now: Time,
        topic: TopicIndex,
        records: &[NewRecord<'_>],
    ) -> (usize, Result<bool, Error>) {
        let mut places = std::mem::take(&mut self.places);
        let appended = if self.place(topic, records, &mut places) {
            let placed = records.iter().zip(&places).map(|(record, (partition, bound))| Placed {
                record,
                partition: *partition as usize,
                bound: *bound as usize,
                ticket: None,
            });
            (records.len(), Ok(self.append_all(now, self.generation, topic.0, placed).1))
        } else {
            self.append_each(now, topic, records)
        };
        self.places = places;
        appended
    }

    /// Finds out where records go and how much each takes at most, if that can be known before any of them is appended, and
    /// there is room for all, were each in a batch of its own.
    fn place(&self, TopicIndex(topic): TopicIndex, records: &[NewRecord<'_>], places: &mut Vec<(u32, u32)>) -> bool {
        let count = self.topics.get(topic).filter(|t| t.is_known()).map_or(0, |t| t.count);
        if count == 0 || self.check_open().is_err() {
            return false;
        }
        places.clear();
        let (mut largest, mut total) = (0, 0);
        for record in records {
            let bound = max_record_size(record.key, record.value, record.headers);
            largest = bound.max(largest);
            total += HEADER_SIZE + bound;
            let partition = match record.partition {
                Some(p) => usize::try_from(p).unwrap_or(usize::MAX),
                None => match self.config.partitioner.choose(record.key, count) {
                    Chosen::Partition(p) => p,
                    Chosen::Next | Chosen::Sticky => return false,
                },
            };
            if partition >= count {
                return false;
            }
            places.push((partition as u32, bound as u32));
        }
        largest + HEADER_SIZE <= self.config.max_request_size && self.memory + total <= self.config.buffer_memory
    }

    fn append_each(&mut self, now: Time, topic: TopicIndex, records: &[NewRecord<'_>]) -> (usize, Result<bool, Error>) {
        let mut wake = false;
        for (done, record) in records.iter().enumerate() {
            match self.append(now, topic, record, None) {
                Ok(news) => wake |= news,
                Err(e) => return (done, Err(e)),
            }
        }
        (records.len(), Ok(wake))
    }
}

#[cfg(test)]
mod tests {
    use super::super::batch::Batch;
    use super::super::{Partitioner, ProducerConfig};
    use super::*;
    use crate::compress::Compression;
    use crate::engine::Role;
    use crate::engine::cluster::{self, Cluster};
    use crate::record::Producer as ProducedAs;
    use proptest::collection::vec;
    use proptest::option::weighted;
    use proptest::prelude::*;
    use std::sync::Arc;
    use std::time::Duration;

    const PARTITIONS: usize = 3;

    fn producer(partitioner: Partitioner, is_known: bool) -> Producer<u32> {
        let mut producer = Producer::new(ProducerConfig {
            acks: -1,
            linger: Duration::from_secs(1),
            batch_size: 400,
            buffer_memory: 3_000,
            max_request_size: 1_000,
            compression: Compression::None.into(),
            delivery_timeout: Duration::from_secs(60),
            request_timeout: Duration::from_secs(5),
            max_block: Duration::from_secs(30),
            retry_backoff: (Duration::from_millis(50), Duration::from_secs(1)),
            retries: u32::MAX,
            idempotent: false,
            idempotence_required: false,
            transactions: None,
            partitioner,
            adaptive: false,
            max_in_flight: 5,
            metadata_max_idle: Duration::from_secs(300),
            seed: 7,
        });
        producer.topic("t").unwrap();
        if is_known {
            let one = cluster::Partition { leader: 1, leader_epoch: 0, replicas: vec![1], isr: vec![1] };
            let partitions = vec![one; PARTITIONS];
            let topic =
                cluster::Topic { id: Default::default(), error: Default::default(), internal: false, partitions };
            let topics = [(Arc::from("t"), topic)].into_iter().collect();
            producer.handle_cluster(Time(0), &Arc::new(Cluster { topics, ..Cluster::default() }));
        }
        producer
    }

    /// Everything that the records are in: of each partition its closed batches and the open one.
    fn batches(producer: &mut Producer<u32>) -> Vec<Vec<Vec<u8>>> {
        let seal = |mut batch: Batch<u32>| {
            let at = (batch.count, batch.bytes as i32);
            let data = batch.seal(Compression::None.into(), ProducedAs::NONE).unwrap();
            [&at.0.to_be_bytes(), &at.1.to_be_bytes(), &data[..]].concat()
        };
        let all = producer.topics[0].partitions.iter_mut();
        all.map(|p| p.queue.drain(..).chain(p.open.take()).map(seal).collect()).collect()
    }

    #[derive(Clone, Debug)]
    struct Given {
        partition: Option<i32>,
        key: Option<Vec<u8>>,
        value: usize,
        header: bool,
        is_timed: bool,
    }

    fn given() -> impl Strategy<Value = Given> {
        let partition = weighted(0.3, prop_oneof![20 => 0..PARTITIONS as i32, 1 => Just(-1), 1 => Just(3)]);
        let value = prop_oneof![30 => 0..150_usize, 1 => 0..1_200_usize];
        (partition, weighted(0.98, vec(any::<u8>(), 0..4)), value, any::<bool>(), any::<bool>())
            .prop_map(|(partition, key, value, header, is_timed)| Given { partition, key, value, header, is_timed })
    }

    proptest! {
        #[test]
        fn many_at_a_time_come_to_the_same_as_one_by_one(
            calls in vec(vec(given(), 0..30), 1..6),
            kind in prop_oneof![Just(Partitioner::Murmur2), Just(Partitioner::Fnv1a), Just(Partitioner::RoundRobin)],
            is_known in weighted(0.9, Just(())),
        ) {
            let (mut many, mut each) = (producer(kind, is_known.is_some()), producer(kind, is_known.is_some()));
            let topic = TopicIndex(0);
            let value = [7; 1_200];
            for (call, records) in calls.iter().enumerate() {
                let headers: [(&str, Option<&[u8]>); 1] = [("h", None)];
                let record = |g: &'_ Given| NewRecord {
                    partition: g.partition,
                    timestamp: 1_000 + call as i64,
                    is_timed: g.is_timed,
                    key: None,
                    value: Some(&value[..g.value]),
                    headers: if g.header { &headers } else { &[] },
                };
                let records: Vec<NewRecord<'_>> =
                    records.iter().map(|g| NewRecord { key: g.key.as_deref(), ..record(g) }).collect();
                let (taken, result) = many.append_many(Time(call as u64), topic, &records);
                let (expected, wakes) = each.append_each(Time(call as u64), topic, &records);
                prop_assert_eq!(taken, expected);
                prop_assert_eq!(result.map_err(|e| e.to_string()), wakes.map_err(|e| e.to_string()));
                prop_assert_eq!(many.memory, each.memory);
                prop_assert_eq!(many.outstanding(), each.outstanding());
                prop_assert_eq!(&many.active, &each.active);
            }
            prop_assert_eq!(batches(&mut many), batches(&mut each));
        }
    }
}

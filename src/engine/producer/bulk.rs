//! Appends many records of one call, without delivery reports.
//!
//! The code first computes the partitions of all records, because the CPU can then compute the hashes of several keys
//! in parallel. In a second pass, the code appends the records in order, because the CPU can prefetch memory that is
//! read in order.

use super::accumulator::{PartitionedRecord, TopicIndex};
use super::partitioner::Chosen;
use super::{NewRecord, Producer};
use crate::engine::{Error, Time};
use crate::record::{HEADER_SIZE, max_record_size};

impl<D> Producer<D> {
    /// Appends records like [`Producer::append`]. Returns the number of appended records. Also returns whether the
    /// caller must wake the I/O thread, or the error of the first rejected record.
    pub fn append_many(
        &mut self,
        now: Time,
        topic: TopicIndex,
        records: &[NewRecord<'_>],
    ) -> (usize, Result<bool, Error>) {
        let mut choices = std::mem::take(&mut self.choices);
        let appended = if self.choose_all(topic, records, &mut choices) {
            let partitioned = records.iter().zip(&choices).map(|(record, (partition, bound))| PartitionedRecord {
                record,
                partition: *partition as usize,
                bound: *bound as usize,
                completion: None,
            });
            (records.len(), Ok(self.append_all(now, self.flush_epoch, topic.0, partitioned).1))
        } else {
            self.append_each(now, topic, records)
        };
        self.choices = choices;
        appended
    }

    /// Computes the partition and the largest possible size of each record. Returns false if the producer has to append
    /// the records one by one. The reason may be that a partition depends on earlier records, that a record is invalid,
    /// or that the buffer might be too small if each record needs a batch of its own.
    fn choose_all(
        &self,
        TopicIndex(topic): TopicIndex,
        records: &[NewRecord<'_>],
        choices: &mut Vec<(u32, u32)>,
    ) -> bool {
        let count = self.topics.get(topic).filter(|t| t.is_known()).map_or(0, |t| t.count);
        if count == 0 || self.check_open().is_err() {
            return false;
        }
        choices.clear();
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
            choices.push((partition as u32, bound as u32));
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
            let one = cluster::Partition { leader: 1, leader_epoch: 0, replicas: vec![1], isr: vec![1], older: 0 };
            let partitions = vec![one; PARTITIONS];
            let topic =
                cluster::Topic { id: Default::default(), error: Default::default(), internal: false, partitions };
            let topics = [(Arc::from("t"), topic)].into_iter().collect();
            producer.handle_cluster(Time(0), &Arc::new(Cluster { topics, ..Cluster::default() }));
        }
        producer
    }

    /// Seals the batches of each partition: first the closed batches, then the open batch.
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
        has_explicit_timestamp: bool,
    }

    fn given() -> impl Strategy<Value = Given> {
        let partition = weighted(0.3, prop_oneof![20 => 0..PARTITIONS as i32, 1 => Just(-1), 1 => Just(3)]);
        let value = prop_oneof![30 => 0..150_usize, 1 => 0..1_200_usize];
        (partition, weighted(0.98, vec(any::<u8>(), 0..4)), value, any::<bool>(), any::<bool>()).prop_map(
            |(partition, key, value, header, has_explicit_timestamp)| Given {
                partition,
                key,
                value,
                header,
                has_explicit_timestamp,
            },
        )
    }

    proptest! {
        #[test]
        fn records_appended_in_bulk_make_the_same_batches_as_one_by_one(
            calls in vec(vec(given(), 0..30), 1..6),
            kind in prop_oneof![Just(Partitioner::Murmur2), Just(Partitioner::Fnv1a), Just(Partitioner::RoundRobin)],
            is_known in weighted(0.9, Just(())),
        ) {
            let (mut many, mut each) = (producer(kind, is_known.is_some()), producer(kind, is_known.is_some()));
            let topic = TopicIndex(0);
            let value = [7; 1_200];
            for (call, records) in calls.iter().enumerate() {
                let headers: [(&[u8], Option<&[u8]>); 1] = [(b"h", None)];
                let record = |g: &'_ Given| NewRecord {
                    partition: g.partition,
                    timestamp: 1_000 + call as i64,
                    has_explicit_timestamp: g.has_explicit_timestamp,
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

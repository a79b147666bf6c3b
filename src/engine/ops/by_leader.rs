//! Groups partitions by their leader, sends each leader one request, and retries until every partition has a result.

use super::op::OpContext;
use crate::api::ErrorCode;
use crate::engine::{Error, Time};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A partition, the query about the partition, and the result.
pub(super) struct Item<W, F> {
    pub topic: Arc<str>,
    pub partition: i32,
    pub query: W,
    result: Option<F>,
}

impl<W, F> Item<W, F> {
    /// Returns the known leader epoch of the partition, or -1 if there is none.
    pub fn leader_epoch(&self, cx: &OpContext<'_>) -> i32 {
        cx.cluster.leader(&self.topic, self.partition).map_or(-1, |(_, epoch)| epoch)
    }
}

/// A request for the partitions of one leader.
pub(super) struct LeaderRequest<P> {
    pub leader: i32,
    /// The part number of the request, which comes back with the response.
    pub part: u32,
    /// The entries for the partitions in the request, by topic.
    pub topics: Vec<(String, Vec<P>)>,
}

/// The partitions, in the order of the call. If the call names a partition twice, each entry is in a separate request.
pub(super) struct ByLeader<W, F> {
    items: Vec<Item<W, F>>,
    sent: Vec<BTreeMap<Arc<str>, BTreeMap<i32, usize>>>,
}

impl<W, F: Clone> ByLeader<W, F> {
    pub fn new(queries: Vec<(Arc<str>, i32, W)>) -> Self {
        let item = |(topic, partition, query)| Item { topic, partition, query, result: None };
        Self { items: queries.into_iter().map(item).collect(), sent: Vec::new() }
    }

    /// Returns the requests for partitions without a result. Also returns an error if some of these partitions have no
    /// leader.
    pub fn leader_requests<P>(
        &mut self,
        cx: &mut OpContext<'_>,
        mut entry: impl FnMut(&OpContext<'_>, &Item<W, F>) -> P,
    ) -> (Vec<LeaderRequest<P>>, Result<(), Error>) {
        let mut leaders: BTreeMap<i32, BTreeMap<Arc<str>, BTreeMap<i32, usize>>> = BTreeMap::new();
        let mut rest = Ok(());
        for (i, item) in self.items.iter().enumerate().filter(|(_, item)| item.result.is_none()) {
            match leader(cx, &item.topic, item.partition) {
                Ok(Some(leader)) => {
                    let topic = leaders.entry(leader).or_default().entry(item.topic.clone()).or_default();
                    topic.entry(item.partition).or_insert(i);
                }
                Ok(None) => {}
                Err(error) => rest = rest.and(Err(error)),
            }
        }
        let mut requests = Vec::new();
        for (leader, partitions_by_topic) in leaders {
            let mut topics = Vec::new();
            for (topic, partitions) in &partitions_by_topic {
                let items = partitions.values().filter_map(|i| self.items.get(*i));
                topics.push((topic.to_string(), items.map(|item| entry(cx, item)).collect()));
            }
            requests.push(LeaderRequest { leader, part: self.sent.len() as u32, topics });
            self.sent.push(partitions_by_topic);
        }
        (requests, rest)
    }

    /// Sets the result of partitions that have no leader, according to metadata from `since` or later.
    pub fn set_leaderless(&mut self, cx: &OpContext<'_>, since: Time, result: &F) {
        let is_leaderless = |item: &Item<W, F>| {
            let metadata = cx.cluster.topics.get(&item.topic);
            let partition = usize::try_from(item.partition).ok().and_then(|i| metadata?.partitions.get(i));
            partition.is_some() && cx.cluster.leader(&item.topic, item.partition).is_none()
        };
        if cx.cluster.updated_at >= since {
            for item in self.items.iter_mut().filter(|item| item.result.is_none() && is_leaderless(item)) {
                item.result = Some(result.clone());
            }
        }
    }

    /// Stores the result of a partition of the request. `what` tells in an error what the client tried.
    pub fn take_result(
        &mut self,
        part: u32,
        (topic, partition): (&str, i32),
        result: Result<F, ErrorCode>,
        what: impl FnOnce(&Item<W, F>) -> String,
    ) -> Result<(), Error> {
        let index = self.sent.get(part as usize).and_then(|topics| topics.get(topic)?.get(&partition));
        let Some(item) = index.and_then(|i| self.items.get_mut(*i)) else {
            return Ok(());
        };
        item.result = Some(result.map_err(|code| Error::refused(code, what(item)).at(&item.topic, partition))?);
        Ok(())
    }

    /// Returns the results, if every partition has one.
    pub fn all(&self) -> Option<Vec<F>> {
        self.items.iter().map(|item| item.result.clone()).collect()
    }
}

/// Returns the leader of a partition, or `None` if the metadata does not have the topic yet.
pub(super) fn leader(cx: &mut OpContext<'_>, topic: &Arc<str>, partition: i32) -> Result<Option<i32>, Error> {
    // The topic's metadata is needed even if it is known, because it may become stale.
    cx.want_topic(topic);
    if let Some((leader, _)) = cx.cluster.leader(topic, partition) {
        return Ok(Some(leader));
    }
    cx.refresh();
    let Some(metadata) = cx.cluster.topics.get(topic) else { return Ok(None) };
    let missing = usize::try_from(partition).is_ok_and(|p| p >= metadata.partitions.len());
    let code = if metadata.error.is_error() {
        metadata.error
    } else if missing {
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
    } else {
        ErrorCode::LEADER_NOT_AVAILABLE
    };
    let what = match code {
        ErrorCode::LEADER_NOT_AVAILABLE => format!("{topic}-{partition} has no leader"),
        _ => format!("{topic}-{partition}"),
    };
    Err(Error::refused(code, what).at(topic, partition))
}

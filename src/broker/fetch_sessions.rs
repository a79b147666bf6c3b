//! Fetch sessions (KIP-227): a node remembers the partitions that a client fetches, so that later requests and
//! responses only contain changes.
//!
//! ```text
//! epoch 0    a full request; the response has the ID of a new session, or 0 if there is no room
//! epoch n    an incremental request and response
//! epoch -1   a full request without a session
//! ```
//!
//! A full request ends the session whose ID it contains. A session that has no partitions left also ends. A node has
//! room for [`SLOTS`] sessions. If all slots are in use, a new session can replace an existing session. If a session
//! has been idle for more than [`MIN_IDLE`], the new session replaces the session that has been idle for longest. If
//! every session was used within [`MIN_IDLE`], the new session can replace a smaller session that has been in use for
//! more than [`MIN_IDLE`]. Kafka splits the sessions over eight caches and prefers the sessions of followers. The dev
//! broker has one cache and no followers.

use super::Time;
use super::memory::Memory;
use crate::api::ErrorCode;
use crate::api::fetch::{Partition, PartitionResponse, Request, Response, Topic};
use crate::random::Random;
use crate::wire::Uuid;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Maximum number of sessions of a node: Kafka's `max.incremental.fetch.session.cache.slots`.
const SLOTS: usize = 1000;

const MIN_IDLE: Time = Time::from_secs(120);

/// Epochs of full requests.
const OPEN: i32 = 0;
const NONE: i32 = -1;

/// Approximate memory of a session, and of a partition without its topic name.
const SESSION_MEMORY: usize = 256;
const PARTITION_MEMORY: usize = 320;

/// The key of a partition. Requests before v13 name the topic, and requests from v13 on contain the topic ID. The
/// unused field is empty.
type PartitionKey = (Arc<str>, Uuid, i32);

#[derive(Debug)]
pub(super) struct FetchSessions {
    nodes: BTreeMap<i32, HashMap<i32, Session>>,
    random: Random,
}

#[derive(Debug)]
struct Session {
    /// Whether requests name topics by ID.
    by_id: bool,
    /// Epoch of the next request.
    epoch: i32,
    /// Partitions in the order in which they are read.
    partitions: BTreeMap<u64, Cached>,
    order: HashMap<PartitionKey, u64>,
    last: u64,
    began: Time,
    used: Time,
    memory_size: usize,
}

/// A partition of a session: the last request for the partition, and the state that the client knows.
#[derive(Debug)]
struct Cached {
    key: PartitionKey,
    wanted: Partition,
    high_watermark: i64,
    log_start_offset: i64,
}

impl FetchSessions {
    pub fn new(random: Random) -> Self {
        Self { nodes: BTreeMap::new(), random }
    }

    /// Applies a request to its session, and extends an incremental request to all partitions of the session.
    pub fn begin(
        &mut self,
        memory: &mut Memory,
        now: Time,
        node: i32,
        by_id: bool,
        request: &mut Request,
    ) -> Result<(), ErrorCode> {
        let sessions = self.nodes.entry(node).or_default();
        let id = request.session_id;
        if matches!(request.session_epoch, OPEN | NONE) {
            end(sessions, memory, id);
            return Ok(());
        }
        let session = sessions.get_mut(&id).ok_or(ErrorCode::FETCH_SESSION_ID_NOT_FOUND)?;
        if session.epoch != request.session_epoch {
            return Err(ErrorCode::INVALID_FETCH_SESSION_EPOCH);
        }
        if session.by_id != by_id {
            return Err(ErrorCode::FETCH_SESSION_TOPIC_ID_ERROR);
        }
        if !memory.has_room_for(max_memory(&request.topics)) {
            end(sessions, memory, id);
            return Err(ErrorCode::FETCH_SESSION_ID_NOT_FOUND);
        }
        let before = session.memory_size;
        session.update(request);
        memory.release(before);
        memory.reserve(session.memory_size);
        if session.partitions.is_empty() {
            end(sessions, memory, id);
            (request.session_id, request.session_epoch) = (0, NONE);
            return Ok(());
        }
        session.used = now;
        session.epoch = after(session.epoch);
        request.topics = session.topics();
        Ok(())
    }

    /// Completes a request that [`Self::begin`] has prepared. Opens a new session, or removes from the response the
    /// partitions whose state the client knows.
    pub fn finish(
        &mut self,
        memory: &mut Memory,
        now: Time,
        node: i32,
        by_id: bool,
        request: &Request,
        response: &mut Response,
    ) {
        let sessions = self.nodes.entry(node).or_default();
        match request.session_epoch {
            NONE => {}
            OPEN if !memory.has_room_for(SESSION_MEMORY + max_memory(&request.topics)) => {}
            OPEN => {
                let mut session = Session::new(by_id, now);
                session.update(request);
                for topic in &response.responses {
                    let name: Arc<str> = topic.topic.as_str().into();
                    for partition in &topic.partitions {
                        session.update_known(&(name.clone(), topic.topic_id, partition.partition_index), partition);
                    }
                }
                if make_room(sessions, memory, now, session.partitions.len()) {
                    let id = loop {
                        let id = (self.random.next_u64() >> 33) as i32;
                        if id > 0 && !sessions.contains_key(&id) {
                            break id;
                        }
                    };
                    memory.reserve(session.memory_size);
                    sessions.insert(id, session);
                    response.session_id = id;
                }
            }
            epoch => {
                response.session_id = request.session_id;
                // If another session replaced this one in the meantime, the client gets the full response. Its next
                // request fails.
                let Some(session) = sessions.get_mut(&request.session_id) else { return };
                if session.epoch == after(epoch) {
                    return session.omit_known(response);
                }
                response.error_code = ErrorCode::INVALID_FETCH_SESSION_EPOCH;
                response.responses.clear();
            }
        }
    }

    /// Returns whether a session contains partitions of a topic.
    pub fn holds(&self, node: i32, session: i32, name: &str, id: Option<Uuid>) -> bool {
        let session = self.nodes.get(&node).and_then(|sessions| sessions.get(&session));
        session.is_some_and(|s| s.order.keys().any(|(n, i, _)| if s.by_id { Some(*i) == id } else { **n == *name }))
    }

    /// Drops the sessions of a node that stopped.
    pub fn forget(&mut self, memory: &mut Memory, node: i32) {
        for session in self.nodes.remove(&node).into_iter().flat_map(HashMap::into_values) {
            memory.release(session.memory_size);
        }
    }
}

impl Session {
    fn new(by_id: bool, now: Time) -> Self {
        Self {
            by_id,
            epoch: after(OPEN),
            partitions: BTreeMap::new(),
            order: HashMap::new(),
            last: 0,
            began: now,
            used: now,
            memory_size: SESSION_MEMORY,
        }
    }

    /// Adds and removes the partitions that a request names.
    fn update(&mut self, request: &Request) {
        for topic in &request.topics {
            let name: Arc<str> = topic.topic.as_str().into();
            for wanted in &topic.partitions {
                let key = (name.clone(), topic.topic_id, wanted.partition);
                match self.order.get(&key).and_then(|n| self.partitions.get_mut(n)) {
                    Some(cached) => cached.wanted = wanted.clone(),
                    None => {
                        self.append(Cached { key, wanted: wanted.clone(), high_watermark: -1, log_start_offset: -1 })
                    }
                }
            }
        }
        for topic in &request.forgotten_topics_data {
            let name: Arc<str> = topic.topic.as_str().into();
            for partition in &topic.partitions {
                self.remove(&(name.clone(), topic.topic_id, *partition));
            }
        }
    }

    fn append(&mut self, cached: Cached) {
        self.last += 1;
        self.memory_size += PARTITION_MEMORY + cached.key.0.len();
        self.order.insert(cached.key.clone(), self.last);
        self.partitions.insert(self.last, cached);
    }

    fn remove(&mut self, key: &PartitionKey) -> Option<Cached> {
        let cached = self.order.remove(key).and_then(|n| self.partitions.remove(&n))?;
        self.memory_size -= PARTITION_MEMORY + key.0.len();
        Some(cached)
    }

    /// Returns all partitions, in reading order.
    fn topics(&self) -> Vec<Topic> {
        let mut topics: Vec<Topic> = Vec::new();
        for Cached { key: (name, id, _), wanted, .. } in self.partitions.values() {
            match topics.last_mut().filter(|t| t.topic_id == *id && *t.topic == **name) {
                Some(topic) => topic.partitions.push(wanted.clone()),
                None => {
                    let partitions = vec![wanted.clone()];
                    topics.push(Topic { topic: name.as_ref().to_owned(), topic_id: *id, partitions });
                }
            }
        }
        topics
    }

    /// Removes from a response the partitions whose state the client knows. Partitions with records move to the end of
    /// the reading order.
    fn omit_known(&mut self, response: &mut Response) {
        for topic in &mut response.responses {
            let (name, id): (Arc<str>, _) = (topic.topic.as_str().into(), topic.topic_id);
            topic.partitions.retain(|response| {
                let key = (name.clone(), id, response.partition_index);
                let is_new = self.update_known(&key, response);
                if has_records(response)
                    && let Some(cached) = self.remove(&key)
                {
                    self.append(cached);
                }
                is_new
            });
        }
        response.responses.retain(|topic| !topic.partitions.is_empty());
    }

    /// Records the state of a partition that the client receives. Returns whether the response must contain the
    /// partition.
    fn update_known(&mut self, key: &PartitionKey, response: &PartitionResponse) -> bool {
        let Some(cached) = self.order.get(key).and_then(|n| self.partitions.get_mut(n)) else { return true };
        let failed = response.error_code.is_error();
        let known_offsets = (cached.high_watermark, cached.log_start_offset);
        let is_known = known_offsets == (response.high_watermark, response.log_start_offset);
        // After an error the client needs the next response in any case.
        cached.high_watermark = if failed { -1 } else { response.high_watermark };
        cached.log_start_offset = response.log_start_offset;
        !is_known || failed || has_records(response) || response.preferred_read_replica >= 0
    }
}

fn has_records(response: &PartitionResponse) -> bool {
    response.records.as_ref().is_some_and(|records| !records.is_empty())
}

/// Returns the epoch of the next request. The epoch 0 is skipped, because it would open a session.
fn after(epoch: i32) -> i32 {
    epoch.checked_add(1).unwrap_or(1)
}

/// Returns the maximum memory of these partitions.
fn max_memory(topics: &[Topic]) -> usize {
    topics.iter().map(|topic| topic.partitions.len() * (PARTITION_MEMORY + topic.topic.len())).sum()
}

fn end(sessions: &mut HashMap<i32, Session>, memory: &mut Memory, id: i32) {
    if let Some(session) = sessions.remove(&id) {
        memory.release(session.memory_size);
    }
}

/// Makes room for a new session. If necessary, removes an old session. Returns whether there is room.
fn make_room(sessions: &mut HashMap<i32, Session>, memory: &mut Memory, now: Time, partitions: usize) -> bool {
    if sessions.len() < SLOTS {
        return true;
    }
    let is_long = |from: Time, to: Time| to.saturating_sub(from) > MIN_IDLE;
    let idle = sessions.iter().filter(|(_, s)| is_long(s.used, now)).min_by_key(|(_, s)| s.used);
    let old = || sessions.iter().filter(|(_, s)| is_long(s.began, s.used)).min_by_key(|(_, s)| s.partitions.len());
    let replaced = idle.or_else(|| old().filter(|(_, s)| s.partitions.len() < partitions)).map(|(id, _)| *id);
    if let Some(id) = replaced {
        end(sessions, memory, id);
    }
    replaced.is_some()
}

//! How much clients may produce and fetch (KIP-13, KIP-546): a rate by user, by client id or by both, or the default of
//! those.
//!
//! As in Kafka, each node measures over the last ten seconds, whoever a quota is for by itself. Who is over it has its
//! answer at once and is not listened to until the rate is what it may be (KIP-219); a fetch is answered with nothing
//! then. A single batch that is more than the quota allows in ten seconds is given all the same, where Kafka says to
//! wait each time. Other quotas are kept, and do nothing.

use super::handlers::Context;
use super::journal::Entry;
use super::state::State;
use super::{Connection, Time};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

pub(super) const USER: &str = "user";
pub(super) const CLIENT_ID: &str = "client-id";
pub(super) const IP: &str = "ip";

/// What is measured, by the name of its quota.
pub(super) const PRODUCER: &str = "producer_byte_rate";
pub(super) const CONSUMER: &str = "consumer_byte_rate";

/// What of a user or a client id can be limited, and of an address, and whether in whole numbers alone.
const LIMITS: &[(&str, bool)] =
    &[(PRODUCER, true), (CONSUMER, true), ("request_percentage", false), ("controller_mutation_rate", false)];
const IP_LIMITS: &[(&str, bool)] = &[("connection_creation_rate", true)];

/// How long rates are measured: Kafka's `quota.window.num` of `quota.window.size.seconds`, without the current one.
const WINDOW: Duration = Duration::from_secs(10);

/// What keeping a quota takes besides its texts.
const QUOTA: usize = 128;

/// Rates that are kept before those are looked for that nobody has used lately.
const MANY_RATES: usize = 1000;

/// Names by type; that of a default is `None`.
pub(super) type Entity = BTreeMap<String, Option<String>>;

/// Node, quota, user and client id that a rate is of.
type Meter = (i32, &'static str, Option<String>, Option<String>);

/// See the top of this file.
#[derive(Debug, Default)]
pub(super) struct Quotas {
    set: BTreeMap<Entity, BTreeMap<String, f64>>,
    rates: HashMap<Meter, Rate>,
    /// Connections that are not listened to for so long, once they have their answer.
    pauses: HashMap<Connection, Duration>,
}

/// Bytes by the second they came in.
#[derive(Debug, Default)]
struct Rate(VecDeque<(u64, usize)>);

impl Rate {
    fn forget(&mut self, now: Time) {
        let since = now.saturating_sub(WINDOW).as_secs();
        while self.0.pop_front_if(|(second, _)| *second < since).is_some() {}
    }

    fn add(&mut self, now: Time, bytes: usize) {
        match self.0.back_mut().filter(|(second, _)| *second == now.as_secs()) {
            Some((_, sum)) => *sum = sum.saturating_add(bytes),
            None => self.0.push_back((now.as_secs(), bytes)),
        }
    }

    fn take_back(&mut self, bytes: usize) {
        if let Some((_, sum)) = self.0.back_mut() {
            *sum = sum.saturating_sub(bytes);
        }
    }

    /// How long it takes until what there is makes no more than this.
    fn excess(&self, limit: f64) -> Duration {
        let sum: f64 = self.0.iter().map(|(_, bytes)| *bytes as f64).sum();
        let most = Duration::from_millis(i32::MAX as u64);
        Duration::try_from_secs_f64(sum / limit).unwrap_or(most).min(most).saturating_sub(WINDOW)
    }
}

impl Quotas {
    /// All of them, by whom they are for.
    pub fn all(&self) -> impl Iterator<Item = (&Entity, &BTreeMap<String, f64>)> {
        self.set.iter()
    }

    /// For how long a connection is not to be listened to.
    pub fn take_pause(&mut self, connection: Connection) -> Option<Duration> {
        self.pauses.remove(&connection)
    }

    /// The limit for a user with a client id, and whom of the two it is shared by; the narrowest there is.
    fn limit(&self, user: &str, client_id: &str, key: &str) -> Option<(f64, bool, bool)> {
        let (user, client_id) = (Some(user.to_owned()), Some(client_id.to_owned()));
        let both = |user: &Option<String>, id: &Option<String>| {
            Entity::from([(USER.to_owned(), user.clone()), (CLIENT_ID.to_owned(), id.clone())])
        };
        let one = |kind: &str, name: &Option<String>| Entity::from([(kind.to_owned(), name.clone())]);
        let order = [
            (both(&user, &client_id), true, true),
            (both(&user, &None), true, true),
            (one(USER, &user), true, false),
            (both(&None, &client_id), true, true),
            (both(&None, &None), true, true),
            (one(USER, &None), true, false),
            (one(CLIENT_ID, &client_id), false, true),
            (one(CLIENT_ID, &None), false, true),
        ];
        let find = |(entity, by_user, by_id)| Some((*self.set.get(&entity)?.get(key)?, by_user, by_id));
        order.into_iter().find_map(find)
    }

    fn change(&mut self, entity: &Entity, key: &str, value: Option<f64>) {
        match value {
            Some(value) => drop(self.set.entry(entity.clone()).or_default().insert(key.to_owned(), value)),
            None => {
                if let Some(values) = self.set.get_mut(entity) {
                    values.remove(key);
                    if values.is_empty() {
                        self.set.remove(entity);
                    }
                }
            }
        }
    }
}

/// Whether a quota can be set to this; the error is a sentence.
pub(super) fn check(entity: &Entity, key: &str, value: Option<f64>) -> Result<(), String> {
    let known = if entity.contains_key(IP) { IP_LIMITS } else { LIMITS };
    let is_whole = known.iter().find(|(name, _)| *name == key).map(|(_, is_whole)| *is_whole);
    let is_whole = is_whole.ok_or_else(|| format!("Invalid configuration key {key}"))?;
    match value {
        None => Ok(()),
        Some(value) if value > 0.0 => match is_whole && value.fract() != 0.0 {
            true => Err(format!("{key} cannot be a fractional value.")),
            false => Ok(()),
        },
        Some(_) => Err(format!("Quota {key} must be greater than 0")),
    }
}

impl State {
    /// Sets a quota, or takes it away; false if there is no memory.
    pub fn set_quota(&mut self, entity: &Entity, key: &str, value: Option<f64>) -> bool {
        let had = self.quotas.set.get(entity).is_some_and(|values| values.contains_key(key));
        let names = entity.iter().map(|(kind, name)| kind.len() + name.as_ref().map_or(0, String::len));
        let cost = QUOTA + names.sum::<usize>();
        match (had, value) {
            (false, None) => return true,
            (false, Some(_)) if !self.memory.take(cost) => return false,
            (true, None) => self.memory.give(cost),
            _ => {}
        }
        self.quotas.change(entity, key, value);
        self.journal.note(|| Entry::quota(entity, key, value));
        true
    }

    /// Counts bytes of a client towards its rate, and says how long it has to be silent then.
    pub fn meter(&mut self, context: &Context, key: &'static str, bytes: usize) -> Duration {
        let Some((limit, rate)) = self.rate(context, key) else { return Duration::ZERO };
        rate.add(context.clock.now, bytes);
        let by = rate.excess(limit);
        if !by.is_zero() {
            self.quotas.pauses.insert(context.connection, by);
        }
        by
    }

    /// Takes back what was counted last, unless it is all there was; whether it was.
    pub fn unmeter(&mut self, context: &Context, key: &'static str, bytes: usize) -> bool {
        let Some((_, rate)) = self.rate(context, key) else { return false };
        let is_only = rate.0.iter().map(|(_, sum)| sum).sum::<usize>() <= bytes;
        if !is_only {
            rate.take_back(bytes);
        }
        !is_only
    }

    /// How much a client may have at once: what its quota allows in the time that is measured.
    pub fn at_once(&self, context: &Context, key: &str, most: i32) -> i32 {
        let limit = self.limit_of(context, key).map(|(limit, ..)| limit * WINDOW.as_secs_f64());
        limit.map_or(most, |limit| most.min(limit as i32))
    }

    fn limit_of(&self, context: &Context, key: &str) -> Option<(f64, bool, bool)> {
        if self.quotas.set.is_empty() {
            return None;
        }
        let principal = self.principal(context.connection);
        let user = principal.strip_prefix("User:").unwrap_or(&principal);
        self.quotas.limit(user, context.client_id.as_deref().unwrap_or(""), key)
    }

    /// What a client may, and what it has done.
    fn rate(&mut self, context: &Context, key: &'static str) -> Option<(f64, &mut Rate)> {
        let (limit, by_user, by_id) = self.limit_of(context, key)?;
        let user = by_user.then(|| self.principal(context.connection));
        let client_id = context.client_id.as_deref().unwrap_or("").to_owned();
        let now = context.clock.now;
        if self.quotas.rates.len() >= MANY_RATES {
            self.quotas.rates.retain(|_, rate| {
                rate.forget(now);
                !rate.0.is_empty()
            });
        }
        let rate = self.quotas.rates.entry((context.node, key, user, by_id.then_some(client_id))).or_default();
        rate.forget(now);
        Some((limit, rate))
    }
}

//! Client quotas (KIP-13, KIP-546): limits for the byte rates of produce and fetch requests. A quota applies to a user,
//! a client ID, or a combination of user and client ID. A default quota applies to users or client IDs that have no
//! quota of their own.
//!
//! As in Kafka, each node measures the rates of the last ten seconds by itself. If a client exceeds its quota, the
//! broker responds immediately, and then stops reading from the client until the client's rate is below the quota
//! (KIP-219). If the client exceeds its fetch quota, the response to the fetch is empty. If a single batch is larger
//! than the quota for ten seconds, the broker still delivers the batch, whereas Kafka would throttle the fetch for
//! ever. The broker stores quotas of other types, such as `request_percentage`, but does not enforce them.

use super::{Connection, Time};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

pub(super) const USER: &str = "user";
pub(super) const CLIENT_ID: &str = "client-id";
pub(super) const IP: &str = "ip";

/// The enforced quotas.
pub(super) const PRODUCER: &str = "producer_byte_rate";
pub(super) const CONSUMER: &str = "consumer_byte_rate";

/// Valid quota keys of a user or client ID, and of an address. The flag says whether a value must be a whole number.
const LIMITS: &[(&str, bool)] =
    &[(PRODUCER, true), (CONSUMER, true), ("request_percentage", false), ("controller_mutation_rate", false)];
const IP_LIMITS: &[(&str, bool)] = &[("connection_creation_rate", true)];

/// The time window of the measured rates: Kafka's `quota.window.num` times `quota.window.size.seconds`, without the
/// current window.
const WINDOW: Duration = Duration::from_secs(10);

/// Memory of a quota, without its strings.
const QUOTA_MEMORY: usize = 128;

/// Number of rates at which the cluster starts to remove unused rates.
const MANY_RATES: usize = 1000;

/// Entity names by type. `None` is the default entity.
pub(super) type Entity = BTreeMap<String, Option<String>>;

/// The key of a rate: node, quota, user and client ID.
type Meter = (i32, &'static str, Option<String>, Option<String>);

/// The quotas that are set, and the measured rates.
#[derive(Debug, Default)]
pub(super) struct Quotas {
    set: BTreeMap<Entity, BTreeMap<String, f64>>,
    rates: HashMap<Meter, Rate>,
    /// How long the server does not read from each connection after the reply is sent.
    pauses: HashMap<Connection, Duration>,
}

/// The client to which a quota applies.
#[derive(Debug)]
pub(super) struct Client<'a> {
    pub now: Time,
    pub node: i32,
    pub connection: Connection,
    /// `User:` followed by the user's name.
    pub principal: String,
    pub client_id: &'a str,
}

/// The number of bytes in each second.
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

    fn subtract(&mut self, bytes: usize) {
        if let Some((_, sum)) = self.0.back_mut() {
            *sum = sum.saturating_sub(bytes);
        }
    }

    /// Returns how long it takes until the rate is within the limit.
    fn excess(&self, limit: f64) -> Duration {
        let sum: f64 = self.0.iter().map(|(_, bytes)| *bytes as f64).sum();
        let longest = Duration::from_millis(i32::MAX as u64);
        Duration::try_from_secs_f64(sum / limit).unwrap_or(longest).min(longest).saturating_sub(WINDOW)
    }
}

impl Quotas {
    pub fn is_empty(&self) -> bool {
        self.set.is_empty()
    }

    /// Returns whether an entity has a quota of its own.
    pub fn has(&self, entity: &Entity, key: &str) -> bool {
        self.set.get(entity).is_some_and(|values| values.contains_key(key))
    }

    /// Counts bytes towards the client's rate, and returns for how long the broker throttles the client.
    pub fn meter(&mut self, client: &Client<'_>, key: &'static str, bytes: usize) -> Duration {
        let Some((limit, rate)) = self.rate(client, key) else { return Duration::ZERO };
        rate.add(client.now, bytes);
        let throttle_time = rate.excess(limit);
        if !throttle_time.is_zero() {
            self.pauses.insert(client.connection, throttle_time);
        }
        throttle_time
    }

    /// Subtracts bytes from the client's rate, if the rate contains more than these bytes. Returns whether it
    /// subtracted them.
    pub fn unmeter(&mut self, client: &Client<'_>, key: &'static str, bytes: usize) -> bool {
        let Some((_, rate)) = self.rate(client, key) else { return false };
        let is_only = rate.0.iter().map(|(_, sum)| sum).sum::<usize>() <= bytes;
        if !is_only {
            rate.subtract(bytes);
        }
        !is_only
    }

    /// Returns how many bytes the client may have in one response. The result is the quota for one window, but at most
    /// `limit_bytes`.
    pub fn max_response_bytes(&self, client: &Client<'_>, key: &str, limit_bytes: i32) -> i32 {
        let limit = self.limit(client, key).map(|(limit, ..)| limit * WINDOW.as_secs_f64());
        limit.map_or(limit_bytes, |limit| limit_bytes.min(limit as i32))
    }

    /// Returns the client's limit and its rate so far.
    fn rate(&mut self, client: &Client<'_>, key: &'static str) -> Option<(f64, &mut Rate)> {
        let (limit, by_user, by_id) = self.limit(client, key)?;
        let user = by_user.then(|| client.principal.clone());
        let client_id = by_id.then(|| client.client_id.to_owned());
        if self.rates.len() >= MANY_RATES {
            self.rates.retain(|_, rate| {
                rate.forget(client.now);
                !rate.0.is_empty()
            });
        }
        let rate = self.rates.entry((client.node, key, user, client_id)).or_default();
        rate.forget(client.now);
        Some((limit, rate))
    }

    pub fn all(&self) -> impl Iterator<Item = (&Entity, &BTreeMap<String, f64>)> {
        self.set.iter()
    }

    /// Removes and returns the time for which the server must not read from a connection.
    pub fn take_pause(&mut self, connection: Connection) -> Option<Duration> {
        self.pauses.remove(&connection)
    }

    /// Returns the most specific limit for a client. The flags say whether the limit counts a rate for each user and
    /// for each client ID.
    fn limit(&self, client: &Client<'_>, key: &str) -> Option<(f64, bool, bool)> {
        if self.set.is_empty() {
            return None;
        }
        let user = client.principal.strip_prefix("User:").unwrap_or(&client.principal);
        let (user, client_id) = (Some(user.to_owned()), Some(client.client_id.to_owned()));
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

    /// Sets or removes a quota.
    pub fn change(&mut self, entity: &Entity, key: &str, value: Option<f64>) {
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

pub(super) fn quota_memory(entity: &Entity) -> usize {
    QUOTA_MEMORY + entity.iter().map(|(kind, name)| kind.len() + name.as_ref().map_or(0, String::len)).sum::<usize>()
}

/// Checks the value of a quota. The error is a message.
pub(super) fn check(entity: &Entity, key: &str, value: Option<f64>) -> Result<(), String> {
    let limits = if entity.contains_key(IP) { IP_LIMITS } else { LIMITS };
    let is_whole = limits.iter().find(|(name, _)| *name == key).map(|(_, is_whole)| *is_whole);
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

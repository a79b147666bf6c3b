//! Simulates clients whose OAUTHBEARER tokens expire, are rejected or arrive late, and connections that must
//! authenticate again (KIP-368).

use super::{Client, SimFault, World, consumer_config, producer_config, record, seeds};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use klamm::broker::{Options, Sasl};
use klamm::engine::consumer::{Assigned, Consumer};
use klamm::engine::producer::Producer;
use klamm::engine::sasl::{BearerToken, Credentials};
use klamm::engine::{Error, ErrorKind, Role, Time};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

const SEEDS: u64 = 60;
const RECORDS: u32 = 300;
const LIFETIME: Duration = Duration::from_secs(8);
const STARTED_S: u64 = 1_700_000_000;

/// A token provider: it answers late, sometimes with an error, and sometimes with a token that brokers refuse.
#[derive(Default)]
struct Provider {
    /// When the next token is due.
    due: Option<Time>,
    /// Whether the last token was one that brokers refuse. The next one is good then.
    was_refusable: bool,
}

impl Provider {
    fn step<R: Role>(&mut self, world: &mut World, client: &mut Client<R>) {
        if client.network.poll_token_demand() {
            let soon = world.now + Duration::from_millis(world.random.below(1_500));
            self.due = Some(self.due.map_or(soon, |due| due.min(soon)));
        }
        if self.due.is_some_and(|due| due > world.now) {
            return;
        }
        let expires_at = world.now + LIFETIME;
        let wanted = if world.random.below(6) == 0 {
            self.due = Some(world.now + Duration::from_millis(500));
            Err(Error::new(ErrorKind::NoToken, "the identity provider is down"))
        } else {
            self.was_refusable = !self.was_refusable && world.strikes(SimFault::RefusedToken, 4);
            self.due = Some(world.now + LIFETIME.mul_f64(0.8));
            Ok(token(expires_at, self.was_refusable).expiring(expires_at))
        };
        client.network.handle_token(world.now, wanted);
    }
}

/// Returns an unsigned token, or one whose signature the broker cannot verify.
fn token(expires_at: Time, is_refusable: bool) -> BearerToken {
    let encode = |text: String| BASE64_URL_SAFE_NO_PAD.encode(text);
    let header = encode(format!(r#"{{"alg":"{}"}}"#, if is_refusable { "RS256" } else { "none" }));
    let claims = encode(format!(r#"{{"sub":"alice","exp":{}}}"#, STARTED_S + expires_at.0 / 1_000_000));
    let signature = if is_refusable { "c2lnbmVk" } else { "" };
    BearerToken::new(format!("{header}.{claims}.{signature}"), Vec::new()).unwrap()
}

/// Produces and reads with two clients that have a provider each.
pub fn tell(seed: u64) -> BTreeSet<SimFault> {
    let sasl = Sasl {
        users: [("OAUTHBEARER".to_owned(), Default::default())].into(),
        max_reauth: seed.is_multiple_of(2).then_some(Duration::from_secs(3)),
    };
    let mut world =
        World::of(seed, [0, 150][(seed / 2 % 2) as usize], |options| Options { sasl: Some(sasl), ..options });
    world.credentials = Some(Arc::new(Credentials::Bearer(None)));
    let mut writer = world.client(Producer::<u32>::new(producer_config(true, seed)));
    let mut reader = world.client(Consumer::<u32>::new(consumer_config(false)));
    let assigned = |partition| Assigned { topic: "t".into(), partition, offset: None, end_offset: None };
    reader.role.assign(Time(0), (0..super::PARTITIONS).map(assigned).collect());
    let (mut of_writer, mut of_reader) = (Provider::default(), Provider::default());
    let (mut sent, mut acknowledged, mut read) = (0, 0, BTreeSet::new());
    let is_done = world.play(&mut writer, &mut reader, Duration::from_secs(240), |world, writer, reader| {
        of_writer.step(world, writer);
        of_reader.step(world, reader);
        if sent < RECORDS && world.random.below(60) == 0 {
            let topic = writer.role.topic("t").unwrap();
            let value = sent.to_be_bytes();
            let record = record(Some((sent % super::PARTITIONS as u32) as i32), &value);
            writer.role.append(world.now, topic, &record, Some(sent)).unwrap();
            sent += 1;
        }
        while let Some(event) = writer.role.poll_event() {
            assert!(event.result.is_ok(), "seed {seed} at {:?}: {:?}", world.now, event.result);
            acknowledged += event.deliveries.len() as u32;
        }
        let slices = reader.role.poll_records(world.now, 20, usize::MAX);
        for slice in slices.unwrap_or_else(|e| panic!("seed {seed} at {:?}: {e:?}", world.now)) {
            let values = slice.records.iter().filter_map(|r| r.value(&slice.data)?.try_into().ok());
            read.extend(values.map(u32::from_be_bytes));
        }
        (sent, acknowledged, read.len() as u32) == (RECORDS, RECORDS, RECORDS)
    });
    assert!(is_done, "seed {seed}: of {sent} records, {acknowledged} were acknowledged and {} read", read.len());
    world.struck.clone()
}

#[test]
fn refused_and_late_tokens_cost_no_record() {
    let mut struck = BTreeSet::new();
    let seeds = seeds(SEEDS);
    let count = seeds.clone().count();
    for seed in seeds {
        struck.extend(tell(seed));
    }
    assert!(count < 10 || struck.contains(&SimFault::RefusedToken));
}

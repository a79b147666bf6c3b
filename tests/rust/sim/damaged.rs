//! Simulates fetches that brokers reject with CORRUPT_MESSAGE.

use super::{World, consumer_config, producer_config};
use klamm::api::{ErrorCode, fetch};
use klamm::broker::{Action, Fault};
use klamm::engine::consumer::{Assigned, Consumer};
use klamm::engine::producer::Producer;
use std::time::Duration;

#[test]
fn poll_reports_damage_that_lasts_for_five_seconds() {
    let mut world = World::new(1, 0);
    world.create_topic("max.message.bytes", "1000".to_owned());
    let always = Fault::always(Action::Error(ErrorCode::CORRUPT_MESSAGE));
    world.cluster.fault(Fault { api: Some(fetch::API.key), ..always });
    let mut writer = world.client(Producer::<u32>::new(producer_config(true, 1)));
    let mut reader = world.client(Consumer::<u32>::new(consumer_config(false)));
    let place = Assigned { topic: "t".to_owned(), partition: 0, offset: Some(0), end_offset: None };
    reader.role.assign(world.now, vec![place]);
    let mut error = None;
    world.play(&mut writer, &mut reader, Duration::from_secs(60), |world, _, reader| {
        error = reader.role.poll_records(world.now, 10, usize::MAX).err();
        error.is_some()
    });
    assert_eq!(error.and_then(|e| e.code()), Some(ErrorCode::CORRUPT_MESSAGE));
    let after = world.since_start();
    assert!((Duration::from_secs(5)..Duration::from_secs(7)).contains(&after), "{after:?}");
}

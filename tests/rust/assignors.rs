//! Compares klamm's assignors with the Java client's assignors, and checks properties that hold for any group.

use crate::vectors::{hex, lines, text};
use bytes::Bytes;
use klamm::api::data::consumer_protocol::{Subscription, TopicPartitions};
use klamm::engine::TopicPartition;
use klamm::engine::group::assignor::{Assignment, Assignor, CooperativeSticky, Member, Protocol, Topics, by_name};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::Value as Json;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// Returns a member with these owned partitions.
#[derive(Clone, Debug)]
struct Peer {
    id: String,
    instance_id: Option<String>,
    subscription: Subscription,
}

impl Peer {
    fn owned(&self) -> Vec<TopicPartition> {
        places(&self.subscription.owned_partitions)
    }

    /// Returns the same member after an assignment of this generation.
    fn after(&self, assignor: &dyn Assignor, assignment: &Assignment, generation: i32) -> Self {
        let owned = &assignment[&self.id];
        let mut next = self.clone();
        next.subscription.owned_partitions = on_the_wire(owned);
        next.subscription.generation_id = generation;
        next.subscription.user_data = assignor.user_data(owned, Some(generation));
        next
    }
}

fn places(topics: &[TopicPartitions]) -> Vec<TopicPartition> {
    topics.iter().flat_map(|t| t.partitions.iter().map(|p| TopicPartition::new(t.topic.as_str(), *p))).collect()
}

fn on_the_wire(places: &[TopicPartition]) -> Vec<TopicPartitions> {
    let one = |TopicPartition { topic, partition: p }: &TopicPartition| TopicPartitions {
        topic: (**topic).to_owned(),
        partitions: vec![*p],
    };
    places.iter().map(one).collect()
}

fn assign(assignor: &dyn Assignor, topics: &Topics, peers: &[Peer]) -> Assignment {
    let members: Vec<Member<'_>> = peers
        .iter()
        .map(|p| Member { id: &p.id, instance_id: p.instance_id.as_deref(), subscription: &p.subscription })
        .collect();
    assignor.assign(topics, &members)
}

/// Fails unless each partition of a subscribed topic has one owner that subscribes to it. `loose` partitions may have
/// no owner.
fn check(topics: &Topics, peers: &[Peer], assignment: &Assignment, loose: usize) {
    assert_eq!(assignment.keys().collect::<BTreeSet<_>>(), peers.iter().map(|p| &p.id).collect());
    let mut seen = BTreeSet::new();
    for peer in peers {
        for place in &assignment[&peer.id] {
            assert!(
                peer.subscription.topics.iter().any(|t| **t == *place.topic),
                "{} never asked for {place:?}",
                peer.id
            );
            assert!((place.partition as usize) < topics.0[&place.topic].len(), "there is no {place:?}");
            assert!(seen.insert(place.clone()), "{place:?} has two owners");
        }
    }
    let wanted: BTreeSet<&str> = peers.iter().flat_map(|p| p.subscription.topics.iter().map(|t| &**t)).collect();
    let all: usize = topics.0.iter().filter(|(name, _)| wanted.contains(&***name)).map(|(_, p)| p.len()).sum();
    assert!(seen.len().saturating_add(loose) >= all, "{} of {all} partitions have an owner", seen.len());
}

/// Returns the sum of the differences in partition counts over all pairs of members.
fn imbalance(assignment: &Assignment) -> usize {
    let counts: Vec<usize> = assignment.values().map(Vec::len).collect();
    let pairs = counts.iter().enumerate().flat_map(|(i, a)| counts[..i].iter().map(|b| a.abs_diff(*b)));
    pairs.sum()
}

fn kept(peers: &[Peer], assignment: &Assignment) -> usize {
    let of =
        |p: &Peer| p.owned().iter().collect::<BTreeSet<_>>().intersection(&assignment[&p.id].iter().collect()).count();
    peers.iter().map(of).sum()
}

mod java {
    use super::*;

    struct Case {
        line: Json,
        assignor: &'static dyn Assignor,
        topics: Topics,
        peers: Vec<Peer>,
    }

    fn strings(json: &Json) -> Vec<String> {
        json.as_array().unwrap().iter().map(|s| s.as_str().unwrap().to_owned()).collect()
    }

    fn place(json: &Json) -> TopicPartition {
        TopicPartition::new(json[0].as_str().unwrap(), json[1].as_i64().unwrap() as i32)
    }

    fn maybe(json: &Json) -> Option<String> {
        json.as_str().map(str::to_owned)
    }

    fn case(line: Json) -> Case {
        let nodes = line["nodes"].as_array().unwrap().iter();
        let racks: HashMap<i64, Arc<str>> =
            nodes.filter_map(|n| Some((n["id"].as_i64()?, n["rack"].as_str()?.into()))).collect();
        let racks_of = |replicas: &Json| -> Vec<Arc<str>> {
            replicas.as_array().unwrap().iter().filter_map(|n| racks.get(&n.as_i64()?).cloned()).collect()
        };
        let topic = |(name, partitions): (&String, &Json)| {
            (name.as_str().into(), partitions.as_array().unwrap().iter().map(racks_of).collect())
        };
        let topics = Topics(line["topics"].as_object().unwrap().iter().map(topic).collect());
        let peer = |m: &Json| {
            let owned: Vec<TopicPartition> = m["owned"].as_array().unwrap().iter().map(place).collect();
            let subscription = Subscription {
                topics: strings(&m["topics"]),
                user_data: hex(m, "user_data"),
                owned_partitions: on_the_wire(&owned),
                generation_id: m["generation"].as_i64().unwrap_or(-1) as i32,
                rack_id: maybe(&m["rack"]),
            };
            Peer { id: text(m, "id").to_owned(), instance_id: maybe(&m["group_instance_id"]), subscription }
        };
        let peers = line["members"].as_array().unwrap().iter().map(peer).collect();
        Case { assignor: by_name(text(&line, "assignor")).unwrap(), topics, peers, line }
    }

    fn cases(name: &str) -> Vec<Case> {
        let cases = lines("assignors.jsonl.gz").into_iter().map(case);
        let cases: Vec<Case> = cases.filter(|c| c.assignor.name() == name).collect();
        assert_eq!(cases.len(), 60);
        cases
    }

    fn assignment(json: &Json) -> Assignment {
        let of = |(member, places): (&String, &Json)| {
            let mut places: Vec<TopicPartition> = places.as_array().unwrap().iter().map(place).collect();
            places.sort();
            (member.clone(), places)
        };
        json.as_object().unwrap().iter().map(of).collect()
    }

    #[test]
    fn range_and_round_robin_give_what_java_gives() {
        for case in [cases("range"), cases("roundrobin")].into_iter().flatten() {
            let found = assign(case.assignor, &case.topics, &case.peers);
            check(&case.topics, &case.peers, &found, 0);
            assert_eq!(found, assignment(&case.line["assignment"]), "{}", case.line);
        }
    }

    /// If some subscriptions are empty, Java treats all as equal and assigns topics to members that did not subscribe.
    fn is_valid(peers: &[Peer], assignment: &Assignment) -> bool {
        let wanted =
            |p: &Peer| assignment[&p.id].iter().all(|tp| p.subscription.topics.iter().any(|w| **w == *tp.topic));
        peers.iter().all(wanted)
    }

    /// Balance (lower is better) and kept partitions, of klamm and of Java.
    fn figures(case: &Case, peers: &[Peer], found: &Assignment, round: &str) -> [(usize, usize); 2] {
        let theirs = assignment(&case.line[format!("{round}assignment")]);
        let java = |what: &str| case.line[format!("{round}{what}")].as_u64().unwrap() as usize;
        assert_eq!(imbalance(&theirs), java("balance"));
        [(imbalance(found), kept(peers, found)), (java("balance"), java("kept"))]
    }

    fn no_worse(case: &Case, peers: &[Peer], found: &Assignment, round: &str) {
        let [ours, java] = figures(case, peers, found, round);
        if is_valid(peers, &assignment(&case.line[format!("{round}assignment")])) {
            // What is better balanced may have had to move more.
            assert!(ours.0 < java.0 || ours.0 == java.0 && ours.1 >= java.1, "{ours:?}, Java {java:?}: {}", case.line);
        }
    }

    #[test]
    fn sticky_is_no_worse_than_java() {
        for case in cases("sticky") {
            let found = assign(case.assignor, &case.topics, &case.peers);
            check(&case.topics, &case.peers, &found, 0);
            no_worse(&case, &case.peers, &found, "");
        }
    }

    #[test]
    fn cooperative_sticky_is_no_worse_than_java() {
        for case in cases("cooperative-sticky") {
            let found = assign(case.assignor, &case.topics, &case.peers);
            check(&case.topics, &case.peers, &found, usize::MAX);
            let [ours, java] = figures(&case, &case.peers, &found, "");
            // A partition that moves has no owner in this round, so the counts do not show which member keeps more.
            assert!(ours.1 > java.1 || ours.1 == java.1 && ours.0 <= java.0, "{ours:?}, Java {java:?}: {}", case.line);

            let generation = case.peers.iter().map(|p| p.subscription.generation_id).max().unwrap() + 1;
            let after: Vec<Peer> = case.peers.iter().map(|p| p.after(case.assignor, &found, generation)).collect();
            let second = assign(case.assignor, &case.topics, &after);
            check(&case.topics, &case.peers, &second, 0);
            no_worse(&case, &after, &second, "second_");
        }
    }

    #[test]
    fn user_data_is_what_java_writes() {
        let mut compared = 0;
        for case in [cases("sticky"), cases("cooperative-sticky")].into_iter().flatten() {
            for peer in &case.peers {
                let generation = Some(peer.subscription.generation_id).filter(|g| *g >= 0);
                let ours = case.assignor.user_data(&peer.owned(), generation);
                // Java's topics have no order.
                let sorted = |data: &Option<Bytes>| {
                    let mut bytes = data.as_ref()?.to_vec();
                    bytes.sort_unstable();
                    Some(bytes)
                };
                assert_eq!(sorted(&ours), sorted(&peer.subscription.user_data), "{}", case.line);
                compared += usize::from(ours.is_some());
            }
        }
        assert!(compared > 300, "only {compared}");
    }
}

/// Runs a property on groups of any shape, the same ones each time.
fn on_groups<S: Strategy>(groups: S, property: impl Fn(S::Value)) {
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, b"klamm: who reads what, and when ");
    let mut runner =
        TestRunner::new_with_rng(Config { cases: 400, failure_persistence: None, ..Config::default() }, rng);
    let outcome = runner.run(&groups, |group| {
        property(group);
        Ok(())
    });
    outcome.unwrap();
}

/// Returns a member with arbitrary claims.
fn peer(topics: usize) -> impl Strategy<Value = (Vec<usize>, Vec<(usize, i32)>, i32, Option<u8>)> {
    let claims = vec((0..topics + 1, prop_oneof![9 => 0..12i32, 1 => any::<i32>()]), 0..12);
    let rack = prop_oneof![Just(None), (0..3u8).prop_map(Some)];
    (vec(0..topics + 1, 0..topics + 2), claims, -1..4i32, rack)
}

/// Returns topics, one of them unknown, and members, some with racks and instance IDs.
fn group(topics: usize, partitions: usize, members: usize) -> impl Strategy<Value = (Topics, Vec<Peer>)> {
    let sizes = vec(vec(vec(0..3u8, 0..3), 0..partitions + 1), topics);
    (sizes, vec(peer(topics), 1..members + 1), any::<bool>()).prop_map(move |(sizes, peers, alike)| {
        let racks = |racks: Vec<u8>| racks.into_iter().map(|r| format!("r{r}").into()).collect();
        let topic = |(t, partitions): (usize, Vec<Vec<u8>>)| {
            (format!("t{t}").into(), partitions.into_iter().map(racks).collect())
        };
        let subscribed = peers[0].0.clone();
        let peer =
            |(m, (topics, claims, generation, rack)): (usize, (Vec<usize>, Vec<(usize, i32)>, i32, Option<u8>))| {
                let owned: Vec<TopicPartition> =
                    claims.into_iter().map(|(t, p)| TopicPartition::new(format!("t{t}"), p)).collect();
                let topics = if alike { &subscribed } else { &topics };
                let subscription = Subscription {
                    topics: topics.iter().map(|t| format!("t{t}")).collect(),
                    owned_partitions: on_the_wire(&owned),
                    generation_id: generation,
                    rack_id: rack.map(|r| format!("r{r}")),
                    user_data: by_name("sticky").unwrap().user_data(&owned, (generation >= 0).then_some(generation)),
                };
                Peer { id: format!("m{m}"), instance_id: (m % 3 == 0).then(|| format!("i{m}")), subscription }
            };
        (Topics(sizes.into_iter().enumerate().map(topic).collect()), peers.into_iter().enumerate().map(peer).collect())
    })
}

#[test]
fn every_partition_has_one_owner_who_asked_for_it() {
    on_groups(group(4, 12, 6), |(topics, peers)| {
        for name in ["range", "roundrobin", "sticky"] {
            check(&topics, &peers, &assign(by_name(name).unwrap(), &topics, &peers), 0);
        }
    });
}

/// Returns the smallest imbalance and the largest number of kept partitions with it, by trying all assignments.
fn best(topics: &Topics, peers: &[Peer], had: &BTreeMap<TopicPartition, usize>) -> (usize, usize) {
    let wants = |p: &Peer, t: &str| p.subscription.topics.iter().any(|w| w == t);
    let places =
        topics.0.iter().flat_map(|(t, ps)| (0..ps.len() as i32).map(move |p| TopicPartition::new(t.clone(), p)));
    let mut all = BTreeSet::from([(vec![0usize; peers.len()], 0)]);
    for place in places {
        let takers: Vec<usize> = (0..peers.len()).filter(|m| wants(&peers[*m], &place.topic)).collect();
        if takers.is_empty() {
            continue;
        }
        let with = |(counts, kept): &(Vec<usize>, usize), m: usize| {
            let mut counts = counts.clone();
            counts[m] += 1;
            (counts, kept + usize::from(had.get(&place) == Some(&m)))
        };
        all = all.iter().flat_map(|state| takers.iter().map(|m| with(state, *m)).collect::<Vec<_>>()).collect();
    }
    let spread = |counts: &[usize]| -> usize {
        counts.iter().enumerate().map(|(i, a)| counts[..i].iter().map(|b| a.abs_diff(*b)).sum::<usize>()).sum()
    };
    let least = all.iter().map(|(counts, _)| spread(counts)).min().unwrap();
    let most = all.iter().filter(|(counts, _)| spread(counts) == least).map(|(_, kept)| *kept).max().unwrap();
    (least, most)
}

#[test]
fn sticky_has_the_best_balance_there_is_and_keeps_nearly_the_most() {
    let sticky = by_name("sticky").unwrap();
    let (could_stay, moved) = (Cell::new(0), Cell::new(0));
    on_groups(group(3, 5, 4), |(topics, peers)| {
        // A first assignment is what everybody has; then subscriptions change.
        let first = assign(sticky, &topics, &peers);
        let mut after: Vec<Peer> = peers.iter().map(|p| p.after(sticky, &first, 7)).collect();
        let shift: Vec<Vec<String>> = after.iter().map(|p| p.subscription.topics.clone()).collect();
        let n = after.len();
        for (m, p) in after.iter_mut().enumerate() {
            p.subscription.topics = shift[(m + 1) % n].clone();
        }
        let had =
            after.iter().enumerate().flat_map(|(m, p)| p.owned().into_iter().map(move |place| (place, m))).collect();
        let (least, most) = best(&topics, &after, &had);
        let found = assign(sticky, &topics, &after);
        assert_eq!(imbalance(&found), least);
        could_stay.set(could_stay.get() + most);
        moved.set(moved.get() + most - kept(&after, &found));
    });
    let (could_stay, moved) = (could_stay.get(), moved.get());
    assert!(moved * 1000 <= could_stay, "{moved} of {could_stay}");
}

#[test]
fn nothing_moves_without_need() {
    for name in ["sticky", "cooperative-sticky"] {
        let assignor = by_name(name).unwrap();
        on_groups(group(4, 12, 6), |(topics, peers)| {
            let mut peers = peers;
            let mut found = Assignment::new();
            // Two rounds: a partition that moves has no owner in the first round of a cooperative rebalance.
            for generation in 10..12 {
                found = assign(assignor, &topics, &peers);
                peers = peers.iter().map(|p| p.after(assignor, &found, generation)).collect();
            }
            check(&topics, &peers, &found, 0);
            assert_eq!(assign(assignor, &topics, &peers), found);

            // A member leaves: the others keep all their partitions.
            let rest = &peers[1..];
            if assignor.protocol() == Protocol::Eager && !rest.is_empty() {
                let after = assign(assignor, &topics, rest);
                let same = rest.iter().all(|p| p.subscription.topics == peers[0].subscription.topics);
                assert!(!same || kept(rest, &after) == rest.iter().map(|p| p.owned().len()).sum::<usize>());
            }
        });
    }
}

#[test]
fn cooperative_gives_what_may_still_be_read_only_to_who_reads_it() {
    on_groups(group(4, 12, 6), |(topics, peers)| {
        let found = assign(&CooperativeSticky, &topics, &peers);
        for (member, places) in &found {
            for place in places {
                let claims = peers.iter().filter(|p| p.owned().contains(place));
                let newest = claims.clone().map(|p| p.subscription.generation_id).max();
                let newest = claims.filter(|p| Some(p.subscription.generation_id) == newest);
                let is_free = newest.clone().next().is_none();
                assert!(is_free || newest.clone().any(|p| p.id == *member), "{member} has {place:?} of {newest:?}");
            }
        }
    });
}

#[test]
fn a_static_member_that_restarts_gets_the_same() {
    on_groups(group(4, 12, 6), |(topics, mut peers)| {
        for (m, peer) in peers.iter_mut().enumerate() {
            peer.instance_id = Some(format!("i{m}"));
        }
        for name in ["range", "roundrobin"] {
            let before = assign(by_name(name).unwrap(), &topics, &peers);
            let mut restarted = peers.clone();
            restarted[0].id = "zzz".to_owned();
            let mut after = assign(by_name(name).unwrap(), &topics, &restarted);
            let own = after.remove("zzz").unwrap();
            after.insert(peers[0].id.clone(), own);
            assert_eq!(after, before);
        }
    });
}

#[test]
fn user_data_of_old_and_broken_members_is_understood() {
    let sticky = by_name("sticky").unwrap();
    let topics = Topics([("t".into(), vec![Vec::new(); 4])].into());
    let v1 = sticky.user_data(&[("t", 3).into(), ("t", 2).into()], Some(1)).unwrap();
    let member = |id: &str, user_data: Option<Bytes>| Peer {
        id: id.to_owned(),
        instance_id: None,
        subscription: Subscription { topics: vec!["t".to_owned()], user_data, ..Default::default() },
    };
    let owned =
        |user_data: Bytes| assign(sticky, &topics, &[member("a", Some(user_data)), member("b", None)])["a"].clone();
    let kept: Vec<TopicPartition> = vec![("t", 2).into(), ("t", 3).into()];
    assert_eq!(owned(v1.clone()), kept);
    assert_eq!(owned(v1.slice(..v1.len() - 4)), kept, "v0 has no generation");
    assert_ne!(owned(v1.slice(..v1.len() - 5)), kept, "and what is cut off is nothing");
    assert_ne!(owned(Bytes::from_static(&[0x7f; 9])), kept);
}

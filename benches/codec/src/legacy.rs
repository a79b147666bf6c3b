//! klamm on what Kafka 0.7 keeps: message sets of magic 1.

use crate::Plain;
use bytes::Bytes;
use klamm::compress::{Compression, DEFAULT_LIMIT};
use klamm::legacy::{Fetched, Magic, MessageSetBuilder, Messages, RequestType, Response};
use std::hint::black_box;

/// The answer to a fetch, as a broker sends it: a message has key and value of a record, one behind the other.
pub fn answer(records: &[Plain]) -> Bytes {
    let mut set = MessageSetBuilder::new(Magic::V1);
    for r in records {
        set.append(&[&r.key[..], &r.value[..]].concat()).expect("smaller than 2 GiB");
    }
    let message_set = set.seal(Compression::None).expect("nothing to compress").into();
    let fetched = Fetched { message_set, ..Fetched::default() };
    Response::Fetch(fetched).encode().expect("smaller than 2 GiB").into()
}

/// Every message of the answer, checksums checked, payload looked at; gives their bytes.
pub fn read(answer: &Bytes) -> usize {
    let response = Response::decode_frame(RequestType::Fetch, answer.clone()).expect("written above");
    let Response::Fetch(fetched) = response else { return 0 };
    let messages = Messages::new(fetched.message_set, 0, DEFAULT_LIMIT);
    messages.map(|message| black_box(message.expect("written above").payload).len()).sum()
}

//! klamm's codec for the message sets of Kafka 0.7 (magic 1).

use crate::Plain;
use bytes::Bytes;
use klamm::compress::{Compression, DEFAULT_LIMIT};
use klamm::legacy::{Fetched, Magic, MessageSetBuilder, Messages, RequestType, Response};
use std::hint::black_box;

/// Returns a fetch response of a broker. A message contains the key of a record and then its value.
pub fn answer(records: &[Plain]) -> Bytes {
    let mut set = MessageSetBuilder::new(Magic::V1);
    for r in records {
        set.append(&[&r.key[..], &r.value[..]].concat()).expect("smaller than 2 GiB");
    }
    let message_set = set.seal(Compression::None).expect("nothing to compress").into();
    let fetched = Fetched { message_set, ..Fetched::default() };
    Response::Fetch(fetched).encode().expect("smaller than 2 GiB").into()
}

/// Decodes every message of the response, checks the checksums, and returns the number of payload bytes.
pub fn read(answer: &Bytes) -> usize {
    let response = Response::decode_frame(RequestType::Fetch, answer.clone()).expect("written above");
    let Response::Fetch(fetched) = response else { return 0 };
    let messages = Messages::new(fetched.message_set, 0, DEFAULT_LIMIT);
    messages.map(|message| black_box(message.expect("written above").payload).len()).sum()
}

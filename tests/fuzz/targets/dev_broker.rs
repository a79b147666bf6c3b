//! The dev broker handles any input of clients without a panic and within its memory limit.
//!
//! Input: requests to three nodes. Each request has one byte of flags, the API key, the version, two bytes of length,
//! and the body. The lower six bits of the flags select the node. The flag 0x40 means that time passes before the
//! request, and the flag 0x80 means that the frame has no header.

#![no_main]

use bytes::Bytes;
use klamm::api::{self, header};
use klamm::broker::{Cluster, Connection, Node, Options};
use klamm::wire::Writer;
use libfuzzer_sys::fuzz_target;
use std::time::Duration;

const NODES: u64 = 3;
const REQUESTS: usize = 64;

struct Sent<'a> {
    flags: u8,
    key: i16,
    version: i16,
    body: &'a [u8],
}

fn sent(data: &[u8]) -> impl Iterator<Item = Sent<'_>> {
    let mut rest = data;
    std::iter::from_fn(move || {
        let (&[flags, key, version, high, low], behind) = rest.split_first_chunk()?;
        let length = usize::from(u16::from_be_bytes([high, low]));
        let (body, behind) = behind.split_at(behind.len().min(length));
        rest = behind;
        Some(Sent { flags, key: key.into(), version: version.into(), body })
    })
}

/// Returns the request with its header, if the API exists.
fn framed(sent: &Sent) -> Option<Bytes> {
    let api = api::by_key(sent.key)?.info;
    let mut w = Writer::new(sent.version, api.is_flexible(sent.version));
    let client_id = header::ClientId(Some("fuzz".to_owned()));
    let (request_api_key, request_api_version, correlation_id) = (sent.key, sent.version, 1);
    header::RequestHeader { request_api_key, request_api_version, correlation_id, client_id }.put(api, &mut w);
    w.buf.extend_from_slice(sent.body);
    w.finish().ok().map(Bytes::from)
}

fuzz_target!(|data: &[u8]| {
    let nodes = (1..).take(NODES as usize).map(|id| Node { id, host: "127.0.0.1".to_owned(), port: 1 }).collect();
    let options = Options { max_bytes: 8 << 20, ..Options::default() };
    let mut cluster = Cluster::new(&options, nodes, 0, 1);
    let mut now = Duration::ZERO;
    let mut last = 0;
    for request in sent(data).take(REQUESTS) {
        if request.flags & 0x40 != 0 {
            now += Duration::from_secs(30);
            cluster.handle_timeout(now);
        }
        // A connection each, so that one that is closed ends nothing but itself.
        last += 1;
        let me = Connection(last);
        cluster.connect((u64::from(request.flags & 0x3f) % NODES + 1) as i32, me);
        let frame = match request.flags & 0x80 {
            0 => framed(&request),
            _ => Some(Bytes::copy_from_slice(request.body)),
        };
        if let Some(frame) = frame {
            cluster.handle(now, me, frame);
        }
        while cluster.poll_send().is_some() {}
    }
});

//! Checks the formats of Kafka 0.6 and 0.7. Decoded input encodes to the same bytes, messages are inside their set, and
//! nesting is bounded.
//!
//! The first byte of the input selects the type of the remaining bytes. The value 0 stands for a message set, and 1 for
//! a request. The values 2 to 6 stand for a response: subtract 2 to get the type of its request. The values 7 to 9
//! stand for a request, a produce response and a fetch response of the draft protocol.

#![no_main]

use bytes::Bytes;
use klamm::legacy::{Messages, Request, RequestType, Response, draft};
use libfuzzer_sys::fuzz_target;

const LIMIT: usize = 16 << 20;

fn is_written_as_it_was(body: &[u8], frame: Result<Vec<u8>, klamm::wire::Error>) -> bool {
    frame.is_ok_and(|frame| frame.get(4..) == Some(body))
}

fuzz_target!(|data: &[u8]| {
    let Some((choice, body)) = data.split_first() else { return };
    let bytes = Bytes::copy_from_slice(body);
    match choice {
        0 => {
            let end = body.len() as i64;
            let (mut walk, mut payload) = (Messages::new(bytes, 0, LIMIT), 0);
            let mut outer = -1;
            while let Some(Ok(message)) = walk.next() {
                payload = if message.offset == outer { payload } else { 0 } + message.payload.len();
                outer = message.offset;
                assert!(
                    message.next_offset <= end && message.index < message.count && payload <= LIMIT.max(body.len())
                );
            }
            assert_eq!(walk.offset() + walk.left() as i64, end);
        }
        1 => {
            if let Ok(request) = Request::decode(bytes) {
                assert!(is_written_as_it_was(body, request.encode()));
            }
        }
        7 => {
            if let Ok(request) = draft::Request::decode(bytes) {
                assert!(is_written_as_it_was(body, request.encode()));
            }
        }
        8 | 9 => {
            let Ok(size) = i32::try_from(body.len()) else { return };
            let frame = Bytes::from([size.to_be_bytes().as_slice(), body].concat());
            if let Ok(response) = draft::Response::decode_frame(*choice == 8, frame) {
                assert!(is_written_as_it_was(body, response.encode()));
            }
        }
        other => {
            let Some(to) = RequestType::from_number(i16::from(*other) - 2) else { return };
            if let Ok(response) = Response::decode(to, bytes) {
                assert!(is_written_as_it_was(body, response.encode()));
            }
        }
    }
});

//! GSSAPI (RFC 4752), the SASL mechanism for Kerberos: the steps of an exchange whose tokens come from the system's
//! Kerberos library.
//!
//! The exchange requests calls to the Kerberos library as [`LibraryCall`]s. A separate thread makes the library calls,
//! because the library may block on the KDC. The client and the broker exchange tokens until they have established a
//! security context. The broker then offers SASL security layers. The client chooses no security layer, because klamm
//! leaves the encryption to TLS.

use crate::engine::{Error, ErrorKind};

/// The security layer without protection, as a bit in the broker's offer and as the client's choice.
const NO_LAYER: u8 = 1;
/// The client's choice: no security layer, no protected messages and no other identity.
const CHOICE: [u8; 4] = [NO_LAYER, 0, 0, 0];

/// The next step of a login.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::engine) enum Next {
    /// Send this message to the broker.
    Send(Vec<u8>),
    /// Wait for the result of this call to the Kerberos library.
    Ask(LibraryCall),
}

/// A call to the Kerberos library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LibraryCall {
    /// Returns the client's next token for the broker's last token. An empty token starts a new context.
    Step(Vec<u8>),
    /// Unwraps a message from the broker.
    Unwrap(Vec<u8>),
    /// Wraps a message for the broker.
    Wrap(Vec<u8>),
}

/// The result of a call to the Kerberos library.
#[derive(Clone, PartialEq, Eq)]
pub struct LibraryResult {
    /// The token, or the message that was wrapped or unwrapped.
    pub token: Vec<u8>,
    /// Whether the security context is established.
    pub is_established: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Establishing,
    /// The context is established, and the client waits for the broker's offer of security layers.
    Established,
    Unwrapping,
    Wrapping,
    Chosen,
}

/// The client's side of a GSSAPI exchange.
pub struct Client {
    stage: Stage,
}

impl Client {
    /// Starts an exchange. Returns the first call to the Kerberos library.
    pub(super) fn start() -> (Self, Next) {
        (Self { stage: Stage::Establishing }, Next::Ask(LibraryCall::Step(Vec::new())))
    }

    /// Handles a message from the broker. Returns `None` at the end of the exchange.
    pub(super) fn handle_message(&mut self, message: &[u8]) -> Result<Option<Next>, Error> {
        let message = message.to_vec();
        match self.stage {
            Stage::Establishing if message.is_empty() => Err(wrong("the broker ended the exchange too early")),
            Stage::Establishing => Ok(Some(Next::Ask(LibraryCall::Step(message)))),
            Stage::Established => {
                self.stage = Stage::Unwrapping;
                Ok(Some(Next::Ask(LibraryCall::Unwrap(message))))
            }
            Stage::Chosen => Ok(None),
            Stage::Unwrapping | Stage::Wrapping => Err(wrong("unexpected message of the broker")),
        }
    }

    /// Handles the result of a call to the Kerberos library.
    pub(super) fn handle_library_result(&mut self, result: LibraryResult) -> Result<Next, Error> {
        match self.stage {
            Stage::Establishing => {
                if result.is_established {
                    self.stage = Stage::Established;
                }
                Ok(Next::Send(result.token))
            }
            Stage::Unwrapping => {
                let offered = match result.token.as_slice() {
                    [layers, _, _, _] => *layers,
                    _ => return Err(wrong("the broker's offer of layers must have four bytes")),
                };
                if offered & NO_LAYER == 0 {
                    return Err(wrong(
                        "the broker requires a SASL layer that protects messages, which klamm does not support",
                    ));
                }
                self.stage = Stage::Wrapping;
                Ok(Next::Ask(LibraryCall::Wrap(CHOICE.to_vec())))
            }
            Stage::Wrapping => {
                self.stage = Stage::Chosen;
                Ok(Next::Send(result.token))
            }
            Stage::Established | Stage::Chosen => Err(wrong("unexpected result of the Kerberos library")),
        }
    }
}

fn wrong(message: &str) -> Error {
    Error::new(ErrorKind::Authentication, format!("GSSAPI: {message}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(token: &[u8], is_established: bool) -> LibraryResult {
        LibraryResult { token: token.to_vec(), is_established }
    }

    fn established() -> Client {
        let (mut client, first) = Client::start();
        assert_eq!(first, Next::Ask(LibraryCall::Step(Vec::new())));
        assert_eq!(client.handle_library_result(answer(b"one", false)).unwrap(), Next::Send(b"one".to_vec()));
        assert_eq!(client.handle_message(b"two").unwrap(), Some(Next::Ask(LibraryCall::Step(b"two".to_vec()))));
        // The context is established without another token, and the broker waits for a message.
        assert_eq!(client.handle_library_result(answer(b"", true)).unwrap(), Next::Send(Vec::new()));
        assert_eq!(client.handle_message(b"offer").unwrap(), Some(Next::Ask(LibraryCall::Unwrap(b"offer".to_vec()))));
        client
    }

    #[test]
    fn a_context_is_established_and_no_layer_is_chosen() {
        let mut client = established();
        let choice = client.handle_library_result(answer(&[7, 0, 16, 0], true)).unwrap();
        assert_eq!(choice, Next::Ask(LibraryCall::Wrap(vec![1, 0, 0, 0])));
        assert_eq!(client.handle_library_result(answer(b"wrapped", true)).unwrap(), Next::Send(b"wrapped".to_vec()));
        assert_eq!(client.handle_message(b"").unwrap(), None);
    }

    #[test]
    fn offers_that_cannot_be_taken_are_refused() {
        for (offer, says) in [(&[6, 0, 16, 0][..], "requires a SASL layer"), (b"", "four bytes"), (b"12345", "four")] {
            let error = established().handle_library_result(answer(offer, true)).unwrap_err();
            assert!(error.message().contains(says), "{error}");
        }
    }

    #[test]
    fn a_broker_that_agrees_too_early_is_not_believed() {
        let (mut client, _) = Client::start();
        client.handle_library_result(answer(b"one", false)).unwrap();
        assert!(client.handle_message(b"").unwrap_err().message().contains("too early"));
    }
}

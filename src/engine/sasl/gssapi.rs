//! GSSAPI (RFC 4752), which is Kerberos: the steps of an exchange whose contents only the system's library can make.
//!
//! The machine asks [`Question`]s; somebody outside, who may wait for a ticket, answers them. A context is established,
//! token by token; then the broker offers layers that protect what follows, and the client takes none, as TLS does that.

use super::{Error, ErrorKind, Next};

/// The layer that protects nothing, as the broker's offer and the client's choice have it.
const NO_LAYER: u8 = 1;
/// The client's choice: no layer, no message that it would protect, nobody else to act for.
const CHOICE: [u8; 4] = [NO_LAYER, 0, 0, 0];

/// What is asked of the library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// The next token of the context, for the broker's last one; a new context if that is empty.
    Step(Vec<u8>),
    /// What is in a message of the broker.
    Unwrap(Vec<u8>),
    /// A message with this in it.
    Wrap(Vec<u8>),
}

/// What the library said.
#[derive(Clone, PartialEq, Eq)]
pub struct Answer {
    /// A token, or what was to be wrapped or unwrapped.
    pub token: Vec<u8>,
    /// Whether the context stands.
    pub is_established: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Establishing,
    /// The context stands; the broker's offer comes next.
    Established,
    Unwrapping,
    Wrapping,
    Chosen,
}

/// The client's side.
pub struct Client {
    stage: Stage,
}

impl Client {
    /// The first question.
    pub(super) fn start() -> (Self, Next) {
        (Self { stage: Stage::Establishing }, Next::Ask(Question::Step(Vec::new())))
    }

    /// Takes in a message of the broker; `None` at the end.
    pub(super) fn handle_message(&mut self, message: &[u8]) -> Result<Option<Next>, Error> {
        let message = message.to_vec();
        match self.stage {
            Stage::Establishing if message.is_empty() => Err(wrong("the broker ended the exchange before it was over")),
            Stage::Establishing => Ok(Some(Next::Ask(Question::Step(message)))),
            Stage::Established => {
                self.stage = Stage::Unwrapping;
                Ok(Some(Next::Ask(Question::Unwrap(message))))
            }
            Stage::Chosen => Ok(None),
            Stage::Unwrapping | Stage::Wrapping => Err(wrong("the broker spoke out of turn")),
        }
    }

    /// Takes in what the library said.
    pub(super) fn handle_gssapi_answer(&mut self, answer: Answer) -> Result<Next, Error> {
        match self.stage {
            Stage::Establishing => {
                if answer.is_established {
                    self.stage = Stage::Established;
                }
                Ok(Next::Send(answer.token))
            }
            Stage::Unwrapping => {
                let offered = match answer.token.as_slice() {
                    [layers, _, _, _] => *layers,
                    _ => return Err(wrong("the broker's offer of layers has not four bytes")),
                };
                if offered & NO_LAYER == 0 {
                    return Err(wrong("the broker insists on a SASL layer that protects messages, and klamm has none"));
                }
                self.stage = Stage::Wrapping;
                Ok(Next::Ask(Question::Wrap(CHOICE.to_vec())))
            }
            Stage::Wrapping => {
                self.stage = Stage::Chosen;
                Ok(Next::Send(answer.token))
            }
            Stage::Established | Stage::Chosen => Err(wrong("there was no question")),
        }
    }
}

fn wrong(message: &str) -> Error {
    Error::new(ErrorKind::Authentication, format!("GSSAPI: {message}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(token: &[u8], is_established: bool) -> Answer {
        Answer { token: token.to_vec(), is_established }
    }

    fn established() -> Client {
        let (mut client, first) = Client::start();
        assert_eq!(first, Next::Ask(Question::Step(Vec::new())));
        assert_eq!(client.handle_gssapi_answer(answer(b"one", false)).unwrap(), Next::Send(b"one".to_vec()));
        assert_eq!(client.handle_message(b"two").unwrap(), Some(Next::Ask(Question::Step(b"two".to_vec()))));
        // The context stands without another token, and the broker waits for a message.
        assert_eq!(client.handle_gssapi_answer(answer(b"", true)).unwrap(), Next::Send(Vec::new()));
        assert_eq!(client.handle_message(b"offer").unwrap(), Some(Next::Ask(Question::Unwrap(b"offer".to_vec()))));
        client
    }

    #[test]
    fn a_context_is_established_and_no_layer_is_chosen() {
        let mut client = established();
        let choice = client.handle_gssapi_answer(answer(&[7, 0, 16, 0], true)).unwrap();
        assert_eq!(choice, Next::Ask(Question::Wrap(vec![1, 0, 0, 0])));
        assert_eq!(client.handle_gssapi_answer(answer(b"wrapped", true)).unwrap(), Next::Send(b"wrapped".to_vec()));
        assert_eq!(client.handle_message(b"").unwrap(), None);
    }

    #[test]
    fn offers_that_cannot_be_taken_are_refused() {
        for (offer, says) in [(&[6, 0, 16, 0][..], "insists on a SASL layer"), (b"", "four bytes"), (b"12345", "four")]
        {
            let error = established().handle_gssapi_answer(answer(offer, true)).unwrap_err();
            assert!(error.message().contains(says), "{error}");
        }
    }

    #[test]
    fn a_broker_that_agrees_too_early_is_not_believed() {
        let (mut client, _) = Client::start();
        client.handle_gssapi_answer(answer(b"one", false)).unwrap();
        assert!(client.handle_message(b"").unwrap_err().message().contains("before it was over"));
    }
}

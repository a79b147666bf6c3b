//! Maps the network's IDs of requests in flight to the state that the role keeps for each request.

use super::{ClientResponse, Outgoing};

/// The tokens of requests in flight. The network identifies each request by a number, so the network is not generic and
/// is compiled only once for all roles. The network's maps and queues are a tenth of the crate.
#[derive(Debug)]
pub struct RequestsInFlight<T> {
    tokens: Vec<Option<T>>,
    free: Vec<usize>,
}

impl<T> Default for RequestsInFlight<T> {
    fn default() -> Self {
        Self { tokens: Vec::new(), free: Vec::new() }
    }
}

impl<T> RequestsInFlight<T> {
    /// Stores a request's token, and replaces the token in the request by a number.
    pub fn begin(&mut self, outgoing: Outgoing<T>) -> Outgoing<usize> {
        outgoing.map(|token| {
            let number = self.free.pop().unwrap_or_else(|| {
                self.tokens.push(None);
                self.tokens.len() - 1
            });
            if let Some(slot) = self.tokens.get_mut(number) {
                *slot = Some(token);
            }
            number
        })
    }

    /// Returns a response with the token of its request, or `None` if the request already has a response.
    pub fn end(&mut self, response: ClientResponse<usize>) -> Option<ClientResponse<T>> {
        let ClientResponse { token: number, node, result } = response;
        let token = self.tokens.get_mut(number)?.take()?;
        self.free.push(number);
        Some(ClientResponse { token, node, result })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Deadline, Error, ErrorKind, Target, Time};
    use super::*;
    use crate::api::metadata;

    #[test]
    fn every_response_finds_its_token_once_and_numbers_are_reused() {
        let mut in_flight = RequestsInFlight::default();
        let request = |token| Outgoing {
            target: Target::Any,
            call: Box::new(metadata::Request::default()),
            token,
            deadline: Deadline::ToSend(Time(0)),
            max_version: i16::MAX,
        };
        let response = |token| ClientResponse { token, node: 1, result: Err(Error::new(ErrorKind::Network, "lost")) };
        let numbers = ["a", "b", "c"].map(|token| in_flight.begin(request(token)).token);
        for (number, token) in [(numbers[1], "b"), (numbers[0], "a")] {
            assert_eq!(in_flight.end(response(number)).map(|a| a.token), Some(token));
            assert!(in_flight.end(response(number)).is_none());
        }
        let more = ["d", "e"].map(|token| in_flight.begin(request(token)).token);
        assert_eq!(more.iter().max(), numbers[..2].iter().max());
        assert_eq!(in_flight.end(response(numbers[2])).map(|a| a.token), Some("c"));
        assert!(in_flight.end(response(99)).is_none());
    }
}

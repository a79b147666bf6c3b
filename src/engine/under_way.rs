//! What the answers of a role's requests are for.

use super::{Answer, Outgoing};

/// The tokens of requests that are under way. The network knows each by its number here, so that it is compiled once for
/// all roles: its maps and queues are a tenth of the crate.
#[derive(Debug)]
pub struct UnderWay<T> {
    tokens: Vec<Option<T>>,
    free: Vec<usize>,
}

impl<T> Default for UnderWay<T> {
    fn default() -> Self {
        Self { tokens: Vec::new(), free: Vec::new() }
    }
}

impl<T> UnderWay<T> {
    /// Keeps a request's token and puts its number in its place.
    pub fn begin(&mut self, outgoing: Outgoing<T>) -> Outgoing<usize> {
        outgoing.map(|token| {
            let number = self.free.pop().unwrap_or_else(|| {
                self.tokens.push(None);
                self.tokens.len() - 1
            });
            if let Some(place) = self.tokens.get_mut(number) {
                *place = Some(token);
            }
            number
        })
    }

    /// Gives an answer the token of its request; `None` if that has had its answer.
    pub fn end(&mut self, answer: Answer<usize>) -> Option<Answer<T>> {
        let Answer { token: number, node, result } = answer;
        let token = self.tokens.get_mut(number)?.take()?;
        self.free.push(number);
        Some(Answer { token, node, result })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Deadline, Error, ErrorKind, Target, Time};
    use super::*;
    use crate::api::metadata;

    #[test]
    fn every_answer_finds_its_token_once_and_numbers_are_used_again() {
        let mut under_way = UnderWay::default();
        let request = |token| Outgoing {
            target: Target::Any,
            call: Box::new(metadata::Request::default()),
            token,
            deadline: Deadline::ToSend(Time(0)),
            max_version: i16::MAX,
        };
        let answer = |token| Answer { token, node: 1, result: Err(Error::new(ErrorKind::Network, "lost")) };
        let numbers = ["a", "b", "c"].map(|token| under_way.begin(request(token)).token);
        for (number, token) in [(numbers[1], "b"), (numbers[0], "a")] {
            assert_eq!(under_way.end(answer(number)).map(|a| a.token), Some(token));
            assert!(under_way.end(answer(number)).is_none());
        }
        let more = ["d", "e"].map(|token| under_way.begin(request(token)).token);
        assert_eq!(more.iter().max(), numbers[..2].iter().max());
        assert_eq!(under_way.end(answer(numbers[2])).map(|a| a.token), Some("c"));
        assert!(under_way.end(answer(99)).is_none());
    }
}

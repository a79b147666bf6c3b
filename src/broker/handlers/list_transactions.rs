//! ListTransactions v0 to v2: the transactional ids a node coordinates.
//!
//! Of the regular expressions of v2 only literal characters, `.` and `.*` are served; any other is
//! INVALID_REGULAR_EXPRESSION.

use super::{Answer, Context};
use crate::api::ErrorCode;
use crate::api::list_transactions::{Request, Response, TransactionState};
use crate::broker::state::State;
use crate::broker::transactions::{Phase, Transaction};

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> Answer<Response> {
    let pattern = match request.transactional_id_pattern.as_deref().filter(|p| !p.is_empty()).map(parse) {
        Some(None) => {
            return Answer::Reply(refuse(request, ErrorCode::INVALID_REGULAR_EXPRESSION));
        }
        pattern => pattern.flatten(),
    };
    let lasts = |t: &Transaction| context.clock.wall_ms.saturating_sub(t.start_ms);
    let wanted = |id: &str, t: &Transaction| {
        state.is_coordinator(context.node, id)
            && (request.state_filters.is_empty() || request.state_filters.iter().any(|s| s == t.phase.name()))
            && (request.producer_id_filters.is_empty() || request.producer_id_filters.contains(&t.producer.id))
            && (request.duration_filter < 0 || lasts(t) > request.duration_filter)
            && pattern.as_ref().is_none_or(|pattern| matches(pattern, id))
    };
    let found = state.transactions.all().filter(|(id, t)| wanted(id, t)).map(|(id, t)| TransactionState {
        transactional_id: id.to_owned(),
        producer_id: t.producer.id,
        transaction_state: t.phase.name().to_owned(),
    });
    let transaction_states = found.collect();
    let unknown = |name: &String| !Phase::NAMES.contains(&name.as_str());
    let unknown_state_filters = request.state_filters.into_iter().filter(unknown).collect();
    Answer::Reply(Response { unknown_state_filters, transaction_states, ..Response::default() })
}

pub(super) fn refuse(_: Request, error_code: ErrorCode) -> Response {
    Response { error_code, ..Response::default() }
}

/// A part of a pattern: one character, any character, or any number of them.
enum Part {
    One(char),
    Any,
    Many,
}

/// Matching takes this many steps for each character of an id at most.
const MAX_PARTS: usize = 1000;

fn parse(pattern: &str) -> Option<Vec<Part>> {
    let mut parts = Vec::new();
    for c in pattern.chars() {
        match c {
            '.' => parts.push(Part::Any),
            '*' => match parts.pop() {
                Some(Part::Any) => parts.push(Part::Many),
                _ => return None,
            },
            '\\' | '[' | ']' | '(' | ')' | '{' | '}' | '+' | '?' | '|' | '^' | '$' => return None,
            c => parts.push(Part::One(c)),
        }
    }
    (parts.len() <= MAX_PARTS).then_some(parts)
}

/// Whether all of `text` is what the pattern says; `ends[n]` is whether its first `n` characters can be.
fn matches(pattern: &[Part], text: &str) -> bool {
    let chars: Vec<char> = text.chars().collect();
    let mut ends: Vec<bool> = (0..=chars.len()).map(|n| n == 0).collect();
    for part in pattern {
        let mut before = false;
        for (n, end) in ends.iter_mut().enumerate() {
            let here = *end;
            *end = match part {
                Part::Many => here || n > 0 && before,
                Part::Any => before,
                Part::One(c) => before && n > 0 && chars.get(n - 1) == Some(c),
            };
            before = if matches!(part, Part::Many) { *end } else { here };
        }
    }
    ends.last().copied().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_the_whole_id() {
        for (pattern, text, expected) in [
            ("a.*", "abc", true),
            ("a.*", "a", true),
            ("a", "ab", false),
            (".b", "ab", true),
            (".*b", "aab", true),
            (".*b.*c", "abxc", true),
            (".*b.*c", "acxb", false),
            ("", "", true),
        ] {
            assert_eq!(matches(&parse(pattern).unwrap(), text), expected, "{pattern} {text}");
        }
        assert!(parse("[").is_none() && parse("*").is_none());
    }
}

//! PLAIN (RFC 4616): one message with the authorization identity, the user and the password.

use super::mechanism::MechanismResult;
use std::collections::BTreeMap;

/// Checks the client's message: the three fields, separated by zero bytes.
pub(super) fn authenticate(token: &[u8], users: Option<&BTreeMap<String, String>>) -> MechanismResult {
    let Ok(text) = std::str::from_utf8(token) else {
        return MechanismResult::Failure("Authentication failed: Invalid SASL/PLAIN response".to_owned());
    };
    match text.split('\0').collect::<Vec<_>>()[..] {
        [authorization_id, user, password] if !user.is_empty() && !password.is_empty() => {
            let is_valid = users.and_then(|users| users.get(user)).is_some_and(|expected| expected == password);
            if !is_valid {
                return MechanismResult::Failure("Authentication failed: Invalid username or password".to_owned());
            }
            if !authorization_id.is_empty() && authorization_id != user {
                return MechanismResult::Failure(
                    "Authentication failed: Client requested an authorization id that is different".to_owned(),
                );
            }
            MechanismResult::Success { message: Vec::new(), user: user.to_owned(), until_ms: None }
        }
        _ => MechanismResult::Failure("Authentication failed: Invalid SASL/PLAIN response".to_owned()),
    }
}

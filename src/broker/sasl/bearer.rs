//! OAUTHBEARER (RFC 7628) with unsecured tokens (RFC 7515, `alg` none): the broker accepts a token until its `exp`
//! time. The broker does not parse the token as JSON, but searches its text for the names of top-level claims.

use super::mechanism::MechanismResult;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

#[derive(Default)]
pub(super) struct Server {
    /// The reason why the broker rejected the token, until the client has acknowledged the error.
    failure: Option<String>,
}

impl Server {
    pub fn handle_message(&mut self, message: &[u8], now_ms: i64) -> MechanismResult {
        if let Some(why) = self.failure.take() {
            return MechanismResult::Failure(why);
        }
        match std::str::from_utf8(message)
            .map_err(|_| "the message is not valid UTF-8")
            .and_then(token)
            .and_then(|t| check(t, now_ms))
        {
            Ok((user, until_ms)) => MechanismResult::Success { message: Vec::new(), user, until_ms: Some(until_ms) },
            Err(why) => {
                self.failure = Some(format!("{{\"status\":\"invalid_token\"}}: {why}"));
                MechanismResult::Challenge(b"{\"status\":\"invalid_token\"}".to_vec())
            }
        }
    }
}

/// Returns the token in a client's message. The message is a GS2 header, then fields that each end with byte 1, then
/// another byte 1.
fn token(message: &str) -> Result<&str, &'static str> {
    let malformed = "malformed OAUTHBEARER message (RFC 7628)";
    let rest = message.strip_suffix('\u{1}').ok_or(malformed)?;
    let mut fields = rest.split_terminator('\u{1}');
    if !fields.next().is_some_and(|header| header.starts_with("n,") && header.ends_with(',')) {
        return Err(malformed);
    }
    let bearer = fields.find_map(|f| f.strip_prefix("auth=")).ok_or(malformed)?;
    let (scheme, token) = bearer.split_once(' ').ok_or(malformed)?;
    if scheme.eq_ignore_ascii_case("bearer") { Ok(token) } else { Err(malformed) }
}

/// Returns the user of a token and its expiry.
fn check(token: &str, now_ms: i64) -> Result<(String, i64), &'static str> {
    let malformed = "the token is not an unsecured JWT";
    let (header, rest) = token.split_once('.').ok_or(malformed)?;
    let (claims, signature) = rest.split_once('.').ok_or(malformed)?;
    let decode = |part: &str| {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(part.trim_end_matches('=')).map_err(|_| malformed)?;
        String::from_utf8(bytes).map_err(|_| malformed)
    };
    let (header, claims) = (decode(header)?, decode(claims)?);
    if !signature.is_empty() || claim(&header, "alg") != Some("none") {
        return Err("the token is signed, and the dev broker cannot verify signatures");
    }
    let user = claim(&claims, "sub").filter(|user| !user.is_empty()).ok_or("the token has no sub claim")?;
    let seconds = claim(&claims, "exp").and_then(|exp| exp.parse::<f64>().ok()).ok_or("the token has no exp claim")?;
    let until_ms = (seconds * 1000.0) as i64;
    if until_ms <= now_ms {
        return Err("the token has expired");
    }
    Ok((user.to_owned(), until_ms))
}

/// Returns the value of a claim, without quotes.
fn claim<'a>(json: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = json.split_once(&format!("\"{name}\""))?;
    let value = rest.trim_start().strip_prefix(':')?.trim_start();
    match value.strip_prefix('"') {
        Some(text) => text.split_once('"').map(|(value, _)| value),
        None => Some(value.split([',', '}']).next()?.trim()),
    }
}

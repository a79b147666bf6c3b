//! OAUTHBEARER (RFC 7628) with unsecured tokens (RFC 7515, `alg` none): who says to be somebody is taken for it until the
//! token's `exp`. Claims are looked for on the token's top level, as far as a search for their names can tell.

use super::Said;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

/// An exchange.
#[derive(Default)]
pub(super) struct Server {
    /// Why the token was refused, while the client may still say that it has heard.
    refused: Option<String>,
}

impl Server {
    pub fn take(&mut self, message: &[u8], now_ms: i64) -> Said {
        if let Some(why) = self.refused.take() {
            return Said::No(why);
        }
        match std::str::from_utf8(message).map_err(|_| "no text").and_then(token).and_then(|t| check(t, now_ms)) {
            Ok((user, until_ms)) => Said::Welcome { message: Vec::new(), user, until_ms: Some(until_ms) },
            Err(why) => {
                self.refused = Some(format!("{{\"status\":\"invalid_token\"}}: {why}"));
                Said::Next(b"{\"status\":\"invalid_token\"}".to_vec())
            }
        }
    }
}

/// The token of a client's message: a header, then fields that each end with byte 1, then one more of that.
fn token(message: &str) -> Result<&str, &'static str> {
    let malformed = "the message is not what RFC 7628 says";
    let rest = message.strip_suffix('\u{1}').ok_or(malformed)?;
    let mut fields = rest.split_terminator('\u{1}');
    if !fields.next().is_some_and(|header| header.starts_with("n,") && header.ends_with(',')) {
        return Err(malformed);
    }
    let bearer = fields.find_map(|f| f.strip_prefix("auth=")).ok_or(malformed)?;
    let (scheme, token) = bearer.split_once(' ').ok_or(malformed)?;
    if scheme.eq_ignore_ascii_case("bearer") { Ok(token) } else { Err(malformed) }
}

/// Who a token says it is for, and until when.
fn check(token: &str, now_ms: i64) -> Result<(String, i64), &'static str> {
    let malformed = "the token is no unsecured JWT";
    let (header, rest) = token.split_once('.').ok_or(malformed)?;
    let (claims, signature) = rest.split_once('.').ok_or(malformed)?;
    let decode = |part: &str| {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(part.trim_end_matches('=')).map_err(|_| malformed)?;
        String::from_utf8(bytes).map_err(|_| malformed)
    };
    let (header, claims) = (decode(header)?, decode(claims)?);
    if !signature.is_empty() || claim(&header, "alg") != Some("none") {
        return Err("the token is signed, and this broker can check no signature");
    }
    let user = claim(&claims, "sub").filter(|user| !user.is_empty()).ok_or("the token has no claim sub")?;
    let seconds = claim(&claims, "exp").and_then(|exp| exp.parse::<f64>().ok()).ok_or("the token has no claim exp")?;
    let until_ms = (seconds * 1000.0) as i64;
    if until_ms <= now_ms {
        return Err("the token has expired");
    }
    Ok((user.to_owned(), until_ms))
}

/// The value of a claim, without quotes.
fn claim<'a>(json: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = json.split_once(&format!("\"{name}\""))?;
    let value = rest.trim_start().strip_prefix(':')?.trim_start();
    match value.strip_prefix('"') {
        Some(text) => text.split_once('"').map(|(value, _)| value),
        None => Some(value.split([',', '}']).next()?.trim()),
    }
}

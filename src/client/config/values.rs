//! Stores the values of a configuration, and checks them against the table of keys. This file does not depend on the
//! meaning of a key.

use super::aliases::{self, Verdict, verdict};
use super::keys::{ClientType, Key, Kind, find};
use crate::client::{Error, ErrorKind};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// A value from the caller. Text is converted to the type of the key.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A string.
    String(String),
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Float(f64),
    /// True or false.
    Bool(bool),
    /// A list of strings.
    List(Vec<String>),
    /// A function. The value does not contain it, because the caller keeps it.
    Function,
    /// No value, so that the default applies.
    Null,
}

/// The values of one client's configuration, by the names of their keys.
#[derive(Clone)]
pub(super) struct Values {
    client: ClientType,
    values: BTreeMap<&'static str, Value>,
    /// The names of the options that have no effect, and the reasons.
    ignored: Vec<(String, String)>,
}

/// The largest value of a key in seconds. This maximum is about as long as the longest time of a key in milliseconds.
const MOST_SECONDS: f64 = 2_147_483.0;
/// The key that switches off the check of a broker's host name.
pub(super) const HOST_CHECK: &str = "ssl.endpoint.identification.algorithm";
const MECHANISM: &str = "sasl.mechanism";
const TOKEN_METHOD: &str = "sasl.oauthbearer.method";
/// The mechanism of Amazon's library for Java. Brokers that offer it accept the same login as a token.
const MSK_IAM: &str = "AWS_MSK_IAM";
/// The prefix of a duration in `auto.offset.reset`.
pub(super) const BY_DURATION: &str = "by_duration:";

impl Values {
    /// Checks keys and values. The error names the key, the value, and the allowed values.
    pub fn parse(client: ClientType, pairs: impl IntoIterator<Item = (String, Value)>) -> Result<Self, Error> {
        let (mut values, mut ignored) = (BTreeMap::new(), Vec::new());
        for (name, value) in pairs {
            let text = match &value {
                Value::String(text) => Some(text.clone()),
                Value::Bool(flag) => Some(flag.to_string()),
                Value::Int(number) => Some(number.to_string()),
                _ => None,
            };
            let unknown =
                |hint| invalid(format!("unknown configuration key {name:?} for {}", client.with_article()), hint);
            let key = match verdict(client, &name, text.as_deref(), str::to_owned) {
                Verdict::Key(key) => key,
                Verdict::Ignored(why) => {
                    ignored.push((name, why));
                    continue;
                }
                Verdict::Rejected(hint) | Verdict::Unknown(Some(hint)) => return Err(unknown(hint)),
                Verdict::Unknown(None) => return Err(unknown("see docs/configuration.md for all keys".to_owned())),
            };
            // The Java client switches the check off with an empty text.
            let is_none = key.name == HOST_CHECK && value == Value::String(String::new());
            let value = if is_none { Value::String("none".to_owned()) } else { value };
            if key.name == MECHANISM && text.is_some_and(|text| text.trim().eq_ignore_ascii_case(MSK_IAM)) {
                values.entry(TOKEN_METHOD).or_insert_with(|| Value::String("aws-msk-iam".to_owned()));
            }
            if value != Value::Null {
                values.insert(key.name, check(key, value)?);
            }
        }
        Ok(Self { client, values, ignored })
    }

    /// Returns the names of the options that have no effect, and the reasons.
    pub fn ignored(&self) -> &[(String, String)] {
        &self.ignored
    }

    /// Returns the type of the client.
    pub fn client(&self) -> ClientType {
        self.client
    }

    /// Returns whether the caller set a key.
    pub fn is_set(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// Returns a value that the caller set.
    pub fn get(&self, name: &'static str) -> Option<&Value> {
        self.values.get(name)
    }

    /// Returns a value or its default as text.
    pub fn text(&self, name: &'static str) -> String {
        match self.values.get(name) {
            Some(Value::String(s)) => s.clone(),
            Some(Value::Int(n)) => n.to_string(),
            _ => find(name).map_or_else(String::new, |k| k.default.to_owned()),
        }
    }

    /// Returns a value or its default as text, or `None` if that is empty.
    pub fn optional(&self, name: &'static str) -> Option<String> {
        Some(self.text(name)).filter(|text| !text.is_empty())
    }

    /// Returns an ID, if the caller set one. Rejects a blank ID, like the Java client. A blank ID usually comes from an
    /// environment variable that is not set, and the program would run without transactions or without commits.
    pub fn id(&self, name: &'static str, why: &str) -> Result<Option<String>, Error> {
        match self.values.get(name).map(|_| self.text(name)) {
            Some(text) if text.trim().is_empty() => {
                Err(invalid(format!("{name} cannot be {text:?}"), format!("leave it out {why}")))
            }
            given => Ok(given),
        }
    }

    /// Returns an integer value or its default. A test checks that the default of every integer key is an integer.
    pub fn int(&self, name: &'static str) -> i64 {
        match self.values.get(name) {
            Some(Value::Int(n)) => *n,
            _ => self.text(name).parse().unwrap_or(0),
        }
    }

    /// Returns whether a key is true.
    pub fn bool(&self, name: &'static str) -> bool {
        match self.values.get(name) {
            Some(Value::Bool(b)) => *b,
            _ => self.text(name) == "true",
        }
    }

    /// Returns the duration in a key whose unit is milliseconds.
    pub fn ms(&self, name: &'static str) -> Duration {
        match self.values.get(name) {
            Some(Value::Float(ms)) => Duration::from_secs_f64(ms / 1000.0),
            _ => Duration::from_millis(self.int(name).unsigned_abs()),
        }
    }

    /// Returns the duration in a key whose unit is seconds.
    pub fn seconds(&self, name: &'static str) -> Duration {
        let seconds = match self.values.get(name) {
            Some(Value::Float(seconds)) => *seconds,
            _ => self.text(name).parse().unwrap_or(0.0),
        };
        Duration::try_from_secs_f64(seconds).unwrap_or_default()
    }

    /// Returns a number of bytes or records.
    pub fn size(&self, name: &'static str) -> usize {
        usize::try_from(self.int(name)).unwrap_or(usize::MAX)
    }

    /// Returns an integer for a request field.
    pub fn i32(&self, name: &'static str) -> i32 {
        i32::try_from(self.int(name)).unwrap_or(i32::MAX)
    }
}

impl fmt::Debug for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |(name, value): (&&'static str, &Value)| (*name, show(find(name), value));
        write!(f, "{:?}: {:?}", self.client, self.values.iter().map(shown).collect::<BTreeMap<_, _>>())
    }
}

/// Returns an error about the configuration.
pub(super) fn invalid(message: String, hint: String) -> Error {
    Error::new(ErrorKind::Config, message).with_hint(hint)
}

/// Formats a value for messages, without showing secrets.
fn show(key: Option<&Key>, value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::Function => "a function".to_owned(),
        _ if key.is_none_or(|k| k.kind == Kind::Secret) => "(secret)".to_owned(),
        Value::String(s) => format!("{s:?}"),
        Value::Int(n) => n.to_string(),
        Value::Float(n) => n.to_string(),
        Value::Bool(b) => b.to_string(),
        Value::List(l) => format!("{l:?}"),
    }
}

/// Converts a value to the type of its key.
pub(super) fn check(key: &Key, value: Value) -> Result<Value, Error> {
    let shown = show(Some(key), &value);
    let wrong = || invalid(format!("{} cannot be {shown}", key.name), format!("allowed: {}", key.allowed()));
    match (key.kind, value) {
        (Kind::Text | Kind::Secret, Value::String(s)) => Ok(Value::String(s)),
        (Kind::Function | Kind::Logger, Value::Function) => Ok(Value::Function),
        (Kind::List, Value::String(s)) => {
            let items = s.split(',').map(str::trim).filter(|item| !item.is_empty());
            Ok(Value::List(items.map(|item| own(key, item).to_owned()).collect()))
        }
        (Kind::List, Value::List(items)) => {
            Ok(Value::List(items.iter().map(|item| own(key, item).to_owned()).collect()))
        }
        (Kind::Millis, value) => {
            let ms = number(value).filter(|ms| (0.0..=f64::from(i32::MAX)).contains(ms)).ok_or_else(wrong)?;
            Ok(Value::Float(ms))
        }
        (Kind::Int(min, max), value) => {
            let n = match value {
                Value::Int(n) => Some(n),
                Value::String(s) => s.trim().parse().ok(),
                Value::Float(n) if n.fract() == 0.0 && n.abs() < 1e15 => Some(n as i64),
                _ => None,
            };
            n.filter(|n| (min..=max).contains(n)).map(Value::Int).ok_or_else(wrong)
        }
        (Kind::Seconds, value) => {
            let is_allowed = |n: &f64| (0.0..=MOST_SECONDS).contains(n);
            number(value).filter(is_allowed).map(Value::Float).ok_or_else(wrong)
        }
        (Kind::Bool, Value::Bool(b)) => Ok(Value::Bool(b)),
        (Kind::Bool, Value::String(s)) => match s.trim().to_ascii_lowercase().as_str() {
            "true" => Ok(Value::Bool(true)),
            "false" => Ok(Value::Bool(false)),
            _ => Err(wrong()),
        },
        (Kind::Acks, value) => {
            let text = match value {
                Value::String(s) => s.trim().to_ascii_lowercase(),
                Value::Int(n) => n.to_string(),
                _ => return Err(wrong()),
            };
            let text = if text == "all" { "-1".to_owned() } else { text };
            let acks = text.parse::<i16>().ok().filter(|n| *n >= -1).ok_or_else(wrong)?;
            Ok(Value::Int(acks.into()))
        }
        (Kind::Reset, Value::String(text)) => {
            let text = text.trim();
            let is_age = || text.strip_prefix(BY_DURATION).and_then(age).is_some();
            match text.to_ascii_lowercase().as_str() {
                name @ ("earliest" | "latest" | "none") => Ok(Value::String(name.to_owned())),
                _ if is_age() => Ok(Value::String(text.to_owned())),
                other => aliases::same_value(key.name, other).map(|v| Value::String(v.to_owned())).ok_or_else(wrong),
            }
        }
        (Kind::Choice(names), value) => {
            let text = match value {
                Value::String(s) => s,
                Value::Int(n) => n.to_string(),
                _ => return Err(wrong()),
            };
            let text = text.trim();
            let found = names.iter().find(|n| n.eq_ignore_ascii_case(own(key, text)));
            let refused = || aliases::value_hint(key.name, text).map_or_else(wrong, |hint| wrong().with_hint(hint));
            found.map(|n| Value::String((*n).to_owned())).ok_or_else(refused)
        }
        _ => Err(wrong()),
    }
}

/// Returns klamm's name for a value of another client, or the value itself.
fn own<'a>(key: &Key, value: &'a str) -> &'a str {
    aliases::same_value(key.name, value).unwrap_or(value)
}

fn number(value: Value) -> Option<f64> {
    match value {
        Value::Int(n) => Some(n as f64),
        Value::Float(n) => Some(n),
        Value::String(s) => s.trim().parse().ok(),
        _ => None,
    }
}

/// Parses an ISO 8601 duration with days, hours, minutes and whole seconds, such as `P1DT12H`.
pub(super) fn age(text: &str) -> Option<Duration> {
    let (days, time) = text.strip_prefix('P')?.split_once('T').unwrap_or((text.strip_prefix('P')?, ""));
    let (mut seconds, mut count) = (0u64, 0);
    for (mut part, units) in [(days, &[('D', 86_400)][..]), (time, &[('H', 3_600), ('M', 60), ('S', 1)][..])] {
        for (unit, size) in units {
            if let Some((number, rest)) = part.split_once(*unit) {
                seconds = seconds.checked_add(number.parse::<u64>().ok()?.checked_mul(*size)?)?;
                (part, count) = (rest, count + 1);
            }
        }
        if !part.is_empty() {
            return None;
        }
    }
    (count > 0).then(|| Duration::from_secs(seconds))
}

//! Requests and responses whose fields are given by name: chooses versions, merges requests, and finds the results and
//! the errors of items in responses.

use crate::api::{Entry, ErrorCode, Info};
use crate::engine::{Call, Error, ErrorKind};
use crate::wire::{Value, Writer};
use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// A request of the API `entry`.
pub(super) struct NamedCall {
    pub entry: &'static Entry,
    pub fields: Value,
    pub min: i16,
}

impl Call for NamedCall {
    fn api(&self) -> &'static Info {
        self.entry.info
    }

    fn put(&self, w: &mut Writer) {
        match self.entry.request.encode(w.version, self.fields.clone()) {
            Ok(body) => w.buf.extend(body),
            Err(error) => w.fail(error.reason().clone()),
        }
    }

    fn min_version(&self) -> i16 {
        self.min
    }
}

/// Returns the oldest and the newest version that have all fields.
pub(super) fn fitting_versions(
    entry: &Entry,
    fields: &Value,
    versions: &RangeInclusive<i16>,
) -> Result<(i16, i16), Error> {
    let fits = |version: &i16| entry.request.encode(*version, fields.clone()).map(|_| ());
    let (first, last) = (entry.info.min.max(*versions.start()), entry.info.max_stable.min(*versions.end()));
    let mut fitting = (first..=last).filter(|version| fits(version).is_ok());
    let Some(min) = fitting.next() else {
        let why = fits(&last).err().map_or_else(String::new, |error| error.to_string());
        return Err(Error::new(ErrorKind::Config, why));
    };
    Ok((min, fitting.next_back().unwrap_or(min)))
}

/// Returns the request that has the items of all requests.
pub(super) fn merged<'a>(mut requests: impl Iterator<Item = &'a Value>) -> Value {
    let mut all = requests.next().cloned().unwrap_or_else(|| Value::Struct(Vec::new()));
    requests.for_each(|request| merge(&mut all, request));
    all
}

/// Adds the lists of a request to the lists of another.
fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Struct(into), Value::Struct(from)) => {
            for ((_, into), (_, from)) in into.iter_mut().zip(from) {
                merge(into, from);
            }
        }
        (Value::List(into), Value::List(from)) => {
            for each in from {
                match into.last_mut().filter(|last| differ_only_in_lists(last, each)) {
                    Some(last) => merge(last, each),
                    None => into.push(each.clone()),
                }
            }
        }
        _ => {}
    }
}

/// Returns whether two elements are the same but for the items in their lists, such as a topic and its partitions.
fn differ_only_in_lists(a: &Value, b: &Value) -> bool {
    let (Value::Struct(a), Value::Struct(b)) = (a, b) else { return false };
    let is_list = |(_, value): &(Arc<str>, Value)| matches!(value, Value::List(_));
    a.len() == b.len()
        && a.iter().any(is_list)
        && a.iter().zip(b).all(|(a, b)| a.0 == b.0 && ((is_list(a) && is_list(b)) || a.1 == b.1))
}

/// Moves the elements of the lists out of a response, by key.
pub(super) fn collect(value: Value, levels: &[Level], key: &mut Vec<String>, found: &mut HashMap<Vec<String>, Value>) {
    let [level, deeper @ ..] = levels else {
        found.insert(key.clone(), value);
        return;
    };
    let Value::Struct(fields) = value else { return };
    let list = fields.into_iter().find(|(name, _)| **name == *level.list);
    let Some((_, Value::List(elements))) = list else { return };
    for element in elements {
        let length = key.len();
        key.extend(level.keys.iter().filter_map(|name| text(field(&element, name)?)));
        collect(element, deeper, key, found);
        key.truncate(length);
    }
}

fn field<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    match value {
        Value::Struct(fields) => fields.iter().find(|(key, _)| **key == *name).map(|(_, value)| value),
        _ => None,
    }
}

/// Returns a field of a key as text.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Int(number) => Some(number.to_string()),
        Value::Uuid(id) => Some(id.to_string()),
        _ => None,
    }
}

/// An error code in a response.
pub(super) struct Failure<'a> {
    pub code: ErrorCode,
    pub why: Option<&'a str>,
    pub topic: Option<&'a str>,
    pub partition: Option<i32>,
}

impl<'a> Failure<'a> {
    /// Returns the error of a struct itself, not of its lists.
    pub fn of(value: &'a Value, topic: Option<&'a str>) -> Option<Self> {
        let Some(Value::Int(code)) = field(value, "errorCode") else { return None };
        let code = ErrorCode(i16::try_from(*code).ok()?);
        let why = match field(value, "errorMessage") {
            Some(Value::String(why)) => Some(why.as_str()),
            _ => None,
        };
        let partition = match field(value, "partitionIndex") {
            Some(Value::Int(partition)) => i32::try_from(*partition).ok(),
            _ => None,
        };
        code.is_error().then_some(Self { code, why, topic, partition })
    }
}

/// Returns the error for an error code and the broker's message.
pub(super) fn refused(code: ErrorCode, tried: &str, why: Option<&str>) -> Error {
    let why = why.filter(|why| !why.is_empty()).map_or_else(String::new, |why| format!(": {why}"));
    Error::refused(code, format_args!("{tried}{why}"))
}

/// Returns the first error in a response that `is_wanted` selects.
pub(super) fn first_failure<'a>(
    value: &'a Value,
    topic: Option<&'a str>,
    is_wanted: &dyn Fn(&Failure<'_>) -> bool,
) -> Option<Failure<'a>> {
    match value {
        Value::Struct(fields) => {
            if let Some(failure) = Failure::of(value, topic).filter(is_wanted) {
                return Some(failure);
            }
            let topic = match field(value, "name").or_else(|| field(value, "topicName")) {
                Some(Value::String(name)) => Some(name.as_str()),
                _ => topic,
            };
            fields.iter().find_map(|(_, value)| first_failure(value, topic, is_wanted))
        }
        Value::List(items) => items.iter().find_map(|item| first_failure(item, topic, is_wanted)),
        _ => None,
    }
}

/// A list in a response, and the fields of its elements that belong to the key of an item.
pub(super) struct Level {
    list: String,
    keys: Vec<String>,
}

impl Level {
    /// Returns the nested lists of a path such as `topics:name/partitions:partitionIndex`.
    pub fn parse(path: &str) -> Vec<Self> {
        let level = |text: &str| {
            let (list, keys) = text.split_once(':').unwrap_or((text, ""));
            let keys = keys.split(',').filter(|key| !key.is_empty()).map(str::to_owned).collect();
            Self { list: list.to_owned(), keys }
        };
        path.split('/').map(level).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(fields: &[(&str, Value)]) -> Value {
        Value::Struct(fields.iter().map(|(name, value)| ((*name).into(), value.clone())).collect())
    }

    fn topic(name: &str, partitions: &[i64]) -> Value {
        let partitions = Value::List(partitions.iter().map(|p| Value::Int(*p)).collect());
        fields(&[("name", Value::String(name.to_owned())), ("partitionIndexes", partitions)])
    }

    #[test]
    fn requests_are_merged_by_topic() {
        let request = |topics: Vec<Value>| fields(&[("topics", Value::List(topics)), ("timeoutMs", Value::Int(1))]);
        let items = [topic("t", &[0]), topic("t", &[2]), topic("u", &[0])].map(|topic| request(vec![topic]));
        assert_eq!(merged(items.iter()), request(vec![topic("t", &[0, 2]), topic("u", &[0])]));
    }

    #[test]
    fn results_are_found_by_their_keys() {
        let levels = Level::parse("topics:name/partitionIndexes");
        let mut found = HashMap::new();
        collect(fields(&[("topics", Value::List(vec![topic("t", &[7])]))]), &levels, &mut Vec::new(), &mut found);
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [(vec!["t".to_owned()], Value::Int(7))]);
        // A response can have other types than the path says.
        for other in [Value::Null, fields(&[("topics", Value::Int(1))]), fields(&[])] {
            let mut found = HashMap::new();
            collect(other, &levels, &mut Vec::new(), &mut found);
            assert!(found.is_empty());
        }
    }
}

//! Reads the golden vectors and converts messages from and to their JSON form. In JSON, bytes are base64, and UUIDs are
//! URL-safe base64 without padding.

use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use klamm::wire::{Uuid, Value};
use serde_json::Value as Json;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL_SAFE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

fn path(file: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "vectors", file].iter().collect()
}

/// Returns the content of a JSON file.
pub fn document(file: &str) -> Json {
    serde_json::from_reader(BufReader::new(File::open(path(file)).unwrap())).unwrap()
}

/// Returns the lines of a file of vectors.
pub fn lines(file: &str) -> Vec<Json> {
    let lines = BufReader::new(MultiGzDecoder::new(File::open(path(file)).unwrap())).lines();
    lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect()
}

/// Returns the lines of an uncompressed file of vectors.
pub fn jsonl(file: &str) -> Vec<Json> {
    let lines = BufReader::new(File::open(path(file)).unwrap()).lines();
    lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect()
}

/// Returns a field that is text.
pub fn text<'a>(line: &'a Json, name: &str) -> &'a str {
    line[name].as_str().unwrap_or_else(|| panic!("no {name} in {line}"))
}

/// Returns a field that is an integer of this type.
pub fn int<T: TryFrom<i64>>(line: &Json, name: &str) -> T {
    let found = line[name].as_i64().and_then(|v| T::try_from(v).ok());
    found.unwrap_or_else(|| panic!("no {name} in {line}"))
}

/// Returns a field that is bytes in hexadecimal, or null.
pub fn hex(line: &Json, name: &str) -> Option<Bytes> {
    let digits = line[name].as_str()?;
    let bytes = (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16));
    Some(bytes.collect::<Result<Vec<u8>, _>>().unwrap().into())
}

/// A body: its API or structure, its bytes and its JSON form.
#[derive(Clone)]
pub struct Body {
    pub of: String,
    pub kind: String,
    pub version: i16,
    pub bytes: Bytes,
    pub json: Json,
}

impl Body {
    pub fn new(line: &Json) -> Self {
        Self {
            of: text(line, if line["api"].is_null() { "name" } else { "api" }).to_owned(),
            kind: text(line, "kind").to_owned(),
            version: int(line, "version"),
            bytes: hex(line, "hex").unwrap(),
            json: line["json"].clone(),
        }
    }

    /// Returns the name for errors.
    pub fn name(&self) -> String {
        format!("{} {} v{}", self.of, self.kind, self.version)
    }
}

/// Returns all lines of `messages.jsonl.gz` and `structures.jsonl.gz`.
pub fn bodies() -> Vec<Body> {
    let [messages, structures] = ["messages.jsonl.gz", "structures.jsonl.gz"].map(lines);
    messages.iter().chain(&structures).map(Body::new).collect()
}

/// Returns all lines of `unknown_tags.jsonl.gz`: the body, the number of unknown tags, and the bytes without them.
pub fn bodies_with_unknown_tags() -> Vec<(Body, usize, Bytes)> {
    let lines = lines("unknown_tags.jsonl.gz");
    let count = |line: &Json| line["unknown_tags"].as_array().unwrap().len();
    lines.iter().map(|line| (Body::new(line), count(line), hex(line, "hex_without").unwrap())).collect()
}

/// Returns the JSON form of a value.
pub fn to_json(value: &Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Bool(v) => Json::from(*v),
        Value::Int(v) => Json::from(*v),
        Value::Float(v) => Json::from(*v),
        Value::String(v) => Json::from(v.as_str()),
        Value::Bytes(v) => Json::from(base64(v, STANDARD, true)),
        Value::Uuid(v) => Json::from(base64(&v.0, URL_SAFE, false)),
        Value::List(items) => items.iter().map(to_json).collect(),
        Value::Struct(fields) => fields.iter().map(|(name, v)| (name.to_string(), to_json(v))).collect(),
        Value::Unencodable(what) => unreachable!("no message holds {what}"),
    }
}

/// Returns the value of a JSON form. JSON does not distinguish bytes and UUIDs from text, so `like` is a value of the
/// right types.
pub fn from_json(json: &Json, like: &Value) -> Value {
    match (json, like) {
        (Json::Null, _) => Value::Null,
        (Json::Bool(v), _) => Value::Bool(*v),
        (Json::Number(v), Value::Float(_)) => Value::Float(v.as_f64().unwrap()),
        (Json::Number(v), _) => Value::Int(v.as_i64().unwrap()),
        (Json::String(v), Value::Bytes(_)) => Value::Bytes(from_base64(v, STANDARD).into()),
        (Json::String(v), Value::Uuid(_)) => Value::Uuid(Uuid(from_base64(v, URL_SAFE).try_into().unwrap())),
        (Json::String(v), _) => Value::String(v.clone()),
        (Json::Array(items), Value::List(like)) => {
            Value::List(items.iter().zip(like).map(|(item, like)| from_json(item, like)).collect())
        }
        (Json::Object(fields), Value::Struct(like)) => {
            let like = |name: &str| like.iter().find(|(n, _)| **n == *name).map_or(&Value::Null, |(_, v)| v);
            Value::Struct(fields.iter().map(|(name, v)| (name.as_str().into(), from_json(v, like(name)))).collect())
        }
        (json, like) => panic!("{json} is nothing like {like:?}"),
    }
}

fn base64(bytes: &[u8], alphabet: &[u8; 64], padded: bool) -> String {
    let mut out = String::new();
    for group in bytes.chunks(3) {
        let bits = group.iter().fold(0, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for digit in 0..4 {
            if digit <= group.len() {
                out.push(char::from(alphabet[(bits >> (18 - 6 * digit) & 63) as usize]));
            } else if padded {
                out.push('=');
            }
        }
    }
    out
}

fn from_base64(text: &str, alphabet: &[u8; 64]) -> Vec<u8> {
    let mut out = Vec::new();
    let (mut bits, mut held) = (0u32, 0);
    for digit in text.trim_end_matches('=').bytes() {
        bits = bits << 6 | alphabet.iter().position(|d| *d == digit).unwrap() as u32;
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push((bits >> held) as u8);
        }
    }
    out
}

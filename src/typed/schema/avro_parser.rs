//! Parses Avro schemas. The JSON parser bounds the nesting of the text.

use super::avro::{Field, Id, Kind, Logical, Name, Node, Schema, Unit, short};
use super::avro_defaults;
use crate::typed::fault::{Fault, Result};
use serde_json::{Map, Value};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

impl Schema {
    /// Parses a schema.
    ///
    /// `references` has the texts of the referenced schemas. Each text comes after the texts that it refers to.
    pub fn parse(text: &str, references: &[&str]) -> Result<Self> {
        let mut parser = Parser::new();
        for reference in references {
            parser.text(reference)?;
        }
        let root = parser.text(text)?;
        parser.finish(root)
    }
}

struct Parser {
    nodes: Vec<Node>,
    names: HashMap<Arc<str>, Id>,
    /// The defaults as JSON: the record, the position of the field, and the value.
    defaults: Vec<(Id, usize, Value)>,
}

/// The primitive types, in the order of the first nodes of each schema.
const PRIMITIVES: [Kind; 8] =
    [Kind::Null, Kind::Boolean, Kind::Int, Kind::Long, Kind::Float, Kind::Double, Kind::Bytes, Kind::String];

impl Parser {
    fn new() -> Self {
        let nodes = PRIMITIVES.into_iter().map(|kind| Node { kind, logical: None, least: 0 });
        Self { nodes: nodes.collect(), names: HashMap::new(), defaults: Vec::new() }
    }

    fn text(&mut self, text: &str) -> Result<Id> {
        if text.len() > LONGEST_TEXT {
            return Err(Fault::new(format!("the schema has {} bytes, and {LONGEST_TEXT} are allowed", text.len())));
        }
        let trimmed = text.trim();
        if !trimmed.is_empty() && trimmed.bytes().all(|byte| byte.is_ascii_alphabetic()) {
            return self.named(trimmed, "");
        }
        let value: Value = serde_json::from_str(text).map_err(|error| match error.to_string() {
            why if why.starts_with("recursion limit") => Fault::new("it is nested too deep"),
            why => Fault::new(format!("not JSON: {why}")),
        })?;
        self.parse(&value, "")
    }

    fn add(&mut self, kind: Kind, logical: Option<Logical>) -> Result<Id> {
        let id = u32::try_from(self.nodes.len()).ok().filter(|_| self.nodes.len() < MOST_NODES);
        let id = Id(id.ok_or_else(|| Fault::new(format!("the schema has more than {MOST_NODES} types")))?);
        self.nodes.push(Node { kind, logical, least: 0 });
        Ok(id)
    }

    /// Finds a type by its name.
    fn named(&self, name: &str, namespace: &str) -> Result<Id> {
        if let Some(at) = PRIMITIVES.iter().position(|primitive| primitive.name() == name) {
            return Ok(Id(at as u32)); // below 8
        }
        let found = self.names.get(full_name(name, namespace).as_str()).or_else(|| self.names.get(name));
        found.copied().ok_or_else(|| Fault::new(format!("the type {name:?} is unknown")))
    }

    fn parse(&mut self, value: &Value, namespace: &str) -> Result<Id> {
        match value {
            Value::String(name) => self.named(name, namespace),
            Value::Array(branches) => self.union(branches, namespace),
            Value::Object(object) => self.object(object, namespace),
            other => Err(Fault::new(format!("a type is a name, an object or an array, not {other}"))),
        }
    }

    fn object(&mut self, object: &Map<String, Value>, namespace: &str) -> Result<Id> {
        let kind = match object.get("type") {
            Some(Value::String(kind)) => kind.as_str(),
            Some(inner) => return self.parse(inner, namespace),
            None => return Err(Fault::new("an object without the attribute \"type\" is no type")),
        };
        match kind {
            "record" | "error" => self.record(object, namespace),
            "enum" => self.enumeration(object, namespace),
            "fixed" => {
                let name = name_of(object, namespace)?;
                let size = object.get("size").and_then(Value::as_u64).and_then(|size| i32::try_from(size).ok());
                let size = size.and_then(|size| usize::try_from(size).ok());
                let size = size.ok_or_else(|| Fault::new(format!("the size of {} is not valid", name.full)))?;
                let logical = logical(object, "fixed", size);
                self.define(name, |name| Kind::Fixed(name, size), logical)
            }
            "array" => {
                let items = object.get("items").ok_or_else(|| Fault::new("an array has no \"items\""))?;
                let items = self.parse(items, namespace).map_err(|fault| fault.in_field("items"))?;
                self.add(Kind::Array(items), None)
            }
            "map" => {
                let values = object.get("values").ok_or_else(|| Fault::new("a map has no \"values\""))?;
                let values = self.parse(values, namespace).map_err(|fault| fault.in_field("values"))?;
                self.add(Kind::Map(values), None)
            }
            name => {
                let id = self.named(name, namespace)?;
                let primitive = PRIMITIVES.into_iter().nth(id.index());
                match (primitive, logical(object, name, 0)) {
                    (Some(kind), Some(logical)) => self.add(kind, Some(logical)),
                    _ => Ok(id),
                }
            }
        }
    }

    fn union(&mut self, branches: &[Value], namespace: &str) -> Result<Id> {
        let branches: Vec<Id> = branches.iter().map(|branch| self.parse(branch, namespace)).collect::<Result<_>>()?;
        let mut by_name = HashMap::new();
        let mut null = None;
        for (at, branch) in branches.iter().enumerate() {
            let kind = &self.nodes[branch.index()].kind;
            match kind {
                Kind::Union { .. } => return Err(Fault::new("a union directly contains a union")),
                Kind::Null if null.is_some() => return Err(Fault::new("a union contains null twice")),
                Kind::Null => null = Some(at),
                _ => {}
            }
            by_name.entry(Arc::from(kind.name())).or_insert(at);
        }
        let names =
            || branches.iter().enumerate().filter_map(|(at, id)| Some((at, self.nodes[id.index()].kind.full_name()?)));
        // A full name wins over an alias, and an alias over a name without its namespace.
        for (at, name) in names() {
            for alias in &name.aliases {
                by_name.entry(alias.clone()).or_insert(at);
            }
        }
        for (at, name) in names() {
            by_name.entry(Arc::from(name.short())).or_insert(at);
            for alias in &name.aliases {
                by_name.entry(Arc::from(short(alias))).or_insert(at);
            }
        }
        self.add(Kind::Union { branches, by_name, null }, None)
    }

    fn enumeration(&mut self, object: &Map<String, Value>, namespace: &str) -> Result<Id> {
        let name = name_of(object, namespace)?;
        let Some(Value::Array(values)) = object.get("symbols") else {
            return Err(Fault::new(format!("the enum {} has no \"symbols\"", name.full)));
        };
        let mut seen = HashSet::new();
        let mut symbols: Vec<Arc<str>> = Vec::with_capacity(values.len());
        for value in values {
            match value.as_str().filter(|symbol| is_identifier(symbol)) {
                Some(symbol) if seen.insert(symbol) => symbols.push(symbol.into()),
                Some(symbol) => {
                    return Err(Fault::new(format!("the enum {} has the symbol {symbol} twice", name.full)));
                }
                None => return Err(Fault::new(format!("{value} cannot be a symbol of the enum {}", name.full))),
            }
        }
        let default = match object.get("default") {
            None | Some(Value::Null) => None,
            Some(value) => {
                Some(symbols.iter().position(|symbol| value.as_str() == Some(&**symbol)).ok_or_else(|| {
                    Fault::new(format!("the default {value} is not a symbol of the enum {}", name.full))
                })?)
            }
        };
        self.define(name, |name| Kind::Enum { name, symbols, default }, None)
    }

    fn record(&mut self, object: &Map<String, Value>, namespace: &str) -> Result<Id> {
        let name = name_of(object, namespace)?;
        let Some(Value::Array(values)) = object.get("fields") else {
            return Err(Fault::new(format!("the record {} has no \"fields\"", name.full)));
        };
        let inner = name.full.rsplit_once('.').map_or(String::new(), |(space, _)| space.to_owned());
        let full = name.full.clone();
        // The fields can contain the record itself.
        let empty = |name| Kind::Record { name, fields: Vec::new(), by_name: HashMap::new() };
        let id = self.define(name, empty, None)?;
        let mut fields = Vec::with_capacity(values.len());
        let mut by_name = HashMap::with_capacity(values.len());
        for (at, value) in values.iter().enumerate() {
            let name = value.get("name").and_then(Value::as_str).filter(|name| !name.is_empty());
            let name = name.ok_or_else(|| Fault::new(format!("a field of the record {full} has no name")))?;
            let Some(node) = value.get("type") else {
                return Err(Fault::new("the field has no \"type\"").in_field(name));
            };
            check_text(name)?;
            let node = self.parse(node, &inner).map_err(|fault| fault.in_field(name))?;
            let name: Arc<str> = name.into();
            if by_name.insert(name.clone(), at).is_some() {
                return Err(Fault::new("the record has two fields of one name").in_field(&name));
            }
            if let Some(default) = value.get("default") {
                self.defaults.push((id, at, default.clone()));
            }
            fields.push(Field { name, aliases: strings(value.get("aliases")), node, default: None });
        }
        if let Kind::Record { fields: empty, by_name: no_names, .. } = &mut self.nodes[id.index()].kind {
            (*empty, *no_names) = (fields, by_name);
        }
        Ok(id)
    }

    /// Adds a named type.
    fn define(&mut self, name: Name, kind: impl FnOnce(Name) -> Kind, logical: Option<Logical>) -> Result<Id> {
        let full = name.full.clone();
        if PRIMITIVES.iter().any(|primitive| primitive.name() == &*full) {
            return Err(Fault::new(format!("{full} is the name of a primitive type")));
        }
        let id = self.add(kind(name), logical)?;
        match self.names.insert(full.clone(), id) {
            None => Ok(id),
            Some(_) => Err(Fault::new(format!("the type {full} is defined twice"))),
        }
    }

    fn finish(mut self, root: Id) -> Result<Schema> {
        let mut known = vec![None; self.nodes.len()];
        for at in 0..self.nodes.len() {
            self.nodes[at].least = self.least(Id(at as u32), &mut known, 0);
        }
        let defaults = std::mem::take(&mut self.defaults);
        let mut schema = Schema { nodes: self.nodes, root };
        avro_defaults::set(&mut schema, defaults)?;
        Ok(schema)
    }

    /// Returns a lower bound of the size of a value. The bound is 0 for a type that is deep below its user.
    fn least(&self, id: Id, known: &mut [Option<usize>], depth: usize) -> usize {
        let node = &self.nodes[id.index()];
        if let Some(least) = known[id.index()] {
            return least;
        }
        known[id.index()] = Some(0); // for a type that contains itself
        let least = match &node.kind {
            Kind::Null => 0,
            Kind::Fixed(_, size) => *size,
            Kind::Float => 4,
            Kind::Double => 8,
            Kind::Record { .. } if depth > DEEPEST_SIZE => 0,
            Kind::Record { fields, .. } => {
                fields.iter().map(|field| self.least(field.node, known, depth + 1)).fold(0, usize::saturating_add)
            }
            _ => 1,
        };
        known[id.index()] = Some(least);
        least
    }
}

fn full_name(name: &str, namespace: &str) -> String {
    if name.contains('.') || namespace.is_empty() { name.to_owned() } else { format!("{namespace}.{name}") }
}

fn name_of(object: &Map<String, Value>, namespace: &str) -> Result<Name> {
    let name = object.get("name").and_then(Value::as_str).filter(|name| !short(name).is_empty());
    let name = name.ok_or_else(|| Fault::new("a record, enum or fixed type has no name"))?;
    check_text(name)?;
    let namespace = match object.get("namespace") {
        Some(Value::String(own)) => own.as_str(),
        _ => namespace,
    };
    check_text(namespace)?;
    let full = full_name(name, namespace);
    let full = full.strip_prefix('.').unwrap_or(&full);
    let inner = full.rsplit_once('.').map_or("", |(space, _)| space);
    let aliases = strings(object.get("aliases")).iter().map(|alias| full_name(alias, inner).into()).collect();
    Ok(Name { full: full.into(), aliases })
}

/// Refuses names that JSON text would have to escape. Other names that the specification does not allow are in use.
fn check_text(name: &str) -> Result<()> {
    match name.chars().any(|c| c.is_control() || c == '"' || c == '\\') {
        true => Err(Fault::new(format!("{name:?} cannot be a name"))),
        false => Ok(()),
    }
}

fn is_identifier(symbol: &str) -> bool {
    symbol.chars().enumerate().all(|(at, c)| c == '_' || c.is_alphabetic() || (at > 0 && c.is_alphanumeric()))
        && !symbol.is_empty()
}

fn strings(value: Option<&Value>) -> Vec<Arc<str>> {
    let values = value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    values.iter().filter_map(Value::as_str).map(Arc::from).collect()
}

/// Returns the logical type of an object, if it is known and valid for the type. `size` is the size of a fixed type.
fn logical(object: &Map<String, Value>, kind: &str, size: usize) -> Option<Logical> {
    use Unit::{Micros, Millis, Nanos};
    let timestamp = |unit, is_local| Some(Logical::Timestamp { unit, is_local });
    match (object.get("logicalType")?.as_str()?, kind) {
        ("decimal", "bytes" | "fixed") => {
            let number = |name: &str| object.get(name).map(|value| value.as_u64().and_then(|n| u32::try_from(n).ok()));
            let (precision, scale) = (number("precision")??, number("scale").unwrap_or(Some(0))?);
            // The largest number of digits that fit: log10(2) * bits is 0.30103 * bits.
            let fits =
                kind == "bytes" || u64::from(precision) * 100_000 <= (size as u64 * 8).saturating_sub(1) * 30_103;
            let is_valid = (1..=MOST_DIGITS).contains(&precision) && scale <= precision && fits;
            is_valid.then_some(Logical::Decimal { precision, scale })
        }
        ("big-decimal", "bytes") => Some(Logical::BigDecimal),
        ("uuid", "string") => Some(Logical::Uuid),
        ("uuid", "fixed") if size == 16 => Some(Logical::Uuid),
        ("duration", "fixed") if size == 12 => Some(Logical::Duration),
        ("date", "int") => Some(Logical::Date),
        ("time-millis", "int") => Some(Logical::Time(Millis)),
        ("time-micros", "long") => Some(Logical::Time(Micros)),
        ("timestamp-millis", "long") => timestamp(Millis, false),
        ("timestamp-micros", "long") => timestamp(Micros, false),
        ("timestamp-nanos", "long") => timestamp(Nanos, false),
        ("local-timestamp-millis", "long") => timestamp(Millis, true),
        ("local-timestamp-micros", "long") => timestamp(Micros, true),
        ("local-timestamp-nanos", "long") => timestamp(Nanos, true),
        _ => None,
    }
}

/// Maximum length of the text of a schema, in bytes.
const LONGEST_TEXT: usize = 16 << 20;

/// Maximum number of types of a schema.
const MOST_NODES: usize = 1 << 20;

/// Depth below which the size of a record counts as 0.
const DEEPEST_SIZE: usize = 64;

/// Maximum precision of a decimal.
const MOST_DIGITS: u32 = 10_000;

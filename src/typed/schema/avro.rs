//! Avro schemas. `avro_parser` makes a schema from its text.
//!
//! A [`Schema`] is a list of nodes that refer to each other by position. A named type has one node however often the
//! schema uses its name, so that repeated and recursive names need no expansion. Everything that follows names (resolution,
//! defaults, sizes) uses limits or a list of open work instead of unbounded recursion.

#![allow(missing_docs, reason = "most names are those of Avro's specification")]

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::sync::Arc;

/// The position of a node in its schema.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id(pub(super) u32);

impl Id {
    /// Returns the position as an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A type of a schema.
#[derive(Clone, Debug)]
pub struct Node {
    pub kind: Kind,
    pub logical: Option<Logical>,
    /// A lower bound of the encoded size in bytes.
    pub least: usize,
}

#[derive(Clone, Debug)]
pub enum Kind {
    Null,
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Bytes,
    String,
    Fixed(Name, usize),
    Enum { name: Name, symbols: Vec<Arc<str>>, default: Option<usize> },
    Record { name: Name, fields: Vec<Field>, by_name: HashMap<Arc<str>, usize> },
    Array(Id),
    Map(Id),
    Union { branches: Vec<Id>, by_name: HashMap<Arc<str>, usize>, null: Option<usize> },
}

/// The full name of a type and its aliases, which are full names too.
#[derive(Clone, Debug)]
pub struct Name {
    pub full: Arc<str>,
    pub aliases: Vec<Arc<str>>,
}

impl Name {
    /// Returns the name without its namespace.
    pub fn short(&self) -> &str {
        short(&self.full)
    }
}

/// A field of a record.
#[derive(Clone, Debug)]
pub struct Field {
    pub name: Arc<str>,
    pub aliases: Vec<Arc<str>>,
    pub node: Id,
    /// The default in Avro's binary encoding.
    pub default: Option<Arc<[u8]>>,
}

/// A logical type that is valid for the type of its node. As the specification requires, the parser ignores the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Logical {
    BigDecimal,
    Date,
    Decimal { precision: u32, scale: u32 },
    Duration,
    Time(Unit),
    Timestamp { unit: Unit, is_local: bool },
    Uuid,
}

impl Logical {
    /// Returns the name in a schema.
    pub fn name(self) -> &'static str {
        use Unit::{Micros, Millis, Nanos};
        match self {
            Self::BigDecimal => "big-decimal",
            Self::Date => "date",
            Self::Decimal { .. } => "decimal",
            Self::Duration => "duration",
            Self::Time(Millis) => "time-millis",
            Self::Time(_) => "time-micros",
            Self::Timestamp { unit: Millis, is_local: false } => "timestamp-millis",
            Self::Timestamp { unit: Micros, is_local: false } => "timestamp-micros",
            Self::Timestamp { unit: Nanos, is_local: false } => "timestamp-nanos",
            Self::Timestamp { unit: Millis, is_local: true } => "local-timestamp-millis",
            Self::Timestamp { unit: Micros, is_local: true } => "local-timestamp-micros",
            Self::Timestamp { unit: Nanos, is_local: true } => "local-timestamp-nanos",
            Self::Uuid => "uuid",
        }
    }
}

/// A unit of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unit {
    Millis,
    Micros,
    Nanos,
}

impl Unit {
    /// Returns how many units a second has.
    pub fn per_second(self) -> i64 {
        match self {
            Self::Millis => 1_000,
            Self::Micros => 1_000_000,
            Self::Nanos => 1_000_000_000,
        }
    }
}

/// A parsed schema.
#[derive(Debug)]
pub struct Schema {
    pub(super) nodes: Vec<Node>,
    pub(super) root: Id,
}

impl Schema {
    pub fn root(&self) -> Id {
        self.root
    }

    /// Returns all nodes.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Returns a node of this schema.
    pub fn node(&self, id: Id) -> &Node {
        &self.nodes[id.index()] // an Id is made by the parser of its schema only
    }

    /// Returns the node at a position, for callers that got the position from this schema.
    pub fn id(&self, index: usize) -> Option<Id> {
        u32::try_from(index).ok().filter(|_| index < self.nodes.len()).map(Id)
    }

    /// Returns the name of a type: the full name of a named type, or the name of its kind.
    pub fn name(&self, id: Id) -> &str {
        self.node(id).kind.name()
    }

    /// Returns the schema without some fields of its record, for readers that do not need them. The record keeps all fields
    /// where other types refer to it. Returns `None` if the schema is neither a record nor a union of null and a record.
    pub fn chosen(&self, is_kept: impl Fn(&str) -> bool) -> Option<Self> {
        let mut nodes = self.nodes.clone();
        let mut add = |kind| {
            nodes.push(Node { kind, logical: None, least: 0 });
            u32::try_from(nodes.len() - 1).ok().map(Id)
        };
        let mut record = |id: Id| {
            let Kind::Record { name, fields, .. } = &self.node(id).kind else { return None };
            let fields: Vec<Field> = fields.iter().filter(|field| is_kept(&field.name)).cloned().collect();
            let by_name = fields.iter().enumerate().map(|(at, field)| (field.name.clone(), at)).collect();
            add(Kind::Record { name: name.clone(), fields, by_name })
        };
        let root = match &self.node(self.root).kind {
            Kind::Union { branches, by_name, null: Some(null) } if branches.len() == 2 => {
                let mut branches = branches.clone();
                let other = branches.get_mut(1 - null)?;
                *other = record(*other)?;
                add(Kind::Union { branches, by_name: by_name.clone(), null: Some(*null) })?
            }
            _ => record(self.root)?,
        };
        Some(Self { nodes, root })
    }

    /// Returns the Parsing Canonical Form: the schema without whatever does not change the encoding.
    ///
    /// Only for schemas without references, whose depth the JSON parser has bounded.
    pub fn canonical(&self) -> String {
        let mut text = String::new();
        self.write_canonical(self.root, &mut text, &mut HashSet::new());
        text
    }

    /// Returns the fingerprint CRC-64-AVRO of the canonical form, as in the single-object encoding.
    pub fn fingerprint(&self) -> [u8; 8] {
        const EMPTY: u64 = 0xc15d_213a_a4d7_a795;
        let step = |crc: u64| (crc >> 1) ^ (EMPTY & (crc & 1).wrapping_neg());
        let crc = self.canonical().bytes().fold(EMPTY, |crc, byte| {
            let table = (0..8).fold((crc ^ u64::from(byte)) & 0xff, |value, _| step(value));
            (crc >> 8) ^ table
        });
        crc.to_le_bytes()
    }

    fn write_canonical(&self, id: Id, text: &mut String, seen: &mut HashSet<Id>) {
        let kind = &self.node(id).kind;
        // Writing to a String cannot fail.
        match kind {
            Kind::Array(item) => {
                text.push_str(r#"{"type":"array","items":"#);
                self.write_canonical(*item, text, seen);
                text.push('}');
            }
            Kind::Map(item) => {
                text.push_str(r#"{"type":"map","values":"#);
                self.write_canonical(*item, text, seen);
                text.push('}');
            }
            Kind::Union { branches, .. } => {
                text.push('[');
                for (at, branch) in branches.iter().enumerate() {
                    text.push_str(if at == 0 { "" } else { "," });
                    self.write_canonical(*branch, text, seen);
                }
                text.push(']');
            }
            Kind::Fixed(name, size) if seen.insert(id) => {
                _ = write!(text, r#"{{"name":"{}","type":"fixed","size":{size}}}"#, name.full);
            }
            Kind::Enum { name, symbols, .. } if seen.insert(id) => {
                _ = write!(text, r#"{{"name":"{}","type":"enum","symbols":["#, name.full);
                for (at, symbol) in symbols.iter().enumerate() {
                    _ = write!(text, r#"{}"{symbol}""#, if at == 0 { "" } else { "," });
                }
                text.push_str("]}");
            }
            Kind::Record { name, fields, .. } if seen.insert(id) => {
                _ = write!(text, r#"{{"name":"{}","type":"record","fields":["#, name.full);
                for (at, field) in fields.iter().enumerate() {
                    _ = write!(text, r#"{}{{"name":"{}","type":"#, if at == 0 { "" } else { "," }, field.name);
                    self.write_canonical(field.node, text, seen);
                    text.push('}');
                }
                text.push_str("]}");
            }
            other => _ = write!(text, r#""{}""#, other.name()),
        }
    }
}

impl Kind {
    /// Returns the full name of a named type, or the name of the kind.
    pub fn name(&self) -> &str {
        match self {
            Self::Null => "null",
            Self::Boolean => "boolean",
            Self::Int => "int",
            Self::Long => "long",
            Self::Float => "float",
            Self::Double => "double",
            Self::Bytes => "bytes",
            Self::String => "string",
            Self::Array(_) => "array",
            Self::Map(_) => "map",
            Self::Union { .. } => "union",
            Self::Fixed(name, _) | Self::Enum { name, .. } | Self::Record { name, .. } => &name.full,
        }
    }

    /// Returns the name of a named type.
    pub fn full_name(&self) -> Option<&Name> {
        match self {
            Self::Fixed(name, _) | Self::Enum { name, .. } | Self::Record { name, .. } => Some(name),
            _ => None,
        }
    }
}

/// Returns a full name without its namespace.
pub fn short(name: &str) -> &str {
    name.rsplit_once('.').map_or(name, |(_, short)| short)
}

impl Schema {
    /// Sets the encoded default of a field.
    pub(super) fn set_default(&mut self, record: Id, at: usize, default: Arc<[u8]>) {
        if let Kind::Record { fields, .. } = &mut self.nodes[record.index()].kind
            && let Some(field) = fields.get_mut(at)
        {
            field.default = Some(default);
        }
    }
}

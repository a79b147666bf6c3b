//! Resolves an Avro writer's schema to a reader's schema, by the rules of the Avro specification.
//!
//! The result is a [`Plan`]: a list of operations that refer to each other by position. Each pair of a writer's type and a
//! reader's type has one operation, so that recursive types need no expansion. A type that cannot be resolved becomes the
//! operation [`Op::Fail`], because a union of the writer can have branches that no value uses.
//! [`Plan::failure`] returns the first type that fails for every value.

use super::fault::{Fault, Result};
use super::schema::avro::{Field, Id, Kind, Logical, Node, Schema, Unit, short};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The position of an operation in its plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OpId(u32);

/// The position of a name in its plan. Sinks keep a representation of their own for each name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NameId(u32);

impl NameId {
    /// Returns the position as an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// How a number is delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// As an integer of the reader's type.
    Integer,
    /// As a float of 32 bits.
    Float,
    /// As a float of 64 bits.
    Double,
}

/// A conversion between units of time: a factor and a divisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Factor.
    pub multiply: i64,
    /// Divisor, at least 1.
    pub divide: i64,
}

/// Reads a value of the writer's type and delivers it as a value of the reader's type.
#[derive(Debug)]
pub enum Op {
    /// Reads nothing.
    Null,
    /// Reads a byte that is 0 or 1.
    Boolean,
    /// Reads an integer of 32 bits.
    Int(Number),
    /// Reads an integer of 64 bits.
    Long(Number),
    /// Reads a float of 32 bits.
    Float(Number),
    /// Reads a float of 64 bits.
    Double,
    /// Reads bytes or a string, and delivers bytes.
    Bytes,
    /// Reads bytes or a string, and delivers text.
    Text,
    /// Reads all remaining bytes, because Confluent's serializers write a value of the schema "bytes" without a length.
    Rest {
        /// Whether the reader has a string.
        is_text: bool,
    },
    /// Reads a number of bytes.
    Fixed(usize),
    /// Reads bytes, or a number of bytes.
    Decimal {
        /// Number of bytes of a fixed type.
        size: Option<usize>,
        /// Maximum number of digits.
        precision: u32,
        /// Number of digits after the point.
        scale: u32,
    },
    /// Reads a decimal with its scale.
    BigDecimal,
    /// Reads a UUID as text or as 16 bytes.
    Uuid {
        /// Whether the writer has 16 bytes.
        is_fixed: bool,
    },
    /// Reads a number of days.
    Date,
    /// Reads a time of day in the reader's unit.
    Time(Unit, Scale),
    /// Reads a timestamp in the reader's unit.
    Timestamp {
        /// The reader's unit.
        unit: Unit,
        /// Whether the timestamp has no time zone.
        is_local: bool,
        /// Converts the writer's unit.
        scale: Scale,
    },
    /// Reads the position of a symbol. The names are the reader's symbols; the text is a symbol that the reader lacks.
    Enum(Vec<std::result::Result<NameId, Arc<str>>>),
    /// Reads items, and has the least size of an item.
    Array(OpId, usize),
    /// Reads keys and values, and has the least size of both.
    Map(OpId, usize),
    /// Reads fields.
    Record(Vec<Step>),
    /// Reads a branch of the writer's union.
    Union(Vec<OpId>),
    /// Delivers a branch of the reader's union.
    Branch(Branch),
    /// Fails, for this reason.
    Fail(Box<str>),
}

/// A branch of the reader's union.
#[derive(Debug)]
pub struct Branch {
    /// The position among the branches that are not null, and the number of these branches.
    pub at: usize,
    /// The number of branches that are not null.
    pub of: usize,
    /// Full name of the branch if it is a record.
    pub record: Option<NameId>,
    /// Reads the branch.
    pub op: OpId,
}

/// Reads a field of a record.
#[derive(Debug)]
pub enum Step {
    /// Reads a field that both have. The number is the position of the reader's field.
    Read(usize, NameId, OpId),
    /// Skips a value of the writer's type.
    Skip(NameId, Id),
    /// Delivers the default of a field that only the reader has.
    Fill(usize, NameId, OpId, Arc<[u8]>),
    /// A field that only the reader has, without a default.
    Missing(NameId),
}

/// How to read values of a writer's schema with a reader's schema.
#[derive(Debug)]
pub struct Plan {
    /// The writer's schema.
    pub writer: Arc<Schema>,
    ops: Vec<Op>,
    root: OpId,
    names: Vec<Arc<str>>,
}

impl Plan {
    /// Resolves a writer's schema to a reader's schema. Fails if the plan is too large.
    pub fn new(writer: &Arc<Schema>, reader: &Arc<Schema>) -> Result<Self> {
        Self::resolved(writer, reader, false)
    }

    /// Returns why a reader cannot read all values of a writer. Named types must have the same name without namespace, or
    /// an alias, although decoding does not depend on the names.
    pub fn incompatibilities(writer: &Arc<Schema>, reader: &Arc<Schema>) -> Result<Vec<Fault>> {
        let plan = Self::resolved(writer, reader, true)?;
        let found = plan.find(true, |op| match op {
            Op::Enum(symbols) => symbols.iter().find_map(|symbol| symbol.as_ref().err()).map(|symbol| {
                let why = format!("the reader has no symbol {symbol:?} and no default");
                (Fault::new(why), None)
            }),
            op => plan.failing(op),
        });
        Ok(found)
    }

    fn resolved(writer: &Arc<Schema>, reader: &Arc<Schema>, is_strict: bool) -> Result<Self> {
        let root = writer.node(writer.root());
        let mut resolver = Resolver {
            reader: reader.clone(),
            is_strict,
            is_rest: matches!(root.kind, Kind::Bytes) && root.logical.is_none(),
            ops: Vec::new(),
            pairs: HashMap::new(),
            open: Vec::new(),
            names: Vec::new(),
            name_ids: HashMap::new(),
        };
        let root = resolver.op(writer.clone(), writer.root(), reader.root())?;
        while let Some((from, w, r, id)) = resolver.open.pop() {
            let op = resolver.resolved(&from, w, r)?;
            resolver.ops[id.0 as usize] = op;
        }
        Ok(Self { writer: writer.clone(), ops: resolver.ops, root, names: resolver.names })
    }

    /// Returns the operation for the whole value.
    pub fn root(&self) -> OpId {
        self.root
    }

    /// Returns an operation of this plan.
    #[inline]
    pub fn op(&self, id: OpId) -> &Op {
        &self.ops[id.0 as usize] // an OpId is made by the resolver of its plan only
    }

    /// Returns a name of this plan.
    #[inline]
    pub fn name(&self, id: NameId) -> &str {
        &self.names[id.index()]
    }

    /// Returns the names of fields, symbols and records.
    pub fn names(&self) -> &[Arc<str>] {
        &self.names
    }

    /// Returns why the plan fails for every value that has all its arrays and maps filled, or `None`.
    pub fn failure(&self) -> Option<Box<Fault>> {
        self.find(false, |op| self.failing(op)).pop().map(Box::new)
    }

    fn failing(&self, op: &Op) -> Option<(Box<Fault>, Option<NameId>)> {
        match op {
            Op::Fail(why) => Some((Fault::new(&**why), None)),
            Op::Record(steps) => steps.iter().find_map(|step| match step {
                Step::Missing(name) => Some((missing(), Some(*name))),
                _ => None,
            }),
            _ => None,
        }
    }

    /// Returns the path of the first field that the reader does not have, or `None`.
    pub fn skipped(&self) -> Option<String> {
        let skipped = self.find(false, |op| match op {
            Op::Record(steps) => steps.iter().find_map(|step| match step {
                Step::Skip(name, _) => Some((Fault::new(""), Some(*name))),
                _ => None,
            }),
            _ => None,
        });
        skipped.first().map(|fault| fault.path())
    }

    /// Searches the operations that the value of the root reaches. Returns all results with `is_all`, or else the first one,
    /// without the failing branches of unions, because these fail only for the values that use them.
    fn find(&self, is_all: bool, test: impl Fn(&Op) -> Option<(Box<Fault>, Option<NameId>)>) -> Vec<Fault> {
        let mut found = Vec::new();
        // For each operation, the operation that led to it.
        let mut origins: HashMap<OpId, Option<(OpId, Way)>> = HashMap::from([(self.root, None)]);
        let mut open = std::collections::VecDeque::from([self.root]);
        while let Some(id) = open.pop_front() {
            if let Some((mut fault, field)) = test(self.op(id)) {
                fault = field.map_or(fault.clone(), |name| fault.in_field(self.name(name)));
                let mut at = id;
                while let Some(Some((outer, way))) = origins.get(&at) {
                    fault = match way {
                        Way::Branch => fault,
                        Way::Items => fault.in_items(),
                        Way::Field(name) => fault.in_field(self.name(*name)),
                    };
                    at = *outer;
                }
                found.push(*fault);
                if !is_all {
                    break;
                }
            }
            let mut reach = |inner: OpId, way: Way| {
                origins.entry(inner).or_insert_with(|| {
                    open.push_back(inner);
                    Some((id, way))
                });
            };
            match self.op(id) {
                Op::Array(item, _) | Op::Map(item, _) => reach(*item, Way::Items),
                Op::Branch(branch) => reach(branch.op, Way::Branch),
                Op::Union(branches) => {
                    let usable = |branch: &&OpId| is_all || !matches!(self.op(**branch), Op::Fail(_));
                    branches.iter().filter(usable).for_each(|branch| reach(*branch, Way::Branch));
                }
                Op::Record(steps) => {
                    for step in steps {
                        if let Step::Read(_, name, op) = step {
                            reach(*op, Way::Field(*name));
                        }
                    }
                }
                _ => {}
            }
        }
        found
    }
}

/// How an operation leads to another one.
enum Way {
    Branch,
    Field(NameId),
    Items,
}

/// Returns the error for a field that only the reader has.
#[cold]
pub fn missing() -> Box<Fault> {
    Fault::new("the writer does not have the field, and the reader has no default for it")
}

struct Resolver {
    reader: Arc<Schema>,
    /// Whether the names of types must match.
    is_strict: bool,
    is_rest: bool,
    ops: Vec<Op>,
    /// The operations by the writer's type and the reader's type. True: the reader is the writer, for defaults.
    pairs: HashMap<(bool, Id, Id), OpId>,
    open: Vec<(Arc<Schema>, Id, Id, OpId)>,
    names: Vec<Arc<str>>,
    name_ids: HashMap<Arc<str>, NameId>,
}

impl Resolver {
    /// Returns the operation for a pair of types, and lists the pair as open work if it is new.
    fn op(&mut self, from: Arc<Schema>, w: Id, r: Id) -> Result<OpId> {
        let key = (Arc::ptr_eq(&from, &self.reader), w, r);
        if let Some(id) = self.pairs.get(&key) {
            return Ok(*id);
        }
        if self.ops.len() >= MOST_OPS {
            return Err(Fault::new("the pair of schemas is too large"));
        }
        let id = OpId(self.ops.len() as u32); // below MOST_OPS
        self.ops.push(Op::Null);
        self.pairs.insert(key, id);
        self.open.push((from, w, r, id));
        Ok(id)
    }

    fn name(&mut self, name: &Arc<str>) -> NameId {
        if let Some(id) = self.name_ids.get(name) {
            return *id;
        }
        let id = NameId(self.names.len() as u32); // a schema has fewer names than bytes
        self.names.push(name.clone());
        self.name_ids.insert(name.clone(), id);
        id
    }

    fn resolved(&mut self, from: &Arc<Schema>, w: Id, r: Id) -> Result<Op> {
        let reader = self.reader.clone();
        let (writer_node, reader_node) = (from.node(w), reader.node(r));
        let is_same = Arc::ptr_eq(from, &reader) && w == r;
        if let Kind::Union { branches, .. } = &writer_node.kind {
            let mut ops = Vec::with_capacity(branches.len());
            for (at, branch) in branches.iter().enumerate() {
                // A union that is resolved to itself can have two branches of one name.
                ops.push(match is_same {
                    true => self.branch(from, *branch, r, at)?,
                    false => self.op(from.clone(), *branch, r)?,
                });
            }
            return Ok(Op::Union(ops));
        }
        let Kind::Union { branches, .. } = &reader_node.kind else {
            return self.single(from, writer_node, reader_node);
        };
        match branch_for(from, w, &reader, r, self.is_strict) {
            Some(at) => {
                let id = self.branch(from, w, r, at)?;
                Ok(std::mem::replace(&mut self.ops[id.0 as usize], Op::Null))
            }
            None => {
                let names: Vec<&str> = branches.iter().take(LISTED).map(|branch| reader.name(*branch)).collect();
                let (name, names) = (writer_node.kind.name(), names.join(", "));
                Ok(Op::Fail(format!("the writer has {name}, and the reader has a union of {names}").into()))
            }
        }
    }

    /// Returns the operation that delivers a branch of the reader's union.
    fn branch(&mut self, from: &Arc<Schema>, w: Id, union: Id, at: usize) -> Result<OpId> {
        let reader = self.reader.clone();
        let Kind::Union { branches, null, .. } = &reader.node(union).kind else {
            return Err(Fault::new("not a union"));
        };
        let Some(branch) = branches.get(at) else { return Err(Fault::new("not a branch")) };
        if *null == Some(at) {
            return self.op(from.clone(), w, *branch);
        }
        let record = match &reader.node(*branch).kind {
            Kind::Record { name, .. } => Some(self.name(&name.full)),
            _ => None,
        };
        let op = self.op(from.clone(), w, *branch)?;
        let (at, of) =
            (at - usize::from(null.is_some_and(|null| null < at)), branches.len() - usize::from(null.is_some()));
        if self.ops.len() >= MOST_OPS {
            return Err(Fault::new("the pair of schemas is too large"));
        }
        let id = OpId(self.ops.len() as u32); // below MOST_OPS
        self.ops.push(Op::Branch(Branch { at, of, record, op }));
        Ok(id)
    }

    /// Resolves two types that are not unions.
    fn single(&mut self, from: &Arc<Schema>, w: &Node, r: &Node) -> Result<Op> {
        let fixed_size = if let Kind::Fixed(_, size) = w.kind { Some(size) } else { None };
        let is_binary = matches!(w.kind, Kind::Bytes | Kind::String) && matches!(r.kind, Kind::Bytes | Kind::String);
        let is_fixed = matches!((&w.kind, &r.kind), (Kind::Fixed(_, a), Kind::Fixed(_, b)) if a == b);
        let is_integer = matches!((&w.kind, &r.kind), (Kind::Int, Kind::Int | Kind::Long) | (Kind::Long, Kind::Long));
        if let (Some(theirs), Some(name)) = (w.kind.full_name(), r.kind.full_name())
            && self.is_strict
            && theirs.short() != name.short()
            && !name.aliases.contains(&theirs.full)
        {
            return Ok(Op::Fail(format!("the writer has {}, and the reader has {}", theirs.full, name.full).into()));
        }
        let number = match r.kind {
            Kind::Float => Number::Float,
            Kind::Double => Number::Double,
            _ => Number::Integer,
        };
        Ok(match (r.logical, &w.kind, &r.kind) {
            (Some(Logical::Decimal { precision, scale }), ..) if is_fixed || is_binary => {
                let (precision, scale) = match w.logical {
                    Some(Logical::Decimal { precision, scale }) => (precision, scale),
                    _ => (precision, scale),
                };
                Op::Decimal { size: fixed_size, precision, scale }
            }
            (Some(Logical::BigDecimal), ..) if is_binary => Op::BigDecimal,
            (Some(Logical::Uuid), ..) if is_fixed || is_binary => Op::Uuid { is_fixed },
            (Some(Logical::Date), ..) if is_integer => Op::Date,
            (Some(Logical::Time(unit)), ..) if is_integer => Op::Time(unit, scale(w, unit)),
            (Some(Logical::Timestamp { unit, is_local }), ..) if is_integer => {
                Op::Timestamp { unit, is_local, scale: scale(w, unit) }
            }
            (_, Kind::Null, Kind::Null) => Op::Null,
            (_, Kind::Boolean, Kind::Boolean) => Op::Boolean,
            (_, Kind::Int, Kind::Int | Kind::Long | Kind::Float | Kind::Double) => Op::Int(number),
            (_, Kind::Long, Kind::Long | Kind::Float | Kind::Double) => Op::Long(number),
            (_, Kind::Float, Kind::Float | Kind::Double) => Op::Float(number),
            (_, Kind::Double, Kind::Double) => Op::Double,
            (_, Kind::Bytes, Kind::Bytes | Kind::String) if self.is_rest => {
                Op::Rest { is_text: matches!(r.kind, Kind::String) }
            }
            (_, Kind::Bytes | Kind::String, Kind::Bytes) => Op::Bytes,
            (_, Kind::Bytes | Kind::String, Kind::String) => Op::Text,
            (_, Kind::Fixed(_, size), Kind::Fixed(..)) if is_fixed => Op::Fixed(*size),
            (_, Kind::Enum { symbols, .. }, Kind::Enum { symbols: theirs, default, .. }) => {
                let known: HashSet<&Arc<str>> = theirs.iter().collect();
                let default = default.and_then(|at| theirs.get(at));
                let symbols = symbols.iter().map(|symbol| match (known.contains(symbol), default) {
                    (true, _) => Ok(self.name(symbol)),
                    (false, Some(default)) => Ok(self.name(default)),
                    (false, None) => Err(symbol.clone()),
                });
                Op::Enum(symbols.collect())
            }
            (_, Kind::Array(item), Kind::Array(theirs)) => {
                Op::Array(self.op(from.clone(), *item, *theirs)?, from.node(*item).least)
            }
            (_, Kind::Map(item), Kind::Map(theirs)) => {
                Op::Map(self.op(from.clone(), *item, *theirs)?, from.node(*item).least.saturating_add(1))
            }
            (_, Kind::Record { fields, by_name, .. }, Kind::Record { fields: theirs, .. }) => {
                self.record(from, fields, by_name, theirs)?
            }
            _ => Op::Fail(format!("the writer has {}, and the reader has {}", w.kind.name(), r.kind.name()).into()),
        })
    }

    fn record(
        &mut self,
        from: &Arc<Schema>,
        fields: &[Field],
        by_name: &HashMap<Arc<str>, usize>,
        theirs: &[Field],
    ) -> Result<Op> {
        // For each field of the writer, the field of the reader. A name wins over an alias.
        let mut targets: Vec<Option<usize>> = vec![None; fields.len()];
        let mut is_found = vec![false; theirs.len()];
        let mut assign = |at: usize, name: &Arc<str>, is_found: &mut bool| {
            if let Some(target) = by_name.get(name).and_then(|source| targets.get_mut(*source))
                && target.is_none()
                && !*is_found
            {
                (*target, *is_found) = (Some(at), true);
            }
        };
        for ((at, field), found) in theirs.iter().enumerate().zip(&mut is_found) {
            assign(at, &field.name, found);
        }
        for ((at, field), found) in theirs.iter().enumerate().zip(&mut is_found) {
            field.aliases.iter().for_each(|alias| assign(at, alias, found));
        }
        let mut steps = Vec::with_capacity(fields.len());
        for (field, target) in fields.iter().zip(targets) {
            steps.push(match target.and_then(|at| Some((at, theirs.get(at)?))) {
                Some((at, their)) => {
                    Step::Read(at, self.name(&their.name), self.op(from.clone(), field.node, their.node)?)
                }
                None => Step::Skip(self.name(&field.name), field.node),
            });
        }
        let reader = self.reader.clone();
        for ((at, field), _) in theirs.iter().enumerate().zip(is_found).filter(|(_, is_found)| !is_found) {
            let name = self.name(&field.name);
            match &field.default {
                Some(default) => {
                    let op = self.op(reader.clone(), field.node, field.node)?;
                    steps.push(Step::Fill(at, name, op, default.clone()));
                }
                None => steps.insert(0, Step::Missing(name)),
            }
        }
        Ok(Op::Record(steps))
    }
}

/// Returns the branch of a reader's union for a writer's type that is not a union.
fn branch_for(writer: &Schema, w: Id, reader: &Schema, union: Id, is_strict: bool) -> Option<usize> {
    let Kind::Union { branches, by_name, .. } = &reader.node(union).kind else { return None };
    let node = writer.node(w);
    let name = node.kind.name();
    let fits = |at: &usize| branches.get(*at).is_some_and(|id| is_like(&node.kind, &reader.node(*id).kind));
    let by_name = by_name.get(name).filter(|at| fits(at)).or_else(|| by_name.get(short(name)).filter(|at| fits(at)));
    if let Some(at) = by_name {
        // Branches of one type can differ in the logical type.
        let is_equal =
            |id: &Id| reader.node(*id).logical == node.logical && is_like(&node.kind, &reader.node(*id).kind);
        let is_first_equal = branches.get(*at).is_some_and(is_equal) || node.kind.full_name().is_some();
        let equal = if is_first_equal { None } else { branches.iter().take(SEARCHED).position(is_equal) };
        return Some(equal.unwrap_or(*at));
    }
    let position = |test: fn(&Kind, &Kind) -> bool| {
        branches.iter().take(SEARCHED).position(|id| test(&node.kind, &reader.node(*id).kind))
    };
    let is_named = node.kind.full_name().is_some();
    if is_named && is_strict { None } else { position(is_like).or_else(|| position(promotes)) }
}

/// Returns whether two types have the same shape, regardless of names, fields, items and symbols.
fn is_like(writer: &Kind, reader: &Kind) -> bool {
    match (writer, reader) {
        (Kind::Fixed(_, a), Kind::Fixed(_, b)) => a == b,
        _ => std::mem::discriminant(writer) == std::mem::discriminant(reader),
    }
}

fn promotes(writer: &Kind, reader: &Kind) -> bool {
    matches!(
        (writer, reader),
        (Kind::Int, Kind::Long | Kind::Float | Kind::Double)
            | (Kind::Long, Kind::Float | Kind::Double)
            | (Kind::Float, Kind::Double)
            | (Kind::Bytes, Kind::String)
            | (Kind::String, Kind::Bytes)
    )
}

/// Returns the conversion from the writer's unit of time.
fn scale(writer: &Node, unit: Unit) -> Scale {
    let (Some(Logical::Time(theirs)) | Some(Logical::Timestamp { unit: theirs, .. })) = writer.logical else {
        return Scale { multiply: 1, divide: 1 };
    };
    let (to, from) = (unit.per_second(), theirs.per_second());
    Scale { multiply: (to / from).max(1), divide: (from / to).max(1) }
}

/// Maximum number of operations of a plan.
const MOST_OPS: usize = 1 << 20;

/// Maximum number of branches of a union that an error lists.
const LISTED: usize = 32;

/// Maximum number of branches of a union that are searched for a type that is not found by its name.
const SEARCHED: usize = 256;

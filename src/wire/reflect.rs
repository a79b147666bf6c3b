//! Access to messages by field name: converts between a typed message and its [`Value`], and describes the fields of a
//! message.
//!
//! For each struct, `message!` generates one function for reflection: [`Struct::fields`], which shows each field as a
//! [`Shape`] together with its declaration. All other functions of this file use [`Struct::fields`], and are shared by
//! all structs. If `message!` generated more reflection functions for each of the hundreds of structs, they would make
//! up most of the codec's code. Field names are spelled as in Kafka's schemas (`throttleTimeMs`).

use super::declaration::{LONGEST_STRING, When, camel_case, split_field};
use super::{Error, Reason, Step, Uuid, Value};
use bytes::Bytes;
use std::collections::HashMap;
use std::mem::take;
use std::sync::Arc;

/// The type of a field.
#[derive(Clone, Debug, PartialEq)]
pub enum Type {
    /// A boolean.
    Bool,
    /// An 8-bit integer.
    Int8,
    /// A 16-bit integer.
    Int16,
    /// An unsigned 16-bit integer.
    Uint16,
    /// A 32-bit integer.
    Int32,
    /// An unsigned 32-bit integer.
    Uint32,
    /// A 64-bit integer.
    Int64,
    /// A floating-point number of 64 bits.
    Float64,
    /// A string.
    String,
    /// Bytes, including records.
    Bytes,
    /// A UUID of 16 bytes.
    Uuid,
    /// An array of elements of one type.
    Array(Box<Type>),
    /// A nullable value.
    Nullable(Box<Type>),
    /// A struct.
    Struct {
        /// The name of the struct in klamm.
        name: &'static str,
        /// The fields of all versions, in wire order, with tagged fields ordered by tag.
        fields: Vec<Field>,
    },
}

/// A declared field.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// The declared name, such as `throttle_time_ms`.
    pub name: &'static str,
    /// The versions of the field, and its tag.
    pub when: When,
    /// The type of the field.
    pub holds: Type,
    /// The default of the field. The default of a struct consists of the defaults of its fields.
    pub default: Option<Value>,
}

/// Visits a value.
pub type ValueVisitor<'a> = dyn FnMut(Shape<'_>) + 'a;

/// A value that can be read and written by name.
pub trait Reflect {
    /// Shows the value to a visitor, as one of Kafka's basic types.
    fn shape(&mut self, visit: &mut ValueVisitor<'_>);

    /// Shows the value to a visitor.
    fn show(&mut self, walk: &mut FieldWalk<'_>) {
        self.shape(&mut |shape| walk.visit_field(false, shape));
    }
}

/// A reference to a value, for code that reads and changes the value without knowing its Rust type.
#[allow(missing_docs, reason = "the variants are those of `Type`")]
pub enum Shape<'a> {
    Bool(&'a mut bool),
    Int8(&'a mut i8),
    Int16(&'a mut i16),
    Uint16(&'a mut u16),
    Int32(&'a mut i32),
    Uint32(&'a mut u32),
    Int64(&'a mut i64),
    Float64(&'a mut f64),
    String(&'a mut String),
    Bytes(&'a mut Bytes),
    Uuid(&'a mut Uuid),
    Array(&'a mut dyn Array),
    Nullable(&'a mut dyn Nullable),
    Struct(&'a mut dyn Struct),
}

/// A struct that `message!` declares.
pub trait Struct {
    /// Shows every field of all versions, in order.
    fn fields(&mut self, walk: &mut FieldWalk<'_>);
}

// Lists, nullable values and structs are shown as references to references. A trait object of the value itself would
// need an entry for its drop function.

/// A list that can grow by an element with default values.
pub trait Grow {
    /// Adds an element.
    fn grow(&mut self);
}

impl<T: Default> Grow for &mut Vec<T> {
    #[inline(never)]
    fn grow(&mut self) {
        // Not `push`: it builds the element before it reserves memory, and would need code to drop the element on
        // failure.
        self.extend(std::iter::once_with(T::default));
    }
}

/// A list of elements of any type.
pub trait Array: Grow {
    /// Shows an element to a visitor, if the list has that element.
    fn item(&mut self, i: usize, visit: &mut ValueVisitor<'_>);
}

/// A nullable value.
pub trait Nullable {
    /// Sets the value to null if `null` is true, or else to its default.
    fn put(&mut self, null: bool);
    /// Shows the value to a visitor, unless the value is null.
    fn item(&mut self, visit: &mut ValueVisitor<'_>);
}

/// Visits a field. The arguments are its name, its versions, whether it is tagged and has its default, and its value.
type FieldVisitor<'a> = dyn FnMut(&'static str, &When, bool, Shape<'_>) + 'a;

/// Iterates over the fields of a struct.
pub struct FieldWalk<'a> {
    /// The declarations of the fields that have not been visited.
    declared: &'static str,
    name: &'static str,
    visit: &'a mut FieldVisitor<'a>,
}

impl FieldWalk<'_> {
    /// Starts with the declaration of a struct, as `message!` generates it: its name and its fields, each followed by a
    /// semicolon.
    #[inline(never)]
    pub fn begin(&mut self, declared: &'static str) {
        self.declared = declared;
        self.name = self.next();
    }

    fn next(&mut self) -> &'static str {
        let (next, rest) = self.declared.split_once(';').unwrap_or_default();
        self.declared = rest;
        next
    }

    /// Shows the next field to the visitor. `is_default` tells whether the field is tagged and has its default.
    #[inline(never)]
    pub fn visit_field(&mut self, is_default: bool, shape: Shape<'_>) {
        let (name, when) = split_field(self.next());
        (self.visit)(name, &When::parse(when), is_default, shape);
    }

    // Out of line, because only every eighth field needs it.
    #[inline(never)]
    fn visit_list(&mut self, list: &mut dyn Array) {
        self.visit_field(false, Shape::Array(list));
    }
}

/// Shows every field of a struct to the visitor. Returns the name of the struct.
fn walk<'a>(over: &mut dyn Struct, visit: &'a mut FieldVisitor<'a>) -> &'static str {
    let mut walk = FieldWalk { declared: "", name: "", visit };
    over.fields(&mut walk);
    walk.name
}

/// Moves a value out of a message, with the fields that `version` has. The message must not be used after this call.
pub fn take_value(from: &mut Shape<'_>, version: i16) -> Value {
    take_named(from, version, &mut HashMap::new())
}

/// Maps declared field names to the names of fields in values.
type Names = HashMap<&'static str, Arc<str>>;

fn take_named(from: &mut Shape<'_>, version: i16, names: &mut Names) -> Value {
    match from {
        Shape::Bool(v) => Value::Bool(**v),
        Shape::Int8(v) => Value::Int((**v).into()),
        Shape::Int16(v) => Value::Int((**v).into()),
        Shape::Uint16(v) => Value::Int((**v).into()),
        Shape::Int32(v) => Value::Int((**v).into()),
        Shape::Uint32(v) => Value::Int((**v).into()),
        Shape::Int64(v) => Value::Int(**v),
        Shape::Float64(v) => Value::Float(**v),
        Shape::String(v) => Value::String(take(v)),
        Shape::Bytes(v) => Value::Bytes(take(v)),
        Shape::Uuid(v) => Value::Uuid(**v),
        Shape::Array(items) => {
            let n = length(*items);
            let mut list = Vec::with_capacity(n);
            for i in 0..n {
                items.item(i, &mut |mut item| list.push(take_named(&mut item, version, names)));
            }
            Value::List(list)
        }
        Shape::Nullable(of) => {
            let mut value = Value::Null;
            of.item(&mut |mut item| value = take_named(&mut item, version, names));
            value
        }
        Shape::Struct(of) => {
            let mut fields = Vec::new();
            walk(*of, &mut |name, when, is_default, mut shape| {
                if when.has(version) && !is_default {
                    let value = take_named(&mut shape, version, names);
                    fields.push((names.entry(name).or_insert_with(|| camel_case(name).into()).clone(), value));
                }
            });
            // There may be as many structs as bytes, and none of them grows later.
            fields.shrink_to_fit();
            Value::Struct(fields)
        }
    }
}

/// Returns the number of elements of a list. The function searches for the end of the list, which saves a generated
/// function for each list type.
fn length(items: &mut dyn Array) -> usize {
    let mut has = |i| {
        let mut has = false;
        items.item(i, &mut |_| has = true);
        has
    };
    let mut beyond = 1;
    while has(beyond - 1) {
        beyond *= 2;
    }
    let mut length = beyond / 2;
    while length + 1 < beyond {
        let middle = length.midpoint(beyond);
        *(if has(middle - 1) { &mut length } else { &mut beyond }) = middle;
    }
    length
}

/// Writes a value into a message that contains only defaults. Fields that the value does not have keep their defaults.
pub fn set_value(into: Shape<'_>, value: Value, version: i16) -> Result<(), Error> {
    match (into, value) {
        (Shape::Bool(slot), Value::Bool(v)) => *slot = v,
        (Shape::Int8(slot), Value::Int(v)) => set_int(slot, v, "an 8-bit integer")?,
        (Shape::Int16(slot), Value::Int(v)) => set_int(slot, v, "a 16-bit integer")?,
        (Shape::Uint16(slot), Value::Int(v)) => set_int(slot, v, "an unsigned 16-bit integer")?,
        (Shape::Int32(slot), Value::Int(v)) => set_int(slot, v, "a 32-bit integer")?,
        (Shape::Uint32(slot), Value::Int(v)) => set_int(slot, v, "an unsigned 32-bit integer")?,
        (Shape::Int64(slot), Value::Int(v)) => *slot = v,
        (Shape::Float64(slot), Value::Float(v)) => *slot = v,
        (Shape::Float64(slot), Value::Int(v)) => *slot = v as f64,
        (Shape::String(slot), Value::String(v)) => *slot = v,
        (Shape::Bytes(slot), Value::Bytes(v)) => *slot = v,
        (Shape::Uuid(slot), Value::Uuid(v)) => *slot = v,
        // Also accepts the text form, for languages without a UUID type.
        (Shape::Uuid(slot), Value::String(text)) => {
            *slot = text.parse().map_err(|_| wrong("a uuid of 22 characters", format!("{text:?}")))?;
        }
        (Shape::Array(slot), Value::List(items)) => {
            for (i, item) in items.into_iter().enumerate() {
                slot.grow();
                let mut item = Some(item);
                let mut set = Ok(());
                slot.item(i, &mut |slot| set = set_once(slot, &mut item, version));
                set.map_err(|e| e.within(Step::Index(i)))?;
            }
        }
        (Shape::Nullable(slot), value) => {
            slot.put(value == Value::Null);
            let mut value = Some(value);
            let mut set = Ok(());
            slot.item(&mut |slot| set = set_once(slot, &mut value, version));
            set?;
        }
        (Shape::Struct(of), Value::Struct(fields)) => set_fields(of, fields, version)?,
        (into, value) => return Err(wrong(into.expected(), value.kind().to_owned())),
    }
    Ok(())
}

/// Writes a value through a function that may be called more than once.
fn set_once(into: Shape<'_>, value: &mut Option<Value>, version: i16) -> Result<(), Error> {
    value.take().map_or(Ok(()), |value| set_value(into, value, version))
}

fn set_int<T: TryFrom<i64>>(slot: &mut T, v: i64, expected: &'static str) -> Result<(), Error> {
    *slot = T::try_from(v).map_err(|_| wrong(expected, v.to_string()))?;
    Ok(())
}

fn set_fields(of: &mut dyn Struct, mut values: Vec<(Arc<str>, Value)>, version: i16) -> Result<(), Error> {
    let mut result = Ok(());
    walk(of, &mut |name, when, _, shape| {
        if result.is_ok() && when.has(version) {
            let spelled_name = camel_case(name);
            if let Some(at) = values.iter().position(|(key, _)| **key == *spelled_name) {
                result = set_value(shape, values.remove(at).1, version).map_err(|e| e.in_field(name));
            }
        }
    });
    result?;
    match values.into_iter().next() {
        None => Ok(()),
        Some((name, _)) => Err(unknown_field(name.to_string(), of, version)),
    }
}

/// Returns the error for the first field that a version cannot encode, with the field's path. The writer itself knows
/// at most the byte offset.
pub fn find_unwritable(of: Shape<'_>, version: i16, at: usize) -> Option<Error> {
    let mut error: Option<Error> = None;
    match of {
        Shape::String(text) if text.len() > LONGEST_STRING => {
            error = Some(Error::new(Reason::TooLong { length: text.len(), limit: LONGEST_STRING }, at));
        }
        Shape::Nullable(of) => of.item(&mut |item| error = find_unwritable(item, version, at)),
        Shape::Array(items) => {
            let (mut i, mut is_there) = (0, true);
            while is_there && error.is_none() {
                is_there = false;
                items.item(i, &mut |item| {
                    is_there = true;
                    error = find_unwritable(item, version, at).map(|e| e.within(Step::Index(i)));
                });
                i += 1;
            }
        }
        Shape::Struct(of) => {
            walk(of, &mut |name, when, _, mut shape| {
                if error.is_some() || !when.has(version) {
                    return;
                }
                let wrong = match when.has_null(version) || !is_null(&mut shape) {
                    true => find_unwritable(shape, version, at),
                    false => Some(Error::new(Reason::Null, at)),
                };
                error = wrong.map(|e| e.in_field(name));
            });
        }
        _ => {}
    }
    error
}

fn is_null(shape: &mut Shape<'_>) -> bool {
    let mut is_null = matches!(shape, Shape::Nullable(_));
    if let Shape::Nullable(of) = shape {
        of.item(&mut |_| is_null = false);
    }
    is_null
}

/// Describes the type of a value. Pass a new value, because the function moves the defaults out of the value.
pub fn describe(of: Shape<'_>) -> Type {
    match of {
        Shape::Bool(_) => Type::Bool,
        Shape::Int8(_) => Type::Int8,
        Shape::Int16(_) => Type::Int16,
        Shape::Uint16(_) => Type::Uint16,
        Shape::Int32(_) => Type::Int32,
        Shape::Uint32(_) => Type::Uint32,
        Shape::Int64(_) => Type::Int64,
        Shape::Float64(_) => Type::Float64,
        Shape::String(_) => Type::String,
        Shape::Bytes(_) => Type::Bytes,
        Shape::Uuid(_) => Type::Uuid,
        Shape::Array(of) => {
            of.grow();
            let mut item = Type::Bool;
            of.item(0, &mut |shape| item = describe(shape));
            Type::Array(Box::new(item))
        }
        Shape::Nullable(of) => {
            of.put(false);
            let mut item = Type::Bool;
            of.item(&mut |shape| item = describe(shape));
            Type::Nullable(Box::new(item))
        }
        Shape::Struct(of) => {
            let mut fields = Vec::new();
            let name = walk(of, &mut |name, when, _, mut shape| {
                let default = (!matches!(shape, Shape::Struct(_))).then(|| take_value(&mut shape, i16::MAX));
                fields.push(Field { name, when: *when, holds: describe(shape), default });
            });
            Type::Struct { name, fields }
        }
    }
}

/// Returns the error for a name that no field has in this version.
#[cold]
fn unknown_field(name: String, of: &mut dyn Struct, version: i16) -> Error {
    let mut nearest: Option<(usize, String)> = None;
    walk(of, &mut |field, when, _, _| {
        if when.has(version) {
            let field = camel_case(field);
            let candidate = (strsim::damerau_levenshtein(&field, &name), field);
            if nearest.as_ref().is_none_or(|nearest| candidate < *nearest) {
                nearest = Some(candidate);
            }
        }
    });
    let nearest = nearest.filter(|(distance, field)| *distance <= field.len() / 2).map(|(_, field)| field);
    Error::new(Reason::UnknownField { name, nearest }, 0)
}

/// Returns the error for a value that has another type than the field, or that is out of the field's range.
#[cold]
fn wrong(expected: &'static str, received: String) -> Error {
    Error::new(Reason::Type { wanted: expected, got: received }, 0)
}

impl Shape<'_> {
    fn expected(&self) -> &'static str {
        match self {
            Self::Bool(_) => "a boolean",
            Self::Int8(_) => "an 8-bit integer",
            Self::Int16(_) => "a 16-bit integer",
            Self::Uint16(_) => "an unsigned 16-bit integer",
            Self::Int32(_) => "a 32-bit integer",
            Self::Uint32(_) => "an unsigned 32-bit integer",
            Self::Int64(_) => "a 64-bit integer",
            Self::Float64(_) => "a float",
            Self::String(_) => "a string",
            Self::Bytes(_) => "bytes",
            Self::Uuid(_) => "a uuid",
            Self::Array(_) => "a list",
            Self::Nullable(_) => "null",
            Self::Struct(_) => "a struct",
        }
    }
}

macro_rules! shapes {
    ($($t:ty: $shape:ident)*) => { $(
        impl Reflect for $t {
            fn shape(&mut self, visit: &mut ValueVisitor<'_>) {
                visit(Shape::$shape(self));
            }
            // Out of line, because most fields are of one of these types.
            #[inline(never)]
            fn show(&mut self, walk: &mut FieldWalk<'_>) {
                walk.visit_field(false, Shape::$shape(self));
            }
        }
    )* };
}
shapes!(bool: Bool i8: Int8 i16: Int16 u16: Uint16 i32: Int32 u32: Uint32 i64: Int64 f64: Float64 String: String
    Bytes: Bytes Uuid: Uuid);

impl<T: Struct> Struct for &mut T {
    fn fields(&mut self, walk: &mut FieldWalk<'_>) {
        (**self).fields(walk);
    }
}

impl<T: Struct> Reflect for T {
    fn shape(&mut self, visit: &mut ValueVisitor<'_>) {
        visit(Shape::Struct(&mut &mut *self));
    }
}

impl<T: Reflect + Default> Reflect for Vec<T> {
    fn shape(&mut self, visit: &mut ValueVisitor<'_>) {
        visit(Shape::Array(&mut &mut *self));
    }
    fn show(&mut self, walk: &mut FieldWalk<'_>) {
        walk.visit_list(&mut &mut *self);
    }
}

impl<T: Reflect + Default> Reflect for Option<T> {
    fn shape(&mut self, visit: &mut ValueVisitor<'_>) {
        visit(Shape::Nullable(&mut &mut *self));
    }
    #[inline(never)]
    fn show(&mut self, walk: &mut FieldWalk<'_>) {
        walk.visit_field(false, Shape::Nullable(&mut &mut *self));
    }
}

impl<T: Reflect + Default> Array for &mut Vec<T> {
    fn item(&mut self, i: usize, visit: &mut ValueVisitor<'_>) {
        if let Some(item) = self.get_mut(i) {
            item.shape(visit);
        }
    }
}

impl<T: Reflect + Default> Nullable for &mut Option<T> {
    fn put(&mut self, null: bool) {
        **self = (!null).then(T::default);
    }
    fn item(&mut self, visit: &mut ValueVisitor<'_>) {
        if let Some(item) = &mut **self {
            item.shape(visit);
        }
    }
}

//! Checks the decoders of schema registry values. Decoders do not panic or exceed their memory limit, and a value that
//! fails leaves nothing in the column.
//!
//! Input: the number of a plan, and a payload.

#![no_main]

use arrow_schema::{DataType, Field, TimeUnit};
use klamm::registry::{Column, Plan, nullable};
use klamm::typed::resolve;
use klamm::typed::schema::avro::Schema;
use libfuzzer_sys::fuzz_target;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

/// A plan for each format. Together they have all that decoders distinguish.
static PLANS: LazyLock<Vec<Plan>> = LazyLock::new(|| {
    let parsed = |plan| Plan::parse(plan).expect("a plan that can be read");
    vec![avro(WRITER, READER), parsed(PROTOBUF), parsed("[\"json\"]"), avro("\"bytes\"", "\"string\"")]
});

/// Returns a plan that reads values of a writer's schema with a reader's schema.
fn avro(writer: &str, reader: &str) -> Plan {
    let schema = |text| Arc::new(Schema::parse(text, &[]).expect("a schema"));
    Plan::Avro(Arc::new(resolve::Plan::new(&schema(writer), &schema(reader)).expect("a plan")))
}

const WRITER: &str = r#"{"type": "record", "name": "R", "fields": [
    {"name": "n", "type": ["null", "long", "string"]}, {"name": "s", "type": "string"},
    {"name": "l", "type": {"type": "array", "items": {"type": "record", "name": "L", "fields": [{"name": "x", "type": "int"}]}}},
    {"name": "m", "type": {"type": "map", "values": {"type": "enum", "name": "E", "symbols": ["A", "B"]}}},
    {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
    {"name": "gone", "type": {"type": "array", "items": {"type": "map",
        "values": ["null", "boolean", {"type": "fixed", "name": "G", "size": 2}]}}},
    {"name": "t", "type": {"type": "long", "logicalType": "local-timestamp-millis"}},
    {"name": "f", "type": {"type": "fixed", "name": "F", "size": 3}}, {"name": "b", "type": "boolean"},
    {"name": "g", "type": "float"},
    {"name": "u", "type": ["null", {"type": "string", "logicalType": "uuid"}, {"type": "array", "items": "null"}]},
    {"name": "day", "type": {"type": "int", "logicalType": "date"}},
    {"name": "w", "type": {"type": "fixed", "name": "W", "size": 40, "logicalType": "decimal", "precision": 50, "scale": 1}},
    {"name": "c", "type": {"type": "int", "logicalType": "time-millis"}},
    {"name": "j", "type": {"type": "record", "name": "J", "fields": [
        {"name": "in", "type": ["null", "J"]}, {"name": "of", "type": {"type": "map", "values": ["double", "bytes"]}}]}}]}"#;
const READER: &str = r#"{"type": "record", "name": "R", "fields": [
    {"name": "n", "type": ["null", "long"]}, {"name": "s", "type": "string"},
    {"name": "l", "type": {"type": "array", "items": {"type": "record", "name": "L", "fields": [
        {"name": "x", "type": "int"}, {"name": "y", "type": "double", "default": 0}]}}},
    {"name": "m", "type": {"type": "map", "values": {"type": "enum", "name": "E", "symbols": ["A"]}}},
    {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
    {"name": "t", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
    {"name": "f", "type": {"type": "fixed", "name": "F", "size": 3}}, {"name": "b", "type": "boolean"},
    {"name": "g", "type": "float"},
    {"name": "u", "type": ["null", {"type": "string", "logicalType": "uuid"}, {"type": "array", "items": "null"}]},
    {"name": "day", "type": {"type": "int", "logicalType": "date"}},
    {"name": "w", "type": {"type": "fixed", "name": "W", "size": 40, "logicalType": "decimal", "precision": 50, "scale": 1}},
    {"name": "c", "type": {"type": "int", "logicalType": "time-millis"}},
    {"name": "j", "type": {"type": "record", "name": "J", "fields": [
        {"name": "in", "type": ["null", "J"]}, {"name": "of", "type": {"type": "map", "values": ["double", "bytes"]}}]}}]}"#;
const PROTOBUF: &str = r#"["protobuf", [
    [1, "n", ["sint64"], "optional", 0], [2, "s", ["string"], "optional", 0],
    [3, "l", ["message", [[1, "x", ["int32"], "implicit"], [2, "y", ["double"], "implicit"]]], "repeated"],
    [4, "m", ["message", [[1, "key", ["string"], "implicit"], [2, "value", ["enum", [[0, "A"]]], "implicit"]]], "map"],
    [5, "d", ["bytes"], "optional"], [6, "t", ["time"], "optional"], [7, "f", ["bytes"], "optional"], [8, "b", ["bool"], "implicit"],
    [9, "g", ["float"], "implicit"],
    [10, "u", ["message", [[1, "x", ["string"], "optional"], [2, "y", ["sfixed32"], "repeated"]]], "optional", 0],
    [11, "day", ["sint32"], "optional"], [12, "w", ["uint64"], "optional"], [200, "c", ["fixed32"], "optional"],
    [14, "j", ["wrapper", [[1, "value", ["string"], "implicit"]]], "optional", 0]]]"#;

fn column(plan: usize) -> Column {
    let (is_avro, is_protobuf) = (plan == 0, plan == 1);
    let line = DataType::Struct(vec![nullable("x", DataType::Int32), nullable("y", DataType::Float64)].into());
    let entry = vec![Arc::new(Field::new("key", DataType::Utf8, false)), nullable("value", DataType::Utf8)];
    let entries = Arc::new(Field::new("entries", DataType::Struct(entry.into()), false));
    let items = if is_avro { DataType::Null } else { DataType::Int32 };
    let inner = vec![nullable("x", DataType::Utf8), nullable("y", DataType::List(nullable("item", items)))];
    let text = Field::new("j", DataType::Utf8, true);
    let text =
        if !is_protobuf { text.with_metadata(HashMap::from([("klamm.json".into(), "text".into())])) } else { text };
    let fields = vec![
        nullable("n", DataType::Int64),
        nullable("s", DataType::Utf8),
        nullable("l", DataType::List(nullable("item", line))),
        nullable("m", DataType::Map(entries, false)),
        nullable("d", if is_protobuf { DataType::Binary } else { DataType::Decimal128(10, 2) }),
        nullable("t", DataType::Timestamp(TimeUnit::Microsecond, None)),
        nullable("f", DataType::FixedSizeBinary(3)),
        nullable("b", DataType::Boolean),
        nullable("g", DataType::Float32),
        nullable("u", DataType::Struct(inner.into())),
        nullable("day", DataType::Date32),
        nullable("w", if is_protobuf { DataType::UInt64 } else { DataType::Decimal256(50, 1) }),
        nullable("c", if is_protobuf { DataType::UInt32 } else { DataType::Time32(TimeUnit::Millisecond) }),
        Arc::new(text),
    ];
    let kind = if plan == 3 { DataType::Utf8 } else { DataType::Struct(fields.into()) };
    Column::new(&nullable("value", kind)).expect("a type that columns can have")
}

fuzz_target!(|data: &[u8]| {
    let [number, payload @ ..] = data else { return };
    let at = usize::from(*number) % PLANS.len();
    let mut column = column(at);
    for _ in 0..2 {
        let length = column.len();
        if PLANS[at].decode(payload, &mut column).is_err() {
            column.truncate(length);
            column.push_null();
        }
    }
    // A record has at most two items for each byte, and 1,000 more. An item of the list is the largest: 12 bytes.
    assert!(column.size() <= 2 * 64 * (2 * payload.len() + 1000));
    assert_eq!(column.finish().len(), 2);
});

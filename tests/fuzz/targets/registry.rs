//! Values of a schema registry: decoders neither panic nor exceed their memory, and a failed value leaves no trace.
//!
//! Input: the number of a plan, and a payload.

#![no_main]

use arrow_schema::{DataType, Field, TimeUnit};
use klamm::registry::{Column, Plan, nullable};
use libfuzzer_sys::fuzz_target;
use std::sync::{Arc, LazyLock};

/// A column with all that decoders distinguish, and a plan for each format that fills it.
static PLANS: LazyLock<Vec<Plan>> =
    LazyLock::new(|| [AVRO, PROTOBUF, "[\"json\"]"].iter().filter_map(|p| Plan::parse(p)).collect());

const AVRO: &str = r#"["avro", ["record", [
    ["read", 0, "n", ["union", [["null"], ["long"]]]], ["read", 1, "s", ["bytes"]],
    ["read", 2, "l", ["array", ["record", [["read", 0, "x", ["int"]], ["fill", 1, "y", ["double"], [0, 0, 0, 0, 0, 0, 0, 0]]]]]],
    ["read", 3, "m", ["map", ["enum", [["A", true], ["B", false]]]]], ["read", 4, "d", ["decimal", null, 2]],
    ["skip", "gone", ["array", ["null"]]], ["read", 5, "t", ["scaled", 1000, 1]]]]]"#;
const PROTOBUF: &str = r#"["protobuf", [
    [1, "n", ["sint64"], "optional", 0], [2, "s", ["string"], "optional", 0],
    [3, "l", ["message", [[1, "x", ["int32"], "implicit"], [2, "y", ["double"], "implicit"]]], "repeated"],
    [4, "m", ["message", [[1, "key", ["string"], "implicit"], [2, "value", ["enum", [[0, "A"]]], "implicit"]]], "map"],
    [5, "d", ["bytes"], "repeated"], [6, "t", ["time"], "optional"]]]"#;

fn column(is_protobuf: bool) -> Column {
    let line = DataType::Struct(vec![nullable("x", DataType::Int32), nullable("y", DataType::Float64)].into());
    let entry = vec![Arc::new(Field::new("key", DataType::Utf8, false)), nullable("value", DataType::Utf8)];
    let entries = Arc::new(Field::new("entries", DataType::Struct(entry.into()), false));
    let decimal = match is_protobuf {
        true => DataType::List(nullable("item", DataType::Binary)),
        false => DataType::Decimal128(10, 2),
    };
    let fields = vec![
        nullable("n", DataType::Int64),
        nullable("s", DataType::Utf8),
        nullable("l", DataType::List(nullable("item", line))),
        nullable("m", DataType::Map(entries, false)),
        nullable("d", decimal),
        nullable("t", DataType::Timestamp(TimeUnit::Microsecond, None)),
    ];
    Column::new(&nullable("value", DataType::Struct(fields.into()))).expect("a type that columns can have")
}

fuzz_target!(|data: &[u8]| {
    let [number, payload @ ..] = data else { return };
    let at = usize::from(*number) % PLANS.len();
    let mut column = column(at == 1);
    for _ in 0..2 {
        let length = column.len();
        if PLANS[at].decode(payload, &mut column).is_err() {
            column.truncate(length);
            column.push_null();
        }
    }
    // A record has at most as many items as bytes, and 1,000 more. An item of the list is the largest: 12 bytes.
    assert!(column.size() <= 2 * 64 * (payload.len() + 1000));
    assert_eq!(column.finish().len(), 2);
});

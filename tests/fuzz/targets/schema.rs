//! Checks the parsers of schema text, and the decoder of Avro values with random schemas. Hostile text and values end in
//! an error: no panic, no overflow of the stack, and no memory without a limit. The canonical form of a schema can be
//! parsed, and has the same fingerprint.
//!
//! The first byte of the input selects what follows:
//!
//! * 0: the text of an Avro schema
//! * 1: the text of a .proto file
//! * 2: the bytes of a random writer's schema, of a random reader's schema, and of a value

#![no_main]

use klamm::typed::decode::Sink;
use klamm::typed::decode::avro::decode;
use klamm::typed::fault::Result;
use klamm::typed::resolve::{Branch, NameId, Plan};
use klamm::typed::schema::avro::{Schema, Unit};
use klamm::typed::schema::protobuf;
use libfuzzer_sys::fuzz_target;
use std::fmt::Write;
use std::sync::Arc;

/// Nesting of random schemas. Values of a schema that refers to itself can be nested deeper.
const MAX_DEPTH: usize = 5;
const PRIMITIVES: [&str; 8] = ["null", "boolean", "int", "long", "float", "double", "bytes", "string"];
const LOGICAL: [(&str, &str); 10] = [
    ("date", "int"),
    ("time-millis", "int"),
    ("time-micros", "long"),
    ("timestamp-millis", "long"),
    ("timestamp-nanos", "long"),
    ("local-timestamp-micros", "long"),
    ("uuid", "string"),
    ("big-decimal", "bytes"),
    ("decimal\",\"precision\":9,\"scale\":2,\"x\":\"", "bytes"),
    ("decimal\",\"precision\":50,\"scale\":9,\"x\":\"", "bytes"),
];

/// Writes a schema that bytes describe. Missing bytes count as zero.
struct Writer<'a> {
    bytes: std::slice::Iter<'a, u8>,
    text: String,
    names: usize,
}

impl Writer<'_> {
    fn byte(&mut self) -> usize {
        self.bytes.next().copied().map_or(0, usize::from)
    }

    fn schema(&mut self, depth: usize) {
        let kind = self.byte();
        let text = match kind % 24 {
            _ if depth == MAX_DEPTH => format!("\"{}\"", PRIMITIVES[kind % 8]),
            0..8 => format!("\"{}\"", PRIMITIVES[kind % 8]),
            8..10 => return self.nested(r#"{"type":"array","items":"#, "}", 1, depth),
            10..12 => return self.nested(r#"{"type":"map","values":"#, "}", 1, depth),
            12..15 => {
                let count = self.byte() % 6;
                return self.nested("[", "]", count, depth);
            }
            15..19 => return self.record(depth),
            19 => {
                self.names += 1;
                let default = if kind > 128 { r#","default":"A""# } else { "" };
                format!(r#"{{"type":"enum","name":"N{}","symbols":["A","B"]{default}}}"#, self.names - 1)
            }
            20 => {
                self.names += 1;
                format!(r#"{{"type":"fixed","name":"N{}","size":{}}}"#, self.names - 1, self.byte() % 20)
            }
            21 => format!("\"N{}\"", self.byte() % (self.names + 1)),
            _ => {
                let (logical, kind) = LOGICAL[self.byte() % LOGICAL.len()];
                format!(r#"{{"type":"{kind}","logicalType":"{logical}"}}"#)
            }
        };
        self.text.push_str(&text);
    }

    fn nested(&mut self, start: &str, end: &str, count: usize, depth: usize) {
        self.text.push_str(start);
        for at in 0..count {
            self.text.push_str(if at == 0 { "" } else { "," });
            self.schema(depth + 1);
        }
        self.text.push_str(end);
    }

    fn record(&mut self, depth: usize) {
        self.names += 1;
        _ = write!(self.text, r#"{{"type":"record","name":"N{}","aliases":["N0"],"fields":["#, self.names - 1);
        for at in 0..self.byte() % 5 {
            let (name, comma) = (self.byte() % 8, if at == 0 { "" } else { "," });
            _ = write!(self.text, r#"{comma}{{"name":"f{name}","aliases":["f{}"],"type":"#, name / 2 + 8);
            self.schema(depth + 1);
            self.text.push('}');
        }
        self.text.push_str("]}");
    }
}

fn random(bytes: &[u8]) -> Option<Arc<Schema>> {
    let mut writer = Writer { bytes: bytes.iter(), text: String::new(), names: 0 };
    writer.schema(0);
    Schema::parse(&writer.text, &[]).ok().map(Arc::new)
}

/// Counts what a value consists of.
#[derive(Default)]
struct Count(usize);

impl Count {
    fn one(&mut self) -> Result<()> {
        self.0 += 1;
        Ok(())
    }
}

impl Sink for Count {
    type Value = ();
    type List = ();
    type Map = ();
    type Record = ();

    fn null(&mut self) -> Result<()> {
        self.one()
    }
    fn boolean(&mut self, _: bool) -> Result<()> {
        self.one()
    }
    fn integer(&mut self, _: i64) -> Result<()> {
        self.one()
    }
    fn float(&mut self, _: f32) -> Result<()> {
        self.one()
    }
    fn double(&mut self, _: f64) -> Result<()> {
        self.one()
    }
    fn bytes(&mut self, _: &[u8]) -> Result<()> {
        self.one()
    }
    fn text(&mut self, _: &str) -> Result<()> {
        self.one()
    }
    fn symbol(&mut self, _: NameId, _: &str) -> Result<()> {
        self.one()
    }
    fn decimal(&mut self, unscaled: &[u8], _: u32, _: i32) -> Result<()> {
        assert!(!unscaled.is_empty());
        self.one()
    }
    fn uuid(&mut self, _: u128) -> Result<()> {
        self.one()
    }
    fn date(&mut self, _: i32) -> Result<()> {
        self.one()
    }
    fn time(&mut self, value: i64, unit: Unit) -> Result<()> {
        assert!((0..86_400 * unit.per_second()).contains(&value));
        self.one()
    }
    fn timestamp(&mut self, _: i64, _: Unit, _: bool) -> Result<()> {
        self.one()
    }
    fn list(&mut self) -> Result<()> {
        self.one()
    }
    fn item(&mut self, (): &mut (), read: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        read(self)
    }
    fn end_list(&mut self, (): ()) -> Result<()> {
        Ok(())
    }
    fn map(&mut self) -> Result<()> {
        self.one()
    }
    fn entry(&mut self, (): &mut (), _: &str, read: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        read(self)
    }
    fn end_map(&mut self, (): ()) -> Result<()> {
        Ok(())
    }
    fn record(&mut self) -> Result<()> {
        self.one()
    }
    fn field(&mut self, (): &mut (), _: usize, _: NameId, read: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        read(self)
    }
    fn end_record(&mut self, (): ()) -> Result<()> {
        Ok(())
    }
    fn branch(&mut self, _: &Branch, read: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        read(self)
    }
}

fn avro_text(text: &str) {
    let Ok(schema) = Schema::parse(text, &[]) else { return };
    let canonical = schema.canonical();
    let again = Schema::parse(&canonical, &[]).expect("a canonical form that can be parsed");
    assert_eq!((again.canonical(), again.fingerprint()), (canonical, schema.fingerprint()));
    let schema = Arc::new(schema);
    _ = Plan::new(&schema, &schema);
}

fuzz_target!(|data: &[u8]| {
    let [mode, rest @ ..] = data else { return };
    match mode % 3 {
        0 => avro_text(&String::from_utf8_lossy(rest)),
        1 => _ = protobuf::parse("fuzz.proto", &String::from_utf8_lossy(rest)),
        _ => {
            let (writer, rest) = rest.split_at(rest.len().min(40));
            let (reader, value) = rest.split_at(rest.len().min(40));
            let Some(writer) = random(writer) else { return };
            if let Ok(plan) = Plan::new(&writer, &writer) {
                _ = decode(&plan, value, &mut Count::default());
            }
            if let Some(reader) = random(reader)
                && let Ok(plan) = Plan::new(&writer, &reader)
            {
                _ = decode(&plan, value, &mut Count::default());
            }
        }
    }
});

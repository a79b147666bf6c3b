//! The columns of a batch of records, in two layouts.
//!
//! | klamm | type | spark | type |
//! |---|---|---|---|
//! | topic | dictionary of int32, utf8 | topic | utf8 |
//! | partition, offset | int32, int64 | the same | |
//! | timestamp | timestamp\[ms, UTC\], null for none | timestamp | timestamp\[us, UTC\], -1 ms for none |
//! | timestamp_type | int32: 0 producer, 1 broker, -1 no timestamp | timestampType | the same |
//! | key, value | binary | the same | |
//! | headers | list of struct(key utf8, value binary) | headers | the same, null if there are none |
//!
//! The second layout is the layout of Spark's own Kafka connector, with the same column names in the same order. Spark
//! need not convert rows in the second layout. All columns are nullable.

use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};
use std::sync::Arc;

/// A layout, which determines the names and types of the columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// The layout of klamm.
    Klamm,
    /// The layout of Spark's Kafka connector.
    Spark,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    Topic,
    Partition,
    Offset,
    Timestamp,
    TimestampType,
    Key,
    Value,
    Headers,
}

impl Layout {
    /// Returns the layout with this name.
    pub fn by_name(name: &str) -> Option<Self> {
        match name {
            "klamm" => Some(Self::Klamm),
            "spark" => Some(Self::Spark),
            _ => None,
        }
    }

    fn columns(self) -> &'static [(&'static str, Column)] {
        match self {
            Self::Klamm => &[
                ("topic", Column::Topic),
                ("partition", Column::Partition),
                ("offset", Column::Offset),
                ("timestamp", Column::Timestamp),
                ("timestamp_type", Column::TimestampType),
                ("key", Column::Key),
                ("value", Column::Value),
                ("headers", Column::Headers),
            ],
            Self::Spark => &[
                ("key", Column::Key),
                ("value", Column::Value),
                ("topic", Column::Topic),
                ("partition", Column::Partition),
                ("offset", Column::Offset),
                ("timestamp", Column::Timestamp),
                ("timestampType", Column::TimestampType),
                ("headers", Column::Headers),
            ],
        }
    }

    fn field(self, name: &str, column: Column) -> Field {
        let (spark, utc) = (self == Self::Spark, Some("UTC".into()));
        let data_type = match column {
            Column::Topic if spark => DataType::Utf8,
            Column::Topic => DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
            Column::Partition | Column::TimestampType => DataType::Int32,
            Column::Offset => DataType::Int64,
            Column::Timestamp if spark => DataType::Timestamp(TimeUnit::Microsecond, utc),
            Column::Timestamp => DataType::Timestamp(TimeUnit::Millisecond, utc),
            Column::Key | Column::Value => DataType::Binary,
            Column::Headers => DataType::List(header_field(self)),
        };
        // All fields are nullable, as Arrow's own tools create them and Spark expects.
        Field::new(name, data_type, true)
    }
}

/// Returns the element field of the headers list, whose name is `item` in Arrow and `element` in Spark.
pub(super) fn header_field(layout: Layout) -> Arc<Field> {
    let name = if layout == Layout::Spark { "element" } else { "item" };
    Arc::new(Field::new(name, DataType::Struct(header_fields()), true))
}

pub(super) fn header_fields() -> Fields {
    Fields::from(vec![Field::new("key", DataType::Utf8, true), Field::new("value", DataType::Binary, true)])
}

/// The columns to build, in order.
#[derive(Clone, Debug)]
pub struct Columns {
    pub(super) layout: Layout,
    pub(super) columns: Vec<Column>,
    schema: SchemaRef,
}

impl Columns {
    /// Returns all columns of a layout, or only the columns in `names`, in that order. Fails with the first unknown
    /// name.
    pub fn new<N: AsRef<str>>(layout: Layout, names: Option<&[N]>) -> Result<Self, String> {
        let all = layout.columns();
        let chosen = match names {
            None => all.to_vec(),
            Some(names) => names
                .iter()
                .map(|name| all.iter().find(|(n, _)| *n == name.as_ref()).ok_or_else(|| name.as_ref().to_owned()))
                .map(|found| found.copied())
                .collect::<Result<_, _>>()?,
        };
        let fields: Vec<Field> = chosen.iter().map(|(name, column)| layout.field(name, *column)).collect();
        let schema = Arc::new(Schema::new(fields));
        Ok(Self { layout, columns: chosen.into_iter().map(|(_, column)| column).collect(), schema })
    }

    /// Returns the column names of a layout.
    pub fn names(layout: Layout) -> impl Iterator<Item = &'static str> {
        layout.columns().iter().map(|(name, _)| *name)
    }

    /// Returns the schema of the batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }
}

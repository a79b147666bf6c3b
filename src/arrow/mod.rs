//! Converts record batches to Arrow columns, and Arrow columns to records to send.
//!
//! `columns` defines the columns, in two layouts. `export` builds the columns from fetched records, with one copy.
//! `import` reads an Arrow batch that another library created. Exported columns have the types `binary` and `utf8` with
//! 32-bit offsets, because Spark rejects views and large types. Imported columns may have any Arrow type for text or
//! bytes.

mod columns;
mod export;
mod import;

pub use columns::{Columns, Layout};
pub use export::{ExportError, Rows, to_batch};
pub use import::{Input, Invalid, Row, is_known, is_pandas_index};

pub use arrow_array::RecordBatch;

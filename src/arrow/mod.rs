//! Record batches as Arrow columns, and Arrow columns as records to send.
//!
//! `columns` says which columns there are, in which of two layouts; `export` builds them from the records of a fetch,
//! one copy from the fetch buffer into the column; `import` reads a batch that somebody else made. Rules: plain
//! `binary` and `utf8` with 32-bit offsets go out, because Spark refuses views and large types; anything a producer of
//! Arrow data may reasonably call text or bytes comes in.

mod columns;
mod export;
mod import;

pub use columns::{Columns, Layout};
pub use export::{Rows, TooLarge, to_batch};
pub use import::{Input, Row};

pub use arrow_array::RecordBatch;

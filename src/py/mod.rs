//! The extension module `klamm._klamm`, which converts values, releases the GIL, and raises exceptions.
//!
//! There is one file for each exposed class. The package `klamm` derives its public classes from the core classes in
//! this module. Names that start with an underscore are private to the package `klamm`. The logic of Kafka's clients is
//! in `src/client`, not in `src/py`.
//!
//! The files follow these rules. The I/O thread holds the GIL only while it calls callbacks. Every wait checks for
//! signals. Only `error.rs` converts errors to exceptions, and only `arrow.rs` has unsafe code.

#![allow(clippy::disallowed_methods, reason = "Python waits, and shares objects between threads")]

mod admin;
mod arguments;
mod arrow;
mod assignors;
mod avro;
mod batches;
mod broker;
mod bytes_like;
mod certificates;
mod client;
mod column_decoder;
mod commits;
mod config;
mod construct;
mod consumer;
mod deadline;
mod delivery_buffer;
mod deserializers;
mod error;
mod event_loop;
mod failures;
mod legacy;
mod login_mailbox;
mod logs;
mod loop_future;
mod loop_signal;
mod metrics;
mod pending;
mod producer;
mod protocol;
mod rebalance;
mod record;
mod records;
mod schema_text;
mod scram;
mod send_rows;
mod share_consumer;
mod transaction;
mod wait_source;

/// The contents of `klamm._klamm`.
#[pyo3::pymodule(gil_used = false)]
mod _klamm {
    use pyo3::prelude::*;
    use pyo3::types::{PyDict, PyModule};

    #[pymodule_export]
    use super::arrow::{ArrowBatch, ArrowColumns, ArrowRows};
    #[pymodule_export]
    use super::assignors::{assign, user_data};
    #[pymodule_export]
    use super::avro::{AvroReader, AvroSchema, AvroWriter};
    #[pymodule_export]
    use super::batches::{OpenRecords, PackedRecords, crc32c, decode_records, encode_batch};
    #[pymodule_export]
    use super::certificates::CertificateAuthority;
    #[pymodule_export]
    use super::column_decoder::{ColumnDecoder, DecodedColumn, encode_column, framings};
    #[pymodule_export]
    use super::config::{config_keys, foreign_options, option_verdict};
    #[pymodule_export]
    use super::consumer::RecordIterator;
    #[pymodule_export]
    use super::deserializers::Deserializers;
    #[pymodule_export]
    use super::error::{broker_error, error_codes};
    #[pymodule_export]
    use super::legacy::{
        Fetched07, LegacyConnection, Message07, ZooKeeperMember, ZooKeeperOperation, decode_fetched, decode_messages,
        decode_request, decode_response, encode_messages, encode_request, encode_response, parse_address,
    };
    #[pymodule_export]
    use super::login_mailbox::{LoginMailbox, LoginQuestion};
    #[pymodule_export]
    use super::logs::{ErrorQueue, LogLine, LogQueue, LogTarget, log_components, set_log_level};
    #[pymodule_export]
    use super::pending::Pending;
    #[pymodule_export]
    use super::protocol::{apis, decode, decode_header, decode_prefix, encode, murmur2, schema, structures};
    #[pymodule_export]
    use super::record::{Record, RecordMetadata};
    #[pymodule_export]
    use super::records::Records;
    #[pymodule_export]
    use super::schema_text::parse_proto;
    #[pymodule_export]
    use super::scram::ScramClient;
    #[pymodule_export]
    use super::share_consumer::ShareRecordIterator;

    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        // Their own names are those of the public subclasses, or without "Core", because help() and Python's errors
        // show them.
        let py = module.py();
        module.add("AdminCore", py.get_type::<super::admin::AdminCore>())?;
        module.add("ClientCore", py.get_type::<super::client::ClientCore>())?;
        module.add("ConsumerCore", py.get_type::<super::consumer::ConsumerCore>())?;
        module.add("DevBrokerCore", py.get_type::<super::broker::DevBrokerCore>())?;
        module.add("ProducerCore", py.get_type::<super::producer::ProducerCore>())?;
        module.add("ShareConsumerCore", py.get_type::<super::share_consumer::ShareConsumerCore>())?;
        let os = py.import("os")?;
        // Windows has no fork.
        if os.hasattr("register_at_fork")? {
            let hook = PyDict::new(py);
            hook.set_item("after_in_child", wrap_pyfunction!(super::error::after_fork_in_child, module)?)?;
            os.call_method("register_at_fork", (), Some(&hook))?;
        }
        Ok(())
    }
}

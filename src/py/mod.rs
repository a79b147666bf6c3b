//! The extension module `klamm._klamm`: convert, give the interpreter away, raise. One file for each exposed class.
//!
//! Nothing here knows Kafka. The classes are cores: the package `klamm` derives its public classes from them, and what
//! starts with an underscore is for that package alone. Rules: the I/O thread never holds the interpreter, every wait
//! looks for signals, `error.rs` alone makes exceptions of errors, and `arrow.rs` alone has unsafe code.

#![allow(clippy::disallowed_methods, reason = "an edge: it waits, and shares what Python shares")]

mod admin;
mod arguments;
mod arrow;
mod assignors;
mod batches;
mod broker;
mod certificates;
mod commits;
mod config;
mod consumer;
mod error;
mod event_loop;
mod legacy;
mod octets;
mod parked;
mod pending;
mod producer;
mod protocol;
mod rebalance;
mod record;
mod scram;
mod share_consumer;
mod taken;
mod tokens;
mod zookeeper;

/// What `import klamm._klamm` finds.
#[pyo3::pymodule(gil_used = false)]
mod _klamm {
    use pyo3::prelude::*;
    use pyo3::types::{PyDict, PyModule};

    #[pymodule_export]
    use super::admin::AdminCore;
    #[pymodule_export]
    use super::arrow::{ArrowBatch, ArrowColumns, ArrowRows};
    #[pymodule_export]
    use super::assignors::{assign, user_data};
    #[pymodule_export]
    use super::batches::{OpenRecords, PackedRecords, crc32c, decode_records, encode_batch};
    #[pymodule_export]
    use super::broker::DevBrokerCore;
    #[pymodule_export]
    use super::certificates::CertificateAuthority;
    #[pymodule_export]
    use super::config::{config_keys, foreign_keys, foreign_values};
    #[pymodule_export]
    use super::consumer::{ConsumerCore, RecordIterator};
    #[pymodule_export]
    use super::error::error_codes;
    #[pymodule_export]
    use super::legacy::{
        LegacyConnection, Message07, decode_fetched, decode_messages, decode_request, decode_response, encode_messages,
        encode_request, encode_response,
    };
    #[pymodule_export]
    use super::pending::Pending;
    #[pymodule_export]
    use super::producer::ProducerCore;
    #[pymodule_export]
    use super::protocol::{apis, decode, decode_header, decode_prefix, encode, murmur2, schema, structures};
    #[pymodule_export]
    use super::record::{Deserializers, Record, RecordMetadata, Records};
    #[pymodule_export]
    use super::scram::ScramClient;
    #[pymodule_export]
    use super::share_consumer::{ShareConsumerCore, ShareRecordIterator};
    #[pymodule_export]
    use super::tokens::TokenDesk;
    #[pymodule_export]
    use super::zookeeper::ZooKeeperMember;

    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");

    #[pymodule_init]
    fn watch_forks(module: &Bound<'_, PyModule>) -> PyResult<()> {
        let os = module.py().import("os")?;
        // Windows has no fork.
        if os.hasattr("register_at_fork")? {
            let hook = PyDict::new(module.py());
            hook.set_item("after_in_child", wrap_pyfunction!(super::error::after_fork_in_child, module)?)?;
            os.call_method("register_at_fork", (), Some(&hook))?;
        }
        Ok(())
    }
}

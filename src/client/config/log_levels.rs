//! The log levels of the configuration keys `log_level` and `debug`, which come from librdkafka.

use super::values::invalid;
use crate::client::Error;
use crate::logging::{Component, Levels};
use log::LevelFilter;

/// The values of `debug`, and the components whose log lines each value enables.
const CONTEXTS: &[(&str, &[Component])] = &[
    ("all", &Component::ALL),
    ("generic", &Component::ALL),
    ("broker", &[Component::Network]),
    ("metadata", &[Component::Network]),
    ("feature", &[Component::Network]),
    ("protocol", &[Component::Network]),
    ("admin", &[Component::Network]),
    ("security", &[Component::Auth]),
    ("topic", &[Component::Producer, Component::Consumer]),
    ("msg", &[Component::Producer]),
    ("queue", &[Component::Producer]),
    ("eos", &[Component::Producer]),
    ("cgrp", &[Component::Group]),
    ("assignor", &[Component::Group]),
    ("consumer", &[Component::Consumer, Component::Group, Component::Share]),
    ("fetch", &[Component::Consumer, Component::Share]),
    ("interceptor", &[]),
    ("plugin", &[]),
    ("mock", &[]),
    ("conf", &[]),
    ("telemetry", &[Component::Network]),
];

/// Returns the log levels for a syslog severity. `contexts` contains the values of `debug`, which enable the debug
/// lines of their components.
pub(super) fn levels(severity: i64, contexts: &[String]) -> Result<Levels, Error> {
    let mut demanded = Vec::new();
    for context in contexts.iter().filter(|context| !context.is_empty()) {
        let Some((_, components)) = CONTEXTS.iter().find(|(name, _)| name == context) else {
            let names: Vec<&str> = CONTEXTS.iter().map(|(name, _)| *name).collect();
            return Err(invalid(format!("debug cannot be {context:?}"), format!("allowed are {}", names.join(", "))));
        };
        demanded.extend(*components);
    }
    let most = match severity {
        _ if !demanded.is_empty() => LevelFilter::Trace,
        ..=3 => LevelFilter::Error,
        4 => LevelFilter::Warn,
        5 | 6 => LevelFilter::Info,
        _ => LevelFilter::Trace,
    };
    Ok(Levels { most, demanded })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn severities_are_those_of_syslog_and_contexts_ask_for_debug() {
        use LevelFilter::{Error, Info, Trace, Warn};
        let most = |severity| levels(severity, &[]).unwrap().most;
        assert_eq!([0, 3, 4, 6, 7].map(most), [Error, Error, Warn, Info, Trace]);
        let levels = |context: &str| levels(6, &["cgrp".to_owned(), context.to_owned()]);
        let of_security = levels("security").unwrap();
        assert_eq!(
            (of_security.most, of_security.demanded),
            (LevelFilter::Trace, vec![Component::Group, Component::Auth])
        );
        assert!(levels("cgrps").unwrap_err().to_string().contains("allowed are all, generic"));
    }
}

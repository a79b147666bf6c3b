//! Reads the configuration of a client from Python arguments. The first argument is a string or list of bootstrap
//! addresses, or a dict of dotted keys. Keyword arguments set further keys, and take precedence over the dict.
//!
//! This file converts the values from Python, and `client/config` checks the values. The file also reports unknown
//! keyword arguments, so that the error and its suggestion show the names in snake_case.

use super::construct::{construct, list};
use super::error::exception;
use super::logs::LogTarget;
use crate::client::{
    ClientType, Config, CustomAssignor, FOREIGN_OPTIONS, ForeignOption, KEYS, Key, Kind, Value, Verdict, find_key,
    verdict,
};
use crate::logging::Component;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyMapping, PyString};
use std::sync::Arc;

/// The function that a client calls for tokens.
pub(super) struct TokenProvider {
    pub callable: Py<PyAny>,
    /// Whether the program used confluent-kafka's name for the setting.
    pub is_confluent_style: bool,
}

/// The login settings that `klamm.oauth` or `klamm.kerberos` needs.
pub(super) struct Login {
    pub provider: Option<TokenProvider>,
    /// The settings for fetching tokens without a provider.
    pub settings: Vec<(&'static str, String)>,
}

/// The configuration of a client, its bootstrap servers as text, its login, and the target of its log lines.
pub(super) type Parsed = (Config, String, Login, Py<LogTarget>);

/// Reads the configuration of a client.
pub(super) fn parse(
    py: Python<'_>,
    client: ClientType,
    bootstrap: Option<&Bound<'_, PyAny>>,
    keywords: Option<&Bound<'_, PyDict>>,
) -> PyResult<Parsed> {
    parse_with(py, client, bootstrap, keywords, Vec::new())
}

/// Reads the configuration of a client with assignors written in Python.
pub(super) fn parse_with(
    py: Python<'_>,
    client: ClientType,
    bootstrap: Option<&Bound<'_, PyAny>>,
    keywords: Option<&Bound<'_, PyDict>>,
    assignors: Vec<Arc<dyn CustomAssignor>>,
) -> PyResult<Parsed> {
    let mut pairs: Vec<(String, Value)> = Vec::new();
    let mut provider = None;
    let (mut logger, mut on_error): (Option<Py<PyAny>>, Option<Py<PyAny>>) = (None, None);
    let mut store_object = |key: &str, value: &Bound<'_, PyAny>| {
        let object = match find_key(key).map(|key| key.name) {
            Some(LOGGER) if !value.is_none() => &mut logger,
            Some(ERROR_CB) if value.is_callable() => &mut on_error,
            _ => return false,
        };
        *object = Some(value.clone().unbind());
        true
    };
    if let Some(first) = bootstrap.filter(|b| !b.is_none()) {
        match first.cast::<PyMapping>() {
            Ok(configs) => {
                for (key, value) in items(configs)? {
                    if keywords.is_some_and(|k| k.contains(key.replace('.', "_")).unwrap_or(false)) {
                        continue; // the keyword takes precedence
                    }
                    if store_object(&key, &value) {
                        pairs.push((key, Value::Function));
                        continue;
                    }
                    if is_callable_key(&key) && value.is_callable() {
                        provider =
                            Some(TokenProvider { callable: value.unbind(), is_confluent_style: key != PROVIDER });
                        pairs.push((key, Value::Function));
                        continue;
                    }
                    let value = match value_of(&key, &value) {
                        // The core ignores or rejects the option, whatever the type of its value is.
                        Err(_) if find_key(&key).is_none() => Value::Function,
                        value => value?,
                    };
                    pairs.push((key, value));
                }
            }
            Err(_) => pairs.push((BOOTSTRAP.to_owned(), value_of(BOOTSTRAP, first)?)),
        }
    }
    for (keyword, value) in keywords.into_iter().flatten() {
        let keyword: String = keyword.extract()?;
        let key = keyword.replace('_', ".");
        // Keywords are written for klamm, so a key of another client is a mistake.
        if find_key(&key).is_none_or(|key| !key.clients.contains(&client)) {
            return Err(unknown_option_error(py, client, &keyword));
        }
        if store_object(&key, &value) {
            pairs.push((key, Value::Function));
            continue;
        }
        if is_callable_key(&key) && value.is_callable() {
            provider = Some(TokenProvider { callable: value.unbind(), is_confluent_style: false });
            pairs.push((key, Value::Function));
            continue;
        }
        let value = value_of(&keyword, &value)?;
        pairs.retain(|(earlier, _)| *earlier != key);
        pairs.push((key, value));
    }
    let is_bootstrap_key = |key: &str| find_key(key).is_some_and(|key| [BOOTSTRAP, CONTROLLERS].contains(&key.name));
    let servers =
        pairs.iter().filter(|(key, _)| is_bootstrap_key(key)).map(|(_, v)| list_text(v)).find(|list| !list.is_empty());
    let servers = servers.unwrap_or_default();
    let mut config = Config::parse_with(client, pairs, assignors)?;
    let target = py.import("klamm.logs")?.call_method1("target", (logger, on_error, config.debugs()))?;
    let target = target.cast_into::<LogTarget>()?;
    config.log_to(target.get().sink());
    if config.trusts_any_host() {
        let category = py.import("klamm.errors")?.getattr("InsecureWarning")?;
        PyErr::warn(py, &category, NO_HOSTNAME_CHECK_WARNING, 2)?;
    }
    if !config.ignored().is_empty() {
        let options: Vec<String> = config.ignored().iter().map(|(name, why)| format!("{name} ({why})")).collect();
        let loggers = target.get().loggers(py);
        let message = ("configuration options without effect for %s: %s", client.with_article(), options.join("; "));
        loggers.bind(py).get_item(Component::Network as usize)?.call_method1("info", message)?;
    }
    if let Some(secret) = config.exposed_secret() {
        let loggers = target.get().loggers(py);
        let logger = loggers.bind(py).get_item(Component::Auth as usize)?;
        py.import("klamm.cleartext")?.call_method1("warn_about_brokers", (logger, secret, &servers))?;
    }
    let settings = config.token_settings()?;
    Ok((config, servers, Login { provider, settings }, target.unbind()))
}

/// Returns the items of a dict. Includes the items of confluent-kafka's dict of topic settings.
fn items<'py>(configs: &Bound<'py, PyMapping>) -> PyResult<Vec<(String, Bound<'py, PyAny>)>> {
    let mut found = Vec::new();
    for item in configs.items()?.iter() {
        let (key, value) = item.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>()?;
        let key = key.extract::<String>().map_err(|_| key_type_error(&key))?;
        match value.cast::<PyMapping>() {
            Ok(topic) if key == TOPIC_CONFIG => {
                for item in topic.items()?.iter() {
                    found.push(item.extract()?);
                }
            }
            _ => found.push((key, value)),
        }
    }
    Ok(found)
}

fn is_callable_key(key: &str) -> bool {
    find_key(key).is_some_and(|key| key.kind == Kind::Function)
}

fn list_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::List(items) => items.join(","),
        _ => String::new(),
    }
}

fn value_of(key: &str, value: &Bound<'_, PyAny>) -> PyResult<Value> {
    if value.is_none() {
        return Ok(Value::Null);
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(Value::String(super::arguments::text(key, text)?.to_owned()));
    }
    if let Ok(flag) = value.cast::<PyBool>() {
        return Ok(Value::Bool(flag.is_true()));
    }
    if let Ok(number) = value.cast::<PyInt>() {
        let parsed = number.extract().map_err(|_| type_error(key, value, "it does not fit 64 bits"));
        return parsed.map(Value::Int);
    }
    if let Ok(number) = value.cast::<PyFloat>() {
        return Ok(Value::Float(number.value()));
    }
    match value.extract::<Vec<String>>() {
        Ok(items) => Ok(Value::List(items)),
        Err(_) => {
            let is_bootstrap = find_key(&key.replace('_', ".")).is_some_and(|key| key.name == BOOTSTRAP);
            let hint = is_bootstrap.then_some("write each address as \"host:port\"");
            Err(wrong_type(key, value, "allowed are str, numbers, bool and lists of str", hint))
        }
    }
}

fn type_error(key: &str, value: &Bound<'_, PyAny>, why: &str) -> PyErr {
    wrong_type(key, value, why, None)
}

fn wrong_type(key: &str, value: &Bound<'_, PyAny>, why: &str, hint: Option<&str>) -> PyErr {
    let kind = value.get_type().name().map_or_else(|_| String::new(), |name| name.to_string());
    exception(value.py(), "ConfigError", &format!("{key} cannot be a value of type {kind}: {why}"), hint)
}

fn key_type_error(key: &Bound<'_, PyAny>) -> PyErr {
    exception(key.py(), "ConfigError", &format!("a configuration key has to be a str, not {key}"), None)
}

fn unknown_option_error(py: Python<'_>, client: ClientType, keyword: &str) -> PyErr {
    let name = keyword.replace('_', ".");
    let hint = match verdict(client, &name, None, |key| key.replace('.', "_")) {
        Verdict::Ignored(why) if find_key(&name).is_none() => Some(format!("leave it out: {why}")),
        Verdict::Ignored(hint) | Verdict::Rejected(hint) => Some(hint),
        Verdict::Unknown(hint) => hint,
        Verdict::Key(_) => None,
    };
    let message = match find_key(&name) {
        Some(key) => format!("unknown configuration key {:?} for {}", key.name, client.with_article()),
        None => format!("there is no option {keyword}"),
    };
    exception(py, "ConfigError", &message, hint.as_deref())
}

/// Returns what an option with this value means for a client: `("key", name)`, `("ignored", why)`, `("rejected", hint)`,
/// or `("unknown", hint)`. Hints put `prefix` before the names of keys.
#[pyfunction]
#[pyo3(signature = (client, name, value=None, prefix=""))]
pub(super) fn option_verdict(client: &str, name: &str, value: Option<&str>, prefix: &str) -> (&'static str, String) {
    let types = [ClientType::Producer, ClientType::Consumer, ClientType::ShareConsumer, ClientType::Admin];
    let client = types.into_iter().find(|known| known.name() == client).unwrap_or(ClientType::Admin);
    match verdict(client, name, value, |key| format!("{prefix}{key}")) {
        Verdict::Key(key) => ("key", key.name.to_owned()),
        Verdict::Ignored(why) => ("ignored", why),
        Verdict::Rejected(hint) => ("rejected", hint),
        Verdict::Unknown(hint) => ("unknown", hint.unwrap_or_default()),
    }
}

/// Returns every configuration key as a `klamm.config.Option`.
#[pyfunction]
pub(super) fn config_keys(py: Python<'_>) -> PyResult<Py<PyAny>> {
    let kind = |key: &Key| match key.kind {
        Kind::Text => "text",
        Kind::Secret => "secret",
        Kind::Function => "function",
        Kind::Logger => "logger",
        Kind::List => "list",
        Kind::Int(..) => "int",
        Kind::Seconds => "seconds",
        Kind::Millis => "milliseconds",
        Kind::Bool => "bool",
        Kind::Choice(_) => "choice",
        Kind::Acks => "acks",
        Kind::Reset => "reset",
    };
    let options = KEYS.iter().map(|k| {
        construct!(py, "klamm.config.Option", {
            name: k.name,
            aliases: k.aliases.to_vec(),
            kind: kind(k),
            default: k.default,
            allowed: k.allowed(),
            clients: names(k.clients),
            doc: k.doc,
        })
    });
    list(py, options)
}

/// Returns the options of other clients that klamm does not have, each as a `klamm.config.ForeignOption`.
#[pyfunction]
pub(super) fn foreign_options(py: Python<'_>) -> PyResult<Py<PyAny>> {
    let options = FOREIGN_OPTIONS.iter().map(|option: &ForeignOption| {
        construct!(py, "klamm.config.ForeignOption", {
            names: option.names.to_vec(),
            clients: names(option.clients),
            is_ignored: option.is_ignored(),
            ignored_values: option.ignored_values().to_vec(),
            hint: option.hint(str::to_owned),
        })
    });
    list(py, options)
}

fn names(clients: &[ClientType]) -> Vec<&'static str> {
    clients.iter().map(|client| client.name()).collect()
}

const LOGGER: &str = "logger";
const ERROR_CB: &str = "error.cb";
const TOPIC_CONFIG: &str = "default.topic.config";
const BOOTSTRAP: &str = "bootstrap.servers";
const CONTROLLERS: &str = "bootstrap.controllers";
const PROVIDER: &str = "sasl.oauth.token.provider";
const NO_HOSTNAME_CHECK_WARNING: &std::ffi::CStr =
    c"ssl.endpoint.identification.algorithm=none: the client accepts any broker whose \
    certificate comes from the same authority, so an attacker with such a certificate can read and change all data";

//! What the keys `security.*`, `sasl.*` and `ssl.*` come to: credentials, and how connections are encrypted.
//!
//! Everything that can be wrong about them without a broker is found here, when the configuration is parsed.

use super::config::bad;
use super::{Config, Error, KEYS, Value};
use crate::engine::sasl::{Credentials, scram};
use crate::net::tls;
use std::sync::Arc;

pub(super) const HOST_CHECK: &str = "ssl.endpoint.identification.algorithm";
const CA: (&str, &str) = ("ssl.ca.location", "ssl.ca.pem");
const CERTIFICATE: (&str, &str) = ("ssl.certificate.location", "ssl.certificate.pem");
const KEY: (&str, &str) = ("ssl.key.location", "ssl.key.pem");

impl Config {
    fn optional(&self, name: &'static str) -> Option<String> {
        Some(self.text(name)).filter(|text| !text.is_empty())
    }

    fn protocol(&self) -> String {
        self.text("security.protocol")
    }

    /// Whether a broker may show a certificate that is for another host.
    pub fn trusts_any_host(&self) -> bool {
        self.protocol().ends_with("SSL") && self.text(HOST_CHECK) == "none"
    }

    /// Who the client says it is, if brokers are to be told.
    pub(super) fn credentials(&self) -> Result<Option<Credentials>, Error> {
        if !self.protocol().starts_with("SASL") {
            return Ok(None);
        }
        let Some(mechanism) = self.optional("sasl.mechanism") else {
            let hint =
                "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER or GSSAPI, as the brokers are set up".to_owned();
            return Err(bad(format!("security.protocol={} needs sasl.mechanism", self.protocol()), hint));
        };
        if mechanism == "OAUTHBEARER" {
            return Ok(Some(Credentials::Bearer(None)));
        }
        if mechanism == "GSSAPI" {
            return Ok(Some(Credentials::Gssapi));
        }
        let jaas = self.optional("sasl.jaas.config").map(|text| jaas(&text)).transpose()?.unwrap_or_default();
        let of_jaas = |name: &str| jaas.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
        let username = self.optional("sasl.username").or_else(|| of_jaas("username"));
        let password = self.optional("sasl.password").or_else(|| of_jaas("password"));
        let (Some(username), Some(password)) = (username, password) else {
            let hint = "both are needed, or a sasl.jaas.config that has them".to_owned();
            return Err(bad(format!("sasl.mechanism={mechanism} needs sasl.username and sasl.password"), hint));
        };
        let credentials = match scram::Mechanism::from_name(&mechanism) {
            Some(mechanism) => {
                let is_token = of_jaas("tokenauth").is_some_and(|v| v == "true");
                let extensions = if is_token { vec![("tokenauth".to_owned(), "true".to_owned())] } else { Vec::new() };
                Credentials::Scram { mechanism, username, password, extensions }
            }
            None => Credentials::Plain { username, password },
        };
        credentials.check().map(|()| Some(credentials))
    }

    /// What is said about how to get tokens or tickets: keys `sasl.oauthbearer.*` or, with GSSAPI, `sasl.kerberos.*`, and what
    /// a Java program says of them.
    pub fn token_settings(&self) -> Result<Vec<(&'static str, String)>, Error> {
        let is_kerberos = self.text("sasl.mechanism") == "GSSAPI";
        let prefix = if is_kerberos { "sasl.kerberos." } else { "sasl.oauthbearer." };
        let mut settings: Vec<(&'static str, String)> = Vec::new();
        for key in KEYS.iter().filter(|key| key.name.starts_with(prefix)) {
            settings.extend(self.optional(key.name).map(|value| (key.name, value)));
        }
        if let Some(text) = self.optional("sasl.jaas.config") {
            for (option, value) in jaas(&text)? {
                let name = match option.as_str() {
                    "principal" if is_kerberos => "sasl.kerberos.principal",
                    "keyTab" if is_kerberos => "sasl.kerberos.keytab",
                    _ if is_kerberos => continue,
                    "clientId" => "sasl.oauthbearer.client.id",
                    "clientSecret" => "sasl.oauthbearer.client.secret",
                    "scope" => "sasl.oauthbearer.scope",
                    _ => continue,
                };
                if settings.iter().all(|(known, _)| *known != name) {
                    settings.push((name, value));
                }
            }
        }
        Ok(settings)
    }

    /// How connections are encrypted, if they are.
    pub(super) fn tls(&self) -> Result<Option<Arc<tls::Client>>, Error> {
        if !self.protocol().ends_with("SSL") {
            return Ok(None);
        }
        let identity = self.pem(CERTIFICATE)?.map(|certificates| {
            Ok(tls::Identity { certificates, key: self.pem(KEY)?, password: self.optional("ssl.key.password") })
        });
        let versions = match self.value("ssl.enabled.protocols") {
            Some(Value::List(names)) => names.iter().map(|name| version(name)).collect::<Result<_, _>>()?,
            _ => tls::Version::ALL.to_vec(),
        };
        let settings = tls::Settings {
            authorities: self.pem(CA)?,
            identity: identity.transpose()?,
            check_host: !self.trusts_any_host(),
            versions,
        };
        let failed = |f: tls::Failure| bad(f.message, f.hint);
        Ok(Some(Arc::new(tls::Client::new(settings).map_err(failed)?)))
    }

    fn pem(&self, (location, text): (&'static str, &'static str)) -> Result<Option<tls::Pem>, Error> {
        match (self.optional(location), self.optional(text)) {
            (Some(_), Some(_)) => {
                Err(bad(format!("{location} and {text} say the same thing twice"), "leave one of them out".to_owned()))
            }
            (Some(path), None) => Ok(Some(tls::Pem::File(path.into()))),
            (None, Some(text)) => Ok(Some(tls::Pem::Text(text))),
            (None, None) => Ok(None),
        }
    }
}

fn version(name: &str) -> Result<tls::Version, Error> {
    tls::Version::ALL.into_iter().find(|v| v.name() == name).ok_or_else(|| {
        let known = tls::Version::ALL.map(tls::Version::name).join(", ");
        bad(format!("ssl.enabled.protocols has {name:?}"), format!("allowed are {known}"))
    })
}

/// The options of a JAAS entry: `module required key="value" ...;`. What is wrong with one is said without showing it.
pub fn jaas(text: &str) -> Result<Vec<(String, String)>, Error> {
    let wrong = || {
        let hint = "it has the form: org.apache.kafka...LoginModule required username=\"...\" password=\"...\";";
        bad("sasl.jaas.config cannot be read".to_owned(), hint.to_owned())
    };
    let mut rest = text.trim().trim_end_matches(';').trim_end();
    let mut options = Vec::new();
    for _ in ["module", "control flag"] {
        rest = rest.split_once(char::is_whitespace).ok_or_else(wrong)?.1.trim_start();
    }
    while !rest.is_empty() {
        let (key, value) = rest.split_once('=').ok_or_else(wrong)?;
        let mut read = String::new();
        let mut letters = value.trim_start().chars();
        match letters.next() {
            Some(quote @ ('"' | '\'')) => loop {
                match letters.next().ok_or_else(wrong)? {
                    c if c == quote => break,
                    '\\' => read.push(letters.next().ok_or_else(wrong)?),
                    c => read.push(c),
                }
            },
            // A word alone, as in `useKeyTab=true`.
            Some(first) => {
                read.push(first);
                read.extend(letters.by_ref().take_while(|c| !c.is_whitespace()));
            }
            None => return Err(wrong()),
        }
        options.push((key.trim().to_owned(), read));
        rest = letters.as_str().trim_start();
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Role;

    const SECRET: &str = "s3cr\"et; word";

    fn parse(pairs: &[(&str, &str)]) -> Result<Config, Error> {
        let pairs = [("bootstrap.servers", "localhost:1"), ("security.protocol", "SASL_PLAINTEXT")].iter().chain(pairs);
        Config::parse(Role::Admin, pairs.map(|(k, v)| ((*k).to_owned(), Value::String((*v).to_owned()))))
    }

    #[test]
    fn java_and_librdkafka_say_the_same_user_in_their_own_ways() {
        let jaas = format!(
            "org.apache.kafka.common.security.scram.ScramLoginModule  required\n username=\"alice\" password=\"{}\" ;",
            SECRET.replace('"', "\\\"")
        );
        let java = parse(&[("sasl.mechanism", "SCRAM-SHA-512"), ("sasl.jaas.config", &jaas)]).unwrap();
        let own = [("sasl.mechanisms", "scram-sha-512"), ("sasl.username", "alice"), ("sasl.password", SECRET)];
        for config in [java, parse(&own).unwrap()] {
            let Some(Credentials::Scram { mechanism, username, password, extensions }) = config.credentials().unwrap()
            else {
                panic!("no SCRAM");
            };
            assert_eq!(mechanism, scram::Mechanism::Sha512);
            assert_eq!((username.as_str(), password.as_str(), extensions.len()), ("alice", SECRET, 0));
        }
    }

    #[test]
    fn secrets_are_in_no_message() {
        let base = [("sasl.mechanism", "PLAIN"), ("sasl.username", "alice"), ("sasl.password", SECRET)];
        let config = parse(&base).unwrap();
        let network = config.network().unwrap();
        for shown in [format!("{config:?}"), format!("{network:?}")] {
            assert!(shown.contains("alice") && !shown.contains("s3cr"), "{shown}");
        }
        for wrong in [
            parse(&[("sasl.mechanism", "PLAIN"), ("sasl.password", SECRET)]),
            parse(&[("sasl.mechanism", "PLAIN"), ("sasl.jaas.config", SECRET)]),
            parse(&[("sasl.mechanism", "PLAIN"), ("sasl.username", "a"), ("sasl.password", "s3cr\0")]),
        ] {
            let error = wrong.unwrap_err();
            assert!(!error.to_string().contains("s3cr"), "{error}");
        }
        let number = [("sasl.password".to_owned(), Value::Int(4711))];
        assert!(!Config::parse(Role::Admin, number).unwrap_err().to_string().contains("4711"));
    }

    #[test]
    fn sasl_wants_a_mechanism_and_somebody() {
        let message = |pairs: &[(&str, &str)]| parse(pairs).unwrap_err().message().to_owned();
        assert_eq!(message(&[]), "security.protocol=SASL_PLAINTEXT needs sasl.mechanism");
        assert_eq!(message(&[("sasl.mechanism", "CRAM-MD5")]), "sasl.mechanism cannot be \"CRAM-MD5\"");
        let alone = [("sasl.mechanism", "PLAIN"), ("sasl.username", "alice")];
        assert_eq!(message(&alone), "sasl.mechanism=PLAIN needs sasl.username and sasl.password");
    }
}

//! Parses the keys `security.*`, `sasl.*` and `ssl.*`, which contain credentials and TLS settings. The parser reports
//! every error in these keys that klamm can find without a broker.

use super::keys::{KEYS, Key};
use super::values::{HOST_CHECK, Value, Values, invalid};
use crate::client::Error;
use crate::engine::sasl::{Credentials, scram};
use crate::net::tls;
use std::sync::Arc;

const PROTOCOL: &str = "security.protocol";
const CA: (&str, &str) = ("ssl.ca.location", "ssl.ca.pem");
const CERTIFICATE: (&str, &str) = ("ssl.certificate.location", "ssl.certificate.pem");
const KEY: (&str, &str) = ("ssl.key.location", "ssl.key.pem");

fn protocol(values: &Values) -> String {
    values.text(PROTOCOL)
}

/// Fails if a key `sasl.*` or `ssl.*` is set, but the security protocol does not use it. Otherwise the client would
/// send data unprotected that the user meant to protect.
pub(super) fn check_effect(values: &Values) -> Result<(), Error> {
    let protocol = protocol(values);
    let unused = |key: &&Key| match key.name.split_once('.') {
        Some(("sasl", _)) => !protocol.starts_with("SASL"),
        Some(("ssl", _)) => !protocol.ends_with("SSL"),
        _ => false,
    };
    let is_given = |key: &&Key| values.get(key.name).is_some_and(|v| *v != Value::String(String::new()));
    let Some(key) = KEYS.iter().filter(unused).find(is_given) else { return Ok(()) };
    let message = match values.is_set(PROTOCOL) {
        true => format!("{} has no effect with {PROTOCOL}={protocol}", key.name),
        false => format!("{} has no effect without {PROTOCOL}", key.name),
    };
    let hint = match key.name.starts_with("sasl.") {
        true => {
            "set security.protocol to SASL_SSL, or to SASL_PLAINTEXT if the brokers do not use TLS; or leave sasl.* out"
        }
        false => "set security.protocol to SSL, or to SASL_SSL if the brokers require a login; or leave ssl.* out",
    };
    Err(invalid(message, hint.to_owned()))
}

/// Returns whether the client accepts a certificate for another host name.
pub(super) fn trusts_any_host(values: &Values) -> bool {
    protocol(values).ends_with("SSL") && values.text(HOST_CHECK) == "none"
}

/// Returns what the client sends to brokers without encryption: a password, a token, or nothing.
pub(super) fn exposed_secret(values: &Values) -> Option<&'static str> {
    match (protocol(values).as_str(), values.optional("sasl.mechanism").as_deref()) {
        ("SASL_PLAINTEXT", Some("PLAIN")) => Some("password"),
        ("SASL_PLAINTEXT", Some("OAUTHBEARER")) => Some("token"),
        _ => None,
    }
}

/// Returns the credentials for logins, if `security.protocol` has SASL.
pub(super) fn credentials(values: &Values) -> Result<Option<Credentials>, Error> {
    if !protocol(values).starts_with("SASL") {
        return Ok(None);
    }
    let Some(mechanism) = values.optional("sasl.mechanism") else {
        let hint = "set the mechanism that the brokers use: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER or GSSAPI"
            .to_owned();
        return Err(invalid(format!("security.protocol={} needs sasl.mechanism", protocol(values)), hint));
    };
    if mechanism == "OAUTHBEARER" {
        return Ok(Some(Credentials::Bearer(None)));
    }
    if mechanism == "GSSAPI" {
        return Ok(Some(Credentials::Gssapi));
    }
    let jaas = values.optional("sasl.jaas.config").map(|text| jaas(&text)).transpose()?.unwrap_or_default();
    let of_jaas = |name: &str| jaas.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
    let username = values.optional("sasl.username").or_else(|| of_jaas("username"));
    let password = values.optional("sasl.password").or_else(|| of_jaas("password"));
    let (Some(username), Some(password)) = (username, password) else {
        let hint = "set both, or a sasl.jaas.config that has them".to_owned();
        return Err(invalid(format!("sasl.mechanism={mechanism} needs sasl.username and sasl.password"), hint));
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

/// Returns the settings of the keys `sasl.oauthbearer.*` or, with GSSAPI, `sasl.kerberos.*`. The settings of missing
/// keys come from `sasl.jaas.config`.
pub(super) fn token_settings(values: &Values) -> Result<Vec<(&'static str, String)>, Error> {
    let is_kerberos = values.text("sasl.mechanism") == "GSSAPI";
    let prefix = if is_kerberos { "sasl.kerberos." } else { "sasl.oauthbearer." };
    let mut settings: Vec<(&'static str, String)> = Vec::new();
    for key in KEYS.iter().filter(|key| key.name.starts_with(prefix)) {
        settings.extend(values.optional(key.name).map(|value| (key.name, value)));
    }
    if let Some(text) = values.optional("sasl.jaas.config") {
        for (option, value) in jaas(&text)? {
            let name = match option.as_str() {
                "principal" if is_kerberos => "sasl.kerberos.principal",
                "keyTab" if is_kerberos => "sasl.kerberos.keytab",
                _ if is_kerberos => continue,
                "clientId" => "sasl.oauthbearer.client.id",
                "clientSecret" => "sasl.oauthbearer.client.secret",
                "scope" => "sasl.oauthbearer.scope",
                _ if option.starts_with("aws") && option != "awsDebugCreds" => return Err(of_aws(&option)),
                _ => continue,
            };
            if settings.iter().all(|(known, _)| *known != name) {
                settings.push((name, value));
            }
        }
    }
    let is_set = |name: &str, value: Option<&str>| {
        settings.iter().any(|(known, of)| *known == name && value.is_none_or(|value| value == of))
    };
    if is_set("sasl.oauthbearer.method", Some("aws-msk-iam")) && !is_set("sasl.oauthbearer.aws.region", None) {
        let servers = match values.get("bootstrap.servers") {
            Some(Value::List(servers)) => servers.as_slice(),
            _ => &[],
        };
        settings
            .extend(servers.iter().find_map(|server| aws_region(server)).map(|r| ("sasl.oauthbearer.aws.region", r)));
    }
    Ok(settings)
}

/// Returns the region in the address of a broker of Amazon MSK, as in
/// `b-1.name.x1.c2.kafka.eu-central-1.amazonaws.com:9098`.
fn aws_region(server: &str) -> Option<String> {
    let host = server.rsplit_once(':').map_or(server, |(host, _)| host);
    let host = host.strip_suffix(".cn").unwrap_or(host).strip_suffix(".amazonaws.com")?;
    let (rest, region) = host.rsplit_once('.')?;
    let (_, service) = rest.rsplit_once('.')?;
    service.starts_with("kafka").then(|| region.to_owned())
}

/// Returns the error for an option of Amazon's `IAMLoginModule`. Without the option, the client would log in with
/// another identity.
fn of_aws(option: &str) -> Error {
    let hint = "set AWS_PROFILE to a profile of the AWS configuration, which can name a role, or pass \
                klamm.aws.token_provider(region, session) as sasl.oauth.token.provider";
    invalid(format!("klamm does not support {option} in sasl.jaas.config"), hint.to_owned())
}

/// Returns the TLS settings, if `security.protocol` has SSL.
pub(super) fn tls(values: &Values) -> Result<Option<Arc<tls::Client>>, Error> {
    if !protocol(values).ends_with("SSL") {
        return Ok(None);
    }
    let identity = pem(values, CERTIFICATE)?.map(|certificates| {
        Ok(tls::Identity { certificates, key: pem(values, KEY)?, password: values.optional("ssl.key.password") })
    });
    let versions = match values.get("ssl.enabled.protocols") {
        Some(Value::List(names)) => names.iter().map(|name| version(name)).collect::<Result<_, _>>()?,
        _ => tls::Version::ALL.to_vec(),
    };
    let settings = tls::Settings {
        authorities: pem(values, CA)?,
        identity: identity.transpose()?,
        check_host: !trusts_any_host(values),
        versions,
    };
    let failed = |f: tls::Failure| invalid(f.message, f.hint);
    Ok(Some(Arc::new(tls::Client::new(settings).map_err(failed)?)))
}

fn pem(values: &Values, (location, text): (&'static str, &'static str)) -> Result<Option<tls::Pem>, Error> {
    match (values.optional(location), values.optional(text)) {
        (Some(_), Some(_)) => {
            Err(invalid(format!("{location} and {text} are both set"), "set only one of them".to_owned()))
        }
        // The error of a missing file would show the private key.
        (Some(path), None) if path.contains("-----BEGIN") => {
            Err(invalid(format!("{location} has PEM text instead of a path"), format!("set {text} to the text")))
        }
        (Some(path), None) => Ok(Some(tls::Pem::File(path.into()))),
        (None, Some(text)) => Ok(Some(tls::Pem::Text(text))),
        (None, None) => Ok(None),
    }
}

fn version(name: &str) -> Result<tls::Version, Error> {
    tls::Version::ALL.into_iter().find(|v| v.name() == name).ok_or_else(|| {
        let known = tls::Version::ALL.map(tls::Version::name).join(", ");
        invalid(format!("ssl.enabled.protocols has {name:?}"), format!("allowed: {known}"))
    })
}

/// Parses the options of a JAAS entry: `module required key="value" ...;`. The error does not show the entry, because
/// it contains a password.
pub fn jaas(text: &str) -> Result<Vec<(String, String)>, Error> {
    let wrong = || {
        let hint = "write it as org.apache.kafka...LoginModule required username=\"...\" password=\"...\";";
        invalid("sasl.jaas.config cannot be read".to_owned(), hint.to_owned())
    };
    let mut rest = text.trim().trim_end_matches(';').trim_end();
    let mut options = Vec::new();
    rest = rest.split_once(char::is_whitespace).ok_or_else(wrong)?.1.trim_start(); // the module
    rest = rest.split_once(char::is_whitespace).map_or("", |(_, options)| options).trim_start(); // the control flag
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
            // A value without quotes, as in `useKeyTab=true`.
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
    use super::super::{ClientType, Config};
    use super::*;

    const SECRET: &str = "s3cr\"et; word";

    fn parse(pairs: &[(&str, &str)]) -> Result<Config, Error> {
        let pairs = [("bootstrap.servers", "localhost:1"), ("security.protocol", "SASL_PLAINTEXT")].iter().chain(pairs);
        Config::parse(ClientType::Admin, pairs.map(|(k, v)| ((*k).to_owned(), Value::String((*v).to_owned()))))
    }

    #[test]
    fn the_keys_of_java_and_librdkafka_give_the_same_credentials() {
        let jaas = format!(
            "org.apache.kafka.common.security.scram.ScramLoginModule  required\n username=\"alice\" password=\"{}\" ;",
            SECRET.replace('"', "\\\"")
        );
        let java = parse(&[("sasl.mechanism", "SCRAM-SHA-512"), ("sasl.jaas.config", &jaas)]).unwrap();
        let own = [("sasl.mechanisms", "scram-sha-512"), ("sasl.username", "alice"), ("sasl.password", SECRET)];
        for config in [java, parse(&own).unwrap()] {
            let Some(Credentials::Scram { mechanism, username, password, extensions }) =
                credentials(&config.values).unwrap()
            else {
                panic!("no SCRAM");
            };
            assert_eq!(mechanism, scram::Mechanism::Sha512);
            assert_eq!((username.as_str(), password.as_str(), extensions.len()), ("alice", SECRET, 0));
        }
    }

    #[test]
    fn the_keys_of_amazons_login_module_mean_tokens_for_msk() {
        let login = |jaas: &str| {
            parse(&[
                ("sasl.mechanism", "AWS_MSK_IAM"),
                ("sasl.jaas.config", jaas),
                ("sasl.client.callback.handler.class", "software.amazon.msk.auth.iam.IAMClientCallbackHandler"),
            ])
            .and_then(|config| config.token_settings())
        };
        let module = "software.amazon.msk.auth.iam.IAMLoginModule required";
        for text in [format!("{module};"), format!("{module} awsDebugCreds=true;")] {
            assert!(login(&text).unwrap().contains(&("sasl.oauthbearer.method", "aws-msk-iam".to_owned())));
        }
        let error = login(&format!("{module} awsRoleArn=\"arn:aws:iam::1:role/r\";")).unwrap_err();
        assert!(error.message().contains("awsRoleArn"), "{error}");
        for (server, region) in [
            ("b-1.name.x1.c2.kafka.eu-central-1.amazonaws.com:9098", Some("eu-central-1")),
            ("SASL_SSL://boot-x.c1.kafka-serverless.us-east-1.amazonaws.com:9098", Some("us-east-1")),
            ("b-1.name.x1.c2.kafka.cn-north-1.amazonaws.com.cn:9098", Some("cn-north-1")),
            ("ec2-1-2-3-4.compute-1.amazonaws.com:9092", None),
            ("localhost:9092", None),
        ] {
            assert_eq!(aws_region(server).as_deref(), region, "{server}");
        }
        assert!(jaas("org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required ;").is_ok());
        assert!(jaas("org.apache.kafka.common.security.plain.PlainLoginModule").is_err());
    }

    #[test]
    fn no_message_shows_a_secret() {
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
        assert!(!Config::parse(ClientType::Admin, number).unwrap_err().to_string().contains("4711"));
    }

    #[test]
    fn sasl_needs_a_mechanism_and_a_user() {
        let message = |pairs: &[(&str, &str)]| parse(pairs).unwrap_err().message().to_owned();
        assert_eq!(message(&[]), "security.protocol=SASL_PLAINTEXT needs sasl.mechanism");
        assert_eq!(message(&[("sasl.mechanism", "CRAM-MD5")]), "sasl.mechanism cannot be \"CRAM-MD5\"");
        let alone = [("sasl.mechanism", "PLAIN"), ("sasl.username", "alice")];
        assert_eq!(message(&alone), "sasl.mechanism=PLAIN needs sasl.username and sasl.password");
    }
}

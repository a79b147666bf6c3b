//! Parses the addresses of `bootstrap.servers`: an optional protocol, a host, and an optional port. An error message
//! shows only a part of the address, because some users put passwords into addresses.

use super::values::invalid;
use crate::client::Error;
use std::net::Ipv6Addr;

/// The port of an address without a port.
const PORT: u16 = 9092;
/// The protocols that an address may begin with.
const PROTOCOLS: [&str; 4] = ["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"];
/// The characters that belong to other parts of a URL, or to a list.
const NOT_IN_HOSTS: &[char] = &['/', '\\', '?', '#', '@', '[', ']', '"', '\'', ',', ';', '='];
/// The largest number of characters of an address in an error message.
const MAX_SHOWN: usize = 100;

/// Returns the host and the port of an address in `list`. The host has no brackets. `protocol` is the value of
/// `security.protocol`, if it is set.
pub fn parse_address(list: &str, address: &str, protocol: Option<&str>) -> Result<(String, u16), Error> {
    let rest = match address.split_once("://") {
        Some((scheme, rest)) => {
            check_scheme(list, scheme, protocol)?;
            rest
        }
        None => address,
    };
    if rest.contains('@') {
        let hint = "write host:port; user name and password belong in sasl.username and sasl.password";
        return Err(invalid(format!("{list} has an address with a user name"), hint.to_owned()));
    }
    // A query or a path may hold a secret.
    let end = rest.find(['/', '?', '#', ';', '=']).unwrap_or(rest.len());
    let shown: String = rest.get(..end).unwrap_or_default().chars().take(MAX_SHOWN).collect();
    let wrong = || {
        let hint = if rest.contains(';') { "separate addresses with commas" } else { "write addresses as host:port" };
        invalid(format!("{list} has {shown:?}"), hint.to_owned())
    };
    let (host, port) = split(list, rest, &shown)?.ok_or_else(wrong)?;
    let port = match port {
        Some(digits) if digits.bytes().all(|c| c.is_ascii_digit()) => {
            digits.parse().ok().filter(|port| *port > 0).ok_or_else(wrong)?
        }
        Some(_) => return Err(wrong()),
        None => PORT,
    };
    let is_odd = |c: char| c.is_whitespace() || c.is_control() || NOT_IN_HOSTS.contains(&c);
    if host.is_empty() || host.contains(is_odd) { Err(wrong()) } else { Ok((host.to_owned(), port)) }
}

/// Splits an address into its host, without brackets, and its port. Returns `None` if a bracket is missing.
fn split<'a>(list: &str, address: &'a str, shown: &str) -> Result<Option<(&'a str, Option<&'a str>)>, Error> {
    if let Some(rest) = address.strip_prefix('[') {
        let Some((host, port)) = rest.split_once(']') else { return Ok(None) };
        return Ok(match (port.is_empty(), port.strip_prefix(':')) {
            (true, _) => Some((host, None)),
            (false, Some(port)) => Some((host, Some(port))),
            (false, None) => None,
        });
    }
    let Some((host, port)) = address.rsplit_once(':') else { return Ok(Some((address, None))) };
    if !host.contains(':') {
        return Ok(Some((host, Some(port))));
    }
    if is_ipv6(host) && !port.is_empty() && port.bytes().all(|c| c.is_ascii_digit()) {
        let message = format!("{list} has {shown:?}, an IPv6 address without brackets");
        let mut hint = format!("write [{host}]:{port} if {port} is the port");
        if is_ipv6(address) {
            hint += &format!(", and [{address}]:{PORT} if it is part of the address");
        }
        return Err(invalid(message, hint));
    }
    Ok(is_ipv6(address).then_some((address, None)))
}

fn is_ipv6(host: &str) -> bool {
    let (address, zone) = host.split_once('%').unwrap_or((host, "0"));
    address.parse::<Ipv6Addr>().is_ok() && !zone.is_empty()
}

fn check_scheme(list: &str, scheme: &str, protocol: Option<&str>) -> Result<(), Error> {
    let Some(named) = PROTOCOLS.into_iter().find(|known| known.eq_ignore_ascii_case(scheme)) else {
        let is_word = !scheme.is_empty() && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-._".contains(c));
        let shown: String = if is_word { scheme.chars().take(MAX_SHOWN).collect() } else { String::new() };
        let hint = format!("write host:port, or one of {} before ://", PROTOCOLS.join(", "));
        return Err(invalid(format!("{list} has an address that begins with {:?}", shown + "://"), hint));
    };
    match protocol {
        Some(protocol) if protocol == named => Ok(()),
        // Connections without security are the default.
        None if named == "PLAINTEXT" => Ok(()),
        Some(protocol) => {
            let message = format!("{list} has a {named}:// address, but security.protocol is {protocol}");
            Err(invalid(message, "name the same protocol in both, or leave it out of the address".to_owned()))
        }
        None => {
            let message = format!("{list} has a {named}:// address, but security.protocol is not set");
            Err(invalid(message, format!("set security.protocol to {named}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(address: &str, protocol: Option<&str>) -> Result<(String, u16), Error> {
        parse_address("bootstrap.servers", address, protocol)
    }

    #[test]
    fn an_address_may_have_a_port() {
        for (address, host, port) in [
            ("a:1", "a", 1),
            ("b", "b", 9092),
            ("10.0.0.1:2", "10.0.0.1", 2),
            ("PLAINTEXT://[::1]:2", "::1", 2),
            ("plaintext://a", "a", 9092),
            ("[localhost]:3", "localhost", 3),
            ("[fe80::1%eth0]:4", "fe80::1%eth0", 4),
            ("[::1]", "::1", 9092),
            ("::1", "::1", 9092),
            ("::ffff:127.0.0.1", "::ffff:127.0.0.1", 9092),
            ("fe80::1%eth0", "fe80::1%eth0", 9092),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2:3:4:5:6", 9092),
        ] {
            assert_eq!(parse(address, None).unwrap(), (host.to_owned(), port), "{address}");
        }
        for wrong in [
            "a:x",
            ":1",
            "a:0",
            "a:+1",
            "a:65536",
            "a b:1",
            "a\0b:1",
            "a\u{7f}:1",
            "[::1",
            "[::1]2",
            "[]:1",
            "a:1/x",
            "a/x",
            "a:1:2",
            "a]:1",
            "a[0]:1",
            "::1:x",
            "[[::1]]:1",
        ] {
            assert!(parse(wrong, None).unwrap_err().message().starts_with("bootstrap.servers has "), "{wrong}");
        }
    }

    #[test]
    fn a_semicolon_between_addresses_is_a_comma() {
        for (address, hint) in [("a:1;b:1", "separate addresses with commas"), ("a:x", "write addresses as host:port")]
        {
            assert_eq!(parse(address, None).unwrap_err().hint(), Some(hint), "{address}");
        }
    }

    #[test]
    fn an_ipv6_address_with_a_port_needs_brackets() {
        for (address, hint) in [
            ("2001:db8::1:9092", "[2001:db8::1]:9092"),
            ("::1:44521", "[::1]:44521"),
            ("fe80::1%eth0:9092", "[fe80::1%eth0]:9092"),
            ("SSL://2001:db8:1:2:3:4:5:6:9092", "[2001:db8:1:2:3:4:5:6]:9092"),
        ] {
            let error = parse(address, Some("SSL").filter(|_| address.contains("SSL"))).unwrap_err();
            assert!(error.message().ends_with("an IPv6 address without brackets"), "{error}");
            assert!(error.hint().unwrap().contains(hint), "{error}");
        }
    }

    #[test]
    fn a_protocol_in_an_address_must_be_that_of_the_client() {
        for protocol in PROTOCOLS {
            for named in PROTOCOLS {
                let address = format!("{named}://a:1");
                assert_eq!(parse(&address, Some(protocol)).is_ok(), named == protocol, "{address} {protocol}");
            }
        }
        assert!(parse("PLAINTEXT://a:1", None).is_ok());
        for named in ["SSL", "SASL_PLAINTEXT", "sasl_ssl"] {
            let error = parse(&format!("{named}://a:1"), None).unwrap_err();
            assert_eq!(error.hint().unwrap(), format!("set security.protocol to {}", named.to_uppercase()));
        }
        for other in
            ["https://a:1", "nonsense://a:1", "a://b://a:1", "://a:1", "kafka://user:secret@a:1", "s/ecret://a"]
        {
            let error = parse(other, Some("SSL")).unwrap_err().to_string();
            assert!(error.contains("begins with") && !error.contains("ecret"), "{error}");
        }
        assert!(parse("SSL://SSL://a:1", Some("SSL")).is_err());
    }

    #[test]
    fn no_error_shows_a_secret() {
        for address in
            ["user:secret@h:1", "secret@h", "PLAINTEXT://u:secret@h:1", "h:1/?password=secret", "h;pw=secret"]
        {
            let error = parse(address, None).unwrap_err();
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }
}

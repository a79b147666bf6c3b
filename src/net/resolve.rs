//! Resolves host names without blocking the caller.

#![allow(clippy::disallowed_methods, reason = "the system's resolver blocks, so it runs on a thread")]

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::thread;

/// Resolves a host name and passes the addresses to `done`. For an IP address, this happens at once, and otherwise in
/// another thread. An IPv6 address may have brackets and a zone.
pub fn resolve(host: &str, port: u16, done: impl FnOnce(io::Result<Vec<SocketAddr>>) + Send + 'static) {
    let host = without_brackets(host);
    if let Ok(ip) = host.parse::<IpAddr>() {
        return done(Ok(vec![SocketAddr::new(ip, port)]));
    }
    // The name may come from a peer, and the system's resolver reads it up to the first zero byte.
    if host.is_empty() || host.contains(char::is_control) {
        return done(Err(io::Error::new(io::ErrorKind::InvalidInput, "it is empty or has control characters")));
    }
    let host = host.to_owned();
    let look_up = move || done((host.as_str(), port).to_socket_addrs().map(Iterator::collect));
    // If the thread cannot be started, `done` is dropped, and the connection deadline of the caller ends the attempt.
    let _ = thread::Builder::new().name("klamm-resolve".to_owned()).spawn(look_up);
}

/// Removes the brackets around an IPv6 address, and returns other hosts unchanged.
pub(super) fn without_brackets(host: &str) -> &str {
    host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    fn resolved(host: &str) -> io::Result<Vec<SocketAddr>> {
        let (sender, receiver) = channel();
        resolve(host, 1, move |result| sender.send(result).unwrap());
        receiver.recv().unwrap()
    }

    #[test]
    fn an_address_may_have_brackets_and_a_zone() {
        assert_eq!(resolved("[::1]").unwrap(), ["[::1]:1".parse().unwrap()]);
        assert_eq!(resolved("[127.0.0.1]").unwrap(), ["127.0.0.1:1".parse().unwrap()]);
        #[cfg(target_os = "linux")]
        for host in ["fe80::1%lo", "[fe80::1%lo]"] {
            assert_eq!(resolved(host).unwrap(), ["[fe80::1%1]:1".parse().unwrap()], "{host}");
        }
    }

    #[test]
    fn a_host_with_odd_characters_is_an_error() {
        for host in ["", "a\0b", "[a\nb]", "\u{1b}[0m"] {
            assert_eq!(resolved(host).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{host:?}");
        }
    }
}

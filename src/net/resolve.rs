//! Resolves host names without blocking the caller.

#![allow(clippy::disallowed_methods, reason = "the system's resolver blocks, so it runs on a thread")]

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::thread;

/// Resolves a host name and passes the addresses to `done`: at once for an IP address, otherwise from another thread.
pub fn resolve(host: &str, port: u16, done: impl FnOnce(io::Result<Vec<SocketAddr>>) + Send + 'static) {
    let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
    if let Ok(ip) = bare.parse::<IpAddr>() {
        return done(Ok(vec![SocketAddr::new(ip, port)]));
    }
    let host = host.to_owned();
    let name = format!("klamm-resolve-{host}");
    let look_up = move || done((host.as_str(), port).to_socket_addrs().map(Iterator::collect));
    // If the thread cannot be started, `done` is dropped, and the connection deadline of the caller ends the attempt.
    let _ = thread::Builder::new().name(name).spawn(look_up);
}

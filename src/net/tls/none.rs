//! The types of TLS sessions in a build without TLS. The types have no values, so no session can exist.

use super::{Failure, Settings};
use bytes::{Bytes, BytesMut};
use std::collections::VecDeque;
use std::io::{self, Write};

fn no_tls() -> Failure {
    let (message, hint) = ("this build of klamm does not support TLS", "build klamm with the feature tls");
    Failure { message: message.to_owned(), hint: hint.to_owned(), is_final: true }
}

/// The TLS settings of a client. This type has no values in a build without TLS.
#[derive(Debug)]
pub enum Client {}

impl Client {
    /// Always fails, because this build has no TLS.
    pub fn new(_: Settings) -> Result<Self, Failure> {
        Err(no_tls())
    }

    /// Never runs.
    pub fn session(&self, _: &str) -> Result<Session, Failure> {
        match *self {}
    }
}

/// The TLS settings of a server. This type has no values in a build without TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Server {}

impl Server {
    /// Always fails, because this build has no TLS.
    pub fn new(_: &str, _: &str, _: Option<&str>) -> Result<Self, Failure> {
        Err(no_tls())
    }

    /// Never runs.
    pub fn session(&self) -> Result<Session, Failure> {
        match *self {}
    }
}

/// A TLS session. This type has no values in a build without TLS.
#[derive(Debug)]
pub enum Session {}

#[allow(missing_docs, reason = "documented in session.rs")]
impl Session {
    pub fn is_handshaking(&self) -> bool {
        match *self {}
    }
    pub fn receive(&mut self, _: &[u8], _: &mut BytesMut) -> Result<(), Failure> {
        match *self {}
    }
    pub fn cut_short(&self) -> Failure {
        match *self {}
    }
    pub fn encrypt(&mut self, _: &mut VecDeque<Bytes>) -> io::Result<()> {
        match *self {}
    }
    pub fn peer_certificate(&self) -> Option<&[u8]> {
        match *self {}
    }
    pub fn wants_write(&self) -> bool {
        match *self {}
    }
    pub fn write_to(&mut self, _: &mut impl Write) -> io::Result<()> {
        match *self {}
    }
    pub fn finish(&mut self) {
        match *self {}
    }
}

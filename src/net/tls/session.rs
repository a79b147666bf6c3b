//! TLS sessions of rustls. A session encrypts and decrypts bytes, and has no socket.

use super::reason::{self, Reason};
use super::{Failure, Settings, Version, pem, trust};
use crate::net::resolve::without_brackets;
use bytes::{Buf, Bytes, BytesMut};
use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::ServerName;
use rustls::server::WebPkiClientVerifier;
use rustls::version::{TLS12, TLS13};
use rustls::{
    AlertDescription, CertificateError, ClientConfig, ClientConnection, Connection, Error, ServerConfig,
    ServerConnection, SupportedProtocolVersion,
};
use std::collections::VecDeque;
use std::fs;
use std::io::{self, BufRead, IoSlice, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

/// The largest number of encrypted bytes that may wait for the kernel.
const MAX_SEALED: usize = 256 << 10;
/// The largest number of pieces that are encrypted together.
const MAX_PIECES: usize = 64;
/// The number of servers for which the client keeps sessions, to resume them with a shorter handshake.
const REMEMBERED: usize = 256;

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// Creates sessions with servers. Before each session, the client checks whether the certificate and key files have
/// changed, and reads changed files again. If it cannot read the new files, it keeps using the earlier contents.
pub struct Client {
    settings: Settings,
    loaded: Mutex<Loaded>,
}

struct Loaded {
    config: Arc<ClientConfig>,
    stamps: Vec<Stamp>,
}

/// The modification time and the size of a file.
type Stamp = Option<(SystemTime, u64)>;

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("tls::Client")
    }
}

impl Client {
    /// Reads the certificates and keys.
    #[allow(clippy::disallowed_methods, reason = "callers share a client with its I/O thread")]
    pub fn new(settings: Settings) -> Result<Self, Failure> {
        let stamps = stamps(&settings);
        let config = Arc::new(load(&settings)?);
        Ok(Self { settings, loaded: Mutex::new(Loaded { config, stamps }) })
    }

    /// Creates a session with a host. The handshake has not started yet.
    pub fn session(&self, host: &str) -> Result<Session, Failure> {
        let plain_host = without_brackets(host).trim_end_matches('.');
        // A zone is no part of the address that a certificate names.
        let plain_host = plain_host.split_once('%').map_or(plain_host, |(address, _)| address);
        let name = ServerName::try_from(plain_host.to_owned());
        let name = name.map_err(|_| {
            let failure = Failure::new(format!("{host:?} is not a valid host name"), "check the address");
            Failure { is_final: false, ..failure }
        })?;
        let connection = ClientConnection::new(self.config(), name);
        let connection = connection.map_err(|e| explain(&e))?;
        Ok(Session::new(connection.into()))
    }

    fn config(&self) -> Arc<ClientConfig> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let stamps = stamps(&self.settings);
        if stamps != loaded.stamps
            && let Ok(config) = load(&self.settings)
        {
            *loaded = Loaded { config: Arc::new(config), stamps };
        }
        loaded.config.clone()
    }
}

fn stamps(settings: &Settings) -> Vec<Stamp> {
    let identity = settings.identity.as_ref();
    let pems =
        [settings.authorities.as_ref(), identity.map(|i| &i.certificates), identity.and_then(|i| i.key.as_ref())];
    let stamp = |pem: &super::Pem| match pem {
        super::Pem::File(path) => fs::metadata(path).and_then(|m| Ok((m.modified()?, m.len()))).ok(),
        super::Pem::Text(_) => None,
    };
    pems.into_iter().flatten().map(stamp).collect()
}

fn load(settings: &Settings) -> Result<ClientConfig, Failure> {
    let provider = provider();
    let verifier = trust::verifier(settings.authorities.as_ref(), settings.check_host, &provider)?;
    let version = |v: &Version| match v {
        Version::Tls12 => &TLS12,
        Version::Tls13 => &TLS13,
    };
    let versions: Vec<&'static SupportedProtocolVersion> = settings.versions.iter().map(version).collect();
    let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(&versions);
    let builder =
        builder.map_err(|e| Failure::new(format!("no TLS: {}", reason::own(&e)), "check ssl.enabled.protocols"))?;
    let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
    let mut config = match &settings.identity {
        None => builder.with_no_client_auth(),
        Some(identity) => {
            let text = identity.certificates.read("the client's certificate")?;
            let certificates = pem::certificates(&text, "the client's certificate")?;
            let key = identity.key.as_ref().map(|key| key.read("the private key")).transpose()?.unwrap_or(text);
            let key = pem::key(&key, identity.password.as_deref())?;
            let builder = builder.with_client_auth_cert(certificates, key);
            builder.map_err(|e| {
                let hint = "check that certificate and key belong together";
                Failure::new(format!("the client's certificate cannot be used: {}", reason::own(&e)), hint)
            })?
        }
    };
    config.resumption = Resumption::in_memory_sessions(REMEMBERED);
    Ok(config)
}

/// Creates sessions with clients.
#[derive(Clone)]
pub struct Server(Arc<ServerConfig>);

impl PartialEq for Server {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Server {}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("tls::Server")
    }
}

impl Server {
    /// Creates a server from PEM texts: its certificate, its key, and the authority for client certificates, if clients
    /// must have a certificate.
    pub fn new(certificates: &str, key: &str, clients: Option<&str>) -> Result<Self, Failure> {
        let provider = provider();
        let failed = |why: &str| Failure::new(format!("no TLS server: {why}"), "check the certificates");
        let builder = ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions();
        let builder = builder.map_err(|e| failed(&reason::own(&e)))?;
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(text) => {
                let roots = Arc::new(trust::roots(text)?);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider).build();
                builder.with_client_cert_verifier(verifier.map_err(|_| failed("there is no authority of clients"))?)
            }
        };
        let certificates = pem::certificates(certificates, "the server's certificate")?;
        let config = builder.with_single_cert(certificates, pem::key(key, None)?);
        Ok(Self(Arc::new(config.map_err(|e| failed(&reason::own(&e)))?)))
    }

    /// Creates a session with a client. The handshake has not started yet.
    pub fn session(&self) -> Result<Session, Failure> {
        ServerConnection::new(self.0.clone()).map(|c| Session::new(c.into())).map_err(|e| explain(&e))
    }
}

/// One end of a TLS session.
#[derive(Debug)]
pub struct Session {
    connection: Connection,
}

impl Session {
    fn new(mut connection: Connection) -> Self {
        connection.set_buffer_limit(Some(MAX_SEALED));
        Self { connection }
    }

    /// Returns whether the handshake is not complete yet.
    pub fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// Decrypts received bytes and appends the plaintext. After a failure, the session has an alert to write.
    pub fn receive(&mut self, mut sealed: &[u8], out: &mut BytesMut) -> Result<(), Failure> {
        while !sealed.is_empty() {
            // It fails only if the buffer is full, and the code below empties the buffer.
            if self.connection.read_tls(&mut sealed).is_err() {
                return Err(Failure::new("the peer's TLS records are too large", "check host and port"));
            }
            self.connection.process_new_packets().map_err(|e| explain(&e))?;
            let mut reader = self.connection.reader();
            while let Ok(plain @ [_, ..]) = reader.fill_buf() {
                let length = plain.len();
                out.extend_from_slice(plain);
                reader.consume(length);
            }
        }
        Ok(())
    }

    /// Returns the failure for a stream that ended during the handshake.
    pub fn cut_short(&self) -> Failure {
        Failure {
            is_final: false,
            ..Failure::new(
                "TLS handshake failed: the peer closed the connection",
                "check whether this is a plaintext port (security.protocol=PLAINTEXT or SASL_PLAINTEXT), and see the broker's log",
            )
        }
    }

    /// Encrypts queued bytes, until `MAX_SEALED` encrypted bytes wait for the kernel.
    pub fn encrypt(&mut self, queue: &mut VecDeque<Bytes>) -> io::Result<()> {
        while !queue.is_empty() {
            let pieces: Vec<IoSlice<'_>> = queue.iter().take(MAX_PIECES).map(|b| IoSlice::new(b)).collect();
            let mut written = self.connection.writer().write_vectored(&pieces)?;
            if written == 0 {
                break;
            }
            while let Some(first) = queue.front_mut() {
                if written < first.len() {
                    first.advance(written);
                    break;
                }
                written -= first.len();
                queue.pop_front();
            }
        }
        Ok(())
    }

    /// Returns the peer's certificate after the handshake, if the peer sent one.
    pub fn peer_certificate(&self) -> Option<&[u8]> {
        self.connection.peer_certificates()?.first().map(AsRef::as_ref)
    }

    /// Returns whether there are encrypted bytes to write.
    pub fn wants_write(&self) -> bool {
        self.connection.wants_write()
    }

    /// Writes the encrypted bytes.
    pub fn write_to(&mut self, wire: &mut impl Write) -> io::Result<()> {
        while self.connection.wants_write() {
            match self.connection.write_tls(wire) {
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Queues the message that tells the peer that no more data follows.
    pub fn finish(&mut self) {
        self.connection.send_close_notify();
    }
}

/// Returns the failure for a rustls error, with the cause and a hint.
fn explain(error: &Error) -> Failure {
    use CertificateError as C;
    let failed = |hint: &str| Failure::new(format!("TLS handshake failed: {}", words(error)), hint);
    match error {
        Error::InvalidCertificate(why) => failed(match why {
            C::Expired | C::ExpiredContext { .. } => "renew the broker's certificate, or check this machine's clock",
            C::NotValidYet | C::NotValidYetContext { .. } => "check this machine's clock",
            C::UnknownIssuer | C::BadSignature => {
                "set ssl.ca.location to the PEM certificate of the authority that signed the broker's \
                 certificate; a self-signed certificate is its own authority"
            }
            C::NotValidForName | C::NotValidForNameContext { .. } => {
                "connect to a name in the certificate, or make the brokers advertise one; \
                 ssl.endpoint.identification.algorithm=none disables this check and most of the protection"
            }
            other => Reason::of(other)
                .map_or("use a server certificate that is signed by an authority", |reason| &reason.hint),
        }),
        Error::AlertReceived(alert) => {
            use AlertDescription as A;
            let certificates = "the broker asks for a client certificate of an authority that it trusts: check \
                                ssl.certificate.location and ssl.key.location";
            let hint = match alert {
                A::CertificateRequired
                | A::BadCertificate
                | A::CertificateUnknown
                | A::CertificateExpired
                | A::CertificateRevoked
                | A::UnsupportedCertificate
                | A::UnknownCA
                | A::AccessDenied
                | A::DecryptError => certificates,
                A::HandshakeFailure => {
                    "client and broker have no cipher in common, or the broker asks for a client certificate"
                }
                A::ProtocolVersion => "client and broker have no TLS version in common: check ssl.enabled.protocols",
                _ => "see the broker's log",
            };
            let is_final = !matches!(alert, A::InternalError | A::UserCanceled | A::CloseNotify);
            Failure {
                is_final,
                ..Failure::new(format!("the broker refused TLS: {}", reason::spaced(&format!("{alert:?}"))), hint)
            }
        }
        Error::InvalidMessage(_) => failed("the peer does not speak TLS: check the port and security.protocol"),
        Error::PeerIncompatible(_) => failed("client and broker have no TLS version or cipher in common"),
        Error::DecryptError => Failure { is_final: false, ..failed("the received bytes were damaged in transit") },
        _ => failed("see the broker's log"),
    }
}

fn words(error: &Error) -> String {
    use CertificateError as C;
    let Error::InvalidCertificate(why) = error else { return reason::of_handshake(error) };
    match why {
        C::Expired | C::ExpiredContext { .. } => "the broker's certificate has expired".into(),
        C::NotValidYet | C::NotValidYetContext { .. } => "the broker's certificate is not valid yet".into(),
        C::UnknownIssuer => "the broker's certificate is not signed by a trusted authority".into(),
        C::BadSignature => {
            "the broker's certificate is not signed by a trusted authority, but by an authority of the same name with another key"
                .into()
        }
        C::NotValidForNameContext { expected, presented } => {
            // webpki prints names as `DnsName("host")`.
            let names = presented.iter().map(|name| name.split('"').nth(1).unwrap_or(name)).collect::<Vec<_>>();
            format!("the broker's certificate is not for {}, but for {}", expected.to_str(), names.join(", "))
        }
        other => match Reason::of(other) {
            Some(reason) => reason.message.clone(),
            None => format!("the broker's certificate cannot be used: {}", reason::of_certificate(other)),
        },
    }
}

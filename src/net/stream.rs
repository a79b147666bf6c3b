//! A non-blocking TCP stream with a queue of bytes to send, optionally encrypted with TLS. This file also defines the
//! listener, which accepts connections.

use super::Poller;
use super::tls::{Failure, Session};
use bytes::{Buf, Bytes, BytesMut};
use mio::net::{TcpListener, TcpStream};
use mio::{Interest, Token};
use std::collections::VecDeque;
use std::io::{self, IoSlice, Read, Write};
use std::net::SocketAddr;

/// The size of one read, in bytes, while the length of the frame is unknown. Larger reads would copy more data. When
/// the length is known, the stream reads directly into the frame's own memory.
const READ_SIZE: usize = 64 << 10;
/// The largest read into a frame's own memory, in bytes.
const MAX_DIRECT: usize = 256 << 10;
/// The most memory that the stream reserves at once for the rest of a frame, in bytes. The stream reserves more memory
/// as bytes arrive.
const MAX_RESERVED: usize = 4 << 20;
/// Whether a stream is drained when a read returns fewer bytes than requested. On Windows, mio reports the next event
/// only after a read would have blocked.
const SHORT_READ_DRAINS: bool = cfg!(not(windows));
/// The largest number of pieces in one vectored write.
const MAX_PIECES: usize = 64;

/// How long a connection is idle before the kernel probes the peer, and also the time between probes. Load balancers
/// drop connections that are idle for some minutes.
#[cfg(target_os = "linux")]
const KEEP_ALIVE_AFTER: std::time::Duration = std::time::Duration::from_secs(60);
#[cfg(target_os = "linux")]
const KEEP_ALIVE_INTERVAL: std::time::Duration = std::time::Duration::from_secs(10);

/// How a read ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// The stream has read all bytes that had arrived.
    Drained,
    /// There may be more data. Read again after other streams have had their turn.
    More,
    /// The peer closed its side.
    End,
}

/// A TCP stream that is registered with one poller.
#[derive(Debug)]
pub struct Stream {
    tcp: TcpStream,
    token: usize,
    queue: VecDeque<Bytes>,
    writing: bool,
    session: Option<Box<Session>>,
    /// How many bytes of a frame usually arrive at a time.
    usual: usize,
}

impl Stream {
    /// Starts to connect. When the stream becomes writable, [`Stream::connected`] returns the result.
    pub fn connect(poller: &Poller, token: usize, address: SocketAddr) -> io::Result<Self> {
        Self::register(poller, token, TcpStream::connect(address)?)
    }

    fn register(poller: &Poller, token: usize, mut tcp: TcpStream) -> io::Result<Self> {
        // If the connection attempt failed at once, the first use of the stream reports it.
        let _ = tcp.set_nodelay(true);
        poller.registry.register(&mut tcp, Token(token), Interest::READABLE | Interest::WRITABLE)?;
        Ok(Self { tcp, token, queue: VecDeque::new(), writing: true, session: None, usual: READ_SIZE })
    }

    /// Makes the kernel probe the peer while the connection is idle. The kernel then notices that a peer is gone, and
    /// network devices do not drop the connection. The function has no effect on systems other than Linux.
    pub fn keep_alive(&self) {
        #[cfg(target_os = "linux")]
        {
            use rustix::net::sockopt;
            // A connection without keep-alive works as well.
            let _ = sockopt::set_socket_keepalive(&self.tcp, true);
            let _ = sockopt::set_tcp_keepidle(&self.tcp, KEEP_ALIVE_AFTER);
            let _ = sockopt::set_tcp_keepintvl(&self.tcp, KEEP_ALIVE_INTERVAL);
        }
    }

    /// Encrypts all later data with this TLS session.
    pub fn secure(&mut self, session: Session) {
        self.session = Some(Box::new(session));
    }

    /// Returns whether the connection is established, including the TLS handshake. A failure of the handshake is a
    /// [`Failure`].
    pub fn connected(&mut self, scratch: &mut [u8]) -> io::Result<bool> {
        if let Some(e) = self.tcp.take_error()? {
            // A connection attempt does not end with these errors: the peer closed an established connection.
            let is_cut = matches!(e.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset);
            return Err(match self.session.as_ref().filter(|s| is_cut && s.is_handshaking()) {
                Some(session) => tls_error(session.cut_short()),
                None => e,
            });
        }
        match self.tcp.peer_addr() {
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::NotConnected => return Ok(false),
            Err(e) => return Err(e),
        }
        if !self.is_handshaking() {
            return Ok(true);
        }
        if let (Err(_), Some(session)) = (self.write_handshake(), &self.session) {
            return Err(tls_error(session.cut_short()));
        }
        // A server sends nothing after the handshake before the first request.
        let result = self.receive(scratch, &mut BytesMut::new(), true, |_| 0);
        match (result, self.session.as_ref().filter(|s| s.is_handshaking())) {
            (Ok(Received::End), Some(session)) => Err(tls_error(session.cut_short())),
            (Err(e), Some(session)) if Failure::of(&e).is_none() => Err(tls_error(session.cut_short())),
            (Err(e), _) => Err(e),
            (Ok(_), session) => Ok(session.is_none()),
        }
    }

    /// Returns the peer's certificate, if it sent one.
    pub fn peer_certificate(&self) -> Option<&[u8]> {
        self.session.as_ref()?.peer_certificate()
    }

    fn is_handshaking(&self) -> bool {
        self.session.as_ref().is_some_and(|s| s.is_handshaking())
    }

    /// Writes as much of the TLS handshake messages as the kernel accepts. The next flush sends the rest.
    fn write_handshake(&mut self) -> io::Result<()> {
        match &mut self.session {
            Some(session) => match session.write_to(&mut self.tcp) {
                Err(e) if e.kind() != io::ErrorKind::WouldBlock => Err(e),
                _ => Ok(()),
            },
            None => Ok(()),
        }
    }

    /// Appends the received data to `buf`.
    ///
    /// `missing` returns how many bytes of the frame in `buf` are missing. `scratch` is the buffer of the polling
    /// thread, see [`Stream::scratch`]. With `to_end`, the call reads the stream to its end, because no
    /// [`Event`](super::Event) will report that the peer closed its side. A TLS error is a [`Failure`].
    pub fn receive(
        &mut self,
        scratch: &mut [u8],
        buf: &mut BytesMut,
        to_end: bool,
        missing: impl Fn(&[u8]) -> usize,
    ) -> io::Result<Received> {
        for _ in 0..4 {
            let (missing, start) = (missing(buf), buf.len());
            let is_large = missing >= READ_SIZE;
            if is_large {
                buf.reserve(missing.min(MAX_RESERVED));
            }
            let is_direct = is_large && self.session.is_none();
            let mut buffer_size = scratch.len();
            let result = if is_direct {
                // Writing the zeros is cheap enough, as long as they are few more than the bytes that replace them.
                let direct_size = missing.min(self.usual);
                buf.resize(start + direct_size, 0);
                let result = self.tcp.read(buf.get_mut(start..).unwrap_or_default());
                let read = result.as_ref().map_or(0, |n| *n);
                buf.truncate(start + read);
                buffer_size = direct_size;
                self.usual = if read == direct_size { 2 * direct_size } else { read }.clamp(READ_SIZE, MAX_DIRECT);
                result
            } else {
                self.tcp.read(scratch)
            };
            match result {
                Ok(0) => return Ok(Received::End),
                Ok(n) => {
                    let arrived = if is_direct { None } else { scratch.get(..n) };
                    match (arrived, &mut self.session) {
                        (Some(arrived), Some(session)) => {
                            let result = session.receive(arrived, buf);
                            // This sends the alert that tells the peer what went wrong.
                            let written = self.write_handshake();
                            result.map_err(tls_error)?;
                            written?;
                        }
                        (Some(arrived), None) => buf.extend_from_slice(arrived),
                        (None, _) => {}
                    }
                    if SHORT_READ_DRAINS && n < buffer_size && !to_end {
                        return Ok(Received::Drained);
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(Received::Drained),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(Received::More)
    }

    /// Creates a buffer for [`Stream::receive`]. Each polling thread needs a buffer of its own.
    pub fn scratch() -> Box<[u8]> {
        vec![0; READ_SIZE].into_boxed_slice()
    }

    /// Queues bytes for [`Stream::flush`].
    pub fn queue(&mut self, bytes: Bytes) {
        if !bytes.is_empty() {
            self.queue.push_back(bytes);
        }
    }

    /// Sends as many queued bytes as the kernel accepts, and requests a writable event if some bytes are left.
    pub fn flush(&mut self, poller: &Poller) -> io::Result<()> {
        match self.session.take() {
            Some(mut session) => {
                let result = self.seal(&mut session);
                self.session = Some(session);
                result?;
            }
            None => self.write()?,
        }
        let writing = !self.is_flushed();
        if writing != self.writing {
            let interest = if writing { Interest::READABLE | Interest::WRITABLE } else { Interest::READABLE };
            poller.registry.reregister(&mut self.tcp, Token(self.token), interest)?;
            self.writing = writing;
        }
        Ok(())
    }

    /// Encrypts and writes as many queued bytes as the kernel accepts.
    fn seal(&mut self, session: &mut Session) -> io::Result<()> {
        loop {
            if !session.is_handshaking() {
                session.encrypt(&mut self.queue)?;
            }
            if !session.wants_write() {
                return Ok(());
            }
            match session.write_to(&mut self.tcp) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                result => result?,
            }
        }
    }

    fn write(&mut self) -> io::Result<()> {
        while !self.queue.is_empty() {
            let pieces: Vec<IoSlice<'_>> = self.queue.iter().take(MAX_PIECES).map(|b| IoSlice::new(b)).collect();
            match self.tcp.write_vectored(&pieces) {
                Ok(mut n) => {
                    while let Some(first) = self.queue.front_mut() {
                        if n < first.len() {
                            first.advance(n);
                            break;
                        }
                        n -= first.len();
                        self.queue.pop_front();
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Returns whether all queued bytes were sent.
    pub fn is_flushed(&self) -> bool {
        self.queue.is_empty() && self.session.as_ref().is_none_or(|s| !s.wants_write())
    }

    /// Deregisters and closes the stream.
    pub fn close(mut self, poller: &Poller) {
        self.send_close_notify();
        let _ = poller.registry.deregister(&mut self.tcp);
    }

    /// Sends the TLS close notification, which shows the peer that no data is missing. Fails only if the connection is
    /// gone.
    fn send_close_notify(&mut self) {
        if let Some(session) = &mut self.session
            && !session.is_handshaking()
        {
            session.finish();
            let _ = session.write_to(&mut self.tcp);
        }
    }
}

fn tls_error(failure: Failure) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, failure)
}

/// Accepts TCP streams.
#[derive(Debug)]
pub struct Listener {
    tcp: TcpListener,
}

impl Listener {
    /// Listens on an address. With port 0, the system chooses a free port.
    pub fn bind(poller: &Poller, token: usize, address: SocketAddr) -> io::Result<Self> {
        let mut tcp = TcpListener::bind(address)?;
        poller.registry.register(&mut tcp, Token(token), Interest::READABLE)?;
        Ok(Self { tcp })
    }

    /// Returns the address of the listener.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.tcp.local_addr()
    }

    /// Accepts the next waiting connection, and registers its stream with `token`.
    pub fn accept(&self, poller: &Poller, token: usize) -> io::Result<Option<Stream>> {
        match self.tcp.accept() {
            Ok((tcp, _)) => Stream::register(poller, token, tcp).map(Some),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Deregisters and closes the socket.
    pub fn close(mut self, poller: &Poller) {
        let _ = poller.registry.deregister(&mut self.tcp);
    }
}

//! A non-blocking TCP stream with its queue of bytes to send, encrypted if it is secured; and a listener.

use super::Poller;
use super::tls::{Failure, Session};
use bytes::{Buf, Bytes, BytesMut};
use mio::net::{TcpListener, TcpStream};
use mio::{Interest, Token};
use std::collections::VecDeque;
use std::io::{self, IoSlice, Read, Write};
use std::net::SocketAddr;

/// Read from the kernel at once, bytes, if nobody knows how much there is. More would be copied for nothing: what is sure
/// to come is read to where it stays.
const READ_SIZE: usize = 64 << 10;
/// The same, of what is sure to come.
const MAX_DIRECT: usize = 256 << 10;
/// Room made at once for what is sure to come; more follows as it arrives.
const MAX_RESERVED: usize = 4 << 20;
/// Pieces handed to the kernel in one vectored write.
const MAX_PIECES: usize = 64;

/// How a read ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// Everything there was.
    Drained,
    /// There may be more; read again after others had their turn.
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
    /// How much of what is sure to come is there at a time, as far as is known.
    usual: usize,
}

impl Stream {
    /// Starts to connect; [`Stream::connected`] says how it ended once the stream is writable.
    pub fn connect(poller: &Poller, token: usize, address: SocketAddr) -> io::Result<Self> {
        Self::register(poller, token, TcpStream::connect(address)?)
    }

    fn register(poller: &Poller, token: usize, mut tcp: TcpStream) -> io::Result<Self> {
        // A connection attempt that failed at once reports it on the first use.
        let _ = tcp.set_nodelay(true);
        poller.registry.register(&mut tcp, Token(token), Interest::READABLE | Interest::WRITABLE)?;
        Ok(Self { tcp, token, queue: VecDeque::new(), writing: true, session: None, usual: READ_SIZE })
    }

    /// Has everything from now on be encrypted.
    pub fn secure(&mut self, session: Session) {
        self.session = Some(Box::new(session));
    }

    /// Whether the connection stands, after the handshake if it is secured; `false` while it is being made. A failure of
    /// the handshake is a [`Failure`].
    pub fn connected(&mut self, scratch: &mut [u8]) -> io::Result<bool> {
        if let Some(e) = self.tcp.take_error()? {
            // No attempt to connect ends so: the peer closed what had stood.
            let is_cut = matches!(e.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset);
            return Err(match self.session.as_ref().filter(|s| is_cut && s.is_handshaking()) {
                Some(session) => failed(session.cut_short()),
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
            return Err(failed(session.cut_short()));
        }
        // A server says nothing after the handshake before it is asked.
        let result = self.receive(scratch, &mut BytesMut::new(), true, |_| 0);
        match (result, self.session.as_ref().filter(|s| s.is_handshaking())) {
            (Ok(Received::End), Some(session)) => Err(failed(session.cut_short())),
            (Err(e), Some(session)) if Failure::of(&e).is_none() => Err(failed(session.cut_short())),
            (Err(e), _) => Err(e),
            (Ok(_), session) => Ok(session.is_none()),
        }
    }

    /// The certificate that the peer showed, if it did.
    pub fn peer_certificate(&self) -> Option<&[u8]> {
        self.session.as_ref()?.peer_certificate()
    }

    fn is_handshaking(&self) -> bool {
        self.session.as_ref().is_some_and(|s| s.is_handshaking())
    }

    /// Writes what TLS has to say of its own accord, as far as the kernel takes it; the rest goes with what is sent next.
    fn write_handshake(&mut self) -> io::Result<()> {
        match &mut self.session {
            Some(session) => match session.write_to(&mut self.tcp) {
                Err(e) if e.kind() != io::ErrorKind::WouldBlock => Err(e),
                _ => Ok(()),
            },
            None => Ok(()),
        }
    }

    /// Appends what has arrived to `buf`, in which so many bytes are `missing`; `scratch` is the poller thread's buffer, see
    /// [`Stream::scratch`]. `to_end`: no [`Event`](super::Event) will tell that the peer closed its side, so a read that comes
    /// short is not enough. What TLS makes impossible is a [`Failure`].
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
            let mut asked = scratch.len();
            let result = if is_direct {
                // The zeros are not worth unsafe code, as long as they are few more than the bytes that take their place.
                let room = missing.min(self.usual);
                buf.resize(start + room, 0);
                let result = self.tcp.read(buf.get_mut(start..).unwrap_or_default());
                let read = result.as_ref().map_or(0, |n| *n);
                buf.truncate(start + read);
                asked = room;
                self.usual = if read == room { 2 * room } else { read }.clamp(READ_SIZE, MAX_DIRECT);
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
                            // The peer learns what went wrong, if it still listens.
                            let written = self.write_handshake();
                            result.map_err(failed)?;
                            written?;
                        }
                        (Some(arrived), None) => buf.extend_from_slice(arrived),
                        (None, _) => {}
                    }
                    if n < asked && !to_end {
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

    /// A buffer for [`Stream::receive`], one a thread.
    pub fn scratch() -> Box<[u8]> {
        vec![0; READ_SIZE].into_boxed_slice()
    }

    /// Queues bytes; [`Stream::flush`] sends them.
    pub fn queue(&mut self, bytes: Bytes) {
        if !bytes.is_empty() {
            self.queue.push_back(bytes);
        }
    }

    /// Sends what is queued as far as the kernel takes it, and asks for a writable event if something is left.
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

    /// Encrypts and writes as far as the kernel takes it.
    fn seal(&mut self, session: &mut Session) -> io::Result<()> {
        loop {
            if !session.is_handshaking() {
                session.take(&mut self.queue)?;
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

    /// Whether everything queued was sent.
    pub fn is_flushed(&self) -> bool {
        self.queue.is_empty() && self.session.as_ref().is_none_or(|s| !s.wants_write())
    }

    /// Ends the registration and closes the stream.
    pub fn close(mut self, poller: &Poller) {
        self.say_goodbye();
        let _ = poller.registry.deregister(&mut self.tcp);
    }

    /// A session ends with a word, so that the peer knows that nothing was cut off. It fails only if the connection is gone.
    fn say_goodbye(&mut self) {
        if let Some(session) = &mut self.session
            && !session.is_handshaking()
        {
            session.finish();
            let _ = session.write_to(&mut self.tcp);
        }
    }
}

fn failed(failure: Failure) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, failure)
}

/// Accepts TCP streams.
#[derive(Debug)]
pub struct Listener {
    tcp: TcpListener,
}

impl Listener {
    /// Listens on an address; port 0 takes a free one.
    pub fn bind(poller: &Poller, token: usize, address: SocketAddr) -> io::Result<Self> {
        let mut tcp = TcpListener::bind(address)?;
        poller.registry.register(&mut tcp, Token(token), Interest::READABLE)?;
        Ok(Self { tcp })
    }

    /// The address it listens on.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.tcp.local_addr()
    }

    /// The next stream that waits, registered under `token`.
    pub fn accept(&self, poller: &Poller, token: usize) -> io::Result<Option<Stream>> {
        match self.tcp.accept() {
            Ok((tcp, _)) => Stream::register(poller, token, tcp).map(Some),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Ends the registration and closes the socket.
    pub fn close(mut self, poller: &Poller) {
        let _ = poller.registry.deregister(&mut self.tcp);
    }
}

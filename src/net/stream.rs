//! A non-blocking TCP stream with its queue of bytes to send, and a listener.

use super::Poller;
use bytes::{Buf, Bytes, BytesMut};
use mio::net::{TcpListener, TcpStream};
use mio::{Interest, Token};
use std::collections::VecDeque;
use std::io::{self, IoSlice, Read, Write};
use std::net::SocketAddr;

/// Read from the kernel at once, bytes. 256 KiB instead of 64 saves system calls on large fetches; more gains nothing.
const READ_SIZE: usize = 256 << 10;
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
        Ok(Self { tcp, token, queue: VecDeque::new(), writing: true })
    }

    /// Whether the connection stands; `false` while it is being made.
    pub fn connected(&self) -> io::Result<bool> {
        if let Some(e) = self.tcp.take_error()? {
            return Err(e);
        }
        match self.tcp.peer_addr() {
            Ok(_) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::NotConnected => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Appends what has arrived to `buf`; `scratch` is the poller thread's buffer, see [`Stream::scratch`].
    pub fn receive(&mut self, scratch: &mut [u8], buf: &mut BytesMut) -> io::Result<Received> {
        for _ in 0..4 {
            match self.tcp.read(scratch) {
                Ok(0) => return Ok(Received::End),
                Ok(n) => {
                    // Readiness is reported once: a short read may hide the end of the stream behind it.
                    buf.extend_from_slice(scratch.get(..n).unwrap_or_default());
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
        let writing = !self.queue.is_empty();
        if writing != self.writing {
            let interest = if writing { Interest::READABLE | Interest::WRITABLE } else { Interest::READABLE };
            poller.registry.reregister(&mut self.tcp, Token(self.token), interest)?;
            self.writing = writing;
        }
        Ok(())
    }

    /// Whether everything queued was sent.
    pub fn is_flushed(&self) -> bool {
        self.queue.is_empty()
    }

    /// Says to the peer that nothing more will come; what it sends can still be read.
    pub fn shutdown(&self) {
        // It fails only if the connection is gone, which the next read tells.
        let _ = self.tcp.shutdown(std::net::Shutdown::Write);
    }

    /// Ends the registration and closes the stream.
    pub fn close(mut self, poller: &Poller) {
        let _ = poller.registry.deregister(&mut self.tcp);
    }
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

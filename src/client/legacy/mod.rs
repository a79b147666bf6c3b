//! A connection to a broker of Kafka 0.6 or 0.7: sends frames, and returns the responses in the order of the requests.
//!
//! Responses have no correlation ID, and produce requests have no response. A legacy connection therefore has no I/O
//! thread: the caller reads and writes the socket itself, in short time slices. If the caller gives up before a
//! response is complete, it must close the connection. A separate thread resolves host names.

use crate::client::fork::Birth;
use crate::client::{Error, ErrorKind};
use crate::engine::address;
use crate::frame::Frames;
use crate::net::{Poller, Received, Stream, resolve};
use bytes::Bytes;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::Duration;

/// A connection to one broker of Kafka 0.6 or 0.7.
#[derive(Debug)]
pub struct LegacyConnection {
    host: String,
    port: u16,
    max_frame: usize,
    birth: Birth,
    poller: Option<Poller>,
    state: State,
    /// The frames to write after the connection is established.
    waiting: VecDeque<Bytes>,
    scratch: Box<[u8]>,
}

#[derive(Debug)]
enum State {
    Closed,
    Resolving(Receiver<io::Result<Vec<SocketAddr>>>),
    Connecting { stream: Stream, others: VecDeque<SocketAddr> },
    Open { stream: Stream, frames: Frames },
}

impl LegacyConnection {
    /// Creates a connection, which connects when it is first used. Responses may have up to `max_frame` bytes.
    pub fn new(host: &str, port: u16, max_frame: usize) -> Self {
        Self {
            host: host.to_owned(),
            port,
            max_frame,
            birth: Birth::now(),
            poller: None,
            state: State::Closed,
            waiting: VecDeque::new(),
            scratch: Stream::scratch(),
        }
    }

    /// Returns the broker's address, `host:port`.
    pub fn address(&self) -> String {
        address(&self.host, self.port)
    }

    /// Queues a frame, including its length prefix, and starts to connect if necessary.
    pub fn queue(&mut self, frame: Bytes) -> Result<(), Error> {
        self.birth.check()?;
        if matches!(self.state, State::Closed) {
            let (sender, receiver) = channel();
            resolve(&self.host, self.port, move |found| drop(sender.send(found)));
            self.state = State::Resolving(receiver);
        }
        match &mut self.state {
            State::Open { stream, .. } => stream.queue(frame),
            _ => self.waiting.push_back(frame),
        }
        Ok(())
    }

    /// Writes queued frames, at most for `slice`. Returns whether the kernel has accepted all queued frames.
    pub fn write(&mut self, slice: Duration) -> Result<bool, Error> {
        self.birth.check()?;
        let done = self.turn(slice, |stream, _, ended| Ok((stream.is_flushed() && !ended).then_some(())));
        done.map(|done| done.is_some()).map_err(|e| self.broken(&e, "send to"))
    }

    /// Waits for the next response, at most for `slice`. Returns the response without its length prefix.
    pub fn read(&mut self, slice: Duration) -> Result<Option<Bytes>, Error> {
        self.birth.check()?;
        let next = |_: &mut Stream, frames: &mut Frames, _| {
            frames.next_frame().map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e.to_string()))
        };
        self.turn(slice, next).map_err(|e| self.broken(&e, "receive from"))
    }

    /// Returns whether the connection is established and the broker has not closed it yet.
    pub fn is_open(&mut self) -> bool {
        if matches!(self.state, State::Closed) || self.birth.check().is_err() {
            return false;
        }
        match self.turn(Duration::ZERO, |_, _, _| Ok(None::<()>)) {
            Ok(_) => true,
            Err(_) => {
                self.close();
                false
            }
        }
    }

    /// Closes the connection. The next use connects again.
    pub fn close(&mut self) {
        self.waiting.clear();
        let state = std::mem::replace(&mut self.state, State::Closed);
        if let (State::Connecting { stream, .. } | State::Open { stream, .. }, Some(poller)) = (state, &self.poller) {
            stream.close(poller);
        }
    }

    fn broken(&mut self, why: &io::Error, tried: &str) -> Error {
        self.close();
        let address = self.address();
        let (kind, hint) = match why.kind() {
            io::ErrorKind::InvalidData => (ErrorKind::Decode, "check that the broker runs Kafka 0.6 or 0.7"),
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => (
                ErrorKind::Network,
                "brokers of Kafka 0.7 reject a request by closing the connection; see the broker's log",
            ),
            _ => (ErrorKind::Network, "check the address, and that the broker runs"),
        };
        Error::new(kind, format!("could not {tried} {address}: {why}")).with_hint(hint).from_broker(address)
    }

    /// Reads and writes until `done` returns a value, the connection ends, or the time slice is over.
    fn turn<T>(
        &mut self,
        slice: Duration,
        mut done: impl FnMut(&mut Stream, &mut Frames, bool) -> io::Result<Option<T>>,
    ) -> io::Result<Option<T>> {
        let mut is_over = false;
        loop {
            self.connect(slice)?;
            let Some(poller) = &self.poller else { return Ok(None) };
            let mut has_ended = false;
            if let State::Open { stream, frames } = &mut self.state {
                stream.flush(poller)?;
                loop {
                    let (buffer, missing) = frames.inbox();
                    match stream.receive(&mut self.scratch, buffer, true, missing)? {
                        Received::Drained => break,
                        Received::More => {}
                        Received::End => {
                            has_ended = true;
                            break;
                        }
                    }
                }
                // Bytes that arrived before the end still count.
                if let Some(found) = done(stream, frames, has_ended)? {
                    return Ok(Some(found));
                }
            }
            if has_ended {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the broker closed the connection"));
            }
            if is_over || slice.is_zero() {
                return Ok(None);
            }
            poller.wait(Some(slice), &mut Vec::new())?;
            // The loop looks at the new bytes once more. A caller that wants to continue calls again.
            is_over = true;
        }
    }

    /// Takes the next step to establish the connection.
    fn connect(&mut self, slice: Duration) -> io::Result<()> {
        if self.poller.is_none() {
            self.poller = Some(Poller::new()?);
        }
        let Some(poller) = &self.poller else { return Ok(()) };
        let mut addresses = match &mut self.state {
            State::Resolving(receiver) => {
                let found = if slice.is_zero() {
                    receiver.try_recv().map_err(|e| e == TryRecvError::Empty)
                } else {
                    receiver.recv_timeout(slice).map_err(|e| e == std::sync::mpsc::RecvTimeoutError::Timeout)
                };
                match found {
                    Ok(found) => VecDeque::from(found?),
                    Err(true) => return Ok(()),
                    Err(false) => return Err(io::Error::other("the host name could not be resolved")),
                }
            }
            // Without TLS, nothing is read before the connection is established.
            State::Connecting { stream, others } => match stream.connected(&mut []) {
                Ok(false) => return Ok(()),
                Ok(true) => {
                    let State::Connecting { mut stream, .. } = std::mem::replace(&mut self.state, State::Closed) else {
                        return Ok(());
                    };
                    self.waiting.drain(..).for_each(|frame| stream.queue(frame));
                    self.state = State::Open { stream, frames: Frames::new(self.max_frame) };
                    return Ok(());
                }
                Err(e) if others.is_empty() => return Err(e),
                Err(_) => std::mem::take(others),
            },
            State::Closed => return Err(io::Error::new(io::ErrorKind::NotConnected, "not connected")),
            State::Open { .. } => return Ok(()),
        };
        let Some(next) = addresses.pop_front() else {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the host name has no address"));
        };
        self.state = State::Connecting { stream: Stream::connect(poller, 0, next)?, others: addresses };
        Ok(())
    }
}

//! One connection to a broker: which versions it speaks, which answer belongs to which request, what takes too long.
//!
//! States: `Negotiating` (ApiVersions is out, nothing else may go) → `Authenticating` if there are credentials → `Ready`
//! → `Failed`. Where ApiVersions had no answer, the next connection begins as `Probing`, see [`super::version_probe`]. A
//! session that has an end goes from `Ready` to `Authenticating` again before it (KIP-368); answers to what was asked
//! before arrive meanwhile. Answers come in the order of the requests, so what is in flight is a queue; an answer out of
//! order means that the stream is broken.

use super::sasl::{Credentials, Login, Message, Nonces, gssapi};
use super::version_probe::{LAST_WAIT, VersionProbe, next_release, question};
use super::{Error, ErrorKind, Time, earliest};
use crate::api::header::{ClientId, RequestHeader, get_response_header};
use crate::api::{self, ErrorCode, Info, Release, api_versions, metadata, sasl_authenticate, sasl_handshake};
use crate::frame::{BadLength, Frames};
use crate::wire::{self, Reader, Wire, Writer};
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// The version ApiVersions is first asked in. An older broker answers UNSUPPORTED_VERSION and is asked again in v0.
const FIRST_API_VERSIONS: i16 = 4;

/// Byte fields from this size on are sent from where they lie; below it one copy is cheaper than one more piece.
const SHARED_FROM: usize = 4 << 10;

/// When a session is renewed, percent of its time: as early as the Java client does it, which takes 85 to 95.
const RENEW_AT: u32 = 85;
/// The largest frame of a broker that has yet to take the client for what it says it is, bytes.
const MAX_LOGIN_FRAME: usize = 1 << 20;

/// A request body without its type.
pub trait Call: Send {
    /// The API.
    fn api(&self) -> &'static Info;
    /// Appends the body.
    fn put(&self, w: &mut Writer);
    /// The oldest version that can say what the request means.
    fn min_version(&self) -> i16 {
        self.api().min
    }
    /// The first release that can do it, where the versions of the API do not tell.
    fn since(&self) -> Option<Release> {
        None
    }
    /// What a broker lacks that has no such version, for messages.
    fn feature(&self) -> &'static str {
        self.api().name
    }
    /// Whether the broker answers: it does not answer Produce with `acks` 0.
    fn is_answered(&self) -> bool {
        true
    }
    /// How long the broker may hold the answer back on purpose.
    fn held(&self) -> Duration {
        Duration::ZERO
    }
}

/// Any request is a call; what is special about Produce lives in the producer.
impl<R: api::Request> Call for R {
    fn api(&self) -> &'static Info {
        R::API
    }
    fn put(&self, w: &mut Writer) {
        Wire::put(self, w);
    }
}

/// A request that no version before this one can express.
pub(super) struct AtLeast<R>(pub R, pub i16);

impl<R: api::Request> Call for AtLeast<R> {
    fn api(&self) -> &'static Info {
        R::API
    }
    fn put(&self, w: &mut Writer) {
        Wire::put(&self.0, w);
    }
    fn min_version(&self) -> i16 {
        self.1
    }
}

/// A broker's answer: the body and the version it is in.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The version asked in.
    pub version: i16,
    /// The body; empty for a request that is not answered.
    pub body: Bytes,
}

impl Reply {
    /// The typed answer.
    pub fn decode<R: api::Message>(self) -> Result<R, Error> {
        api::decode_padded(self.version, self.body).map_err(malformed)
    }
}

/// So many malformed answers in a row are what a broker sends, and not a line that damages some.
pub(super) const MAX_MALFORMED: u32 = 3;

fn malformed(e: wire::Error) -> Error {
    Error::new(ErrorKind::Decode, format!("broker sent a malformed message: {e}"))
}

struct InFlight<T> {
    correlation_id: i32,
    api: &'static Info,
    version: i16,
    deadline: Time,
    asker: Asker<T>,
}

/// Who waits for an answer.
enum Asker<T> {
    Caller(T),
    /// The connection itself.
    Own,
    /// The same, for an answer without a header.
    OwnBare,
}

/// How the client proves who it is.
#[derive(Clone, Debug)]
pub struct Proof {
    /// Who it says it is.
    pub credentials: Arc<Credentials>,
    /// A nonce for every login of the connection.
    pub nonces: Nonces,
    /// How long the renewal of a session may take.
    pub renewal_timeout: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionState {
    Negotiating,
    /// The last question that was answered.
    Probing(Option<Release>),
    Authenticating,
    Ready,
    Failed,
}

/// A connection's machine. `T` is what a request's answer is matched with.
pub struct Connection<T> {
    state: ConnectionState,
    client_id: String,
    address: String,
    frames: Frames,
    versions: BTreeMap<i16, (i16, i16)>,
    /// What the broker was found to be that cannot say it.
    release: Option<Release>,
    /// The epoch of the cluster's features and its `transaction.version`, if the broker said.
    transaction_version: Option<(i64, i16)>,
    in_flight: VecDeque<InFlight<T>>,
    /// Requests that are not answered, until they are written; then the deadline and the version they were sent in.
    unanswered: Vec<(T, i16, Time)>,
    /// Whether such a request was ever sent.
    is_unheard: bool,
    outbox: VecDeque<Bytes>,
    answers: VecDeque<(T, Result<Reply, Error>)>,
    next_correlation_id: i32,
    proof: Option<Proof>,
    login: Option<Login>,
    /// What the login wants to know, until it was handed out.
    question: Option<gssapi::Question>,
    /// Until when it waits for the answer.
    question_until: Option<Time>,
    /// Whether the broker has answered anything but what the connection itself asked.
    has_answered: bool,
    /// When the session has to be renewed.
    renew_at: Option<Time>,
    /// How long a broker may be silent before it is taken for an old one.
    patience: Duration,
    /// When it is.
    silent_at: Option<Time>,
    max_frame: usize,
}

impl<T> Connection<T> {
    /// A connection that was just made; it asks for versions at once, and then proves who the client is.
    pub fn new(
        now: Time,
        address: String,
        client_id: String,
        max_frame: usize,
        timeout: Duration,
        proof: Option<Proof>,
    ) -> Self {
        let mut this = Self::unasked(address, client_id, max_frame, proof);
        this.ask_versions(FIRST_API_VERSIONS, now + timeout);
        this
    }

    /// A connection that was just made to a broker that may be one without ApiVersions, who begins as the last attempt
    /// left it; a broker that may be asked otherwise has `patience` to begin an answer.
    pub fn with_version_probe(
        now: Time,
        address: String,
        client_id: String,
        max_frame: usize,
        timeout: Duration,
        probe: VersionProbe,
        patience: Duration,
    ) -> Self {
        let mut this = Self::unasked(address, client_id, max_frame, None);
        match probe {
            VersionProbe::Known(release) => {
                let of = |entry: &api::Entry| Some((entry.info.key, release.versions(entry.info)?));
                this.versions = api::APIS.iter().filter_map(of).collect();
                this.release = Some(release);
                this.state = ConnectionState::Ready;
            }
            VersionProbe::Probe | VersionProbe::Confirm(..) => {
                this.state = ConnectionState::Probing(None);
                this.patience = patience;
                this.probe(now, now + timeout);
            }
            VersionProbe::Ask | VersionProbe::Wait => {
                this.silent_at = (probe == VersionProbe::Ask && patience < timeout).then(|| now + patience);
                this.ask_versions(FIRST_API_VERSIONS, now + timeout);
            }
        }
        this
    }

    fn unasked(address: String, client_id: String, max_frame: usize, proof: Option<Proof>) -> Self {
        Self {
            state: ConnectionState::Negotiating,
            client_id,
            address,
            frames: Frames::new(if proof.is_some() { MAX_LOGIN_FRAME.min(max_frame) } else { max_frame }),
            versions: BTreeMap::new(),
            release: None,
            transaction_version: None,
            in_flight: VecDeque::new(),
            unanswered: Vec::new(),
            is_unheard: false,
            outbox: VecDeque::new(),
            answers: VecDeque::new(),
            next_correlation_id: 0,
            proof,
            login: None,
            question: None,
            question_until: None,
            has_answered: false,
            renew_at: None,
            patience: Duration::MAX,
            silent_at: None,
            max_frame,
        }
    }

    /// Asks the next question of a broker that may be an old one.
    fn probe(&mut self, now: Time, deadline: Time) {
        let ConnectionState::Probing(answered) = self.state else { return };
        match next_release(answered) {
            // What has so little in it can always be sent.
            Some(release) => drop(self.ask(&*question(release), 0, deadline)),
            None => {
                self.silent_at = Some(now + self.patience.min(LAST_WAIT));
                self.ask_versions(FIRST_API_VERSIONS, deadline);
            }
        }
    }

    /// How to begin anew with a broker that did not say what it speaks before the connection ended; `None` if it did, or
    /// nothing is to be learned from how it ended.
    pub fn next_version_probe(&mut self, closed: bool) -> Option<VersionProbe> {
        let unheard = self.frames.buffer().is_empty() && self.proof.is_none();
        match self.state {
            ConnectionState::Negotiating if unheard && (closed || self.silent_at.is_some()) => {
                Some(VersionProbe::Probe)
            }
            ConnectionState::Probing(Some(release)) if unheard && closed != next_release(Some(release)).is_none() => {
                Some(VersionProbe::Known(release))
            }
            _ => None,
        }
    }

    fn ask_versions(&mut self, version: i16, deadline: Time) {
        let request = api_versions::Request {
            client_software_name: "klamm".to_owned(),
            client_software_version: env!("CARGO_PKG_VERSION").to_owned(),
            ..Default::default()
        };
        // Both fields are short constants, so they fit their length fields.
        let _ = self.ask(&request, version, deadline);
    }

    /// Sends a request of the connection's own.
    fn ask(&mut self, call: &dyn Call, version: i16, deadline: Time) -> Result<(), Error> {
        let (parts, correlation_id) = self.encode(call, version)?;
        self.outbox.extend(parts);
        self.in_flight.push_back(InFlight { correlation_id, api: call.api(), version, deadline, asker: Asker::Own });
        Ok(())
    }

    /// Whether requests may be sent.
    pub fn is_ready(&self) -> bool {
        self.state == ConnectionState::Ready
    }

    /// The epoch of the cluster's features and its `transaction.version`, if the broker said.
    pub fn transaction_version(&self) -> Option<(i64, i16)> {
        self.transaction_version
    }

    /// Whether the broker has answered anything but what the connection itself asked.
    pub fn has_answered(&self) -> bool {
        self.has_answered
    }

    /// Requests that wait for an answer.
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// The version to use for a call: the newest both sides know, at most `max`.
    fn version(&self, call: &dyn Call, max: i16) -> Result<i16, Error> {
        let (api, min) = (call.api(), call.min_version());
        let tried = || format!("{} on {}", call.feature(), self.address);
        if let (Some(release), Some(since)) = (self.release, call.since())
            && release < since
        {
            let hint = format!("Kafka {since} is the first that has it, the broker is {release}");
            return Err(Error::refused(ErrorCode::UNSUPPORTED_VERSION, tried()).with_hint(hint));
        }
        let theirs = self.versions.get(&api.key).copied();
        let version = theirs.map(|(low, high)| (low, high.min(api.max_stable).min(max)));
        if let Some((low, version)) = version
            && version >= low.max(min)
        {
            return Ok(version);
        }
        let needs = || {
            let range = |low, high| if high > low { format!("{low} to {high}") } else { format!("{low}") };
            let theirs = theirs.map_or_else(|| "none".to_owned(), |(low, high)| range(low, high));
            let ours = range(min, max.min(api.max_stable));
            format!("this needs version {ours} of {}, the broker has {theirs}", api.name)
        };
        let lacks = theirs.is_none_or(|(_, high)| high < min);
        let hint = match Release::first_with(api, min).filter(|_| lacks) {
            _ if api.key == metadata::API.key => {
                "bootstrap.servers must name brokers; is this a KRaft controller?".to_owned()
            }
            Some(release) => format!("Kafka {release} is the first that has it; {}", needs()),
            None => needs(),
        };
        Err(Error::refused(ErrorCode::UNSUPPORTED_VERSION, tried()).with_hint(hint))
    }

    /// Sends a request. Its answer comes out of [`Connection::poll_response`], unless this returns the token.
    pub fn send(&mut self, call: &dyn Call, max_version: i16, deadline: Time, token: T) -> Result<(), (T, Error)> {
        let version = match self.version(call, max_version) {
            Ok(version) => version,
            Err(e) => return Err((token, e)),
        };
        let (parts, correlation_id) = match self.encode(call, version) {
            Ok(encoded) => encoded,
            Err(e) => return Err((token, e)),
        };
        self.outbox.extend(parts);
        if call.is_answered() {
            let api = call.api();
            self.in_flight.push_back(InFlight { correlation_id, api, version, deadline, asker: Asker::Caller(token) });
        } else {
            self.unanswered.push((token, version, deadline));
            self.is_unheard = true;
        }
        Ok(())
    }

    /// Takes in that everything sent so far was given to the network: the end of requests that are not answered.
    pub fn handle_written(&mut self) {
        let written = self.unanswered.drain(..);
        self.answers.extend(written.map(|(token, version, _)| (token, Ok(Reply { version, body: Bytes::new() }))));
    }

    /// Whether requests were sent that the broker does not answer: only its end of the connection tells that it read
    /// them.
    pub fn is_unheard(&self) -> bool {
        self.is_unheard
    }

    /// Asks for an answer, which is behind all that is not answered: [`Connection::is_unheard`] until it comes.
    pub fn say_farewell(&mut self) {
        if self.is_ready() {
            match self.release {
                // What has so little in it can always be sent.
                Some(_) => drop(self.ask(&*question(Release::V0_8_0), 0, Time::NEVER)),
                None => self.ask_versions(0, Time::NEVER),
            }
        }
    }

    /// Where received bytes go to; [`Connection::handle_received`] reads them.
    pub fn frames(&mut self) -> &mut Frames {
        &mut self.frames
    }

    /// Takes in what has arrived. An error means that the connection has to be closed.
    pub fn handle_received(&mut self, now: Time) -> Result<(), Error> {
        loop {
            match self.frames.next_frame() {
                Ok(Some(frame)) => self.handle_frame(now, frame)?,
                Ok(None) => return Ok(()),
                Err(bad) => return Err(self.not_kafka(bad)),
            }
        }
    }

    fn handle_frame(&mut self, now: Time, frame: Bytes) -> Result<(), Error> {
        let Some(asked) = self.in_flight.pop_front() else {
            return Err(Error::new(ErrorKind::Network, "broker answered a request that was not sent"));
        };
        if matches!(asked.asker, Asker::OwnBare) {
            return self.handle_bare(now, asked.deadline, &frame);
        }
        let mut r = Reader::new(frame, asked.version, false);
        let header = get_response_header(asked.api, asked.version, &mut r).map_err(malformed);
        let answered = header.and_then(|correlation_id| match correlation_id {
            id if id == asked.correlation_id => Ok(()),
            id => {
                let message = format!("broker answered request {id} instead of {}", asked.correlation_id);
                Err(Error::new(ErrorKind::Network, message))
            }
        });
        if let Err(error) = answered {
            // Whoever waited for this answer hears of it with the rest.
            self.in_flight.push_front(asked);
            return Err(error);
        }
        let InFlight { api, version, deadline, .. } = asked;
        let reply = Reply { version, body: r.rest() };
        match asked.asker {
            Asker::Caller(token) => {
                self.has_answered = true;
                self.answers.push_back((token, Ok(reply)));
                Ok(())
            }
            _ if self.is_ready() && api.key != sasl_handshake::API.key && api.key != sasl_authenticate::API.key => {
                self.is_unheard = false;
                Ok(())
            }
            _ if api.key == sasl_handshake::API.key => self.handle_handshake(deadline, reply),
            _ if api.key == sasl_authenticate::API.key => self.handle_authenticate(now, deadline, reply),
            _ if api.key != api_versions::API.key => {
                if let ConnectionState::Probing(answered) = &mut self.state {
                    *answered = next_release(*answered);
                }
                self.probe(now, deadline);
                Ok(())
            }
            _ => self.handle_versions(now, deadline, reply),
        }
    }

    fn handle_versions(&mut self, now: Time, deadline: Time, reply: Reply) -> Result<(), Error> {
        self.silent_at = None;
        let Reply { version, body } = reply;
        // The answer to a version the broker does not know is a v0 body that begins with this code.
        let code = body.first_chunk::<2>().map(|b| ErrorCode(i16::from_be_bytes(*b)));
        if code == Some(ErrorCode::UNSUPPORTED_VERSION) && version > 0 {
            self.ask_versions(0, deadline);
            return Ok(());
        }
        let response: api_versions::Response = Reply { version, body }.decode()?;
        response.error_code.check().map_err(|code| Error::refused(code, "version negotiation"))?;
        self.versions = response.api_keys.iter().map(|k| (k.api_key, (k.min_version, k.max_version))).collect();
        let feature = response.finalized_features.iter().find(|f| f.name == "transaction.version");
        self.transaction_version = feature.map(|f| (response.finalized_features_epoch, f.max_version_level));
        if self.proof.is_some() {
            return self.log_in(deadline);
        }
        self.be_ready(now, None);
        Ok(())
    }

    fn be_ready(&mut self, now: Time, session: Option<Duration>) {
        self.frames.allow(self.max_frame);
        self.login = None;
        self.renew_at = session.map(|lasts| now + lasts * RENEW_AT / 100);
        self.state = ConnectionState::Ready;
    }

    /// Begins to prove who the client is, for the first time or again.
    fn log_in(&mut self, deadline: Time) -> Result<(), Error> {
        let Some(Proof { credentials, nonces, .. }) = &mut self.proof else { return Ok(()) };
        let (login, message) = Login::start(credentials, &nonces.next(), &self.versions)?;
        self.login = Some(login);
        self.state = ConnectionState::Authenticating;
        self.say(message, deadline)
    }

    fn say(&mut self, message: Message, deadline: Time) -> Result<(), Error> {
        match message {
            Message::Handshake(request, version) => self.ask(&request, version, deadline),
            Message::Authenticate(request, version) => self.ask(&request, version, deadline),
            Message::Bare(token) => {
                let length = u32::try_from(token.len()).unwrap_or(u32::MAX).to_be_bytes();
                self.outbox.extend([Bytes::copy_from_slice(&length), token]);
                let (api, asker) = (&sasl_authenticate::API, Asker::OwnBare);
                self.in_flight.push_back(InFlight { correlation_id: 0, api, version: 0, deadline, asker });
                Ok(())
            }
            Message::Ask(question) => {
                (self.question, self.question_until) = (Some(question), Some(deadline));
                Ok(())
            }
        }
    }

    fn login(&mut self) -> Result<&mut Login, Error> {
        self.login.as_mut().ok_or_else(|| Error::new(ErrorKind::Network, "broker answered a login that is over"))
    }

    fn handle_handshake(&mut self, deadline: Time, reply: Reply) -> Result<(), Error> {
        let message = self.login()?.handle_handshake(reply.decode()?)?;
        self.say(message, deadline)
    }

    fn handle_authenticate(&mut self, now: Time, deadline: Time, reply: Reply) -> Result<(), Error> {
        match self.login()?.handle_authenticate(reply.decode()?)? {
            Ok(message) => self.say(message, deadline),
            Err(session) => {
                self.be_ready(now, session);
                Ok(())
            }
        }
    }

    fn handle_bare(&mut self, now: Time, deadline: Time, token: &[u8]) -> Result<(), Error> {
        match self.login()?.handle_token(token)? {
            Some(message) => self.say(message, deadline),
            None => {
                self.be_ready(now, None);
                Ok(())
            }
        }
    }

    /// What somebody outside has to be asked for the login; the answer goes to [`Connection::handle_gssapi_answer`].
    pub fn poll_question(&mut self) -> Option<gssapi::Question> {
        self.question.take()
    }

    /// Takes in the answer to a question. An error means that the connection has to be closed.
    pub fn handle_gssapi_answer(&mut self, answer: Result<gssapi::Answer, Error>) -> Result<(), Error> {
        let Some(deadline) = self.question_until.take() else { return Ok(()) };
        let message = self.login()?.handle_gssapi_answer(answer?)?;
        self.say(message, deadline)
    }

    /// Takes in a newer token: the next login uses it.
    pub fn set_credentials(&mut self, credentials: &Arc<Credentials>) {
        if let Some(proof) = &mut self.proof {
            proof.credentials = credentials.clone();
        }
    }

    fn not_kafka(&self, bad: BadLength) -> Error {
        if self.state == ConnectionState::Ready {
            // It spoke Kafka's protocol before: the stream is damaged, and another connection may be better.
            return Error::new(ErrorKind::Network, format!("what the broker sent is damaged: {bad}"));
        }
        let error = Error::new(ErrorKind::Decode, format!("peer does not speak Kafka's protocol: {bad}"));
        match bad.found {
            [b'H', b'T', b'T', b'P'] => error.with_hint("this is an HTTP server; check the port"),
            [0x15 | 0x16, 3, ..] => error
                .with_hint("this port speaks TLS: set security.protocol to SSL or SASL_SSL, or use the plaintext port"),
            _ => error.with_hint("check host and port"),
        }
    }

    /// Ends the connection: every request in flight is answered with `error`.
    pub fn fail(&mut self, error: &Error) {
        self.state = ConnectionState::Failed;
        self.outbox.clear();
        let unanswered = self.unanswered.drain(..).map(|(token, ..)| token);
        let asked = self.in_flight.drain(..).filter_map(|f| match f.asker {
            Asker::Caller(token) => Some(token),
            Asker::Own | Asker::OwnBare => None,
        });
        let tokens = unanswered.chain(asked);
        self.answers.extend(tokens.map(|token| (token, Err(error.clone()))));
    }

    /// What the peer's silent end of the connection means in this state.
    pub fn closed_by_peer(&self) -> Error {
        match (&self.state, &self.login) {
            (ConnectionState::Negotiating | ConnectionState::Probing(_), _) => {
                Error::new(ErrorKind::Network, "connection closed before the broker said its versions").with_hint(
                    if self.proof.is_some() {
                        "is this a TLS listener (security.protocol=SASL_SSL), or a broker before 0.10?"
                    } else {
                        "is this a TLS listener (security.protocol=SSL or SASL_SSL)?"
                    },
                )
            }
            (ConnectionState::Authenticating, Some(login)) => login.closed_by_peer(),
            (ConnectionState::Ready, _) if self.proof.is_none() && !self.has_answered => {
                Error::new(ErrorKind::Network, "connection closed by the broker at the first request")
                    .with_hint("does this listener want SASL (security.protocol=SASL_PLAINTEXT or SASL_SSL)?")
            }
            _ => Error::new(ErrorKind::Network, "connection closed by the broker"),
        }
    }

    /// The next bytes to send.
    pub fn poll_send(&mut self) -> Option<Bytes> {
        self.outbox.pop_front()
    }

    /// The next answer.
    pub fn poll_response(&mut self) -> Option<(T, Result<Reply, Error>)> {
        self.answers.pop_front()
    }

    /// When [`Connection::handle_timeout`] has something to do: a request is late, or the session has to be renewed.
    pub fn next_timeout(&self) -> Option<Time> {
        let late = self.in_flight.iter().map(|f| f.deadline).chain(self.unanswered.iter().map(|u| u.2)).min();
        let late = earliest(earliest(late, self.silent_at), self.question_until);
        earliest(late, self.renew_at.filter(|_| self.is_ready()))
    }

    /// Renews a session that is about to end. An error if an answer is late: the connection has to be closed, because what
    /// comes later cannot be trusted to come.
    pub fn handle_timeout(&mut self, now: Time) -> Result<(), Error> {
        if let Some(proof) = &self.proof
            && self.is_ready()
            && self.renew_at.is_some_and(|at| at <= now)
        {
            let deadline = now + proof.renewal_timeout;
            self.log_in(deadline)?;
        }
        if self.silent_at.is_some_and(|at| at <= now) && !self.frames.buffer().is_empty() {
            // It is slow, not silent.
            self.silent_at = None;
        }
        if self.question_until.is_some_and(|deadline| deadline <= now) {
            let error = Error::new(ErrorKind::Timeout, "no answer from the Kerberos library in time");
            return Err(error.with_hint("it waits for the KDC: check krb5.conf and the network"));
        }
        match self.in_flight.iter().find(|f| f.deadline <= now) {
            None if self.silent_at.is_some_and(|at| at <= now) => {
                Err(Error::new(ErrorKind::Timeout, "no answer to ApiVersions in time"))
            }
            None if self.unanswered.iter().any(|u| u.2 <= now) => {
                Err(Error::new(ErrorKind::Timeout, "broker did not read what was sent in time"))
            }
            None => Ok(()),
            Some(late) => Err(Error::new(ErrorKind::Timeout, format!("no answer to {} in time", late.api.name))),
        }
    }

    fn encode(&mut self, call: &dyn Call, version: i16) -> Result<(Vec<Bytes>, i32), Error> {
        let api = call.api();
        let correlation_id = self.next_correlation_id;
        let client_id = ClientId(Some(self.client_id.clone()));
        let mut w = Writer::new(version, api.is_flexible(version)).sharing(SHARED_FROM);
        w.buf.extend_from_slice(&[0; 4]);
        RequestHeader { request_api_key: api.key, request_api_version: version, correlation_id, client_id }
            .put(api, &mut w);
        call.put(&mut w);
        let length = (w.size() - 4) as u32;
        if let Some(field) = w.buf.first_chunk_mut() {
            *field = length.to_be_bytes();
        }
        let parts = w.parts().map_err(|e| {
            let e = e.of(api.name, "request", version);
            Error::new(ErrorKind::Config, format!("cannot be sent: {e}"))
        })?;
        self.next_correlation_id = correlation_id.wrapping_add(1) & i32::MAX;
        Ok((parts, correlation_id))
    }
}

//! Writes the log lines of clients. A log line goes to the [`Sink`] of its client, or to the crate `log` if the client
//! has no sink.
//!
//! A state machine does not know to which client it belongs. The client therefore sets its [`LogIdentity`] in the
//! thread that runs the state machine, so that the thread's log lines contain the client ID. The macro `event!` checks
//! the level before it formats a line.

pub mod flight;
pub mod private_file;

use flight::{Flight, Frame};
use log::{Level, LevelFilter};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The part of a client that writes a log line. Each component has a logger of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Component {
    /// Connections, requests and metadata.
    Network,
    /// Authentication.
    Auth,
    /// Membership of a group.
    Group,
    /// Sending records.
    Producer,
    /// Reading records.
    Consumer,
    /// Reading records of a share group.
    Share,
}

impl Component {
    /// All components, in the order of their numbers.
    pub const ALL: [Self; 6] = [Self::Network, Self::Auth, Self::Group, Self::Producer, Self::Consumer, Self::Share];

    /// Returns the last part of the name of the component's logger.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Network => "network",
            Self::Auth => "auth",
            Self::Group => "group",
            Self::Producer => "producer",
            Self::Consumer => "consumer",
            Self::Share => "share",
        }
    }

    /// Returns the target of the component's lines in the crate `log`.
    const fn target(self) -> &'static str {
        match self {
            Self::Network => "klamm::network",
            Self::Auth => "klamm::auth",
            Self::Group => "klamm::group",
            Self::Producer => "klamm::producer",
            Self::Consumer => "klamm::consumer",
            Self::Share => "klamm::share",
        }
    }
}

/// The broker, topic and partition that a log line is about.
#[derive(Clone, Copy, Debug, Default)]
pub struct Location<'a> {
    /// The address of the broker.
    pub broker: Option<&'a str>,
    /// The topic.
    pub topic: Option<&'a str>,
    /// The partition.
    pub partition: Option<i32>,
}

impl<'a> Location<'a> {
    /// Returns the location of a broker.
    pub fn broker(address: &'a str) -> Self {
        Self { broker: Some(address), ..Self::default() }
    }

    /// Returns the location of a topic.
    pub fn topic(topic: &'a str) -> Self {
        Self { topic: Some(topic), ..Self::default() }
    }

    /// Returns the location of a partition.
    pub fn partition(topic: &'a str, partition: i32) -> Self {
        Self { topic: Some(topic), partition: Some(partition), ..Self::default() }
    }
}

impl fmt::Display for Location<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut before = " (";
        let mut part = |name: &str, value: &dyn fmt::Display| {
            let result = write!(f, "{before}{name} {value}");
            before = ", ";
            result
        };
        if let Some(broker) = self.broker {
            part("broker", &broker)?;
        }
        if let Some(topic) = self.topic {
            part("topic", &topic)?;
        }
        if let Some(partition) = self.partition {
            part("partition", &partition)?;
        }
        if before == ", " { f.write_str(")") } else { Ok(()) }
    }
}

/// A log line for a sink.
#[derive(Clone, Debug)]
pub struct Line {
    /// The level.
    pub level: Level,
    /// The component that wrote the line.
    pub component: Component,
    /// Whether the client's configuration enables the line, regardless of the level of the logger.
    pub is_demanded: bool,
    /// The client ID.
    pub client_id: Arc<str>,
    /// The text, which also contains the client ID and the location.
    pub text: String,
    /// The address of the broker.
    pub broker: Option<String>,
    /// The topic.
    pub topic: Option<String>,
    /// The partition.
    pub partition: Option<i32>,
}

/// Receives the log lines of a client. The methods must not block, because the client waits for them.
pub trait Sink: Send + Sync {
    /// Runs before the client starts to work, in the thread of a caller that holds no lock of the client.
    fn start(&self, flight: Option<&Arc<Flight>>);
    /// Runs when the client is closed.
    fn end(&self) {}
    /// Returns whether the sink wants lines of this level and component.
    fn is_enabled(&self, level: Level, component: Component) -> bool;
    /// Writes a log line.
    fn write(&self, line: Line);
    /// Receives an event of the client: an error after which the client keeps retrying, or the result of a commit.
    fn report(&self, _event: &(dyn Any + Send + Sync)) {}
}

/// The log levels in a client's configuration.
#[derive(Clone, Debug)]
pub struct Levels {
    /// The most verbose level of the client.
    pub most: LevelFilter,
    /// The components whose lines are enabled up to [`Levels::most`], regardless of the level of their loggers.
    pub demanded: Vec<Component>,
}

impl Default for Levels {
    fn default() -> Self {
        Self { most: LevelFilter::Trace, demanded: Vec::new() }
    }
}

/// The client to which log lines belong, and the destination of the lines.
pub struct LogIdentity {
    client_id: Arc<str>,
    levels: Levels,
    sink: Option<Arc<dyn Sink>>,
    flight: Option<Arc<Flight>>,
    /// Whether a log handler sends through the client.
    serves_handler: AtomicBool,
}

impl LogIdentity {
    /// Creates the identity of a client.
    pub fn new(client_id: &str, levels: Levels, sink: Option<Arc<dyn Sink>>, flight: Option<Flight>) -> Self {
        let (flight, serves_handler) = (flight.map(Arc::new), AtomicBool::new(false));
        Self { client_id: client_id.into(), levels, sink, flight, serves_handler }
    }

    /// Returns the flight recorder, if it is enabled.
    pub fn flight(&self) -> Option<&Arc<Flight>> {
        self.flight.as_ref()
    }

    /// Runs before the client starts to work.
    pub fn start(&self) {
        if let Some(sink) = &self.sink {
            sink.start(self.flight());
        }
    }

    /// Runs when the client is closed.
    pub fn end(&self) {
        if let Some(sink) = &self.sink {
            sink.end();
        }
    }

    /// Notes that a log handler may send through the client, if the current thread passes log lines to handlers. The
    /// client then writes no more debug lines: each of them would cause another send, and so more debug lines.
    pub fn note_send(&self) {
        if PASSES_LINES.get() {
            self.serves_handler.store(true, Relaxed);
        }
    }

    fn is_enabled(&self, level: Level, component: Component) -> bool {
        level <= self.levels.most
            && (level <= Level::Info || !self.serves_handler.load(Relaxed))
            && (self.levels.demanded.contains(&component)
                || self.sink.as_ref().is_none_or(|sink| sink.is_enabled(level, component)))
    }
}

thread_local! {
    /// The client for which the current thread works.
    static CURRENT: RefCell<Option<Arc<LogIdentity>>> = const { RefCell::new(None) };
    /// Whether the current thread passes log lines to handlers.
    static PASSES_LINES: Cell<bool> = const { Cell::new(false) };
}

/// Notes that the current thread passes log lines to handlers.
pub fn begin_passing_lines() {
    PASSES_LINES.set(true);
}

/// Marks the log lines of the current thread with the identity of a client, until this guard is dropped.
#[must_use = "the identity is left when it is dropped"]
pub struct Entered(Option<Arc<LogIdentity>>);

/// Marks the log lines of the current thread with the identity of a client.
pub fn enter(identity: &Arc<LogIdentity>) -> Entered {
    Entered(CURRENT.replace(Some(identity.clone())))
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

/// Returns whether any client may want lines of a level. Flight recorders record lines up to level info. Costs one
/// atomic load.
#[inline]
pub fn may_be_wanted(level: Level) -> bool {
    level <= Level::Info || level <= log::max_level()
}

/// Records a frame of the current thread's client, if the client's flight recorder is enabled.
pub fn record(frame: impl FnOnce(&Flight) -> Frame) {
    CURRENT.with_borrow(|current| {
        if let Some(flight) = current.as_ref().and_then(|identity| identity.flight()) {
            flight.frame(frame(flight));
        }
    });
}

/// Notes an error that ends the work of the current thread's client. The client then writes its flight recorder.
pub fn note_failure() {
    CURRENT.with_borrow(|current| {
        if let Some(flight) = current.as_ref().and_then(|identity| identity.flight()) {
            flight.note_failure();
        }
    });
}

/// Writes a log line of the current thread's client, if its level is enabled.
pub fn write(level: Level, component: Component, location: Location<'_>, message: fmt::Arguments<'_>) {
    // Nothing here formats while the cell is borrowed: a sink may work for another client.
    let Some(identity) = CURRENT.with_borrow(Clone::clone) else { return };
    if let Some(flight) = identity.flight().filter(|_| level <= Level::Info) {
        flight.event(level, component.name(), format!("{message}{location}"));
    }
    if level > log::max_level() || !identity.is_enabled(level, component) {
        return;
    }
    let text = format!("[{}] {message}{location}", identity.client_id);
    let Location { broker, topic, partition } = location;
    if let Some(sink) = &identity.sink {
        return sink.write(Line {
            level,
            component,
            is_demanded: identity.levels.demanded.contains(&component),
            client_id: identity.client_id.clone(),
            text,
            broker: broker.map(str::to_owned),
            topic: topic.map(str::to_owned),
            partition,
        });
    }
    let pairs = [
        ("client_id", log::kv::Value::from(&*identity.client_id)),
        ("broker", log::kv::Value::from(broker.unwrap_or_default())),
        ("topic", log::kv::Value::from(topic.unwrap_or_default())),
        ("partition", log::kv::Value::from(partition.unwrap_or(-1))),
    ];
    log::logger().log(
        &log::Record::builder()
            .level(level)
            .target(component.target())
            .key_values(&pairs)
            .args(format_args!("{text}"))
            .build(),
    );
}

/// Reports an event to the sink of the current thread's client.
pub fn report(event: &(dyn Any + Send + Sync)) {
    let identity = CURRENT.with_borrow(Clone::clone);
    if let Some(sink) = identity.as_ref().and_then(|identity| identity.sink.as_ref()) {
        sink.report(event);
    }
}

/// Writes a log line. The arguments are the level, the component, the location, and the arguments of `format!`. Formats
/// the text only if the level is enabled.
macro_rules! event {
    ($level:ident, $component:ident, $location:expr, $($message:tt)+) => {
        if $crate::logging::may_be_wanted(::log::Level::$level) {
            $crate::logging::write(
                ::log::Level::$level,
                $crate::logging::Component::$component,
                $location,
                ::std::format_args!($($message)+),
            );
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Sender, channel};

    struct Lines(Sender<(Level, String)>);

    impl Sink for Lines {
        fn start(&self, _flight: Option<&Arc<Flight>>) {}

        fn is_enabled(&self, level: Level, component: Component) -> bool {
            level <= Level::Info || component == Component::Group
        }

        fn write(&self, line: Line) {
            self.0.send((line.level, line.text)).unwrap();
        }
    }

    #[test]
    fn a_line_names_its_client_and_its_place_and_is_written_if_its_level_is_wanted() {
        log::set_max_level(LevelFilter::Trace);
        let (sender, lines) = channel();
        let sink = Arc::new(Lines(sender));
        let identity = |id: &str, levels| Arc::new(LogIdentity::new(id, levels, Some(sink.clone() as _), None));
        event!(Error, Network, Location::default(), "without a client");
        let outer = enter(&identity("a", Levels::default()));
        event!(Info, Network, Location { broker: Some("h:1"), ..Location::partition("t", 3) }, "found {}", 1 + 1);
        event!(Debug, Network, Location::default(), "not wanted");
        event!(Debug, Group, Location::topic("t"), "wanted");
        {
            let levels = Levels { most: LevelFilter::Debug, demanded: vec![Component::Network] };
            let _inner = enter(&identity("b", levels));
            event!(Debug, Network, Location::default(), "demanded");
            event!(Trace, Network, Location::default(), "beyond the client's level");
        }
        event!(Warn, Network, Location::broker("h:1"), "again");
        drop(outer);
        let expected = [
            (Level::Info, "[a] found 2 (broker h:1, topic t, partition 3)"),
            (Level::Debug, "[a] wanted (topic t)"),
            (Level::Debug, "[b] demanded"),
            (Level::Warn, "[a] again (broker h:1)"),
        ];
        let written: Vec<_> = lines.try_iter().collect();
        assert_eq!(written, expected.map(|(level, text)| (level, text.to_owned())));
    }
}

//! The administrative client as callers see it.

use super::config::{Config, Role as ClientRole};
use super::driver::{Serve, Shared};
use super::producer::{OpTicket, op_ticket};
use super::{Cluster, Error, NewTopic, Pending};
use crate::engine::ops::{CreateTopics, DeleteTopics, Describe, Op, Ops, Output};
use std::sync::Arc;
use std::time::Duration;

impl Serve for Ops<OpTicket> {
    type Done = (OpTicket, Result<Output, Error>);

    fn poll_done(&mut self) -> Option<Self::Done> {
        Self::poll_done(self)
    }

    fn deliver((ticket, result): Self::Done, _shared: &Shared<Self>) {
        ticket(result);
    }

    fn fail_all(&mut self, error: &Error) {
        Self::fail_all(self, error);
    }
}

/// Looks after topics.
pub struct Admin {
    shared: Arc<Shared<Ops<OpTicket>>>,
    api_timeout: Duration,
}

fn done(output: Output) -> Option<()> {
    matches!(output, Output::Done).then_some(())
}

impl Admin {
    /// A client; nothing is connected before the first use.
    pub fn new(config: &Config) -> Result<Self, Error> {
        config.expect(ClientRole::Admin)?;
        let shared = Shared::new(Ops::new(config.retry_backoff()), config.network()?);
        Ok(Self { shared, api_timeout: config.api_timeout()? })
    }

    fn op<T: Send + 'static>(
        &self,
        op: impl Op + 'static,
        timeout: Option<Duration>,
        convert: fn(Output) -> Option<T>,
    ) -> Result<Pending<T>, Error> {
        self.shared.check()?;
        let (ticket, pending) = op_ticket(convert);
        let timeout = timeout.unwrap_or(self.api_timeout);
        self.shared.role().start(self.shared.now(), Box::new(op), timeout, ticket);
        self.shared.wake()?;
        Ok(pending)
    }

    /// Creates topics, or only checks that they could be.
    pub fn create_topics(
        &self,
        topics: Vec<NewTopic>,
        validate_only: bool,
        timeout: Option<Duration>,
    ) -> Result<Pending<()>, Error> {
        self.op(CreateTopics::new(topics, validate_only), timeout, done)
    }

    /// Deletes topics.
    pub fn delete_topics(&self, topics: Vec<String>, timeout: Option<Duration>) -> Result<Pending<()>, Error> {
        self.op(DeleteTopics::new(topics), timeout, done)
    }

    /// Brokers, controller and topics; `None` for all topics.
    pub fn describe(
        &self,
        topics: Option<Vec<String>>,
        timeout: Option<Duration>,
    ) -> Result<Pending<Arc<Cluster>>, Error> {
        self.op(Describe::new(topics), timeout, |output| match output {
            Output::Cluster(cluster) => Some(cluster),
            _ => None,
        })
    }

    /// Why no broker was reachable when one was last tried, if that was so.
    pub fn last_network_error(&self) -> Option<Error> {
        self.shared.unreachable()
    }

    /// An error if the client is closed or was made before a fork.
    pub fn check(&self) -> Result<(), Error> {
        self.shared.check()
    }

    /// Ends the client.
    pub fn close(&self) {
        self.shared.close();
    }
}

impl Drop for Admin {
    fn drop(&mut self) {
        self.shared.close();
    }
}

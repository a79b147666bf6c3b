//! Verifies that a broker still belongs to the client's cluster. Another cluster may have taken over the broker's
//! address while the client had no connection to that broker. The response to a Metadata request without topics
//! contains the cluster ID (since Kafka 0.10.1).

use super::{Connection, ConnectionState};
use crate::api::metadata;
use crate::engine::call::Reply;
use crate::engine::{Error, Time};

/// The first version of Metadata that contains the ID of the cluster.
const TELLS_CLUSTER: i16 = 2;

impl<T> Connection<T> {
    /// Sets the ID that the broker's cluster must have.
    pub fn expect_cluster(&mut self, id: &str) {
        self.cluster = Some(id.to_owned());
    }

    /// Starts to verify the cluster, if this has not been done. Returns whether requests have to wait for the result.
    pub(super) fn verifies_cluster(&mut self, deadline: Time) -> bool {
        let newest = self.newest(&metadata::API).min(metadata::API.max_stable);
        if self.was_ready || self.cluster.is_none() || newest < TELLS_CLUSTER {
            return false;
        }
        let request = metadata::Request { topics: Some(Vec::new()), ..Default::default() };
        // A request this small can always be encoded.
        if self.ask(&request, newest, deadline).is_err() {
            return false;
        }
        self.state = ConnectionState::Verifying;
        true
    }

    /// Handles the response that contains the cluster ID.
    pub(super) fn handle_cluster_id(&mut self, reply: Reply) -> Result<(), Error> {
        let cluster_id = reply.decode::<metadata::Response>()?.cluster_id;
        if let (Some(expected), Some(cluster_id)) = (&self.cluster, &cluster_id)
            && expected != cluster_id
        {
            return Err(Error::other_cluster(cluster_id, expected));
        }
        self.state = ConnectionState::Ready;
        self.was_ready = true;
        Ok(())
    }
}

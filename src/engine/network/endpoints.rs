//! The two types of nodes that a client may talk to: brokers, or the controllers of a KRaft cluster (KIP-919).
//!
//! Controllers do not serve Metadata. The client learns them from DescribeCluster, and sends every request to the active
//! controller that does not name another one. A node of the wrong type refuses the client.

use crate::api::{ErrorCode, Info, describe_cluster, metadata};
use crate::engine::call::AtLeast;
use crate::engine::cluster::AskMetadata;
use crate::engine::{Call, Error, ErrorKind, Reply};

/// The type of the nodes of a bootstrap list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoints {
    /// Brokers.
    Brokers,
    /// Controllers of a KRaft cluster.
    Controllers,
}

/// The first version of DescribeCluster that can ask for controllers (Kafka 3.7).
const HAS_CONTROLLERS: i16 = 1;

impl Endpoints {
    /// Returns the key of the bootstrap list.
    pub fn key(self) -> &'static str {
        match self {
            Self::Brokers => "bootstrap.servers",
            Self::Controllers => "bootstrap.controllers",
        }
    }

    /// Returns the name of a node.
    pub fn node(self) -> &'static str {
        match self {
            Self::Brokers => "broker",
            Self::Controllers => "controller",
        }
    }

    /// Returns the request for the nodes of the cluster, and for topics if there are brokers.
    pub(super) fn request(self, topics: metadata::Request) -> Box<dyn Call> {
        match self {
            Self::Brokers => Box::new(AskMetadata(topics)),
            Self::Controllers => {
                let endpoint_type = describe_cluster::CONTROLLERS;
                let request = describe_cluster::Request { endpoint_type, ..Default::default() };
                Box::new(AtLeast(request, HAS_CONTROLLERS))
            }
        }
    }

    /// Reads the response to that request.
    pub(super) fn read(self, reply: Reply) -> Result<metadata::Response, Error> {
        if self == Self::Brokers {
            return reply.decode();
        }
        let response: describe_cluster::Response = reply.decode()?;
        match response.error_code {
            ErrorCode::MISMATCHED_ENDPOINT_TYPE => return Err(self.mismatch("the address belongs to a broker")),
            code => code.check().map_err(|code| Error::refused(code, "DescribeCluster"))?,
        }
        let node = |b: describe_cluster::Broker| metadata::Broker {
            node_id: b.broker_id,
            host: b.host,
            port: b.port,
            rack: b.rack,
        };
        Ok(metadata::Response {
            brokers: response.brokers.into_iter().map(node).collect(),
            cluster_id: Some(response.cluster_id),
            controller_id: response.controller_id,
            ..Default::default()
        })
    }

    /// Returns the error for a node of the wrong type. `newest` returns the newest version of an API that the node serves.
    pub(super) fn wrong_type(self, newest: impl FnOnce(&Info) -> i16) -> Option<Error> {
        let (api, oldest, what) = match self {
            Self::Brokers => (&metadata::API, 0, "the address belongs to a controller"),
            Self::Controllers => {
                let what = "the address does not belong to a controller of Kafka 3.7 or later";
                (&describe_cluster::API, HAS_CONTROLLERS, what)
            }
        };
        (newest(api) < oldest).then(|| self.mismatch(what))
    }

    fn mismatch(self, what: &str) -> Error {
        Error::new(ErrorKind::WrongEndpoint, what).with_hint(match self {
            Self::Brokers => {
                "bootstrap.servers must name brokers; klamm.Admin reaches controllers with bootstrap.controllers"
            }
            Self::Controllers => {
                "bootstrap.controllers must name the listeners of controllers; use bootstrap.servers for brokers"
            }
        })
    }
}

//! The two types of nodes that a client may talk to: brokers, or the controllers of a KRaft cluster (KIP-919).
//!
//! Controllers do not serve Metadata, so the client finds controllers with DescribeCluster. A client of controllers
//! sends each request to the active controller, unless the request names a known controller. If the client expects
//! brokers and the address belongs to a controller, or the reverse, the client reports an error.

use crate::api::{ErrorCode, Info, describe_cluster, metadata};
use crate::engine::call::AtLeast;
use crate::engine::cluster::MetadataCall;
use crate::engine::{Call, Error, ErrorKind, Reply};

/// The type of the nodes in the bootstrap list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoints {
    /// Brokers.
    Brokers,
    /// Controllers of a KRaft cluster.
    Controllers,
}

/// The first version of DescribeCluster that can request controllers (Kafka 3.7).
const HAS_CONTROLLERS: i16 = 1;

impl Endpoints {
    /// Returns the configuration key of the bootstrap list.
    pub fn key(self) -> &'static str {
        match self {
            Self::Brokers => "bootstrap.servers",
            Self::Controllers => "bootstrap.controllers",
        }
    }

    /// Returns the word for a node in messages.
    pub fn node(self) -> &'static str {
        match self {
            Self::Brokers => "broker",
            Self::Controllers => "controller",
        }
    }

    /// Returns the request for the nodes of the cluster. For brokers, this is also the request for topics.
    pub(super) fn request(self, topics: metadata::Request) -> Box<dyn Call> {
        match self {
            Self::Brokers => Box::new(MetadataCall(topics)),
            Self::Controllers => {
                let endpoint_type = describe_cluster::CONTROLLERS;
                let request = describe_cluster::Request { endpoint_type, ..Default::default() };
                Box::new(AtLeast(request, HAS_CONTROLLERS))
            }
        }
    }

    /// Reads the response to the request for the nodes of the cluster.
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

    /// Returns the error for a node of the wrong type. `newest` returns the newest version of an API that the node
    /// serves.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{self, api_versions};
    use crate::wire::Writer;

    fn reply(response: &describe_cluster::Response) -> Reply {
        Reply { version: 1, body: api::encode(1, response).unwrap().into() }
    }

    fn described(error_code: ErrorCode) -> describe_cluster::Response {
        let node = |broker_id: i32| describe_cluster::Broker {
            broker_id,
            host: format!("c{broker_id}"),
            port: 9093,
            ..Default::default()
        };
        describe_cluster::Response {
            error_code,
            endpoint_type: describe_cluster::CONTROLLERS,
            cluster_id: "id".to_owned(),
            controller_id: 2,
            brokers: vec![node(1), node(2)],
            ..Default::default()
        }
    }

    #[test]
    fn brokers_are_asked_for_metadata_and_controllers_for_each_other() {
        let brokers = Endpoints::Brokers.request(metadata::Request::default());
        assert_eq!((brokers.api().name, brokers.min_version()), ("Metadata", 0));
        let controllers = Endpoints::Controllers.request(metadata::Request::default());
        assert_eq!((controllers.api().name, controllers.min_version()), ("DescribeCluster", 1));
        let mut w = Writer::new(1, true);
        controllers.put(&mut w);
        let request: describe_cluster::Request = api::decode(1, w.finish().unwrap().into()).unwrap();
        assert_eq!(request.endpoint_type, describe_cluster::CONTROLLERS);
    }

    #[test]
    fn controllers_take_the_place_of_brokers_in_the_metadata() {
        let found = Endpoints::Controllers.read(reply(&described(ErrorCode::NONE))).unwrap();
        let nodes: Vec<_> = found.brokers.into_iter().map(|b| (b.node_id, b.host, b.port)).collect();
        assert_eq!(nodes, [(1, "c1".to_owned(), 9093), (2, "c2".to_owned(), 9093)]);
        assert_eq!((found.controller_id, found.cluster_id.as_deref()), (2, Some("id")));
        assert!(found.topics.is_empty());
    }

    #[test]
    fn a_response_without_controllers_is_an_error() {
        let read = |response| Endpoints::Controllers.read(reply(&described(response))).unwrap_err();
        let mismatch = read(ErrorCode::MISMATCHED_ENDPOINT_TYPE);
        assert_eq!(mismatch.kind(), ErrorKind::WrongEndpoint);
        assert!(mismatch.message().contains("belongs to a broker"), "{mismatch}");
        let refused = read(ErrorCode::CLUSTER_AUTHORIZATION_FAILED);
        assert_ne!(refused.kind(), ErrorKind::WrongEndpoint);
        assert!(refused.message().contains("DescribeCluster"), "{refused}");
        let cut = Reply { version: 1, body: vec![0; 3].into() };
        assert_eq!(Endpoints::Controllers.read(cut).unwrap_err().kind(), ErrorKind::Decode);
    }

    #[test]
    fn the_versions_of_a_node_tell_its_type() {
        // A controller serves no Metadata. Brokers before Kafka 3.7 have DescribeCluster v0.
        let newest = |metadata: i16, cluster: i16| {
            move |api: &Info| match api.name {
                "Metadata" => metadata,
                "DescribeCluster" => cluster,
                _ => api_versions::API.max,
            }
        };
        let wrong = |endpoints: Endpoints, metadata, cluster| endpoints.wrong_type(newest(metadata, cluster));
        assert!(wrong(Endpoints::Brokers, 13, -1).is_none());
        assert!(wrong(Endpoints::Brokers, 0, 0).is_none());
        assert!(wrong(Endpoints::Controllers, -1, 1).is_none());
        for (endpoints, metadata, cluster) in
            [(Endpoints::Brokers, -1, 2), (Endpoints::Controllers, 13, 0), (Endpoints::Controllers, 13, -1)]
        {
            let error = wrong(endpoints, metadata, cluster).unwrap();
            assert_eq!(error.kind(), ErrorKind::WrongEndpoint);
            assert!(error.hint().unwrap().contains(endpoints.key()), "{error}");
        }
    }
}

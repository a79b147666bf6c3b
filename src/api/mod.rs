//! Kafka's APIs. Each API has one file, which declares the API's request and response for all versions with `message!`.
//! The header of the file lists what each version adds, and which errors a response can have. If KIP-219 changed an
//! API, the header of the file says: "the broker responds before it throttles the client".
//!
//! Each file is the namespace of its types: `fetch::Request`, not `FetchRequest`. [`decode`] and [`encode`] take a
//! typed message. For tools, [`MessageHandle`] encodes and decodes a message by its name. [`header`] declares the
//! headers of messages, and [`data`] declares the structures inside other messages.

mod error_code;
mod message;
mod releases;

pub use error_code::ErrorCode;
pub use message::{Info, Message, Request, decode, decode_padded, encode};
pub use releases::Release;

use crate::wire::{self, Error, FieldWalk, Reader, Shape, Struct, Type, Value, Wire, Writer};
use bytes::Bytes;
use message::unwritable;

/// A message without its Rust type, which encodes and decodes values by field name. The handle is a number, with which
/// each use looks up a function. A table of function pointers would be larger, because the loader relocates each
/// pointer.
pub struct MessageHandle(Which);

enum Which {
    Request(Api),
    Response(Api),
    Structure(Structure),
}

/// A decoded body, and the bytes after the body.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// The body.
    pub value: Value,
    /// Number of unknown tagged fields, which decoding has dropped.
    pub unknown_tags: usize,
    /// The bytes after the body.
    pub rest: Bytes,
}

/// A message without its type. The trait has no supertraits, because each supertrait would add a function table to
/// every message.
trait Untyped {
    fn put(&self, w: &mut Writer);
    fn read(&mut self, r: &mut Reader) -> Result<(), Error>;
    fn fields(&mut self, walk: &mut FieldWalk<'_>);
}

impl<M: Message> Untyped for M {
    fn put(&self, w: &mut Writer) {
        Wire::put(self, w);
    }
    fn read(&mut self, r: &mut Reader) -> Result<(), Error> {
        Wire::read(self, r)
    }
    fn fields(&mut self, walk: &mut FieldWalk<'_>) {
        Struct::fields(self, walk);
    }
}

impl Struct for Box<dyn Untyped> {
    fn fields(&mut self, walk: &mut FieldWalk<'_>) {
        (**self).fields(walk);
    }
}

impl MessageHandle {
    /// Returns the API or structure to which the message belongs.
    pub fn info(&self) -> &'static Info {
        match self.0 {
            Which::Request(api) | Which::Response(api) => api.info(),
            Which::Structure(structure) => structure.info(),
        }
    }

    /// Returns `request`, `response`, `header` or `data`.
    pub fn kind(&self) -> &'static str {
        match self.0 {
            Which::Request(_) => "request",
            Which::Response(_) => "response",
            Which::Structure(structure) => structure.kind(),
        }
    }

    fn message(&self) -> Box<dyn Untyped> {
        match self.0 {
            Which::Request(api) => api.request(),
            Which::Response(api) => api.response(),
            Which::Structure(structure) => structure.message(),
        }
    }

    /// Decodes a body into a value, with the fields of `version`. Fails if bytes remain. Uses at most the memory of
    /// [`wire::memory_limit_by_name`].
    pub fn decode(&self, version: i16, body: Bytes) -> Result<Value, Error> {
        let (message, _) = self.read(version, body, Reader::finish)?;
        Ok(message)
    }

    /// Decodes the body at the start of `data`, like [`Self::decode`], and returns the remaining bytes.
    pub fn decode_prefix(&self, version: i16, data: Bytes) -> Result<Decoded, Error> {
        let (value, mut r) = self.read(version, data, |_| Ok(()))?;
        Ok(Decoded { value, unknown_tags: r.unknown_tags(), rest: r.rest() })
    }

    fn read(
        &self,
        version: i16,
        data: Bytes,
        end: impl Fn(&Reader) -> Result<(), Error>,
    ) -> Result<(Value, Reader), Error> {
        let (info, kind) = (self.info(), self.kind());
        info.check(kind, version)?;
        let mut r = Reader::new(data, version, info.is_flexible(version));
        let mut message = self.message();
        let read = message.read(&mut r).and_then(|()| end(&r));
        read.map_err(|e| e.of(info.name, kind, version))?;
        Ok((wire::take_value(&mut Shape::Struct(&mut message), version), r))
    }

    /// Encodes a value. Missing fields take their defaults.
    pub fn encode(&self, version: i16, value: Value) -> Result<Vec<u8>, Error> {
        let (info, kind) = (self.info(), self.kind());
        info.check(kind, version)?;
        let mut w = Writer::new(version, info.is_flexible(version));
        let mut message = self.message();
        let set = wire::set_value(Shape::Struct(&mut message), value, version);
        let written = set.and_then(|()| {
            message.put(&mut w);
            w.finish().map_err(|e| unwritable(&mut message, version, e))
        });
        written.map_err(|e| e.of(info.name, kind, version))
    }

    /// Returns the type of the message in all its versions: a [`Type::Struct`].
    pub fn describe(&self) -> Type {
        wire::describe(Shape::Struct(&mut self.message()))
    }
}

/// An API that tools, tests and `klamm.protocol` can find by name.
pub struct Entry {
    /// Name, key and versions.
    pub info: &'static Info,
    /// The request.
    pub request: MessageHandle,
    /// The response.
    pub response: MessageHandle,
}

/// Declares the API of a file: `api! { Heartbeat = 12, 0..=4, flexible 4 }`. Without `flexible`, no version is
/// flexible. `unstable 4` marks the newest version as unstable, as in Kafka 4.4. `internal` marks an API between
/// brokers.
macro_rules! api {
    ($name:ident = $key:literal, $min:literal..=$max:literal $(, flexible $flexible:literal)?
     $(, unstable $unstable:literal)?) => {
        api! { @ $name = $key, $min..=$max, [$($flexible,)? i16::MAX], [$($unstable - 1,)? $max], false }
    };
    ($name:ident = $key:literal, $min:literal..=$max:literal $(, flexible $flexible:literal)?
     $(, unstable $unstable:literal)?, internal) => {
        api! { @ $name = $key, $min..=$max, [$($flexible,)? i16::MAX], [$($unstable - 1,)? $max], true }
    };
    (@ $name:ident = $key:literal, $min:literal..=$max:literal, $flexible:expr, $max_stable:expr, $internal:expr) => {
        /// The name, key and versions of this API.
        pub const API: $crate::api::Info = $crate::api::Info {
            name: stringify!($name),
            key: $key,
            min: $min,
            max: $max,
            max_stable: $max_stable[0],
            flexible: $flexible[0],
            internal: $internal,
        };

        impl $crate::api::Message for Request {
            const API: &'static $crate::api::Info = &API;
            const KIND: &'static str = "request";
        }

        impl $crate::api::Message for Response {
            const API: &'static $crate::api::Info = &API;
            const KIND: &'static str = "response";
        }

        impl $crate::api::Request for Request {
            type Response = Response;
        }
    };
}

/// Declares a structure that is neither a request nor a response: `structure! { data EndTxnMarker: EndTxn, 0..=0 }`.
macro_rules! structure {
    ($kind:ident $name:ident: $type:ident, $min:literal..=$max:literal $(, flexible $flexible:literal)?) => {
        impl $crate::api::Message for $type {
            const API: &'static $crate::api::Info = &$crate::api::Info {
                name: stringify!($name),
                key: -1,
                min: $min,
                max: $max,
                max_stable: $max,
                flexible: [$($flexible,)? i16::MAX][0],
                internal: false,
            };
            const KIND: &'static str = stringify!($kind);
        }
    };
}

pub mod add_offsets_to_txn;
pub mod add_partitions_to_txn;
pub mod add_raft_voter;
pub mod allocate_producer_ids;
pub mod alter_client_quotas;
pub mod alter_configs;
pub mod alter_partition;
pub mod alter_partition_reassignments;
pub mod alter_replica_log_dirs;
pub mod alter_share_group_offsets;
pub mod alter_user_scram_credentials;
pub mod api_versions;
pub mod assign_replicas_to_dirs;
pub mod begin_quorum_epoch;
pub mod broker_heartbeat;
pub mod broker_registration;
pub mod consumer_group_describe;
pub mod consumer_group_heartbeat;
pub mod controlled_shutdown;
pub mod controller_registration;
pub mod create_acls;
pub mod create_delegation_token;
pub mod create_partitions;
pub mod create_topics;
pub mod data;
pub mod delete_acls;
pub mod delete_groups;
pub mod delete_records;
pub mod delete_share_group_offsets;
pub mod delete_share_group_state;
pub mod delete_topics;
pub mod describe_acls;
pub mod describe_client_quotas;
pub mod describe_cluster;
pub mod describe_configs;
pub mod describe_delegation_token;
pub mod describe_groups;
pub mod describe_log_dirs;
pub mod describe_producers;
pub mod describe_quorum;
pub mod describe_share_group_offsets;
pub mod describe_topic_partitions;
pub mod describe_transactions;
pub mod describe_user_scram_credentials;
pub mod elect_leaders;
pub mod end_quorum_epoch;
pub mod end_txn;
pub mod envelope;
pub mod expire_delegation_token;
pub mod fetch;
pub mod fetch_snapshot;
pub mod find_coordinator;
pub mod get_telemetry_subscriptions;
pub mod header;
pub mod heartbeat;
pub mod incremental_alter_configs;
pub mod init_producer_id;
pub mod initialize_share_group_state;
pub mod join_group;
pub mod leader_and_isr;
pub mod leave_group;
pub mod list_config_resources;
pub mod list_groups;
pub mod list_offsets;
pub mod list_partition_reassignments;
pub mod list_transactions;
pub mod metadata;
pub mod offset_commit;
pub mod offset_delete;
pub mod offset_fetch;
pub mod offset_for_leader_epoch;
pub mod produce;
pub mod push_telemetry;
pub mod read_share_group_state;
pub mod read_share_group_state_summary;
pub mod remove_raft_voter;
pub mod renew_delegation_token;
pub mod sasl_authenticate;
pub mod sasl_handshake;
pub mod share_acknowledge;
pub mod share_fetch;
pub mod share_group_describe;
pub mod share_group_heartbeat;
pub mod stop_replica;
pub mod streams_group_describe;
pub mod streams_group_heartbeat;
pub mod streams_group_topology_description_update;
pub mod sync_group;
pub mod txn_offset_commit;
pub mod unregister_broker;
pub mod unregister_controller;
pub mod update_features;
pub mod update_metadata;
pub mod update_raft_voter;
pub mod vote;
pub mod write_share_group_state;
pub mod write_txn_markers;

/// Generates the tables of all APIs from the names of their files.
macro_rules! apis {
    ($($module:ident)*) => {
        #[derive(Clone, Copy)]
        #[allow(non_camel_case_types)]
        enum Api { $($module),* }

        impl Api {
            fn info(self) -> &'static Info {
                match self { $(Self::$module => &$module::API,)* }
            }
            fn request(self) -> Box<dyn Untyped> {
                match self { $(Self::$module => Box::<$module::Request>::default(),)* }
            }
            fn response(self) -> Box<dyn Untyped> {
                match self { $(Self::$module => Box::<$module::Response>::default(),)* }
            }
        }

        /// All APIs, ordered by key.
        pub static APIS: &[Entry] = &[
            $( Entry {
                info: &$module::API,
                request: MessageHandle(Which::Request(Api::$module)),
                response: MessageHandle(Which::Response(Api::$module)),
            }, )*
        ];
    };
}

apis! {
    produce
    fetch
    list_offsets
    metadata
    leader_and_isr
    stop_replica
    update_metadata
    controlled_shutdown
    offset_commit
    offset_fetch
    find_coordinator
    join_group
    heartbeat
    leave_group
    sync_group
    describe_groups
    list_groups
    sasl_handshake
    api_versions
    create_topics
    delete_topics
    delete_records
    init_producer_id
    offset_for_leader_epoch
    add_partitions_to_txn
    add_offsets_to_txn
    end_txn
    write_txn_markers
    txn_offset_commit
    describe_acls
    create_acls
    delete_acls
    describe_configs
    alter_configs
    alter_replica_log_dirs
    describe_log_dirs
    sasl_authenticate
    create_partitions
    create_delegation_token
    renew_delegation_token
    expire_delegation_token
    describe_delegation_token
    delete_groups
    elect_leaders
    incremental_alter_configs
    alter_partition_reassignments
    list_partition_reassignments
    offset_delete
    describe_client_quotas
    alter_client_quotas
    describe_user_scram_credentials
    alter_user_scram_credentials
    vote
    begin_quorum_epoch
    end_quorum_epoch
    describe_quorum
    alter_partition
    update_features
    envelope
    fetch_snapshot
    describe_cluster
    describe_producers
    broker_registration
    broker_heartbeat
    unregister_broker
    describe_transactions
    list_transactions
    allocate_producer_ids
    consumer_group_heartbeat
    consumer_group_describe
    controller_registration
    get_telemetry_subscriptions
    push_telemetry
    assign_replicas_to_dirs
    list_config_resources
    describe_topic_partitions
    share_group_heartbeat
    share_group_describe
    share_fetch
    share_acknowledge
    add_raft_voter
    remove_raft_voter
    update_raft_voter
    initialize_share_group_state
    read_share_group_state
    write_share_group_state
    delete_share_group_state
    read_share_group_state_summary
    streams_group_heartbeat
    streams_group_describe
    describe_share_group_offsets
    alter_share_group_offsets
    delete_share_group_offsets
    streams_group_topology_description_update
    unregister_controller
}

macro_rules! structures {
    ($($name:ident: $type:ty,)*) => {
        #[derive(Clone, Copy)]
        enum Structure { $($name),* }

        impl Structure {
            fn info(self) -> &'static Info {
                match self { $(Self::$name => <$type>::API,)* }
            }
            fn kind(self) -> &'static str {
                match self { $(Self::$name => <$type>::KIND,)* }
            }
            fn message(self) -> Box<dyn Untyped> {
                match self { $(Self::$name => Box::<$type>::default(),)* }
            }
        }

        /// All headers and structures.
        pub static STRUCTURES: &[MessageHandle] = &[ $(MessageHandle(Which::Structure(Structure::$name)),)* ];
    };
}

structures! {
    RequestHeader: header::RequestHeader,
    ResponseHeader: header::ResponseHeader,
    Subscription: data::consumer_protocol::Subscription,
    Assignment: data::consumer_protocol::Assignment,
    ControlKey: data::control_record::Key,
    EndTxn: data::control_record::EndTxn,
    LeaderChange: data::control_record::LeaderChange,
    SnapshotHeader: data::control_record::SnapshotHeader,
    SnapshotFooter: data::control_record::SnapshotFooter,
    KRaftVersion: data::control_record::KRaftVersion,
    Voters: data::control_record::Voters,
    Principal: data::principal::Principal,
    AbortedTransaction: data::transaction_index::AbortedTransaction,
}

/// Returns the API with a name, in Kafka's spelling.
pub fn by_name(name: &str) -> Option<&'static Entry> {
    APIS.iter().find(|a| a.info.name == name)
}

/// Returns the API with a key.
pub fn by_key(key: i16) -> Option<&'static Entry> {
    APIS.iter().find(|a| a.info.key == key)
}

/// Returns the request or response of an API, or the header or structure with a name.
pub fn by_kind(name: &str, kind: &str) -> Option<&'static MessageHandle> {
    match kind {
        "request" => by_name(name).map(|api| &api.request),
        "response" => by_name(name).map(|api| &api.response),
        _ => STRUCTURES.iter().find(|handle| (handle.info().name, handle.kind()) == (name, kind)),
    }
}

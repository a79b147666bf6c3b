//! ApiVersions v0 to v5: returns the served APIs and versions, and the features of Kafka 4.4. A cluster that imitates
//! Kafka 4.0 to 4.3 has only the feature `transaction.version`.
//!
//! If the broker does not support the version of a request, it sends a v0 response with the error UNSUPPORTED_VERSION.
//! This v0 response lists the supported versions of ApiVersions, so that the client can retry (KIP-511). A cluster that
//! imitates a release before 2.4 sends only the error code. As in Kafka, a v3 response does not list features whose
//! minimum version is 0.

use crate::api::api_versions::{API, ApiVersion, FinalizedFeature, Request, Response, SupportedFeature};
use crate::api::{ErrorCode, Release};
use crate::broker::request::{Context, HandlerResult, ServedApi};
use crate::broker::state::State;

/// A feature, with its supported versions and its finalized version. Version 0 means that the feature is not in use.
struct Feature {
    name: &'static str,
    min: i16,
    max: i16,
    level: i16,
}

const fn feature(name: &'static str, min: i16, max: i16, level: i16) -> Feature {
    Feature { name, min, max, level }
}

/// The features besides `transaction.version`.
const FEATURES: &[Feature] = &[
    feature("eligible.leader.replicas.version", 0, 1, 1),
    feature("group.version", 0, 1, 1),
    feature("kraft.version", 0, 1, 0),
    feature("metadata.version", 7, 33, 33),
    feature("share.version", 0, 2, 2),
    feature("streams.version", 0, 1, 1),
];

/// The feature of the transaction protocol. Version 2 is the newest version (KIP-890).
const fn transactions(level: i16) -> Feature {
    feature("transaction.version", 0, 2, level)
}

/// The epoch of the finalized features. Kafka sends an offset of its metadata log. The dev broker sends a constant,
/// because its features never change.
const FEATURES_EPOCH: i64 = 1;

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> HandlerResult<Response> {
    let software = [&request.client_software_name, &request.client_software_version];
    let other_cluster = request.cluster_id.is_some_and(|id| id != state.cluster_id);
    let other_node = request.node_id >= 0 && request.node_id != context.node;
    let error_code = if context.version >= 3 && !software.into_iter().all(|s| is_software(s)) {
        ErrorCode::INVALID_REQUEST
    } else if other_cluster || other_node {
        ErrorCode::REBOOTSTRAP_REQUIRED
    } else {
        ErrorCode::NONE
    };
    let api_keys = if error_code.is_error() { Vec::new() } else { state.served.iter().map(version).collect() };
    let release_features = if state.is_since(Release::V4_4) { FEATURES } else { &[] };
    let transaction_feature = [transactions(state.transaction_version)];
    let has_features = !error_code.is_error() && state.is_since(Release::V4_0);
    let features = || release_features.iter().chain(&transaction_feature).filter(|_| has_features);
    let supported = |f: &Feature| SupportedFeature { name: f.name.to_owned(), min_version: f.min, max_version: f.max };
    let finalized = |f: &Feature| FinalizedFeature {
        name: f.name.to_owned(),
        max_version_level: f.level,
        min_version_level: f.level,
    };
    HandlerResult::Reply(Response {
        error_code,
        api_keys,
        supported_features: features().filter(|f| context.version >= 4 || f.min > 0).map(supported).collect(),
        finalized_features_epoch: if has_features { FEATURES_EPOCH } else { -1 },
        finalized_features: features().filter(|f| f.level > 0).map(finalized).collect(),
        ..Response::default()
    })
}

/// Returns the response to an unsupported version.
pub(super) fn unsupported(state: &State) -> Response {
    let says_more = state.release.is_none_or(|release| release >= Release::V2_4);
    let transaction_feature = state.served.iter().filter(|served| says_more && served.api.key == API.key);
    Response {
        error_code: ErrorCode::UNSUPPORTED_VERSION,
        api_keys: transaction_feature.map(version).collect(),
        ..Response::default()
    }
}

fn version(ServedApi { api, min, max }: &ServedApi) -> ApiVersion {
    ApiVersion { api_key: api.key, min_version: *min, max_version: *max }
}

/// Returns whether Kafka accepts a software name or version: letters and digits, with `-` and `.` between them.
fn is_software(name: &str) -> bool {
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    ends(name.chars().next())
        && ends(name.chars().next_back())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.'))
}

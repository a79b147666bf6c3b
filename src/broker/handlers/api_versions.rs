//! ApiVersions v0 to v5: exactly what is served, and of Kafka's features the one that is: `transaction.version`.
//!
//! A version that is not served is answered in v0 with UNSUPPORTED_VERSION and the versions of ApiVersions itself, so
//! that the client can ask again (KIP-511; before 2.4 the code alone). As in Kafka, v3 does not say that a feature may be at version 0.

use super::{Answer, Context, Served};
use crate::api::api_versions::{API, ApiVersion, FinalizedFeature, Request, Response, SupportedFeature};
use crate::api::{ErrorCode, Release};
use crate::broker::state::State;

/// The protocol of transactions, of which 2 is the newest (KIP-890).
const FEATURE: &str = "transaction.version";
const NEWEST: i16 = 2;

/// Kafka has an offset of its metadata log here; what is finalized never changes in this cluster.
const FEATURES_EPOCH: i64 = 1;

pub(super) fn handle(state: &mut State, context: &Context, request: Request) -> Answer<Response> {
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
    let feature = SupportedFeature { name: FEATURE.to_owned(), min_version: 0, max_version: NEWEST };
    let (max_version_level, min_version_level) = (state.transaction_version, state.transaction_version);
    let level = FinalizedFeature { name: FEATURE.to_owned(), max_version_level, min_version_level };
    let known = !error_code.is_error() && state.release.is_none_or(|release| release >= Release::V4_0);
    Answer::Reply(Response {
        error_code,
        api_keys,
        supported_features: if known && context.version >= 4 { vec![feature] } else { Vec::new() },
        finalized_features_epoch: if known { FEATURES_EPOCH } else { -1 },
        finalized_features: if known { vec![level] } else { Vec::new() },
        ..Response::default()
    })
}

pub(super) fn refuse(_: Request, error_code: ErrorCode) -> Response {
    Response { error_code, ..Response::default() }
}

/// The answer to a version nobody here knows.
pub(super) fn unsupported(state: &State) -> Response {
    let says_more = state.release.is_none_or(|release| release >= Release::V2_4);
    let own = state.served.iter().filter(|served| says_more && served.api.key == API.key);
    Response { error_code: ErrorCode::UNSUPPORTED_VERSION, api_keys: own.map(version).collect(), ..Response::default() }
}

fn version(Served { api, min, max }: &Served) -> ApiVersion {
    ApiVersion { api_key: api.key, min_version: *min, max_version: *max }
}

/// Letters and digits, with `-` and `.` between them: what Kafka takes as a software name or version.
fn is_software(name: &str) -> bool {
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    ends(name.chars().next())
        && ends(name.chars().next_back())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.'))
}

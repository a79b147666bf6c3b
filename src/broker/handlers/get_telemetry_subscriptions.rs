//! GetTelemetrySubscriptions v0: returns the metrics that a client has to push, and the instance ID of the client
//! (KIP-714).

use crate::api::get_telemetry_subscriptions::{Request, Response};
use crate::broker::request::{Context, HandlerResult};
use crate::broker::state::State;
use crate::broker::telemetry::MAX_BYTES;
use crate::compress::Compression;
use crate::wire::Uuid;

/// The codecs that the broker reads, the best first, as in Kafka.
const CODECS: [Compression; 4] = [Compression::Zstd, Compression::Lz4, Compression::Gzip, Compression::Snappy];

pub(super) fn handle(state: &mut State, _context: &Context, request: Request) -> HandlerResult<Response> {
    let is_new = request.client_instance_id.is_zero();
    let client_instance_id = if is_new { state.new_uuid() } else { Uuid::ZERO };
    let telemetry = &state.telemetry;
    HandlerResult::Reply(Response {
        client_instance_id,
        subscription_id: telemetry.id,
        accepted_compression_types: CODECS.map(|codec| codec.number() as i8).into(),
        push_interval_ms: telemetry.interval_ms,
        telemetry_max_bytes: MAX_BYTES,
        delta_temporality: telemetry.is_delta,
        requested_metrics: telemetry.prefixes.clone(),
        ..Response::default()
    })
}

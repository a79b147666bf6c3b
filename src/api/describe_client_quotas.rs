//! DescribeClientQuotas (48): returns the quotas of the users, client IDs and addresses that match a filter (KIP-546).
//!
//! * v1: flexible
//!
//! Errors: CLUSTER_AUTHORIZATION_FAILED, INVALID_REQUEST, UNSUPPORTED_VERSION (the broker does not know an entity
//! type).

use super::ErrorCode;

api! { DescribeClientQuotas = 48, 0..=1, flexible 1 }

/// Match type: the entity with a given name.
pub const EXACT: i8 = 0;
/// Match type: the default entity.
pub const DEFAULT: i8 = 1;
/// Match type: every entity with a name.
pub const ANY: i8 = 2;

message! {
    struct Request {
        components: Vec<Component>,
        /// Whether the response leaves out entities that also have a type that no component names.
        strict: bool,
    }
    struct Component {
        /// `user`, `client-id` or `ip`.
        entity_type: String,
        match_type: i8,
        /// The name for [`EXACT`], or null for other match types.
        r#match: Option<String> = Some(String::new()),
    }
    struct Response {
        throttle_time_ms: i32,
        error_code: ErrorCode,
        error_message: Option<String> = Some(String::new()),
        entries: Option<Vec<Entry>> = Some(Vec::new()),
    }
    struct Entry {
        entity: Vec<Entity>,
        values: Vec<Quota>,
    }
    struct Entity {
        entity_type: String,
        /// Null for the default entity.
        entity_name: Option<String> = Some(String::new()),
    }
    struct Quota {
        /// The name of the quota, such as `producer_byte_rate`.
        key: String,
        value: f64,
    }
}

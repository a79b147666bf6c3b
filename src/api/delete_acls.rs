//! DeleteAcls (31): removes the access rules that match filters, and returns the removed rules (KIP-140). The
//! controller handles DeleteAcls. The table in `describe_acls.rs` explains the numeric codes in the fields.
//!
//! * v1: pattern types (KIP-290); the broker responds before it throttles the client
//! * v2: flexible
//! * v3: resource type for users (KIP-373)
//!
//! Errors: NOT_CONTROLLER, CLUSTER_AUTHORIZATION_FAILED, SECURITY_DISABLED, INVALID_REQUEST, UNSUPPORTED_VERSION.

use super::ErrorCode;

api! { DeleteAcls = 31, 0..=3, flexible 2 }

message! {
    struct Request {
        filters: Vec<Filter>,
    }
    struct Filter {
        resource_type_filter: i8,
        resource_name_filter: Option<String> = Some(String::new()),
        pattern_type_filter: i8 [1..] = 3,
        principal_filter: Option<String> = Some(String::new()),
        host_filter: Option<String> = Some(String::new()),
        operation: i8,
        permission_type: i8,
    }
    struct Response {
        throttle_time_ms: i32,
        /// One result for each filter, in the order of the request.
        filter_results: Vec<FilterResult>,
    }
    struct FilterResult {
        error_code: ErrorCode,
        error_message: Option<String> = Some(String::new()),
        matching_acls: Vec<MatchingAcl>,
    }
    struct MatchingAcl {
        error_code: ErrorCode,
        error_message: Option<String> = Some(String::new()),
        resource_type: i8,
        resource_name: String,
        pattern_type: i8 [1..] = 3,
        principal: String,
        host: String,
        operation: i8,
        permission_type: i8,
    }
}

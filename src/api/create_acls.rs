//! CreateAcls (30): adds access rules (KIP-140). The controller handles CreateAcls. The file `describe_acls.rs`
//! explains the numbers in the fields.
//!
//! * v1: pattern types (KIP-290); the broker responds before it throttles the client
//! * v2: flexible
//! * v3: resource type for users (KIP-373)
//!
//! Errors: NOT_CONTROLLER, CLUSTER_AUTHORIZATION_FAILED, SECURITY_DISABLED, INVALID_REQUEST, UNSUPPORTED_VERSION.

use super::ErrorCode;

api! { CreateAcls = 30, 0..=3, flexible 2 }

message! {
    struct Request {
        creations: Vec<Acl>,
    }
    struct Acl {
        resource_type: i8,
        resource_name: String,
        resource_pattern_type: i8 [1..] = 3,
        principal: String,
        host: String,
        operation: i8,
        permission_type: i8,
    }
    struct Response {
        throttle_time_ms: i32,
        /// One result for each rule, in the order of the request.
        results: Vec<AclResult>,
    }
    struct AclResult {
        error_code: ErrorCode,
        error_message: Option<String> = Some(String::new()),
    }
}

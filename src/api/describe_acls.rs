//! DescribeAcls (29): returns the access rules that match a filter (KIP-140). The table explains the numbers in
//! DescribeAcls, CreateAcls and DeleteAcls. In a filter, 1 matches any value.
//!
//! | | |
//! |---|---|
//! | resource | 2 topic, 3 group, 4 cluster, 5 transactional id, 6 delegation token, 7 user |
//! | pattern | 2 any pattern that matches the name, 3 literal, 4 prefix |
//! | operation | 2 all, 3 read, 4 write, 5 create, 6 delete, 7 alter, 8 describe, 9 cluster action, 10 describe configs, 11 alter configs, 12 idempotent write, 13 create tokens, 14 describe tokens, 15 two-phase commit |
//! | permission | 2 deny, 3 allow |
//!
//! * v1: pattern types (KIP-290); the broker responds before it throttles the client
//! * v2: flexible
//! * v3: resource type for users (KIP-373)
//!
//! Errors: CLUSTER_AUTHORIZATION_FAILED, SECURITY_DISABLED, INVALID_REQUEST, UNSUPPORTED_VERSION.

use super::ErrorCode;

api! { DescribeAcls = 29, 0..=3, flexible 2 }

message! {
    struct Request {
        resource_type_filter: i8,
        /// Null matches any name. A null principal and a null host match any principal and any host.
        resource_name_filter: Option<String> = Some(String::new()),
        pattern_type_filter: i8 [1..] = 3,
        principal_filter: Option<String> = Some(String::new()),
        host_filter: Option<String> = Some(String::new()),
        operation: i8,
        permission_type: i8,
    }
    struct Response {
        throttle_time_ms: i32,
        error_code: ErrorCode,
        error_message: Option<String> = Some(String::new()),
        resources: Vec<Resource>,
    }
    struct Resource {
        resource_type: i8,
        resource_name: String,
        pattern_type: i8 [1..] = 3,
        acls: Vec<Acl>,
    }
    struct Acl {
        principal: String,
        host: String,
        operation: i8,
        permission_type: i8,
    }
}

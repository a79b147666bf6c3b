//! DescribeUserScramCredentials (50): returns the SCRAM mechanisms of users and their iteration counts (KIP-554). The
//! brokers do not return salts and keys.
//!
//! Errors: CLUSTER_AUTHORIZATION_FAILED, RESOURCE_NOT_FOUND, DUPLICATE_RESOURCE.

use super::ErrorCode;

api! { DescribeUserScramCredentials = 50, 0..=0, flexible 0 }

message! {
    struct Request {
        /// The requested users. Null and an empty list each request all users.
        users: Option<Vec<User>> = Some(Vec::new()),
    }
    struct User {
        name: String,
    }
    struct Response {
        throttle_time_ms: i32,
        error_code: ErrorCode,
        error_message: Option<String> = Some(String::new()),
        results: Vec<UserResult>,
    }
    struct UserResult {
        user: String,
        error_code: ErrorCode,
        error_message: Option<String> = Some(String::new()),
        credential_infos: Vec<Credential>,
    }
    struct Credential {
        /// A mechanism of [`alter_user_scram_credentials`](super::alter_user_scram_credentials).
        mechanism: i8,
        iterations: i32,
    }
}

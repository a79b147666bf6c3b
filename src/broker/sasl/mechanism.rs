//! The result that a SASL mechanism returns for each message of the client: a challenge, success or failure.

/// The result of one step of a mechanism.
pub(super) enum MechanismResult {
    /// The exchange continues: send this challenge.
    Challenge(Vec<u8>),
    /// The client has authenticated as this user. `until_ms` is the time at which the client's token expires.
    Success { message: Vec<u8>, user: String, until_ms: Option<i64> },
    /// Authentication failed, with the message for the client.
    Failure(String),
}

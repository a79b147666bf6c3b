//! Types that all group protocols use: the fields that identify a member in a request, and an error with its message.
//! The file also defines the host that the dev broker reports for every group member.

use crate::api::ErrorCode;

/// The host of every member, in the form that Kafka uses. All clients connect from this address.
pub(in crate::broker) const CLIENT_HOST: &str = "/127.0.0.1";

/// An error code, and the message for the response's message field.
pub(in crate::broker) type GroupError = (ErrorCode, String);

/// The fields with which a request identifies a member of the group, or a client outside the group.
#[derive(Clone, Copy, Debug)]
pub(in crate::broker) struct MemberIdentity<'a> {
    pub member_id: &'a str,
    pub instance_id: Option<&'a str>,
    /// The generation or member epoch, or -1 outside the group.
    pub generation: i32,
}

//! Assignors of classic groups: they decide which member reads which partition.
//!
//! The leader of a group computes the assignment for all members, and any client can be the leader. Each assignor
//! therefore has the same name, inputs and user data as the assignor of the Java client.
//!
//! | name | protocol | rule |
//! | --- | --- | --- |
//! | [`range`](Range) | eager | cuts each topic into ranges for the members in order; prefers the member's rack (KIP-881) |
//! | [`roundrobin`](RoundRobin) | eager | gives each member in turn one partition |
//! | [`sticky`](Sticky) | eager | balances, and moves few partitions (KIP-54, KIP-341) |
//! | [`cooperative-sticky`](CooperativeSticky) | cooperative | as `sticky`, in two rounds: members keep reading the partitions that they keep (KIP-429, KIP-792) |
//!
//! Assignors sort the members: first the static members (KIP-345), by instance ID, so that a restart of a static member
//! does not change its place. `range` and `roundrobin` return the same assignments as the Java client. For the sticky
//! assignors, Kafka does not prescribe a result: klamm returns the best balance with as few moves as possible.
//!
//! Other clients choose the subscriptions, so klamm limits the time of the computation. The computing time grows at
//! most with the number of members times the number of partitions. The search for a better balance stops after a
//! maximum number of steps.

mod balance;
mod cooperative_sticky;
mod interface;
mod range;
mod round_robin;
mod sticky;

pub use cooperative_sticky::CooperativeSticky;
pub use interface::{Assignment, Assignor, Member, Protocol, Topics};
pub use range::Range;
pub use round_robin::RoundRobin;
pub use sticky::Sticky;

/// All assignors.
pub const ALL: [&dyn Assignor; 4] = [&Range, &RoundRobin, &Sticky, &CooperativeSticky];

/// Returns the assignor with this name.
pub fn by_name(name: &str) -> Option<&'static dyn Assignor> {
    ALL.into_iter().find(|a| a.name() == name)
}

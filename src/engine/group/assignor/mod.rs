//! Assignors of classic groups: they decide which member reads which partition.
//!
//! The leader of a group computes the assignment for all members, and may be any client. So each assignor has the name,
//! the inputs and the user data of Java's.
//!
//! | name | protocol | rule |
//! | --- | --- | --- |
//! | [`range`](Range) | eager | cuts each topic into ranges for the members in order; prefers the member's rack (KIP-881) |
//! | [`roundrobin`](RoundRobin) | eager | deals out all partitions, one at a time |
//! | [`sticky`](Sticky) | eager | balances, and lets members keep their partitions (KIP-54, KIP-341) |
//! | [`cooperative-sticky`](CooperativeSticky) | cooperative | as `sticky`, in two rounds, so that members read on what they keep (KIP-429, KIP-792) |
//!
//! Static members (KIP-345) come first, by instance ID, so that a restart changes nothing. `range` and `roundrobin`
//! return the same assignments as Java's. The sticky ones have no prescribed result: these return the best balance, and
//! move next to nothing without need.
//!
//! Subscriptions come from peers. So the time is at most about members times partitions, and the search for a better
//! balance ends after a number of steps.

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

/// Returns the assignor with a name.
pub fn by_name(name: &str) -> Option<&'static dyn Assignor> {
    ALL.into_iter().find(|a| a.name() == name)
}

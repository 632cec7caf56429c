//! What holds a transfer back: the vocabulary, and the attribution of time to it.
//!
//! [`attribute`] takes one direction of a connection as a [`Timeline`] (what its sender sent, and the
//! acknowledgments that reached it) and gives every moment exactly one [`LimitName`]. At each moment it
//! asks why the sender is not sending the next byte:
//!
//! 1. A *wait* lies between two sends of new data. If an acknowledgment released the second one, the
//!    sender was **held**; if not, it had **nothing to send**.
//! 2. A held sender is held by the receiver's window if the next segment had no room below the window's
//!    edge, by the path if what flies fills it, else by its own congestion window, whose growth over the
//!    next round trip tells slow start from congestion avoidance.
//! 3. After the last byte of a turn comes the round trip that no design avoids: `propagation`.
//!
//! Where the protocol above has a window of its own (SSH), pauses that the peer's messages end are told apart from
//! those of a sender with nothing to send: by TCP's flight, or, where TCP acknowledges at once, by what is
//! sent per round trip of that protocol ([`ChannelWindow`]).
//!
//! Set-up, repair and closing lie over that. Where two hold at once, the order of [`LimitName`] decides.
//! Spans are kept in whole nanoseconds, so that their sum is the duration, exactly.
//!
//! Sources: T-RAT (Zhang et al., SIGCOMM 2002) for the classes, Siekkinen et al. (Computer Networks 2008)
//! for separating application periods first, Linux `tcp_output.c` (`tcp_write_xmit`) for the order in which
//! a sender meets its limits.

mod attribution;
mod bucket;
mod channel;
mod detail;
mod growth;
pub mod kernel;
mod path_rate;
mod policer;
mod recovery;
mod replay;
mod timeline;
mod waits;

pub use attribution::{Attribution, Span, attribute};
pub use channel::{ChannelWindow, Pause};
pub use detail::{Detail, Reason};
pub use path_rate::{NoRate, PathRate, Train, combine as combine_trains};
pub use record::LimitName;
pub use timeline::{Event, EventKind, Repair, Timeline, WindowField};

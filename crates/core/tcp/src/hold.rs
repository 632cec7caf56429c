/// What keeps an endpoint from sending more at this moment. The endpoint knows it for certain, where an
/// observer of packets has to infer it.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Hold {
    /// SYNs are under way.
    Handshake,
    /// FINs are under way, or old segments are waited for.
    Closing,
    /// Lost segments are being repaired.
    Recovery,
    /// The peer's window has no room for the next segment.
    ReceiveWindow,
    /// The congestion window is full, and grows exponentially.
    SlowStart,
    /// The congestion window is full, and grows slowly.
    CongestionAvoidance,
    /// The pacer's next slot has not come.
    Pacing,
    /// A short segment waits for outstanding data.
    Nagle,
    /// All that the send buffer holds is in flight, and the application was refused more.
    SendBuffer,
    /// All that was written is in flight.
    Propagation,
    /// Nothing was written.
    Application,
}

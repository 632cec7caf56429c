use std::collections::VecDeque;

use record::LimitName;

/// What a connection did between two readings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Seconds since the first reading.
    pub at_s: f32,
    /// Payload acknowledged by the peer, in bits per second.
    pub out_bps: f32,
    /// Payload received, in bits per second.
    pub in_bps: f32,
    /// Smoothed round-trip time in seconds.
    pub rtt_s: f32,
    /// Congestion window in bytes.
    pub cwnd: f32,
    /// Payload in flight in bytes.
    pub in_flight: f32,
    /// What held the sender back most of the time.
    pub limit: LimitName,
}

/// The last points of a connection, oldest first.
///
/// Of readings in which nothing happened only the first and the last of a row are kept, so that a host with
/// thousands of idle connections does not remember their silence.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    points: VecDeque<Point>,
}

/// Points kept of one connection: 28 bytes each, so 20,000 busy connections hold 67 MB.
const KEPT: usize = 120;

// === impl Point ===

impl Point {
    /// Whether nothing moved, and for the same reason as at `other`.
    fn repeats(&self, other: &Self) -> bool {
        Self {
            at_s: other.at_s,
            ..*self
        } == *other
    }
}

// === impl History ===

impl History {
    pub(crate) fn push(&mut self, point: Point) {
        let count = self.points.len();
        if count >= 2
            && point.repeats(&self.points[count - 1])
            && point.repeats(&self.points[count - 2])
        {
            self.points[count - 1] = point;
            return;
        }
        if count == KEPT {
            self.points.pop_front();
        }
        self.points.push_back(point);
    }

    /// The points, oldest first.
    pub fn points(&self) -> impl ExactSizeIterator<Item = &Point> {
        self.points.iter()
    }
}

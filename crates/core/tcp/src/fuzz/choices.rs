use core::time::Duration;

use alloc::vec::Vec;

use congestion::{Algorithm, SlowStart};
use units::{Bytes, Rate};

use crate::{AckPolicy, Config, Ecn, KeepAlive, LossDetection, Pacing, ReceiveBuffer};

/// Bytes read as decisions; behind their end every decision is zero.
pub(super) struct Choices<'a>(&'a [u8]);

// === impl Choices ===

impl<'a> Choices<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) const fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        first
    }

    pub(super) fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    pub(super) fn short(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    pub(super) fn word(&mut self) -> u32 {
        u32::from_be_bytes([self.byte(), self.byte(), self.byte(), self.byte()])
    }

    /// `Some` of what `choose` takes, or `None` half of the time.
    pub(super) fn maybe<T>(&mut self, choose: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.flag().then(|| choose(self))
    }

    pub(super) fn one_of<T: Clone>(&mut self, all: &[T]) -> Option<T> {
        let index = usize::from(self.byte()) % all.len().max(1);
        all.get(index).cloned()
    }

    /// What is left, as decisions of one byte each.
    pub(super) fn rest(self) -> Vec<u8> {
        self.0.to_vec()
    }

    /// A distance in sequence space: nothing, a little, or anything.
    pub(super) fn distance(&mut self) -> u32 {
        match self.byte() {
            0..100 => 0,
            100..180 => u32::from(self.short()),
            180..220 => u32::from(self.short() >> 4).wrapping_neg(),
            220.. => self.word(),
        }
    }

    /// An endpoint that may be configured in any way.
    pub(super) fn config(&mut self) -> Config {
        let window_scaling = self.flag();
        let fixed = 1_000 + u64::from(self.short()) * if window_scaling { 4 } else { 1 };
        let most = if window_scaling { 300_000 } else { 65_535 };
        let linux = Config::linux();
        let config = Config {
            mss: 200 + self.short() % 1_260,
            window_scaling,
            timestamps: self.flag(),
            sack: self.flag(),
            nagle: self.flag(),
            receive_buffer: if self.flag() {
                ReceiveBuffer::Fixed(Bytes::new(fixed.min(most)))
            } else {
                linux.receive_buffer
            },
            send_buffer: Bytes::new(2_000 + u64::from(self.short()) * 4),
            initial_cwnd: 1 + u32::from(self.byte() % 30),
            initial_ssthresh: self.maybe(|choices| Bytes::new(u64::from(choices.short()) * 4)),
            algorithm: self.algorithm(),
            ack_policy: match self.byte() % 3 {
                0 => AckPolicy::Linux,
                1 => AckPolicy::Immediate,
                _ => AckPolicy::Every2 {
                    delay: Duration::from_millis(200),
                },
            },
            pacing: match self.byte() % 4 {
                0 | 1 => Pacing::Off,
                2 => Pacing::Window,
                _ => Pacing::AtMost(Rate::mbit_per_s(1 + u64::from(self.byte()))),
            },
            loss_detection: if self.flag() {
                LossDetection::Rack
            } else {
                LossDetection::DuplicateAcks
            },
            tail_loss_probe: self.flag(),
            proportional_rate_reduction: self.flag(),
            ecn: self
                .one_of(&[Ecn::Off, Ecn::Accept, Ecn::Request])
                .unwrap_or(linux.ecn),
            forward_rto: self.flag(),
            duplicate_sack: self.flag(),
            challenge_acks: self.flag(),
            keep_unused_window: self.flag(),
            restart_after_idle: self.flag(),
            keep_alive: self.maybe(|_| KeepAlive::default()),
            silly_window_avoidance: self.flag(),
            limited_transmit: self.flag(),
            // So that a connection outlives the losses that are chosen for it.
            retries: 60,
            syn_retries: 60,
            seed: self.byte().into(),
            ..linux
        };
        Config {
            // No choices of their own, so that the corpus keeps its meaning.
            send_buffer_grows: config.send_buffer.get() / 4 % 2 == 1,
            merged_reports: config.seed.is_multiple_of(2),
            segmentation_offload: (config.seed / 2).is_multiple_of(2),
            ..config
        }
    }

    fn algorithm(&mut self) -> Algorithm {
        const ALL: [Algorithm; 9] = [
            Algorithm::NewReno,
            Algorithm::Cubic(SlowStart::Standard),
            Algorithm::Cubic(SlowStart::HyStart),
            Algorithm::Cubic(SlowStart::HyStartPlusPlus),
            Algorithm::HighSpeed,
            Algorithm::WestwoodPlus,
            Algorithm::Bbr,
            Algorithm::Bbr3,
            Algorithm::Fixed,
        ];
        self.one_of(&ALL).unwrap_or(Algorithm::NewReno)
    }
}

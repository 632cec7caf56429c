//! A cell's numbers by what it measures: times of transfers, or their rates.

use record::lab::{Arm, Cell, Measure};

use crate::quantity::{rate, seconds};

/// The numbers that pictures and tables show of a cell's arms.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured<'a> {
    cell: &'a Cell,
}

impl<'a> Measured<'a> {
    pub(crate) const fn of(cell: &'a Cell) -> Self {
        Self { cell }
    }

    pub(crate) const fn is_rate(self) -> bool {
        match self.cell.measure {
            Measure::Time => false,
            Measure::Rate => true,
        }
    }

    fn either<T>(self, time: T, rate: T) -> T {
        if self.is_rate() { rate } else { time }
    }

    /// One value per transfer.
    pub(crate) fn samples(self, arm: &Arm) -> &[f64] {
        self.either(&arm.samples_s, &arm.samples_bps)
    }

    pub(crate) fn median(self, arm: &Arm) -> Option<f64> {
        self.either(arm.median_s, arm.goodput_bps)
    }

    /// 95 % interval of the median.
    pub(crate) fn interval(self, arm: &Arm) -> Option<(f64, f64)> {
        self.either(arm.ci95_s, arm.goodput_ci95_bps)
    }

    /// The field report's figures.
    pub(crate) fn reported(self, arm: &Arm) -> &[f64] {
        self.either(&arm.reported_s, &arm.reported_bps)
    }

    /// What no design can beat: the least time, or the highest rate.
    pub(crate) fn bound(self) -> Option<f64> {
        let floor = Some(self.cell.floor_s).filter(|floor| *floor > 0.0);
        self.either(floor, self.cell.ceiling_bps)
    }

    /// What the bound is called.
    pub(crate) fn bound_name(self) -> &'static str {
        self.either("floor", "ceiling")
    }

    /// A value with its unit.
    pub(crate) fn shown(self, value: f64) -> String {
        self.either(seconds as fn(f64) -> String, rate)(value)
    }
}

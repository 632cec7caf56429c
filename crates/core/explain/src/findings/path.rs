//! Facts about a path that several connections share.

use connections::Side;
use limit::combine_trains;
use units::Rate;

use crate::analysis::Analysed;

/// The rate in one direction over all trains of all given connections.
pub(super) fn rate<'a>(
    connections: impl Iterator<Item = &'a Analysed>,
    side: Side,
) -> Option<Rate> {
    let trains: Vec<_> = connections
        .flat_map(|analysed| {
            analysed
                .direction(side)
                .attribution
                .path_rate
                .trains
                .iter()
                .copied()
        })
        .collect();
    combine_trains(&trains)
}

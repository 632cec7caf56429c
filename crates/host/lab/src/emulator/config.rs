//! How a [`link::PathSpec`] looks in JSON. The model itself knows no serialisation.

use std::time::Duration;

use link::{DirectionSpec, LossSpec, PathSpec};
use serde::{Deserialize, Serialize};
use units::{Bytes, LossRate, Rate};

#[derive(Deserialize, Serialize)]
#[serde(remote = "PathSpec", deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct PathSpecFields {
    #[serde(with = "DirectionSpecFields")]
    forward: DirectionSpec,
    #[serde(with = "DirectionSpecFields")]
    backward: DirectionSpec,
    seed: u64,
}

#[derive(Deserialize, Serialize)]
#[serde(
    remote = "DirectionSpec",
    deny_unknown_fields,
    rename_all = "kebab-case"
)]
struct DirectionSpecFields {
    rate: Option<Rate>,
    queue: Bytes,
    one_way_delay: Duration,
    #[serde(with = "LossSpecFields")]
    loss: LossSpec,
}

#[derive(Deserialize, Serialize)]
#[serde(remote = "LossSpec", rename_all = "kebab-case")]
enum LossSpecFields {
    None,
    Bernoulli(LossRate),
    Listed(Vec<u64>),
}

#[cfg(test)]
mod tests {
    use crate::emulator::Setup;

    use super::*;

    #[test]
    fn a_path_survives_its_journey_to_the_worker() {
        let loss = LossSpec::Bernoulli(LossRate::per_billion(5_000_000).unwrap());
        let rate = Some(Rate::mbit_per_s(100));
        let rtt = Duration::from_micros(200_400);
        let mut path = PathSpec::symmetric(rtt, rate, Bytes::kib(256), loss, u64::MAX);
        path.backward.loss = LossSpec::Listed(vec![0, 7]);
        path.backward.rate = None;
        let setup = Setup {
            path,
            near: 5,
            far: 6,
        };
        let text = serde_json::to_string(&setup).unwrap();
        let read: Setup = serde_json::from_str(&text).unwrap();
        assert_eq!(read.path, setup.path);
        assert_eq!((read.near, read.far), (5, 6));
    }
}

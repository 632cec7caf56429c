use super::*;
use crate::GilbertElliott;

fn share(billionths: u32) -> LossRate {
    LossRate::per_billion(billionths).unwrap()
}

fn lost(loss: &LossSpec, seed: u64, packets: u64) -> Vec<bool> {
    let mut path = spec(None, Bytes::ZERO, Duration::ZERO, loss.clone());
    path.seed = seed;
    let count = u32::try_from(packets).unwrap();
    let offers = [(Time::ZERO, Segments::uniform(count, 100, 100).unwrap())].into();
    let (arrivals, _) = run(&path, Duration::ZERO, &offers);
    let mut lost = std::vec![true; count as usize];
    for arrival in arrivals {
        lost[usize::try_from(arrival.index).unwrap()] = false;
    }
    lost
}

#[test]
fn gilbert_elliott_meets_its_mean_loss_and_its_mean_burst() {
    // 1 % in bursts of 5: 2,000 bursts in a million packets, so five standard deviations are 11 %.
    let model = GilbertElliott::from_means(share(10_000_000), 5).unwrap();
    let lost = lost(&LossSpec::GilbertElliott(model), 11, 1_000_000);
    let count = lost.iter().filter(|&&lost| lost).count();
    let bursts = lost.windows(2).filter(|pair| !pair[0] && pair[1]).count();
    assert!((8_500..=11_500).contains(&count), "{count}");
    let tenths = 10 * count / bursts;
    assert!((45..=55).contains(&tenths), "{tenths}");
}

#[test]
fn the_probabilities_of_both_states_count() {
    // Half of the packets are bad ones, of which 80 % are lost, and 20 % of the others: 50 % in all.
    let model = GilbertElliott {
        to_bad: share(100_000_000),
        to_good: share(100_000_000),
        loss_in_bad: share(800_000_000),
        loss_in_good: share(200_000_000),
    };
    let lost = lost(&LossSpec::GilbertElliott(model), 5, 200_000);
    let count = lost.iter().filter(|&&lost| lost).count();
    // Ten packets per state: the 10,000 pairs of states spread the share by 0.3 %, six times that here.
    assert!((96_000..=104_000).contains(&count), "{count}");
    // And neighbours are alike: 0.5 * (0.64 + 0.04) + 0.1 * (0.32 - 0.68) = 0.324 more often than by luck.
    let pairs = lost.windows(2).filter(|pair| pair[0] && pair[1]).count();
    assert!((60_000..=66_000).contains(&pairs), "{pairs}");
}

#[test]
fn a_chain_is_found_anywhere_without_walking_all_the_way() {
    let model = GilbertElliott::from_means(share(200_000_000), 8).unwrap();
    let loss = LossSpec::GilbertElliott(model);
    let walked = lost(&loss, 3, 140_000);
    for n in [0, 1, 77, 65_535, 65_536, 65_537, 131_071, 139_999] {
        let fate = loss.fate(3, Direction::Forward, n);
        assert_eq!(
            fate == Fate::Lost,
            walked[usize::try_from(n).unwrap()],
            "{n}"
        );
    }
}

#[test]
fn the_means_give_the_chain_and_impossible_ones_give_none() {
    let model = GilbertElliott::from_means(share(10_000_000), 4).unwrap();
    assert_eq!(model.to_good, share(250_000_000));
    // p = r loss / (1 - loss) = 0.25 / 99.
    assert_eq!(model.to_bad, share(2_525_252));
    assert_eq!(GilbertElliott::from_means(share(10_000_000), 0), None);
    assert_eq!(GilbertElliott::from_means(LossRate::ONE, 3), None);
    assert_eq!(GilbertElliott::from_means(share(900_000_000), 1), None);
}

#[test]
fn every_third_packet_is_the_third_the_sixth_and_so_on() {
    let lost = lost(&LossSpec::Every(3), 1, 9);
    assert_eq!(
        lost,
        [false, false, true, false, false, true, false, false, true]
    );
}

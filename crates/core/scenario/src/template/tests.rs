use super::*;
use crate::networks::{NETWORKS, network};

#[test]
fn every_network_with_every_kind_gives_a_sound_file() {
    for network in &NETWORKS {
        for kind in Kind::ALL {
            let template = Template {
                name: "new",
                network,
                workloads: &[kind],
            };
            let text = template.text();
            let variants = crate::read(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
            let [variant] = &variants[..] else {
                panic!("one variant: {text}");
            };
            let path = &variant.scenario.path;
            assert_eq!(path.rtt.get(), units::parse_span(network.rtt).unwrap());
            assert_eq!(variant.scenario.workloads[0].kind, kind);
        }
    }
}

#[test]
fn all_kinds_fit_into_one_file() {
    let template = Template {
        name: "new",
        network: network("transpacific").unwrap(),
        workloads: &Kind::ALL,
    };
    let text = template.text();
    let variants = crate::read(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(variants[0].scenario.workloads.len(), Kind::ALL.len());
}

#[test]
fn networks_have_names_of_their_own() {
    for known in &NETWORKS {
        assert_eq!(network(known.name), Some(known));
    }
    assert_eq!(network("atlantis"), None);
}

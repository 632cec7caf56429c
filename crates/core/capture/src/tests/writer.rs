use std::string::String;
use std::vec::Vec;

use proptest::collection::vec;
use proptest::prelude::*;
use units::Time;
use wire::LinkType;

use super::rows;
use crate::{Capture, Interface, Section, Writer};

fn section() -> Section {
    Section {
        hardware: "x86-64".into(),
        os: "Linux 6.1".into(),
        application: "longhaul".into(),
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(
        interfaces in vec((any::<u16>(), 0_u32..40, ".{0,9}"), 1..4),
        packets in vec((any::<prop::sample::Index>(), any::<u64>(), vec(any::<u8>(), 0..50)), 0..20),
        names in any::<bool>(),
    ) {
        let mut out = Vec::new();
        let section = if names { section() } else { Section::default() };
        let mut writer = Writer::new(&mut out, &section);
        let ids: Vec<_> = interfaces
            .iter()
            .map(|(link, snaplen, name)| {
                let interface = Interface {
                    name: String::clone(name),
                    link: LinkType(*link),
                    snaplen: *snaplen,
                };
                writer.interface(&mut out, &interface)
            })
            .collect();
        let mut expected = Vec::new();
        for (index, nanos, data) in &packets {
            let index = index.index(interfaces.len());
            let original_len = u32::try_from(data.len()).unwrap();
            writer.packet(&mut out, ids[index], Time::from_nanos(*nanos), data, original_len);
            let (link, snaplen, _) = &interfaces[index];
            let kept = match usize::try_from(*snaplen).unwrap() {
                0 => data.len(),
                snaplen => data.len().min(snaplen),
            };
            expected.push((
                *nanos,
                u32::try_from(index).unwrap(),
                LinkType(*link),
                &data[..kept],
                original_len,
            ));
        }
        prop_assert_eq!(rows(&out), (expected, None));
    }
}

#[test]
fn a_section_says_who_captured_and_an_interface_what_it_is() {
    let mut out = Vec::new();
    let mut writer = Writer::new(&mut out, &section());
    let interface = Interface {
        name: "eth0".into(),
        link: LinkType::ETHERNET,
        snaplen: 128,
    };
    writer.interface(&mut out, &interface);
    // Written down from draft-ietf-opsawg-pcapng §4.1 and §4.2.
    let mut expected = Vec::from(*b"\x0a\x0d\x0d\x0a\x48\0\0\0\x4d\x3c\x2b\x1a\x01\0\0\0");
    expected.extend([0xff; 8]);
    expected.extend(b"\x02\0\x06\0x86-64\0\0\x03\0\x09\0Linux 6.1\0\0\0\x04\0\x08\0longhaul");
    expected.extend(b"\0\0\0\0\x48\0\0\0");
    expected.extend(b"\x01\0\0\0\x28\0\0\0\x01\0\0\0\x80\0\0\0");
    expected.extend(b"\x02\0\x04\0eth0\x09\0\x01\0\x09\0\0\0\0\0\0\0\x28\0\0\0");
    assert_eq!(out, expected);
}

#[test]
fn drops_that_were_counted_while_capturing_are_told() {
    let mut out = Vec::new();
    let mut writer = Writer::new(&mut out, &section());
    let interface = Interface {
        name: String::new(),
        link: LinkType::RAW,
        snaplen: 0,
    };
    let id = writer.interface(&mut out, &interface);
    writer.statistics(&mut out, id, Time::ZERO, 10, 1);
    writer.statistics(&mut out, id, Time::ZERO, 20, 3);
    let mut capture = Capture::new();
    capture.feed(&out);
    assert_eq!(capture.next_observation(), Ok(None));
    assert_eq!(capture.summary().dropped, 3);
}

use proptest::prelude::*;

use super::*;

fn endpoints(source: &str, destination: &str) -> Endpoints {
    Endpoints {
        source: source.parse().unwrap(),
        destination: destination.parse().unwrap(),
    }
}

/// The fuzz body: any bytes are read without panic, and what is read does not depend on how much follows.
fn read_hostile(bytes: &[u8]) {
    let whole = parse(bytes);
    if let Ok(Some(header)) = whole {
        assert!(header.length <= bytes.len() && header.length <= LONGEST);
        assert_eq!(parse(&bytes[..header.length]), whole);
        for end in 0..header.length {
            assert_eq!(parse(&bytes[..end]), Ok(None), "cut at {end}");
        }
        if let Some(endpoints) = header.endpoints {
            for version in [Version::V1, Version::V2] {
                let written = write(version, endpoints);
                assert!(parse(&written).unwrap().unwrap().endpoints.is_some());
            }
        }
    }
}

const V2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

fn v2(rest: &[u8]) -> Vec<u8> {
    [V2, rest].concat()
}

#[test]
fn headers_of_both_versions_are_read_and_what_follows_is_left() {
    let four = Some(endpoints("192.0.2.1:4711", "198.51.100.7:443"));
    let six = Some(endpoints("[2001:db8::1]:4711", "[2001:db8::2]:443"));
    let tcp4 = b"\x21\x11\x00\x0c\xc0\x00\x02\x01\xc6\x33\x64\x07\x12\x67\x01\xbb";
    let with_tlv = b"\x21\x11\x00\x0f\xc0\x00\x02\x01\xc6\x33\x64\x07\x12\x67\x01\xbb\x04\x00\x00";
    for (bytes, expected) in [
        (
            b"PROXY TCP4 192.0.2.1 198.51.100.7 4711 443\r\n".to_vec(),
            four,
        ),
        (
            b"PROXY TCP6 2001:db8::1 2001:db8::2 4711 443\r\n".to_vec(),
            six,
        ),
        (b"PROXY UNKNOWN\r\n".to_vec(), None),
        (b"PROXY UNKNOWN ffff:: and more\r\n".to_vec(), None),
        (v2(tcp4), four),
        (v2(with_tlv), four),
        (v2(b"\x20\x00\x00\x00"), None),
        (v2(b"\x21\x00\x00\x00"), None),
        (v2(b"\x21\x31\x00\x02ab"), None),
    ] {
        let mut followed = bytes.clone();
        followed.extend(b"GET / HTTP/1.1\r\n");
        let header = parse(&followed).unwrap().unwrap();
        assert_eq!(header.endpoints, expected, "{bytes:?}");
        assert_eq!(header.length, bytes.len());
        read_hostile(&followed);
    }
}

#[test]
fn what_is_no_header_is_refused_with_its_reason() {
    let long = [b"PROXY UNKNOWN ".as_slice(), &[b'x'; 107]].concat();
    for (bytes, expected) in [
        (b"GET / HTTP/1.1\r\n".to_vec(), Malformed::Signature),
        (b"PROXYTCP4".to_vec(), Malformed::Signature),
        (b"PROXY\r\n".to_vec(), Malformed::Signature),
        (long, Malformed::TooLong),
        (
            b"PROXY UDP4 1.2.3.4 1.2.3.4 1 2\r\n".to_vec(),
            Malformed::Field("protocol"),
        ),
        (
            b"PROXY TCP4 ::1 ::1 1 2\r\n".to_vec(),
            Malformed::Field("source address"),
        ),
        (
            b"PROXY TCP4 1.2.3.4  1.2.3.4 1 2\r\n".to_vec(),
            Malformed::Field("destination address"),
        ),
        (
            b"PROXY TCP4 1.2.3.4 1.2.3.4 65536 2\r\n".to_vec(),
            Malformed::Field("source port"),
        ),
        (
            b"PROXY TCP4 1.2.3.4 1.2.3.4 +1 2\r\n".to_vec(),
            Malformed::Field("source port"),
        ),
        (
            b"PROXY TCP4 1.2.3.4 1.2.3.4 1 02\r\n".to_vec(),
            Malformed::Field("destination port"),
        ),
        (
            b"PROXY TCP4 1.2.3.4 1.2.3.4 1 2 3\r\n".to_vec(),
            Malformed::Field("end"),
        ),
        (
            b"PROXY TCP4 \xff 1.2.3.4 1 2\r\n".to_vec(),
            Malformed::Field("line"),
        ),
        (
            v2(b"\x11\x11\x00\x00"),
            Malformed::Field("version or command"),
        ),
        (
            v2(b"\x22\x11\x00\x00"),
            Malformed::Field("version or command"),
        ),
        (
            v2(b"\x21\x11\x00\x0b01234567890"),
            Malformed::Field("IPv4 addresses"),
        ),
        (
            v2(b"\x21\x21\x00\x0c012345678901"),
            Malformed::Field("IPv6 addresses"),
        ),
        (v2(b"\x21\x41\x00\x00"), Malformed::Field("address family")),
        (v2(b"\x21\x11\xff\xff"), Malformed::TooLong),
    ] {
        assert_eq!(parse(&bytes), Err(expected), "{bytes:?}");
    }
}

#[test]
fn a_mapped_address_is_written_as_the_ipv4_address_that_it_is() {
    let pair = endpoints("[::ffff:192.0.2.1]:1", "198.51.100.7:2");
    assert_eq!(
        write(Version::V1, pair),
        b"PROXY TCP4 192.0.2.1 198.51.100.7 1 2\r\n"
    );
    let mixed = endpoints("192.0.2.1:1", "[2001:db8::2]:2");
    assert_eq!(
        write(Version::V1, mixed),
        b"PROXY TCP6 ::ffff:192.0.2.1 2001:db8::2 1 2\r\n"
    );
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        read_hostile(&bytes);
    }

    #[test]
    fn bytes_behind_a_signature_are_read_without_panic(
        binary: bool,
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let start = if binary { V2 } else { b"PROXY TCP4 " };
        read_hostile(&[start, &bytes].concat());
    }

    #[test]
    fn what_is_written_reads_back(
        source: std::net::Ipv6Addr, destination: std::net::Ipv6Addr, ports: (u16, u16), binary: bool,
    ) {
        let pair = Endpoints {
            source: (source, ports.0).into(),
            destination: (destination, ports.1).into(),
        };
        let version = if binary { Version::V2 } else { Version::V1 };
        let written = write(version, pair);
        let header = parse(&written).unwrap().unwrap();
        prop_assert_eq!(header.length, written.len());
        let read = header.endpoints.unwrap();
        prop_assert_eq!(read.source.port(), ports.0);
        prop_assert_eq!(read.destination.port(), ports.1);
        prop_assert_eq!(read.source.ip().to_canonical(), pair.source.ip().to_canonical());
        prop_assert_eq!(read.destination.ip().to_canonical(), pair.destination.ip().to_canonical());
    }
}

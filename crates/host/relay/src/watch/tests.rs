use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use dash::Question;
use record::LimitName;
use record::page::Sort;

use super::*;

fn socket(listener: &TcpListener) -> (TcpStream, TcpStream, Ends) {
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (far, _) = listener.accept().unwrap();
    let ends = (near.local_addr().unwrap(), near.peer_addr().unwrap());
    (near, far, ends)
}

/// One that somebody can ask.
fn asked() -> Arc<Watch> {
    let watch = Watch::new(true);
    watch.keep(true);
    watch
}

fn all() -> Question {
    Question::default()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_kernel_is_asked_about_every_socket_that_was_entered() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (mut near, mut far, ends) = socket(&listener);
    let (_other, _other_far, _) = socket(&listener);
    let watch = asked();
    let entry = watch.pooled(ends.1, Some(ends));
    near.write_all(&[7; 10_000]).unwrap();
    far.read_exact(&mut [0; 10_000]).unwrap();
    let reader = Reader::start(&watch);
    let row = loop {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let mut shown = watch.connections(&all()).shown;
        assert_eq!(shown.len(), 1, "nobody else's");
        let row = shown.remove(0);
        if row.up.as_ref().is_some_and(|up| up.bytes >= 10_000) {
            break row;
        }
    };
    let up = row.up.unwrap();
    // The SYN counts as one.
    assert_eq!(up.bytes, 10_001);
    assert!(up.rtt_s.is_some_and(|rtt| rtt > 0.0));
    assert!(up.congestion_control.is_some());
    let socket = up.socket.unwrap();
    assert_eq!(socket.local, ends.0.to_string());
    assert_eq!(socket.state, record::top::State::Established);
    assert!(socket.read_s > 0.0);
    let overview = watch.overview();
    assert!(overview.interval_s.is_some_and(|interval| interval > 0.5));
    let bits: f64 = overview
        .traffic
        .iter()
        .map(|moment| moment.goodput_bps * moment.seconds)
        .sum();
    assert!((bits - 8.0 * 10_001.0).abs() < 1.0, "{bits}");

    drop(entry);
    let known = watch.connections(&all());
    assert_eq!((known.open, known.ended), (0, 1));
    let over = watch.connections(&Question {
        ended: true,
        ..all()
    });
    assert_eq!(over.shown[0].end.as_ref().unwrap().by, "completed");
    assert_eq!(watch.history(over.shown[0].id).unwrap().up.len(), 1);
    drop(reader);
}

#[test]
fn what_is_over_is_forgotten_in_time() {
    let watch = asked();
    let address: SocketAddr = "127.0.0.1:1".parse().unwrap();
    let ends = (address, "127.0.0.1:2".parse().unwrap());
    for _ in 0..3 * ENDED {
        drop(watch.client(address, Some(ends)));
    }
    let known = watch.connections(&all());
    assert_eq!((known.open, known.ended), (0, 200));
    assert!(watch.state().by_ends.is_empty());
    assert_eq!(watch.history(1), None);
    assert!(watch.history(600).is_some());
}

#[test]
fn connections_are_found_by_address_counted_and_shown_in_pages() {
    let watch = asked();
    let listener: SocketAddr = "10.0.0.1:80".parse().unwrap();
    let entries: Vec<_> = (1..=30)
        .map(|port| {
            let peer: SocketAddr = format!("192.0.2.7:{}", 4000 + port).parse().unwrap();
            watch.client(listener, Some((listener, peer)))
        })
        .collect();
    let found = watch.connections(&Question {
        find: Some("192.0.2.7:401".into()),
        ..all()
    });
    assert_eq!((found.open, found.matching), (30, 10));
    let page = watch.connections(&Question {
        sort: Sort::Age,
        from: 25,
        count: 10,
        ..all()
    });
    let ids: Vec<_> = page.shown.iter().map(|one| one.id).collect();
    assert_eq!(ids, [26, 27, 28, 29, 30]);
    let held = watch.connections(&Question {
        limit: Some(LimitName::Bottleneck),
        ..all()
    });
    assert_eq!(held.matching, 0);
    drop(entries);
}

#[test]
fn a_socket_that_takes_the_ends_of_another_keeps_them_when_that_one_goes() {
    let watch = asked();
    let listener: SocketAddr = "[::1]:80".parse().unwrap();
    let mapped: SocketAddr = "[::ffff:192.0.2.7]:4000".parse().unwrap();
    let first = watch.client(listener, Some((listener, mapped)));
    let second = watch.client(listener, Some((listener, mapped)));
    drop(first);
    let plain: SocketAddr = "192.0.2.7:4000".parse().unwrap();
    let known = watch.state().by_ends.clone();
    assert_eq!(
        known,
        BTreeMap::from([((listener, plain), (2, Side::Client))])
    );
    drop(second);
}

#[test]
fn what_nobody_can_ask_for_is_not_kept() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (_near, _far, ends) = socket(&listener);
    let watch = Watch::new(true);
    let unseen = watch.client(ends.1, Some(ends));
    assert_eq!(watch.connections(&all()).open, 0);
    watch.keep(true);
    unseen.joined(Side::Server, ends);
    let seen = watch.client(ends.1, Some(ends));
    assert_eq!(watch.connections(&all()).open, 1);
    drop(unseen);
    assert_eq!(watch.connections(&all()).open, 1);
    drop(seen);
    let known = watch.connections(&all());
    assert_eq!((known.open, known.ended), (0, 1));
}

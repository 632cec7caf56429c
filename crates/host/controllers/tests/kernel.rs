//! Controllers in the running kernel. Needs root: without it these tests fail, they are not skipped.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{PoisonError, RwLock};

use longhaul_controllers::{Controller, ControllerError, Name, Wanted, list, load, unload};
use profile::Side;
use socket2::SockRef;

/// Whoever lists the kernel's maps holds all of them meanwhile, those of other tests as well.
static MAPS: RwLock<()> = RwLock::new(());

/// A controller in the kernel, taken out at the end.
struct Loaded(Name);

impl Loaded {
    fn new(controller: Controller, name: &str, initial_ssthresh: Option<u32>) -> Self {
        let name: Name = name.parse().unwrap();
        let wanted = Wanted {
            controller,
            name: name.clone(),
            initial_ssthresh,
        };
        if let Err(error) = load(&wanted) {
            let log = if let ControllerError::Refused { log, .. } = &error {
                log
            } else {
                ""
            };
            panic!("{error}: {:?}\n{log}", std::error::Error::source(&error));
        }
        Self(name)
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        unload(&self.0).unwrap();
    }
}

fn is_registered(name: &str) -> bool {
    list().unwrap().iter().any(|one| one.name.as_str() == name)
}

fn available() -> String {
    std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap()
}

/// A connection over loopback whose sender has the controller, after `bytes` have passed.
fn carry(name: &str, bytes: usize) -> sys::tcp_info::TcpInfo {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    SockRef::from(&client)
        .set_tcp_congestion(name.as_bytes())
        .unwrap();
    let (mut server, _) = listener.accept().unwrap();
    let sent = std::thread::spawn(move || {
        let mut left = bytes;
        let piece = vec![7; 64 * 1024];
        while left > 0 {
            let count = left.min(piece.len());
            client.write_all(&piece[..count]).unwrap();
            left -= count;
        }
        let info = sys::tcp_info::TcpInfo::of(&client).unwrap();
        drop(client);
        info
    });
    let mut received = Vec::new();
    server.read_to_end(&mut received).unwrap();
    assert_eq!(received.len(), bytes);
    assert!(received.iter().all(|byte| *byte == 7));
    sent.join().unwrap()
}

#[test]
fn each_controller_carries_a_transfer_and_is_gone_afterwards() {
    let _shared = MAPS.read().unwrap_or_else(PoisonError::into_inner);
    for (controller, name) in [
        (Controller::HighSpeed, "lh_t_highspeed"),
        (Controller::WestwoodPlus, "lh_t_westwood"),
        (Controller::NewReno, "lh_t_newreno"),
    ] {
        let loaded = Loaded::new(controller, name, None);
        assert!(is_registered(name));
        assert!(available().split_whitespace().any(|one| one == name));
        let info = carry(name, 20_000_000);
        // It grows until something is lost, which a busy machine's loopback does now and then.
        let grew = info.snd_cwnd > 10 || info.total_retrans > 0;
        assert!(grew, "{controller}: {info:?}");
        drop(loaded);
        assert!(!is_registered(name));
        assert!(!available().split_whitespace().any(|one| one == name));
    }
}

#[test]
fn newreno_starts_with_the_threshold_that_was_asked_for() {
    let _shared = MAPS.read().unwrap_or_else(PoisonError::into_inner);
    let _loaded = Loaded::new(Controller::NewReno, "lh_t_reno_37", Some(37));
    let info = carry("lh_t_reno_37", 1000);
    assert_eq!(info.snd_ssthresh, Some(37));
    let _other = Loaded::new(Controller::NewReno, "lh_t_reno_99", Some(99));
    assert_eq!(carry("lh_t_reno_99", 1000).snd_ssthresh, Some(99));
}

#[test]
fn profiles_ask_for_thresholds_by_name_and_get_the_next_preference_where_there_is_none() {
    let _shared = MAPS.read().unwrap_or_else(PoisonError::into_inner);
    // Four digits: a name has room for no more after `lh_newreno_`.
    let segments = 1000 + std::process::id() % 9000;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let peer = listener.local_addr().unwrap();
    let effective = |wanted: &str| {
        let mut profile = profile::builtin::wan();
        profile.congestion_control = vec![wanted.into(), "reno".into()];
        let client = TcpStream::connect(peer).unwrap();
        let applied = sys::socket::apply(&client, &profile, Side::Server, peer).unwrap();
        let info = sys::tcp_info::TcpInfo::of(&client).unwrap();
        (applied[0].effective.clone(), info.snd_ssthresh)
    };
    let name = Controller::NewReno.default_name(Some(segments));
    let _loaded = Loaded::new(Controller::NewReno, name.as_str(), Some(segments));
    let asked = format!("newreno_{segments}");
    assert_eq!(effective(&asked), (name.to_string(), Some(segments)));
    assert_eq!(effective("newreno_none").0, "reno");
}

#[test]
fn a_hundred_loads_and_unloads_leave_nothing_behind() {
    let _alone = MAPS.write().unwrap_or_else(PoisonError::into_inner);
    for _ in 0..100 {
        drop(Loaded::new(Controller::WestwoodPlus, "lh_t_hundred", None));
    }
    assert!(!is_registered("lh_t_hundred"));
    let maps = sys::bpf::maps().unwrap();
    let left = maps.iter().filter(|(_, info)| info.name == "lh_t_hundred");
    assert_eq!(left.count(), 0);
}

#[test]
fn a_name_is_given_once_and_only_what_is_there_is_taken_out() {
    let _shared = MAPS.read().unwrap_or_else(PoisonError::into_inner);
    let loaded = Loaded::new(Controller::NewReno, "lh_t_once", None);
    let again = load(&Wanted {
        controller: Controller::NewReno,
        name: loaded.0.clone(),
        initial_ssthresh: None,
    });
    assert!(
        matches!(again, Err(ControllerError::Exists(_))),
        "{again:?}"
    );
    let absent = unload(&"lh_t_never".parse().unwrap());
    assert!(matches!(absent, Err(ControllerError::Absent(_))));
}

#[test]
fn a_connection_keeps_its_controller_when_that_is_taken_out() {
    let _shared = MAPS.read().unwrap_or_else(PoisonError::into_inner);
    let loaded = Loaded::new(Controller::HighSpeed, "lh_t_keeps", None);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    SockRef::from(&client)
        .set_tcp_congestion(b"lh_t_keeps")
        .unwrap();
    let (mut server, _) = listener.accept().unwrap();
    drop(loaded);
    client.write_all(b"still here").unwrap();
    server.read_exact(&mut [0; 10]).unwrap();
    let fresh = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let refused = SockRef::from(&fresh).set_tcp_congestion(b"lh_t_keeps");
    assert!(refused.is_err());
}

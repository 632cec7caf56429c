//! Two near relays behind a TCP balancer, which is `longhaul relay tcp`: what keepalived does by moving an address.

#![allow(missing_docs, reason = "a test has its name")]
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod common;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use common::longhaul;
use common::trunk::{End, echo, free_port, ping};

fn near(via: SocketAddr, target: SocketAddr) -> (End, SocketAddr) {
    let mut end = End::start(
        longhaul()
            .args(["trunk", "near", "127.0.0.1:0", "--plain"])
            .args(["--via", &via.to_string(), "--to", &target.to_string()]),
    );
    let address = end.address("trunk-listening");
    end.event("wan-connected");
    (end, address)
}

#[test]
fn a_near_relay_that_is_killed_behind_a_balancer_takes_its_own_streams_along_and_no_others() {
    let (target, via) = (echo(), free_port());
    let mut far = End::start(
        longhaul()
            .args(["trunk", "far", &via.to_string(), "--plain"])
            .args(["--allow-target", &target.to_string()]),
    );
    far.address("far-listening");
    let (mut one, first) = near(via, target);
    let (_other, second) = near(via, target);
    let mut balancer = End::start(
        longhaul()
            .args(["relay", "tcp", "127.0.0.1:0", &first.to_string()])
            .args(["--also", &second.to_string()])
            .args(["--balance", "round-robin"]),
    );
    let entrance = balancer.address("listening");
    let client = || {
        let mut client = TcpStream::connect(entrance).unwrap();
        ping(&mut client);
        client
    };
    let clients = [client(), client(), client(), client()];

    one.kill();
    // New clients are served by the other one, those who are sent to the dead one first as well.
    drop([client(), client(), client(), client()]);
    let mut lost = 0;
    for mut client in clients {
        // Streams of the dead one have ended, or end now; the others have lost nothing.
        let mut answer = [0; 4];
        let answered = client
            .write_all(b"ping")
            .and_then(|()| client.read_exact(&mut answer));
        if answered.is_ok() {
            assert_eq!(&answer, b"ping");
        } else {
            lost += 1;
        }
    }
    assert_eq!(lost, 2, "each near relay had two of the four");
}

//! Extensions of TCP that the kernel as a whole allows or not: data with the SYN, marks of congestion.

use std::io;

use profile::{Side, TcpProfile};

use super::bounds::{int, set_int};
use super::{ApplyError, Options, Way};
use crate::tcp_info::TcpInfo;

/// Connections that may wait with the data of their SYN, before they are accepted; more get no shortcut.
const PENDING: i32 = 256;
/// Bits of `net.ipv4.tcp_fastopen`, from `include/net/tcp.h`.
const CONNECTING: u32 = 1;
const LISTENING: u32 = 2;
/// Values of `net.ipv4.tcp_ecn` with which connections that are made here ask for marks (1: as RFC 3168 has it;
/// 3 and 4 of newer kernels: more accurately, or only where they are accepted).
const ASKING: [u32; 3] = [1, 3, 4];

impl Options<'_> {
    pub(super) fn extensions(&mut self, profile: &TcpProfile) -> Result<(), ApplyError> {
        if profile.fast_open {
            self.fast_open()?;
        }
        if profile.ecn {
            self.ecn()?;
        }
        Ok(())
    }

    /// Data with the SYN (RFC 7413).
    fn fast_open(&mut self) -> Result<(), ApplyError> {
        let (option, name, value, bit) = match self.side {
            Side::Client => ("TCP_FASTOPEN", libc::TCP_FASTOPEN, PENDING, LISTENING),
            Side::Server => (
                "TCP_FASTOPEN_CONNECT",
                libc::TCP_FASTOPEN_CONNECT,
                1,
                CONNECTING,
            ),
        };
        // The queue is the listener's: an accepted socket has none to be read back.
        if self.way == Way::Read && self.side == Side::Client {
            return Ok(());
        }
        // The kernel takes the listener's option also where it will never be put into effect.
        let allowed = self.sysctl(option, "tcp_fastopen")?;
        if allowed & bit == 0 {
            let needed = allowed | bit;
            return Err(self.disallowed(option, "net.ipv4.tcp_fastopen", allowed, needed));
        }
        self.exact(
            option,
            &value,
            |socket, value| set_int(socket, libc::IPPROTO_TCP, name, *value),
            |socket| int(socket, libc::IPPROTO_TCP, name),
        )
    }

    /// Marks of congestion (RFC 3168). Once connected, whether the peer has agreed is told as well.
    fn ecn(&mut self) -> Result<(), ApplyError> {
        const OPTION: &str = "ECN";
        let value = self.sysctl(OPTION, "tcp_ecn")?;
        let suffices = match self.side {
            Side::Client => value != 0,
            Side::Server => ASKING.contains(&value),
        };
        if !suffices {
            return Err(self.disallowed(OPTION, "net.ipv4.tcp_ecn", value, 1));
        }
        let mut effective = format!("net.ipv4.tcp_ecn is {value}");
        if self.way == Way::Read {
            let agreed = TcpInfo::of(&*self.socket).is_ok_and(|info| info.ecn);
            effective.push_str(if agreed {
                ", agreed on"
            } else {
                ", not agreed on with this peer"
            });
        }
        self.record(OPTION, "on".into(), effective);
        Ok(())
    }

    /// A setting of the network namespace that this process is in.
    fn sysctl(&self, option: &'static str, name: &str) -> Result<u32, ApplyError> {
        let text = std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}"))
            .map_err(|source| self.unreadable(option, source))?;
        let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        text.trim()
            .parse()
            .map_err(|error| self.unreadable(option, invalid(error)))
    }

    fn disallowed(
        &self,
        option: &'static str,
        sysctl: &'static str,
        effective: u32,
        needed: u32,
    ) -> ApplyError {
        ApplyError::Disallowed {
            option,
            side: self.side,
            peer: self.peer,
            sysctl,
            effective,
            needed,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;
    use crate::socket::{apply, verify};

    fn with(change: impl FnOnce(&mut TcpProfile)) -> TcpProfile {
        let mut profile = profile::builtin::lan();
        change(&mut profile);
        profile
    }

    fn sysctl(name: &str) -> u32 {
        let text = std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).unwrap();
        text.trim().parse().unwrap()
    }

    #[test]
    fn data_with_the_syn_is_asked_for_where_the_kernel_allows_it_and_an_error_names_its_setting() {
        let allowed = sysctl("tcp_fastopen");
        let profile = with(|profile| profile.fast_open = true);
        for (side, bit, option) in [
            (Side::Client, LISTENING, "TCP_FASTOPEN"),
            (Side::Server, CONNECTING, "TCP_FASTOPEN_CONNECT"),
        ] {
            let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
            let peer = "127.0.0.1:1".parse().unwrap();
            match apply(&socket.unwrap(), &profile, side, peer) {
                Ok(applied) => {
                    assert!(allowed & bit != 0);
                    assert!(applied.iter().any(|applied| applied.option == option));
                }
                Err(error) => {
                    assert_eq!(allowed & bit, 0, "{error}");
                    let needed = format!("sysctl -w net.ipv4.tcp_fastopen={}", allowed | bit);
                    assert!(error.to_string().contains(&needed), "{error}");
                }
            }
        }
    }

    #[test]
    fn marks_of_congestion_are_required_of_the_kernel_and_told_as_agreed_on_or_not() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = listener.local_addr().unwrap();
        let mut client = TcpStream::connect(peer).unwrap();
        let (mut accepted, _) = listener.accept().unwrap();
        client.write_all(b"x").unwrap();
        accepted.read_exact(&mut [0]).unwrap();
        let profile = with(|profile| profile.ecn = true);
        apply(&accepted, &profile, Side::Client, peer).unwrap();
        let told = verify(&accepted, &profile, Side::Client, peer).unwrap();
        let ecn = told.iter().find(|applied| applied.option == "ECN").unwrap();
        let agreed = ASKING.contains(&sysctl("tcp_ecn"));
        assert_eq!(!ecn.effective.contains("not agreed on"), agreed, "{ecn:?}");
        let connecting = apply(&client, &profile, Side::Server, peer);
        assert_eq!(connecting.is_ok(), agreed);
        if let Err(error) = connecting {
            assert!(error.to_string().contains("net.ipv4.tcp_ecn=1"), "{error}");
        }
    }
}

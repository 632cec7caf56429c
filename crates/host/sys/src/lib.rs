//! The only floor with system calls. Everything above asks this crate; everything unsafe is in it, each
//! block with the invariant that makes it sound.

#![allow(
    unsafe_code,
    reason = "this crate wraps the system calls that no safe library offers"
)]

pub mod allocation;
pub mod bpf;
pub mod copying;
pub mod datagram;
pub mod ethtool;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
pub mod isolation;
pub mod lines;
pub mod namespace;
pub mod packet_socket;
pub mod passing;
pub mod pipe;
pub mod privilege;
pub mod process;
pub mod readiness;
pub mod realtime;
pub mod redirect;
pub mod residence;
pub mod sock_diag;
pub mod socket;
pub mod supervision;
pub mod tcp_info;
pub mod tun;
pub mod visit;

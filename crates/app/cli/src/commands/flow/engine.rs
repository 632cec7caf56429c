//! Whose TCP speaks: the kernel's, or ours on a device that lives as long as the command.

use std::error::Error as _;
use std::io;
use std::net::{IpAddr, SocketAddr};

use congestion::Choice;
use flow::engine::{Engine, SocketOptions};
use flow::kernel::Kernel;
use sys::namespace::NetworkNamespace;
use sys::tun::{Tun, TunError};
use tcp::{AckPolicy, Config, Pacing, ReceiveBuffer};
use units::Bytes;

use super::arguments::{Socket, Stack, StackName, Threshold};
use crate::failure::{Blame as _, Failure, Kind};

/// Our own TCP's device where no name is given.
const DEVICE: &str = "longhaul0";

/// An engine with the options that its sockets shall be made with, and its name in the record.
pub(super) fn of(
    stack: &Stack,
    socket: &Socket,
    bind: Option<SocketAddr>,
) -> Result<(Box<dyn Engine>, SocketOptions, &'static str), Failure> {
    match stack.whose {
        StackName::Kernel => {
            if let Some(option) = stack.beyond_the_kernel() {
                let error = anyhow::anyhow!("`{option}` has a meaning for our own TCP only");
                return Err(Failure::new(Kind::Usage, error).hint(
                    "add `--stack longhaul --address IP --gateway IP/PREFIX`, or leave it out",
                ));
            }
            let options = SocketOptions {
                bind,
                congestion_control: socket.congestion_control.clone(),
                pace: socket.pace,
                send_buffer: socket.send_buffer,
                receive_buffer: socket.receive_buffer,
            };
            Ok((Box::new(Kernel), options, "kernel"))
        }
        StackName::Longhaul => {
            let options = SocketOptions {
                bind,
                ..SocketOptions::default()
            };
            Ok((Box::new(ours(stack, socket)?), options, "longhaul"))
        }
    }
}

/// Whether the host on the device finds our address behind it.
fn sound(address: IpAddr, gateway: &str) -> Result<(), Failure> {
    let wrong = |why: String| Err(Failure::new(Kind::Usage, anyhow::anyhow!(why)));
    let read = gateway.split_once('/').and_then(|(ip, length)| {
        let ip: IpAddr = ip.parse().ok()?;
        let length: u32 = length.parse().ok()?;
        let longest = if ip.is_ipv4() { 32 } else { 128 };
        (length <= longest).then_some((ip, length))
    });
    let Some((host, length)) = read else {
        return wrong(format!(
            "`--gateway {gateway}` is not an address with its prefix, such as `10.77.0.1/24`"
        ));
    };
    if host == address {
        return wrong(format!(
            "`--address` and `--gateway` are both {address}; our own TCP is another host than this one"
        ));
    }
    let differ = match (host, address) {
        (IpAddr::V4(host), IpAddr::V4(address)) => {
            u128::from(host.to_bits() ^ address.to_bits()) << 96
        }
        (IpAddr::V6(host), IpAddr::V6(address)) => host.to_bits() ^ address.to_bits(),
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => {
            return wrong(format!(
                "`--address {address}` and `--gateway {gateway}` are not both IPv4 or both IPv6"
            ));
        }
    };
    if differ.leading_zeros() < length {
        return wrong(format!(
            "`--address {address}` is outside of `--gateway {gateway}`: this host would not find it behind the device"
        ));
    }
    Ok(())
}

fn ours(stack: &Stack, socket: &Socket) -> Result<flow::stack::Stack, Failure> {
    let config = config(stack, socket)?;
    let (Some(address), Some(gateway)) = (stack.address, &stack.gateway) else {
        return Err(Failure::new(
            Kind::Usage,
            anyhow::anyhow!("our own TCP needs --address and --gateway"),
        ));
    };
    sound(address, gateway)?;
    let here = NetworkNamespace::current("here").environment("cannot see our own namespace")?;
    let device = stack.device.as_deref().unwrap_or(DEVICE);
    let tun = match Tun::create_in(&here, device) {
        Err(error @ TunError::Configure { .. }) if is_busy(&error) => {
            let failure = Failure::new(Kind::Environment, error);
            return Err(
                failure.hint("somebody has this device already; `--device NAME` takes another")
            );
        }
        tun => tun.environment("our own TCP has no device")?,
    };
    here.ip(&format!(
        "addr add {gateway} dev {device}\nlink set dev {device} up"
    ))
    .environment("our own TCP's device cannot be set up")?;
    flow::stack::Stack::start(Box::new(tun), address, config)
        .environment("our own TCP cannot start")
}

fn config(stack: &Stack, socket: &Socket) -> Result<Config, Failure> {
    let linux = Config::linux();
    let receive = stack.receive_window.or(socket.receive_buffer);
    let choice = choice(socket.congestion_control.as_deref().unwrap_or("cubic"))?;
    let mut config = Config {
        mss: stack.mss.unwrap_or(linux.mss),
        window_scaling: !stack.no_window_scaling,
        timestamps: !stack.no_timestamps,
        sack: !stack.no_sack,
        receive_buffer: receive.map_or(linux.receive_buffer, ReceiveBuffer::Fixed),
        send_buffer: socket.send_buffer.unwrap_or(linux.send_buffer),
        initial_cwnd: stack.initial_cwnd.unwrap_or(linux.initial_cwnd),
        initial_ssthresh: match stack.initial_ssthresh {
            None | Some(Threshold::Infinite) => None,
            Some(Threshold::Bytes(bytes)) => Some(Bytes::new(bytes)),
        },
        algorithm: choice.algorithm,
        tuning: choice.tuning,
        pacing: socket.pace.map_or(linux.pacing, Pacing::AtMost),
        ack_policy: stack
            .delayed_ack
            .map_or(linux.ack_policy, |delay| AckPolicy::Every2 {
                delay: delay.get(),
            }),
        ..linux
    };
    for setting in &stack.set {
        setting.apply(&mut config);
    }
    Ok(config)
}

fn is_busy(error: &TunError) -> bool {
    let source = error
        .source()
        .and_then(|source| source.downcast_ref::<io::Error>());
    source.is_some_and(|source| source.kind() == io::ErrorKind::ResourceBusy)
}

/// The algorithm of our own TCP that is meant; `newreno` and `westwood+` are what people call the
/// kernel's `reno` and `westwood`.
fn choice(text: &str) -> Result<Choice, Failure> {
    let (name, parameters) = text.split_at(text.find('(').unwrap_or(text.len()));
    let name = match name.trim() {
        "newreno" => "reno",
        "westwood+" => "westwood",
        name => name,
    };
    format!("{name}{parameters}")
        .parse()
        .usage("our own TCP can't use this congestion control")
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use tcp::{Ecn, LossDetection};

    use super::*;

    #[derive(Debug, Parser)]
    struct Given {
        #[command(flatten)]
        stack: Stack,
        #[command(flatten)]
        socket: Socket,
    }

    /// The endpoint that `options` make.
    fn made(options: &[&str]) -> Config {
        let ours = [
            "flow",
            "--stack=longhaul",
            "--address=10.77.0.2",
            "--gateway=10.77.0.1/24",
        ];
        let given = Given::parse_from(ours.iter().chain(options));
        config(&given.stack, &given.socket)
            .map_err(|failure| failure.error)
            .unwrap()
    }

    #[test]
    fn without_an_option_our_tcp_is_a_linux_host() {
        assert_eq!(made(&[]), Config::linux());
    }

    #[test]
    fn every_knob_of_a_packet_script_is_one_of_the_command_line() {
        let made = made(&[
            "--no-sack",
            "--set=loss-detection=duplicate-acks",
            "--set=ecn=request",
            "--set=merged-reports=off",
            "--set=acks=every-second 300ms",
            "--set=min-rto=1s",
        ]);
        let wanted = Config {
            sack: false,
            loss_detection: LossDetection::DuplicateAcks,
            ecn: Ecn::Request,
            merged_reports: false,
            ack_policy: AckPolicy::Every2 {
                delay: std::time::Duration::from_millis(300),
            },
            min_rto: std::time::Duration::from_secs(1),
            ..Config::linux()
        };
        assert_eq!(made, wanted);
    }
}

//! Whose TCP speaks: the kernel's, or ours on a device that lives as long as the command.

use std::net::SocketAddr;

use congestion::Choice;
use flow::engine::{Engine, SocketOptions};
use flow::kernel::Kernel;
use sys::namespace::NetworkNamespace;
use sys::tun::Tun;
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

fn ours(stack: &Stack, socket: &Socket) -> Result<flow::stack::Stack, Failure> {
    let config = config(stack, socket)?;
    let (Some(address), Some(gateway)) = (stack.address, &stack.gateway) else {
        return Err(Failure::new(
            Kind::Usage,
            anyhow::anyhow!("our own TCP needs --address and --gateway"),
        ));
    };
    let here = NetworkNamespace::current("here").environment("cannot see our own namespace")?;
    let device = stack.device.as_deref().unwrap_or(DEVICE);
    let tun = Tun::create_in(&here, device).environment("our own TCP has no device")?;
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
    Ok(Config {
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
    })
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

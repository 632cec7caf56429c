//! Asking a running end over its `--status` address.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

use crate::failure::{Blame as _, Failure};

/// Longer than the relay gives a probe of one trunk with a few targets.
const PATIENCE: Duration = Duration::from_mins(2);

/// More than two days of a hundred trunks.
const LONGEST: u64 = 256 << 20;

/// What the end says at `path`.
pub(super) fn ask(address: SocketAddr, path: &str) -> Result<Value, Failure> {
    let answer = get(address, path)
        .environment(format!("cannot ask the trunk whose status is at {address}"))
        .map_err(|failure| {
            failure.hint("it has to run with `--status`, such as `--status 127.0.0.1:7070`")
        })?;
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    serde_json::from_str(body).environment(format!("what answers at {address} is no trunk"))
}

fn get(address: SocketAddr, path: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let head = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes())?;
    let mut answer = String::new();
    stream.take(LONGEST).read_to_string(&mut answer)?;
    Ok(answer)
}

/// Text of the other end or of its clients, with nothing in it that a terminal obeys.
pub(super) fn plain(value: &Value) -> String {
    value
        .as_str()
        .unwrap_or_default()
        .escape_debug()
        .to_string()
}

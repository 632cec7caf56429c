//! What running relays say of themselves: `/v1/relays` and `/v1/connections` of their administrator's interface.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use record::top::Relay;
use serde::de::DeserializeOwned;

/// A relay did not answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RelayError {
    /// Nobody answers there.
    #[error("cannot ask the relay's administrator interface at {admin}")]
    Exchange {
        /// Where.
        admin: SocketAddr,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// Somebody else answers there.
    #[error("what answers at {admin} is no administrator interface of a relay: {said}")]
    Answer {
        /// Where.
        admin: SocketAddr,
        /// What was wrong.
        said: String,
    },
}

/// A relay of this host answers at once, or is in trouble.
const PATIENCE: Duration = Duration::from_millis(500);
/// More than thousands of listeners say, or a page of connections.
const LONGEST: u64 = 4 << 20;

/// The listeners of the relay whose `[admin] listen` is `admin`.
pub fn relays(admin: SocketAddr) -> Result<Vec<Relay>, RelayError> {
    let mut relays: Vec<Relay> = ask(admin, "/v1/relays")?;
    for relay in &mut relays {
        relay.admin = admin.to_string();
    }
    Ok(relays)
}

/// The JSON document at `path`.
pub(crate) fn ask<T: DeserializeOwned>(admin: SocketAddr, path: &str) -> Result<T, RelayError> {
    let answer = exchange(admin, path).map_err(|source| RelayError::Exchange { admin, source })?;
    read(&answer).map_err(|said| RelayError::Answer { admin, said })
}

fn exchange(admin: SocketAddr, path: &str) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&admin, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {admin}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(LONGEST).read_to_end(&mut answer)?;
    Ok(answer)
}

fn read<T: DeserializeOwned>(answer: &[u8]) -> Result<T, String> {
    let text = std::str::from_utf8(answer).map_err(|_| "its answer is no text".to_owned())?;
    let (head, body) = text
        .split_once("\r\n\r\n")
        .ok_or_else(|| "its answer has no head".to_owned())?;
    let status = head.lines().next().unwrap_or_default();
    if status.split(' ').nth(1) != Some("200") {
        return Err(format!("`{status}`"));
    }
    serde_json::from_str(body).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_and_fields_of_later_versions_are_left_out() {
        let answer = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n[{\"listen\": \"127.0.0.1:80\", \
            \"clients\": 2, \"accepted\": 5, \"refused\": 0, \"bytes_up\": 9, \"bytes_down\": 8, \"requests\": 0, \
            \"requests_hot\": 0, \"targets\": {}, \"moon\": \"full\"}]";
        let relays: Vec<Relay> = read(answer.as_bytes()).unwrap();
        assert_eq!((relays[0].clients, relays[0].accepted), (2, 5));
    }

    #[test]
    fn whoever_else_answers_is_refused_with_a_reason() {
        for (answer, says) in [
            ("HTTP/1.1 404 Not Found\r\n\r\n", "404"),
            ("SSH-2.0-OpenSSH_9.2\r\n", "no head"),
            ("HTTP/1.1 200 OK\r\n\r\n<html>", "expected"),
            ("", "no head"),
        ] {
            let error = read::<Vec<Relay>>(answer.as_bytes()).unwrap_err();
            assert!(error.contains(says), "{answer}: {error}");
        }
        assert!(read::<Vec<Relay>>(&[0xff, 0xfe]).is_err());
    }
}

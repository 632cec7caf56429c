//! Bodies of fuzz targets: plain functions, so that `cargo test` runs them too.

use crate::http::Malformed;
use crate::http::body::Body;
use crate::http::head::HeadScanner;
use crate::http::request::RequestHead;
use crate::http::response::ResponseHead;
use crate::proxy_protocol::{self, LONGEST};
use crate::trunk::TrunkConfig;
use crate::{Config, ConfigOptions, ProxyVersion};

/// Where a message ends, as far as it has come.
#[derive(Debug, Eq, PartialEq)]
struct Extent {
    head: usize,
    /// Of the body.
    taken: usize,
    done: bool,
}

/// Reads a request and a response of any bytes; the first says how they are cut.
///
/// However they arrive, a message ends in the same place or is refused. What is passed on of its head
/// ends there as well: whoever reads it behind the relay sees the same message.
pub fn fuzz_http(bytes: &[u8]) {
    let Some((&cut, message)) = bytes.split_first() else {
        return;
    };
    for read in [request, response] {
        let whole = extent(message, message.len().max(1), read);
        let cut = extent(message, usize::from(cut).max(1), read);
        // A message that is refused may have been begun.
        match (&whole, &cut) {
            (Ok(whole), Ok(cut)) => assert_eq!(whole, cut),
            (Err(_), Err(_)) => {}
            _ => panic!("{whole:?} in one piece, {cut:?} in several"),
        }
    }
}

/// The body of a request with this head.
fn request(head: &[u8]) -> Result<Body, Malformed> {
    let request = RequestHead::parse(head)?;
    let forwarded = request.forwarded(head);
    let again = RequestHead::parse(&forwarded);
    assert!(
        matches!(&again, Ok(again) if again.method == request.method
            && again.target == request.target
            && again.body() == request.body()
            && again.fields.hosts == request.fields.hosts),
        "{request:?} is passed on as {again:?}"
    );
    assert_eq!(scan_whole(&forwarded), Ok(Some(forwarded.len())));
    assert!(!request.path().contains('?'), "a signature in an event");
    Ok(request.body())
}

/// The body of the response with this head to a `GET`.
fn response(head: &[u8]) -> Result<Body, Malformed> {
    let response = ResponseHead::parse(head)?;
    for closing in [false, true] {
        if let Some(forwarded) = response.forwarded(head, closing) {
            let again = ResponseHead::parse(&forwarded);
            assert!(
                matches!(&again, Ok(again) if again.status == response.status
                    && again.body("GET") == response.body("GET")),
                "{response:?} is passed on as {again:?}"
            );
            assert_eq!(scan_whole(&forwarded), Ok(Some(forwarded.len())));
        }
    }
    Ok(response.body("GET"))
}

fn scan_whole(head: &[u8]) -> Result<Option<usize>, Malformed> {
    HeadScanner::default().scan(head)
}

/// Where the message ends whose bytes come in pieces of `cut`; `None` where its head does not end.
fn extent(
    message: &[u8],
    cut: usize,
    read: fn(&[u8]) -> Result<Body, Malformed>,
) -> Result<Option<Extent>, Malformed> {
    let mut scanner = HeadScanner::default();
    let mut arrived = 0;
    let head = loop {
        let more = (arrived + cut).min(message.len());
        let (so_far, _) = message.split_at(more);
        if let Some(head) = scanner.scan(so_far)? {
            break head;
        }
        if more == message.len() {
            return Ok(None);
        }
        arrived = more;
    };
    let (head, rest) = message.split_at(head);
    let mut body = read(head)?;
    let mut taken = 0;
    for piece in rest.chunks(cut) {
        let count = body.accept(piece)?;
        assert!(count <= piece.len());
        taken += count;
        if count < piece.len() {
            assert!(body.is_done(), "a body that leaves bytes has ended");
            break;
        }
    }
    Ok(Some(Extent {
        head: head.len(),
        taken,
        done: body.is_done(),
    }))
}

/// Reads any bytes as a PROXY header. What is read does not depend on what follows it, and can be written again.
pub fn fuzz_proxy_header(bytes: &[u8]) {
    match proxy_protocol::parse(bytes) {
        Ok(Some(header)) => {
            assert!(header.length <= bytes.len() && header.length <= LONGEST);
            let (own, _) = bytes.split_at(header.length);
            assert_eq!(proxy_protocol::parse(own), Ok(Some(header)));
            for end in 0..header.length {
                let (part, _) = own.split_at(end);
                assert_eq!(proxy_protocol::parse(part), Ok(None), "cut at {end}");
            }
            if let Some(endpoints) = header.endpoints {
                for version in [ProxyVersion::V1, ProxyVersion::V2] {
                    let written = proxy_protocol::write(version, endpoints);
                    let again = proxy_protocol::parse(&written);
                    assert!(
                        matches!(&again, Ok(Some(again)) if again.length == written.len()
                            && again.endpoints.is_some()),
                        "{endpoints:?} is written as {again:?}"
                    );
                }
            }
        }
        Ok(None) => assert!(bytes.len() < LONGEST, "a header without an end"),
        Err(_) => {}
    }
}

/// Reads any text as a relay's file and as a trunk's. What is refused says why; what is read can be written, and reads
/// the same.
pub fn fuzz_config(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else {
        return;
    };
    if let Ok(options) = ConfigOptions::from_toml(text) {
        let written = options
            .to_toml()
            .map(|text| ConfigOptions::from_toml(&text));
        assert!(
            matches!(&written, Ok(Ok(again)) if *again == options),
            "{options:?} is written as {written:?}"
        );
    }
    for refused in [
        Config::from_toml(text).err(),
        TrunkConfig::from_toml(text).err(),
    ]
    .into_iter()
    .flatten()
    {
        assert!(!refused.problems().is_empty(), "refused without a reason");
        for problem in refused.problems() {
            assert!(!problem.what.is_empty(), "{refused:?}");
            let line = problem
                .position
                .as_ref()
                .map(|at| (at.line, at.text.as_str()));
            let told = line.is_some_and(|(line, shown)| {
                let written = text.lines().nth(line - 1).unwrap_or_default();
                written.trim_end_matches('\r') == shown
            });
            assert!(told, "{problem:?} is not where it says");
        }
        assert!(!refused.to_string().is_empty() && !refused.in_one_line().is_empty());
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Every file of a corpus, and what becomes of it with a byte more, fewer or other.
    fn replay(corpus: &str, body: fn(&[u8])) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("corpus")
            .join(corpus);
        let mut files = 0;
        for entry in std::fs::read_dir(&folder).unwrap() {
            let bytes = std::fs::read(entry.unwrap().path()).unwrap();
            body(&bytes);
            for place in 0..bytes.len() {
                body(&bytes[..place]);
                let mut changed = bytes.clone();
                for value in [0, b'\n', b' ', b'0', b'"', 0xff] {
                    changed[place] = value;
                    body(&changed);
                }
                changed.remove(place);
                body(&changed);
            }
            files += 1;
        }
        assert!(files >= 3, "the corpus lies in {}", folder.display());
    }

    #[test]
    fn no_message_is_read_in_two_ways() {
        replay("http", fuzz_http);
    }

    #[test]
    fn no_proxy_header_is_read_in_two_ways() {
        replay("proxy-header", fuzz_proxy_header);
    }

    #[test]
    fn no_configuration_is_refused_without_a_reason() {
        replay("config", fuzz_config);
    }
}

//! Answers on their way to a client.

use bytes::Bytes;
use http::header::{
    CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, DATE, HeaderName, HeaderValue, TRANSFER_ENCODING,
};
use http::response::Parts;
use http::{HeaderMap, Response, StatusCode};
use http_body_util::StreamBody;
use hyper::body::Frame;
use s3s::Body;

use futures_util::StreamExt as _;

use crate::origin::Pieces;

/// What a client is answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Body,
    /// Requests to the origin that carried it.
    pub(crate) parts: u64,
}

impl Answer {
    /// With nothing but a status.
    pub(crate) fn empty(status: StatusCode) -> Self {
        Self {
            status,
            headers: HeaderMap::new(),
            body: Body::empty(),
            parts: 1,
        }
    }

    /// An XML document.
    pub(crate) fn xml(status: StatusCode, text: String) -> Self {
        let mut answer = Self::empty(status);
        answer
            .headers
            .insert(CONTENT_TYPE, HeaderValue::from_static("application/xml"));
        answer.body = Body::from(text);
        answer
    }

    /// The origin's head, and a body that is here.
    pub(crate) fn whole(response: Response<Bytes>) -> Self {
        let (head, body) = response.into_parts();
        let mut headers = end_to_end(head);
        // Of a HEAD it says how long the body would be.
        if !body.is_empty() {
            headers.1.remove(CONTENT_LENGTH);
        }
        Self {
            status: headers.0,
            headers: headers.1,
            body: Body::from(body),
            parts: 1,
        }
    }

    /// The origin's head, and a body of `length` bytes that comes.
    pub(crate) fn stream(head: Parts, pieces: Pieces, length: Option<u64>) -> Self {
        let (status, mut headers) = end_to_end(head);
        if let Some(length) = length {
            headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
        }
        let frames = pieces.map(|piece| piece.map(Frame::data));
        Self {
            status,
            headers,
            body: Body::http_body_unsync(StreamBody::new(frames)),
            parts: 1,
        }
    }
}

/// Status and headers without what belongs to the connection (RFC 9110 section 7.6.1) or is said anew.
pub(crate) fn end_to_end(head: Parts) -> (StatusCode, HeaderMap) {
    let mut headers = head.headers;
    for name in [
        CONNECTION,
        TRANSFER_ENCODING,
        DATE,
        HeaderName::from_static("keep-alive"),
    ] {
        headers.remove(name);
    }
    (head.status, headers)
}

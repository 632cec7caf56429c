//! An object on its way to the client: one request while it is small, ranges of one version while it is large.

mod ranges;

use http::header::{
    ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, ETAG, HeaderName, HeaderValue, IF_MATCH, RANGE,
};
use http::response::Parts;
use http::{HeaderMap, Method, StatusCode};
use hyper::body::Incoming;

use crate::answer::Answer;
use crate::asked::Asked;
use crate::config::BucketRule;
use crate::failed::Failed;
use crate::gateway::{Gateway, passed_on};
use crate::known::Version;
use crate::origin::Ask;
use crate::path::{FIRST_RANGE, LARGE, LONG, Plan, SMALLEST_RANGE};
pub(crate) use ranges::{Ahead, Delivery};

/// Stores read positions as signed numbers, and take a range beyond them for none.
pub(crate) const FARTHEST: u64 = i64::MAX.unsigned_abs();

/// The bytes that somebody asks for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Wanted {
    All,
    /// From here to the end.
    From(u64),
    /// Both included.
    Between(u64, u64),
    /// So many at the end.
    Last(u64),
}

/// A `Content-Range` (RFC 9110 section 14.4), both ends included.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct ContentRange {
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) total: u64,
}

/// Which stored bytes of which object are read, and how.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    /// As the origin calls it.
    pub(crate) bucket: String,
    pub(crate) key: String,
    pub(crate) query: Vec<(String, String)>,
    /// For every request; conditions stand apart.
    pub(crate) headers: HeaderMap,
}

/// The beginning of an object, and what the origin says about the whole.
pub(crate) struct Opened {
    pub(crate) head: Parts,
    pub(crate) body: Incoming,
    /// Of the body; `None` where the origin gives the whole.
    pub(crate) range: Option<ContentRange>,
}

impl Gateway {
    /// `GetObject` of a bucket that is not encrypted.
    pub(crate) async fn get_object(
        &self,
        asked: &Asked,
        rule: &BucketRule,
    ) -> Result<Answer, Failed> {
        let plan = self.reading_plan();
        let wanted = match wanted(asked) {
            // Parts of a multipart upload, several ranges, ranges that are none: the origin knows.
            _ if asked.query("partNumber").is_some() => None,
            None | Some(Wanted::Last(_)) => None,
            Some(Wanted::Between(first, last)) if last - first < plan.first => None,
            // Further than any object reaches.
            Some(Wanted::From(first) | Wanted::Between(first, _))
                if first > FARTHEST - plan.first =>
            {
                None
            }
            Some(wanted) => Some(wanted),
        };
        let mut reading = Reading::of(asked, rule);
        let conditions = conditions(asked);
        let Some(wanted) = wanted else {
            if let Some(range) = asked.headers.get(RANGE) {
                reading.headers.insert(RANGE, range.clone());
            }
            return self.get_straight(&reading, conditions).await;
        };
        let first = match wanted {
            Wanted::From(first) | Wanted::Between(first, _) => first,
            Wanted::All | Wanted::Last(_) => 0,
        };
        let most = match wanted {
            Wanted::Between(_, last) => last,
            Wanted::All | Wanted::From(_) | Wanted::Last(_) => u64::MAX,
        };
        let (short, long) = (first + SMALLEST_RANGE, first + plan.first);
        let ahead = self.ahead(&reading, &conditions, (first, short), most);
        // Where others ask for the rest at the same time, nobody should wait long for the beginning.
        let end = if ahead.is_some() { short } else { long };
        let opened = self
            .open(&reading, conditions.clone(), first, end - 1)
            .await?;
        let (status, range) = (opened.head.status, opened.range);
        let total = range.map(|range| range.total);
        self.learn(&reading, status, &opened.head.headers, total);
        if status == StatusCode::RANGE_NOT_SATISFIABLE && wanted == Wanted::All {
            // An empty object has no first byte.
            self.known().saw(&reading.bucket, &reading.key, None);
            return self.get_straight(&reading, conditions).await;
        }
        let Some(range) = range else {
            let length = length_of(&opened.head.headers);
            let pieces = self.origin().pieces(opened.body);
            return Ok(Answer::stream(opened.head, pieces, length));
        };
        let last = most.min(range.total - 1);
        let mut head = opened.head;
        head.headers
            .insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        if wanted == Wanted::All {
            head.status = StatusCode::OK;
            head.headers.remove(CONTENT_RANGE);
        } else {
            let shown = format!("bytes {first}-{last}/{}", range.total);
            if let Ok(shown) = HeaderValue::from_str(&shown) {
                head.headers.insert(CONTENT_RANGE, shown);
            }
        }
        let delivery = match ahead.filter(|ahead| ahead.fits(&head.headers, range, last)) {
            Some(ahead) => ahead.go_on(self, opened.body),
            None => Delivery::begin(self, &reading, &head.headers, opened.body, range, last),
        };
        let parts = delivery.parts();
        let mut answer = Answer::stream(head, delivery.into_pieces(), Some(last - first + 1));
        answer.parts = parts;
        Ok(answer)
    }

    /// How objects are read, whose length nobody knows yet.
    pub(crate) fn reading_plan(&self) -> Plan {
        let limits = &self.config().limits;
        self.origin()
            .path()
            .ranges(limits.request_memory, limits.parallel)
    }

    /// Asks for what lies behind the `first` range, up to the byte `most`, where the object is taken for one that is known.
    /// Over a short path there is little to win.
    pub(crate) fn ahead(
        &self,
        reading: &Reading,
        conditions: &HeaderMap,
        first: (u64, u64),
        most: u64,
    ) -> Option<Ahead> {
        let far = self.origin().path().rtt() >= Some(LONG);
        if !far || !conditions.is_empty() || !reading.is_of_the_newest() {
            return None;
        }
        let version = self.known().version(&reading.bucket, &reading.key)?;
        let last = most.min(version.length.checked_sub(1)?);
        (first.1 <= last).then(|| Ahead::begin(self, reading, version, first, last))
    }

    /// Remembers what an answer says of an object of which a whole download reads `length` bytes; forgets what is not there
    /// any more.
    pub(crate) fn learn(
        &self,
        reading: &Reading,
        status: StatusCode,
        head: &HeaderMap,
        length: Option<u64>,
    ) {
        let gone = status == StatusCode::NOT_FOUND;
        // Of what stands in a query, or did not go well, nothing follows for the object.
        if reading.is_of_the_newest() && (status.is_success() || gone) {
            let length = length.filter(|&length| length > FIRST_RANGE && !gone);
            if length >= Some(LARGE) {
                self.large_passes(&reading.bucket);
            }
            let version = length.and_then(|length| Version::of(head, length));
            self.known().saw(&reading.bucket, &reading.key, version);
        }
    }

    /// One request, answered as the origin answers it.
    async fn get_straight(
        &self,
        reading: &Reading,
        conditions: HeaderMap,
    ) -> Result<Answer, Failed> {
        let mut ask = reading.ask(Method::GET);
        ask.headers.extend(conditions);
        let (head, body) = self.origin().send(ask).await?.into_parts();
        let length = length_of(&head.headers);
        Ok(Answer::stream(head, self.origin().pieces(body), length))
    }

    /// Asks for stored bytes from `first` to `last`.
    pub(crate) async fn open(
        &self,
        reading: &Reading,
        conditions: HeaderMap,
        first: u64,
        last: u64,
    ) -> Result<Opened, Failed> {
        let mut ask = reading.ask(Method::GET);
        ask.headers.extend(conditions);
        ask.headers.insert(RANGE, range_header(first, last)?);
        let (head, body) = self.origin().send(ask).await?.into_parts();
        let range = match head.status {
            StatusCode::PARTIAL_CONTENT => {
                let range = content_range(&head.headers).filter(|range| range.first == first);
                Some(range.ok_or_else(|| {
                    Failed::unreachable("the origin gave another range than was asked for")
                })?)
            }
            _ => None,
        };
        Ok(Opened { head, body, range })
    }
}

// === impl Reading ===

impl Reading {
    pub(crate) fn of(asked: &Asked, rule: &BucketRule) -> Self {
        let mut headers = passed_on(&asked.headers);
        for name in CONDITIONS {
            headers.remove(name);
        }
        headers.remove(RANGE);
        Self {
            bucket: rule.origin.clone(),
            key: asked.key.clone(),
            query: asked.query.clone(),
            headers,
        }
    }

    /// Whether the object is meant as it is now. `x-id` is what some clients call the operation.
    fn is_of_the_newest(&self) -> bool {
        self.query.iter().all(|(name, _)| name == "x-id")
    }

    /// The same version for ever: further requests fail where the object has been replaced.
    pub(crate) fn pin(&mut self, head: &HeaderMap) {
        if let Some(tag) = head.get(ETAG) {
            self.headers.insert(IF_MATCH, tag.clone());
        }
        let version = head.get("x-amz-version-id").and_then(|id| id.to_str().ok());
        if let Some(version) = version
            && version != "null"
            && !self.query.iter().any(|(name, _)| name == "versionId")
        {
            self.query.push(("versionId".into(), version.to_owned()));
        }
    }

    pub(crate) fn ask(&self, method: Method) -> Ask {
        Ask {
            query: self.query.clone(),
            headers: self.headers.clone(),
            ..Ask::new(method, &self.bucket, &self.key)
        }
    }
}

const CONDITIONS: [&str; 5] = [
    "if-match",
    "if-none-match",
    "if-modified-since",
    "if-unmodified-since",
    "if-range",
];

/// What the client makes its request depend on.
pub(crate) fn conditions(asked: &Asked) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for name in CONDITIONS {
        if let Some(value) = asked.headers.get(name) {
            headers.insert(HeaderName::from_static(name), value.clone());
        }
    }
    headers
}

/// The range that a client asks for; `None` where the origin must judge.
pub(crate) fn wanted(asked: &Asked) -> Option<Wanted> {
    let Some(range) = asked.headers.get(RANGE) else {
        return Some(Wanted::All);
    };
    if asked.headers.contains_key("if-range") {
        return None;
    }
    let (first, last) = range
        .to_str()
        .ok()?
        .strip_prefix("bytes=")?
        .split_once('-')?;
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| text.parse::<u64>().ok()).flatten()
    };
    match (first, last) {
        ("", last) => number(last).map(Wanted::Last),
        (first, "") => number(first).map(Wanted::From),
        (first, last) => {
            let (first, last) = (number(first)?, number(last)?);
            (first <= last).then_some(Wanted::Between(first, last))
        }
    }
}

pub(crate) fn range_header(first: u64, last: u64) -> Result<HeaderValue, Failed> {
    HeaderValue::from_str(&format!("bytes={first}-{last}"))
        .map_err(|_| Failed::internal("a range cannot be written"))
}

pub(crate) fn content_range(headers: &HeaderMap) -> Option<ContentRange> {
    let text = headers.get(CONTENT_RANGE)?.to_str().ok()?;
    let (range, total) = text.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let range = ContentRange {
        first: first.parse().ok()?,
        last: last.parse().ok()?,
        total: total.parse().ok()?,
    };
    (range.first <= range.last && range.last < range.total).then_some(range)
}

pub(crate) fn length_of(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(range: &str) -> Option<Wanted> {
        let mut headers = HeaderMap::new();
        headers.insert(RANGE, range.parse().unwrap());
        let uri = "/b/k".parse().unwrap();
        wanted(&Asked::of(&Method::GET, &uri, headers, &[]).unwrap())
    }

    #[test]
    fn ranges_are_read_and_odd_ones_left_to_the_origin() {
        assert_eq!(of("bytes=0-0"), Some(Wanted::Between(0, 0)));
        assert_eq!(of("bytes=5-"), Some(Wanted::From(5)));
        assert_eq!(of("bytes=-7"), Some(Wanted::Last(7)));
        for odd in [
            "bytes=3-1",
            "bytes=0-1,4-5",
            "bytes=+1-2",
            "bytes=-",
            "lines=0-1",
            "bytes=a-b",
        ] {
            assert_eq!(of(odd), None, "{odd}");
        }
    }

    #[test]
    fn a_content_range_must_lie_within_its_total() {
        let read = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_RANGE, text.parse().unwrap());
            content_range(&headers)
        };
        assert!(read("bytes 0-9/10").is_some());
        for odd in [
            "bytes 0-10/10",
            "bytes 3-2/10",
            "bytes */10",
            "bytes 0-9/*",
            "0-9/10",
        ] {
            assert_eq!(read(odd), None, "{odd}");
        }
    }
}

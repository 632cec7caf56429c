//! Reading encrypted objects, from the first byte to the last or anywhere in between.

use bytes::Bytes;
use envelope::{CHUNK, Envelope, Footer, Kind, Layout, Manifest, Name, OVERHEAD, Opening, Piece};
use futures_util::stream::{self, Stream, StreamExt as _};
use http::header::{ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, HeaderMap, HeaderValue, RANGE};
use http::{Method, Response, StatusCode};

use super::{envelope_of, for_client, origin_conditions};
use crate::answer::Answer;
use crate::asked::Asked;
use crate::config::{BucketRule, Encryption};
use crate::download::{
    Ahead, ContentRange, Delivery, FARTHEST, Reading, Wanted, conditions, content_range, length_of,
    range_header, wanted,
};
use crate::failed::Failed;
use crate::gateway::Gateway;
use crate::origin::Pieces;
use crate::path::Plan;

const SEALED: u64 = CHUNK + OVERHEAD;
/// Bytes of an object's end that are read for its manifest: those of 2500 parts.
const TAIL: u64 = 64 << 10;

/// An object whose envelope holds, and what the origin says about it.
struct Sighted {
    layout: Layout,
    head: http::response::Parts,
    /// What is there already: a body, and the stored bytes that it is.
    body: Option<(hyper::body::Incoming, ContentRange)>,
}

impl Gateway {
    /// `GetObject`.
    pub(crate) async fn get_encrypted(
        &self,
        asked: &Asked,
        rule: &BucketRule,
        encryption: &Encryption,
    ) -> Result<Answer, Failed> {
        if asked.query("partNumber").is_some() {
            return Err(Failed::not_implemented(
                "objects of this bucket have no parts that could be read alone",
            ));
        }
        // A range that cannot be understood is ignored (RFC 9110 section 14.2).
        let wanted = wanted(asked).unwrap_or(Wanted::All);
        let plan = self.reading_plan();
        let mut reading = Reading::of(asked, rule);
        let mut conditions = conditions(asked);
        origin_conditions(&mut conditions);
        let ahead = (wanted == Wanted::All)
            .then(|| self.ahead(&reading, &conditions, (0, stored_first(plan)), u64::MAX))
            .flatten();
        let first = first_guess(wanted, plan)?;
        let unpinned = reading.clone();
        let sighted = match self
            .sight(&mut reading, conditions, first, encryption)
            .await?
        {
            Ok(sighted) => sighted,
            Err(answer) => {
                self.learn(&unpinned, answer.status, &answer.headers, None);
                return Ok(*answer);
            }
        };
        let plain = sighted.layout.plain();
        let Some((first, last)) = resolved(wanted, plain) else {
            let mut answer = Answer::xml(
                StatusCode::RANGE_NOT_SATISFIABLE,
                "<?xml version=\"1.0\" encoding=\"UTF-8\"?><Error><Code>InvalidRange</Code>\
                 <Message>The requested range is not satisfiable</Message></Error>"
                    .into(),
            );
            if let Ok(total) = HeaderValue::from_str(&format!("bytes */{plain}")) {
                answer.headers.insert(CONTENT_RANGE, total);
            }
            return Ok(answer);
        };
        let mut head = sighted.head;
        let Some(open) = sighted.layout.plan(first, last) else {
            return Err(Failed::internal("a range was not planned"));
        };
        if wanted == Wanted::All {
            self.learn(&unpinned, head.status, &head.headers, Some(open.last + 1));
        }
        let span = (open.first, open.last);
        let (delivery, at) = self
            .stored(&reading, &head.headers, sighted.body, span, plan, ahead)
            .await?;
        let opening = open.opening.beginning_at(at).using(self.buffers());
        delivery.decrypt(&opening);
        let length = if plain == 0 { 0 } else { last - first + 1 };
        head.status = StatusCode::OK;
        head.headers.remove(CONTENT_RANGE);
        if wanted != Wanted::All {
            head.status = StatusCode::PARTIAL_CONTENT;
            let shown = format!("bytes {first}-{last}/{plain}");
            if let Ok(shown) = HeaderValue::from_str(&shown) {
                head.headers.insert(CONTENT_RANGE, shown);
            }
        }
        head.headers
            .insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        for_client(&mut head.headers);
        let parts = delivery.parts();
        let pieces = authentic(delivery.into_stream(), opening).await?;
        let mut answer = Answer::stream(head, pieces, Some(length));
        answer.parts = parts;
        Ok(answer)
    }

    /// `HeadObject`.
    pub(crate) async fn head_encrypted(
        &self,
        asked: &Asked,
        rule: &BucketRule,
        encryption: &Encryption,
    ) -> Result<Answer, Failed> {
        let mut reading = Reading::of(asked, rule);
        let mut ask = reading.ask(Method::HEAD);
        let mut conditions = conditions(asked);
        origin_conditions(&mut conditions);
        ask.headers.extend(conditions);
        let response = self.origin().ask(ask).await?;
        let mut answer = Answer::whole(response);
        if !answer.status.is_success() {
            for_client(&mut answer.headers);
            return Ok(answer);
        }
        let stored = length_of(&answer.headers)
            .ok_or_else(|| Failed::unreachable("the origin does not say how long the object is"))?;
        let unpinned = reading.clone();
        reading.pin(&answer.headers);
        let layout = self
            .layout(&reading, envelope_of(&answer.headers)?, stored, encryption)
            .await?;
        let whole = layout.plan(0, layout.plain().saturating_sub(1));
        let length = whole.map(|open| open.last + 1);
        self.learn(&unpinned, answer.status, &answer.headers, length);
        answer
            .headers
            .insert(CONTENT_LENGTH, HeaderValue::from(layout.plain()));
        for_client(&mut answer.headers);
        Ok(answer)
    }

    /// Asks for stored bytes, and finds out how the object lies; or what the origin has against it.
    async fn sight(
        &self,
        reading: &mut Reading,
        conditions: HeaderMap,
        range: HeaderValue,
        encryption: &Encryption,
    ) -> Result<Result<Sighted, Box<Answer>>, Failed> {
        let mut ask = reading.ask(Method::GET);
        ask.headers.extend(conditions);
        ask.headers.insert(RANGE, range);
        let (head, body) = self.origin().send(ask).await?.into_parts();
        if head.status == StatusCode::RANGE_NOT_SATISFIABLE {
            // Stored bytes that hold the range are not there: the end of the object decides.
            let head = self.origin().ask(reading.ask(Method::HEAD)).await?;
            let (head, _) = head.into_parts();
            if !head.status.is_success() {
                return Ok(Err(Box::new(Answer::whole(Response::from_parts(
                    head,
                    Bytes::new(),
                )))));
            }
            let stored = length_of(&head.headers).unwrap_or(0);
            reading.pin(&head.headers);
            let layout = self
                .layout(reading, envelope_of(&head.headers)?, stored, encryption)
                .await?;
            return Ok(Ok(Sighted {
                layout,
                head,
                body: None,
            }));
        }
        if !head.status.is_success() {
            let body = self.origin().whole(body).await?;
            let mut answer = Answer::whole(Response::from_parts(head, body));
            for_client(&mut answer.headers);
            return Ok(Err(Box::new(answer)));
        }
        let range = content_range(&head.headers).or_else(|| {
            let total = length_of(&head.headers)?;
            Some(ContentRange {
                first: 0,
                last: total.checked_sub(1)?,
                total,
            })
        });
        let range = range.ok_or_else(|| Failed::tampered("the stored object is empty"))?;
        reading.pin(&head.headers);
        let layout = self
            .layout(
                reading,
                envelope_of(&head.headers)?,
                range.total,
                encryption,
            )
            .await?;
        Ok(Ok(Sighted {
            layout,
            head,
            body: Some((body, range)),
        }))
    }

    /// How the object lies; reads its manifest where it has one.
    async fn layout(
        &self,
        reading: &Reading,
        envelope: Envelope,
        stored: u64,
        encryption: &Encryption,
    ) -> Result<Layout, Failed> {
        let name = Name {
            bucket: &reading.bucket,
            key: &reading.key,
        };
        let opened = envelope.open(&encryption.ring, name)?;
        if opened.kind == Kind::Whole {
            return Ok(Layout::whole(opened.key, stored, opened.length)?);
        }
        let tail = self.tail(reading, TAIL.min(stored), stored).await?;
        let footer = Footer::read(&tail)?;
        let tail = if footer.manifest > tail.len() as u64 {
            // 9999 parts of 26 bytes.
            if footer.manifest > stored.min(1 << 20) {
                return Err(Failed::tampered("the list of parts is longer than any"));
            }
            self.tail(reading, footer.manifest, stored).await?
        } else {
            tail
        };
        let length = usize::try_from(footer.manifest).unwrap_or(usize::MAX);
        let sealed = tail.len().checked_sub(length).and_then(|at| tail.get(at..));
        let sealed = sealed.ok_or_else(|| Failed::tampered("the list of parts is cut"))?;
        let manifest = Manifest::open(&opened.key, sealed)?;
        Ok(Layout::parts(
            opened.key,
            manifest,
            stored,
            footer.manifest,
        )?)
    }

    /// The last `count` stored bytes.
    async fn tail(&self, reading: &Reading, count: u64, stored: u64) -> Result<Bytes, Failed> {
        let first = stored.saturating_sub(count);
        let mut ask = reading.ask(Method::GET);
        ask.headers
            .insert(RANGE, range_header(first, stored.saturating_sub(1))?);
        let response = self.origin().ask(ask).await?;
        if response.status() != StatusCode::PARTIAL_CONTENT {
            return Err(Failed::unreachable("the object changed while it was read"));
        }
        Ok(response.into_body())
    }

    /// Stored bytes from the first to the last of `span`, of which some may be here already; and the first of all that come, which
    /// may stand before it.
    async fn stored(
        &self,
        reading: &Reading,
        head: &HeaderMap,
        here: Option<(hyper::body::Incoming, ContentRange)>,
        span: (u64, u64),
        plan: Plan,
        ahead: Option<Ahead>,
    ) -> Result<(Delivery, u64), Failed> {
        let (first, last) = span;
        let fits = here.filter(|(_, range)| (range.first..=range.last).contains(&first));
        let (body, range) = if let Some(fits) = fits {
            fits
        } else {
            let end = last.min(first + stored_first(plan) - 1);
            let opened = self.open(reading, HeaderMap::new(), first, end).await?;
            let range = opened
                .range
                .ok_or_else(|| Failed::unreachable("the object changed while it was read"))?;
            (opened.body, range)
        };
        let delivery = match ahead.filter(|ahead| ahead.fits(head, range, last)) {
            Some(ahead) => ahead.go_on(self, body),
            None => Delivery::begin(self, reading, head, body, range, last),
        };
        Ok((delivery, range.first))
    }
}

/// The range to ask for before anything is known about the object.
fn first_guess(wanted: Wanted, plan: Plan) -> Result<HeaderValue, Failed> {
    let from = |first: u64| (first / CHUNK).saturating_mul(SEALED).min(FARTHEST);
    let far = |first: u64| (from(first) + stored_first(plan) - 1).min(FARTHEST);
    match wanted {
        Wanted::All => range_header(0, far(0)),
        Wanted::From(first) => range_header(from(first), far(first)),
        Wanted::Between(first, last) => {
            let end = (last / CHUNK).saturating_add(1).saturating_mul(SEALED) - 1;
            range_header(from(first), end.min(far(first)))
        }
        Wanted::Last(count) => {
            // Chunks that hold them, wherever they begin, and as much as is read at once.
            let count = count.min(plan.first);
            let stored = (count.div_ceil(CHUNK) + 1) * SEALED;
            HeaderValue::from_str(&format!("bytes=-{stored}"))
                .map_err(|_| Failed::internal("a range cannot be written"))
        }
    }
}

/// Stored bytes of the first range's plaintext.
fn stored_first(plan: Plan) -> u64 {
    plan.first / CHUNK * SEALED
}

/// First and last byte of `wanted`; of an empty object 0 and 0, which stand for none.
fn resolved(wanted: Wanted, plain: u64) -> Option<(u64, u64)> {
    let end = plain.checked_sub(1);
    match (wanted, end) {
        (Wanted::All, None) => Some((0, 0)),
        (Wanted::All, Some(end)) => Some((0, end)),
        (Wanted::From(first), Some(end)) if first <= end => Some((first, end)),
        (Wanted::Between(first, last), Some(end)) if first <= end => Some((first, last.min(end))),
        (Wanted::Last(count), Some(end)) if count > 0 => Some((plain.saturating_sub(count), end)),
        _ => None,
    }
}

/// Plaintext of stored bytes. The first of it is waited for, so that what is wrong with a short object, or with
/// the beginning of a long one, is still told as a status.
async fn authentic(
    stored: impl Stream<Item = Result<Piece, Failed>> + Send + 'static,
    opening: Opening,
) -> Result<Pieces, Failed> {
    let stored = Box::pin(stored);
    let opened = stream::unfold(Some((stored, opening)), |state| async move {
        let (mut stored, mut opening) = state?;
        let mut out = Vec::new();
        let rest = match stored.next().await {
            Some(Ok(piece)) => match opening.push(piece, &mut out) {
                Ok(()) => {
                    let out = out.into_iter().map(Ok).collect();
                    return Some((out, Some((stored, opening))));
                }
                Err(error) => Err(Failed::from(error)),
            },
            Some(Err(failed)) => Err(failed),
            None => opening.finish().map_err(Failed::from),
        };
        let mut out: Vec<Result<Bytes, Failed>> = out.into_iter().map(Ok).collect();
        out.extend(rest.err().map(Err));
        Some((out, None))
    });
    let mut plain = Box::pin(opened.flat_map(stream::iter));
    match plain.next().await {
        None => Ok(Box::pin(stream::empty())),
        Some(Err(failed)) => Err(failed),
        Some(Ok(first)) => Ok(Box::pin(stream::once(async { Ok(first) }).chain(plain))),
    }
}

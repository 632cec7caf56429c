//! Listings of encrypted buckets, with the sizes and tags that clients see.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use envelope::{FOOTER, Footer, Kind, plain_length};
use futures_util::stream::{self, StreamExt as _};
use http::Method;
use http::header::{HeaderValue, RANGE};

use super::{client_tag, envelope_of};
use crate::answer::Answer;
use crate::asked::Asked;
use crate::config::{BucketRule, Encryption};
use crate::download::content_range;
use crate::failed::Failed;
use crate::gateway::{Gateway, passed_on};
use crate::origin::Ask;
use crate::xml::Element;

/// Requests at the same time for sizes that a listing does not tell.
const LOOK_UPS: usize = 16;
/// Sizes that are remembered, at about 200 bytes each.
const REMEMBERED: usize = 50_000;

/// Sizes of objects that were put together of parts. A tag stands for one content, so nothing here grows old.
#[derive(Debug, Default)]
pub(crate) struct Sizes {
    known: Mutex<BTreeMap<Object, u64>>,
}

/// One version of an object.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Object {
    bucket: String,
    key: String,
    version: Option<String>,
    tag: String,
}

impl Gateway {
    /// `ListObjects`, `ListObjectsV2` and `ListObjectVersions`.
    pub(crate) async fn list_encrypted(
        &self,
        asked: &Asked,
        rule: &BucketRule,
        encryption: &Encryption,
    ) -> Result<Answer, Failed> {
        let mut ask = Ask::new(Method::GET, &rule.origin, "");
        ask.query.clone_from(&asked.query);
        ask.headers = passed_on(&asked.headers);
        let response = self.origin().ask(ask).await?;
        if !response.status().is_success() {
            return crate::gateway::buckets::answer(response, rule, asked);
        }
        let mut root = Element::parse(response.body())?;
        root.set("Name", &rule.name);
        let escaped = root.child("EncodingType").is_some_and(|kind| kind == "url");
        let objects = |child: &&mut Element| ["Contents", "Version"].contains(&child.name.as_str());
        let asked_for: Vec<(Object, u64)> = root
            .elements_mut()
            .filter(objects)
            .filter_map(|entry| Object::of(entry, &rule.origin, escaped))
            .collect();
        let sizes: Vec<u64> = stream::iter(asked_for)
            .map(|(object, stored)| self.plain_size(object, stored, encryption))
            .buffered(LOOK_UPS)
            .collect()
            .await;
        let mut sizes = sizes.into_iter();
        for entry in root.elements_mut().filter(objects) {
            let Some(size) = sizes.next() else { break };
            entry.set("Size", size.to_string());
            let tag = entry.child("ETag").unwrap_or_default();
            entry.set("ETag", client_tag(&tag));
            entry.children.retain(|node| match node {
                crate::xml::Node::Element(child) => !child.name.starts_with("Checksum"),
                crate::xml::Node::Text(_) => true,
            });
        }
        Ok(Answer::xml(http::StatusCode::OK, root.document()?))
    }

    /// Bytes of plaintext. An object whose tag is an MD5 came in one request, and its stored length tells; others are
    /// asked. Of an object that this gateway did not write, the stored length.
    async fn plain_size(&self, object: Object, stored: u64, encryption: &Encryption) -> u64 {
        let digest = object.tag.trim_matches('"');
        let single = digest.len() == 32 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
        if single {
            return plain_length(stored).unwrap_or(stored);
        }
        if let Some(size) = self.sizes().find(&object) {
            return size;
        }
        match self.look_up(&object, encryption).await {
            Ok(Some(size)) => {
                self.sizes().remember(object, size);
                size
            }
            Ok(None) | Err(_) => plain_length(stored).unwrap_or(stored),
        }
    }

    /// Asks for an object's end, which brings its envelope along.
    async fn look_up(
        &self,
        object: &Object,
        encryption: &Encryption,
    ) -> Result<Option<u64>, Failed> {
        let mut ask = Ask::new(Method::GET, &object.bucket, &object.key);
        if let Some(version) = &object.version {
            ask = ask.query("versionId", version);
        }
        let range = HeaderValue::from_str(&format!("bytes=-{FOOTER}"))
            .map_err(|_| Failed::internal("a range cannot be written"))?;
        ask.headers.insert(RANGE, range);
        let response = self.origin().ask(ask).await?;
        let Some(range) = content_range(response.headers()) else {
            return Ok(None);
        };
        let envelope = envelope_of(response.headers())?;
        let name = envelope::Name {
            bucket: &object.bucket,
            key: &object.key,
        };
        let opened = envelope.open(&encryption.ring, name)?;
        Ok(match opened.kind {
            Kind::Whole => plain_length(range.total),
            Kind::Parts => Some(Footer::read(response.body())?.claimed_plain),
        })
    }
}

// === impl Object ===

impl Object {
    /// An entry of a listing, and its stored length.
    fn of(entry: &Element, bucket: &str, escaped: bool) -> Option<(Self, u64)> {
        let key = entry.child("Key")?;
        let key = if escaped {
            let spaced = key.replace('+', " ");
            let decoded = percent_encoding::percent_decode_str(&spaced).decode_utf8();
            decoded.ok()?.into_owned()
        } else {
            key
        };
        let object = Self {
            bucket: bucket.to_owned(),
            key,
            version: entry.child("VersionId").filter(|version| version != "null"),
            tag: entry.child("ETag").unwrap_or_default(),
        };
        Some((object, entry.child("Size")?.parse().ok()?))
    }
}

// === impl Sizes ===

impl Sizes {
    fn find(&self, object: &Object) -> Option<u64> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(object).copied()
    }

    fn remember(&self, object: Object, size: u64) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(object, size);
    }
}

//! Multipart uploads that are under way.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use s3s::dto::{CompletedPart, ETag, Metadata, MultipartUpload};
use s3s::{S3Result, s3_error};

use super::objects::{Object, Receiving, Refused};
use super::s3::e_tag;

/// What is said about an object when its upload begins.
#[derive(Clone, Debug, Default)]
pub(super) struct About {
    pub(super) content_type: Option<String>,
    pub(super) metadata: Option<Metadata>,
}

/// Uploads by identifier.
#[derive(Debug, Default)]
pub(super) struct Uploads(Mutex<Open>);

#[derive(Debug, Default)]
struct Open {
    begun: u64,
    uploads: BTreeMap<String, Upload>,
}

#[derive(Debug)]
struct Upload {
    bucket: String,
    key: String,
    about: About,
    parts: BTreeMap<i32, Object>,
    joined: Joined,
}

/// The first parts, put together while others still arrive: at the end of a large upload the client would
/// otherwise wait for a second of copying and hashing, which no store of note asks of it.
#[derive(Debug)]
struct Joined {
    whole: Receiving,
    /// Tags of its parts, from number 1 on without a gap.
    tags: Vec<ETag>,
}

impl Uploads {
    /// Begins an upload and names it.
    pub(super) fn begin(&self, bucket: &str, key: &str, about: About, whole: Receiving) -> String {
        let mut open = self.open();
        open.begun += 1;
        let id = format!("upload-{}", open.begun);
        let upload = Upload {
            bucket: bucket.into(),
            key: key.into(),
            about,
            parts: BTreeMap::new(),
            joined: Joined {
                whole,
                tags: Vec::new(),
            },
        };
        open.uploads.insert(id.clone(), upload);
        id
    }

    /// Adds a part, in place of an earlier one with its number; all parts together stay within
    /// `limit` bytes.
    pub(super) fn add(&self, id: &str, number: i32, part: Object, limit: u64) -> S3Result<()> {
        let mut open = self.open();
        let upload = open
            .uploads
            .get_mut(id)
            .ok_or_else(|| s3_error!(NoSuchUpload))?;
        let others: u64 = upload
            .parts
            .iter()
            .filter(|(other, _)| **other != number)
            .map(|(_, part)| part.content.len())
            .sum();
        if others + part.content.len() > limit {
            return Err(Refused::TooLarge { limit }.into());
        }
        upload.parts.insert(number, part);
        upload.joined.extend(&upload.parts)?;
        Ok(())
    }

    /// How many are open, in all buckets.
    pub(super) fn count(&self) -> usize {
        self.open().uploads.len()
    }

    /// Uploads into `bucket` that are open.
    pub(super) fn list(&self, bucket: &str) -> Vec<MultipartUpload> {
        let open = self.open();
        let uploads = open.uploads.iter().filter(|(_, one)| one.bucket == bucket);
        uploads
            .map(|(id, upload)| MultipartUpload {
                key: Some(upload.key.clone()),
                upload_id: Some(id.clone()),
                ..MultipartUpload::default()
            })
            .collect()
    }

    /// Ends an upload and returns the parts that the client wants, together and in its order, and what it said in
    /// the beginning; `fresh` is an object without a byte. The upload stays open where the client asks for something
    /// that is not there.
    pub(super) fn finish(
        &self,
        id: &str,
        (bucket, key): (&str, &str),
        wanted: &[CompletedPart],
        fresh: Receiving,
    ) -> S3Result<(Receiving, About)> {
        let mut open = self.open();
        let upload = open
            .uploads
            .get(id)
            .filter(|upload| upload.bucket == bucket && upload.key == key)
            .ok_or_else(|| s3_error!(NoSuchUpload))?;
        if wanted.is_empty() {
            return Err(s3_error!(MalformedXML, "no parts are named"));
        }
        if !wanted.is_sorted_by(|one, next| one.part_number < next.part_number) {
            return Err(s3_error!(InvalidPartOrder));
        }
        let parts = wanted
            .iter()
            .map(|part| {
                let held = upload.parts.get(&part.part_number?)?;
                (part.e_tag.as_ref()? == &e_tag(held)).then(|| held.clone())
            })
            .collect::<Option<Vec<Object>>>()
            .ok_or_else(|| s3_error!(InvalidPart))?;
        let upload = open
            .uploads
            .remove(id)
            .ok_or_else(|| s3_error!(NoSuchUpload))?;
        let tags: Vec<ETag> = parts.iter().map(e_tag).collect();
        let (mut whole, there) = if tags.starts_with(&upload.joined.tags) {
            (upload.joined.whole, upload.joined.tags.len())
        } else {
            (fresh, 0)
        };
        for part in parts.iter().skip(there) {
            whole.append(&part.content)?;
        }
        Ok((whole, upload.about))
    }

    /// Forgets an upload and its parts.
    pub(super) fn abort(&self, id: &str) -> S3Result<()> {
        match self.open().uploads.remove(id) {
            Some(_) => Ok(()),
            None => Err(s3_error!(NoSuchUpload)),
        }
    }

    /// Every change is one insertion or removal, so a poisoned lock guards whole uploads.
    fn open(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Joined ===

impl Joined {
    /// Takes the parts that are next, if they are there. A part that was sent anew makes the client's tags others than
    /// these, and [`Uploads::finish`] begins from the start.
    fn extend(&mut self, parts: &BTreeMap<i32, Object>) -> S3Result<()> {
        while let Some(part) = i32::try_from(self.tags.len() + 1)
            .ok()
            .and_then(|number| parts.get(&number))
        {
            self.whole.append(&part.content)?;
            self.tags.push(e_tag(part));
        }
        Ok(())
    }
}

//! Multipart uploads that are under way.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use s3s::dto::CompletedPart;
use s3s::{S3Result, s3_error};

use super::objects::{Object, Refused, len};
use super::s3::e_tag;

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
    parts: BTreeMap<i32, Object>,
}

impl Uploads {
    /// Begins an upload and names it.
    pub(super) fn begin(&self, bucket: &str, key: &str) -> String {
        let mut open = self.open();
        open.begun += 1;
        let id = format!("upload-{}", open.begun);
        let upload = Upload {
            bucket: bucket.into(),
            key: key.into(),
            parts: BTreeMap::new(),
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
            .map(|(_, part)| len(&part.bytes))
            .sum();
        if others + len(&part.bytes) > limit {
            return Err(Refused::TooLarge { limit }.into());
        }
        upload.parts.insert(number, part);
        Ok(())
    }

    /// Ends an upload and returns the parts that the client wants, in its order. The upload stays
    /// open where the client asks for something that is not there.
    pub(super) fn finish(
        &self,
        id: &str,
        bucket: &str,
        key: &str,
        wanted: &[CompletedPart],
    ) -> S3Result<Vec<Object>> {
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
        open.uploads.remove(id);
        Ok(parts)
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

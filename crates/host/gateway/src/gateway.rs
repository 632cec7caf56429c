//! What is done about a request: by which rule, and by whom.

pub(crate) mod buckets;
mod copies;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use envelope::Buffers;
use http::header::HeaderMap;
use http::{Method, StatusCode};
use s3s::S3ErrorCode;
use tokio::sync::Semaphore;

use crate::answer::Answer;
use crate::asked::{Asked, Operation};
use crate::config::{BucketRule, Config, Encryption};
use crate::download::{Reading, length_of};
use crate::encrypted::listing::Sizes;
use crate::failed::Failed;
use crate::journal::{Journal, Left};
use crate::known::Known;
use crate::origin::{Ask, Origin, Payload};
use crate::upload::Incoming;
use crate::upload::parts::abort;

/// So long after a large object has passed, others are expected.
const OF_LATE: Duration = Duration::from_mins(2);

/// The gateway; clones are the same.
#[derive(Clone)]
pub(crate) struct Gateway {
    inner: Arc<Inner>,
}

struct Inner {
    config: Config,
    origin: Origin,
    /// For requests beyond the one that everybody may have.
    permits: Arc<Semaphore>,
    sizes: Sizes,
    known: Known,
    journal: Journal,
    large: Mutex<Option<Large>>,
    buffers: Buffers,
}

/// A large object has passed, to or from the bucket that the origin calls so.
struct Large {
    bucket: String,
    at: Instant,
}

// === impl Gateway ===

impl Gateway {
    pub(crate) fn new(config: Config, journal: Journal) -> Self {
        let origin = Origin::new(&config);
        let permits = Arc::new(Semaphore::new(config.limits.parallel));
        Self {
            inner: Arc::new(Inner {
                config,
                origin,
                permits,
                sizes: Sizes::default(),
                known: Known::default(),
                journal,
                large: Mutex::default(),
                buffers: Buffers::default(),
            }),
        }
    }

    pub(crate) fn config(&self) -> &Config {
        &self.inner.config
    }

    pub(crate) fn origin(&self) -> &Origin {
        &self.inner.origin
    }

    pub(crate) fn permits(&self) -> &Arc<Semaphore> {
        &self.inner.permits
    }

    /// Sizes of encrypted objects that were put together of parts.
    pub(crate) fn sizes(&self) -> &Sizes {
        &self.inner.sizes
    }

    /// What large objects were when they were seen last.
    pub(crate) fn known(&self) -> &Known {
        &self.inner.known
    }

    pub(crate) fn journal(&self) -> &Journal {
        &self.inner.journal
    }

    /// Memory for plaintext.
    pub(crate) fn buffers(&self) -> &Buffers {
        &self.inner.buffers
    }

    /// A large object passes, to or from the bucket that the origin calls so.
    pub(crate) fn large_passes(&self, bucket: &str) {
        *self.large() = Some(Large {
            bucket: bucket.to_owned(),
            at: Instant::now(),
        });
    }

    /// The bucket of the last large object, as the origin calls it, if one has passed of late.
    pub(crate) fn large_of_late(&self) -> Option<String> {
        let large = self.large();
        let late = large.as_ref().filter(|large| large.at.elapsed() < OF_LATE);
        late.map(|large| large.bucket.clone())
    }

    fn large(&self) -> MutexGuard<'_, Option<Large>> {
        // A name and a time are valid whatever their holder was doing when it panicked.
        let large = self.inner.large.lock();
        large.unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives up what a crash has left; how many uploads the origin has not heard of.
    pub(crate) async fn give_up(&self, left: Vec<Left>) -> usize {
        let mut unheard = 0;
        for Left { bucket, key, id } in left {
            if abort(self.origin(), &bucket, &key, &id).await {
                self.journal().note(&id).over();
            } else {
                unheard += 1;
            }
        }
        unheard
    }

    /// Does what is asked.
    pub(crate) async fn handle(&self, asked: &Asked, incoming: Incoming) -> Result<Answer, Failed> {
        if asked.operation == Operation::ListBuckets {
            return self.list_buckets(asked).await;
        }
        let rule = self.config().rule(&asked.bucket).ok_or_else(|| {
            Failed::new(
                S3ErrorCode::NoSuchBucket,
                "The specified bucket does not exist",
            )
        })?;
        if asked.operation == Operation::CreateMultipartUpload {
            self.large_passes(&rule.origin);
        }
        let answer = self.handle_by(asked, &rule, incoming).await?;
        let replaced = [Operation::CopyObject, Operation::CompleteMultipartUpload];
        if replaced.contains(&asked.operation) && answer.status.is_success() {
            self.known().saw(&rule.origin, &asked.key, None);
        }
        Ok(answer)
    }

    /// As [`Gateway::handle`], by the rule of the bucket.
    async fn handle_by(
        &self,
        asked: &Asked,
        rule: &BucketRule,
        incoming: Incoming,
    ) -> Result<Answer, Failed> {
        match (asked.operation, &rule.encryption) {
            (Operation::CreateBucket | Operation::DeleteBucket, _)
                if !self.config().manage_buckets =>
            {
                Err(Failed::new(
                    S3ErrorCode::AccessDenied,
                    "this gateway does not make or remove buckets; see manage-buckets",
                ))
            }
            (Operation::PutObject, _) => self.put_object(asked, rule, incoming).await,
            (Operation::CopyObject, _) => self.copy_object(asked, rule).await,
            (Operation::UploadPartCopy, _) => self.copy_part(asked, rule).await,
            (operation, Some(encryption)) => {
                self.handle_encrypted(operation, asked, rule, encryption, incoming)
                    .await
            }
            (Operation::GetObject, None) => self.get_object(asked, rule).await,
            (Operation::UploadPart, None) => self.upload_part(asked, rule, incoming).await,
            (_, None) => self.pass(asked, rule, incoming).await,
        }
    }

    /// As [`Gateway::handle`], where objects are encrypted.
    async fn handle_encrypted(
        &self,
        operation: Operation,
        asked: &Asked,
        rule: &BucketRule,
        encryption: &Encryption,
        incoming: Incoming,
    ) -> Result<Answer, Failed> {
        match operation {
            Operation::GetObject => self.get_encrypted(asked, rule, encryption).await,
            Operation::HeadObject => self.head_encrypted(asked, rule, encryption).await,
            Operation::ListObjects | Operation::ListObjectVersions => {
                self.list_encrypted(asked, rule, encryption).await
            }
            Operation::CreateMultipartUpload => {
                self.create_encrypted(asked, rule, encryption).await
            }
            Operation::UploadPart => {
                self.upload_encrypted_part(asked, rule, encryption, incoming)
                    .await
            }
            Operation::CompleteMultipartUpload => {
                self.complete_encrypted(asked, rule, encryption, incoming)
                    .await
            }
            Operation::AbortMultipartUpload | Operation::ListParts => {
                self.about_encrypted_upload(asked, rule, incoming.method)
                    .await
            }
            Operation::GetObjectAttributes => Err(Failed::not_implemented(
                "attributes of stored bytes say nothing about the plaintext",
            )),
            Operation::ListBuckets
            | Operation::HeadBucket
            | Operation::CreateBucket
            | Operation::DeleteBucket
            | Operation::BucketProperty
            | Operation::SetBucketProperty
            | Operation::ListMultipartUploads
            | Operation::DeleteObjects
            | Operation::PutObject
            | Operation::CopyObject
            | Operation::DeleteObject
            | Operation::ObjectTagging
            | Operation::UploadPartCopy => self.pass(asked, rule, incoming).await,
        }
    }

    /// As it is asked, to the bucket's name at the origin; the answer as it is given.
    async fn pass(
        &self,
        asked: &Asked,
        rule: &BucketRule,
        incoming: Incoming,
    ) -> Result<Answer, Failed> {
        let mut ask = Ask::new(incoming.method.clone(), &rule.origin, &asked.key);
        ask.query.clone_from(&asked.query);
        ask.headers = passed_on(&asked.headers);
        if incoming.method == Method::PUT || incoming.method == Method::POST {
            let document = self.document(asked, incoming).await?;
            if !document.is_empty() {
                ask.payload = Payload::Whole(document);
            }
        }
        let response = self.origin().ask(ask).await?;
        if [Operation::HeadObject, Operation::DeleteObject].contains(&asked.operation) {
            // Of a range it would be the range's.
            let told = asked.operation == Operation::HeadObject
                && response.status() == StatusCode::OK
                && rule.encryption.is_none();
            let length = length_of(response.headers()).filter(|_| told);
            let reading = Reading::of(asked, rule);
            self.learn(&reading, response.status(), response.headers(), length);
        }
        buckets::answer(response, rule, asked)
    }
}

/// What an object says of itself, beside headers of S3's own.
pub(crate) const DESCRIBING: [&str; 6] = [
    "cache-control",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-type",
    "expires",
];

/// Headers that mean the same to the origin as to us.
pub(crate) fn passed_on(headers: &HeaderMap) -> HeaderMap {
    const PLAIN: [&str; 14] = [
        "cache-control",
        "content-disposition",
        "content-encoding",
        "content-language",
        "content-md5",
        "content-type",
        "expires",
        "if-match",
        "if-modified-since",
        "if-none-match",
        "if-range",
        "if-unmodified-since",
        "range",
        "x-amz-acl",
    ];
    /// Those of the client's own signature and framing, and what only a gateway writes.
    const OURS: [&str; 8] = [
        crate::encrypted::HEADER,
        "x-amz-content-sha256",
        "x-amz-copy-source",
        "x-amz-date",
        "x-amz-decoded-content-length",
        "x-amz-sdk-checksum-algorithm",
        "x-amz-security-token",
        "x-amz-trailer",
    ];
    let mut passed = HeaderMap::new();
    for (name, value) in headers {
        let text = name.as_str();
        let amazon = text.starts_with("x-amz-") && !OURS.contains(&text);
        if amazon || PLAIN.contains(&text) {
            passed.append(name.clone(), value.clone());
        }
    }
    passed
}

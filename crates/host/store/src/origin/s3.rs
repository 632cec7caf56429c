//! The S3 operations, over [`Objects`].

use std::convert::Infallible;
use std::sync::Arc;
use std::time::SystemTime;

use futures_util::stream::{self, StreamExt as _};
use http::{Extensions, StatusCode};
use s3s::dto::{
    AbortMultipartUploadInput, AbortMultipartUploadOutput, Bucket, CommonPrefix,
    CompleteMultipartUploadInput, CompleteMultipartUploadOutput, CreateMultipartUploadInput,
    CreateMultipartUploadOutput, DeleteObjectInput, DeleteObjectOutput, DeleteObjectsInput,
    DeleteObjectsOutput, DeletedObject, ETag, GetBucketLocationInput, GetBucketLocationOutput,
    GetObjectInput, GetObjectOutput, HeadBucketInput, HeadBucketOutput, HeadObjectInput,
    HeadObjectOutput, ListBucketsInput, ListBucketsOutput, ListMultipartUploadsInput,
    ListMultipartUploadsOutput, ListObjectsV2Input, ListObjectsV2Output, Object as Listed,
    PutObjectInput, PutObjectOutput, StreamingBlob, Timestamp, UploadPartInput, UploadPartOutput,
};
use s3s::{S3, S3Error, S3ErrorCode, S3Request, S3Response, S3Result, s3_error};

use super::Arrival;
use super::content::Content;
use super::multipart::{About, Uploads};
use super::objects::{Object, Objects, Receiving, Refused};

/// What `s3s` calls.
pub(super) struct Backend {
    objects: Arc<Objects>,
    uploads: Arc<Uploads>,
    /// Buckets carry a date in listings; theirs is when the origin started.
    created_at: SystemTime,
}

impl Backend {
    pub(super) fn new(objects: Arc<Objects>, uploads: Arc<Uploads>) -> Self {
        Self {
            objects,
            uploads,
            created_at: SystemTime::now(),
        }
    }

    fn known_bucket(&self, bucket: &str) -> S3Result<()> {
        if self.objects.buckets().contains(bucket) {
            Ok(())
        } else {
            Err(s3_error!(NoSuchBucket))
        }
    }

    fn known_object(&self, bucket: &str, key: &str) -> S3Result<Object> {
        self.known_bucket(bucket)?;
        self.objects
            .object(bucket, key)
            .ok_or_else(|| s3_error!(NoSuchKey))
    }

    /// Reads a body to its end. `s3s` has checked the signature of the head, and fails the stream where
    /// the bytes do not have the digest that was signed.
    async fn received(
        &self,
        body: Option<StreamingBlob>,
        content_length: Option<i64>,
    ) -> S3Result<Receiving> {
        let expected = content_length.and_then(|bytes| u64::try_from(bytes).ok());
        let mut receiving = self.objects.receive(expected)?;
        let Some(mut body) = body else {
            return Ok(receiving);
        };
        while let Some(piece) = body.next().await {
            let piece = piece
                .map_err(|source| S3Error::with_source(S3ErrorCode::IncompleteBody, source))?;
            receiving.push(&piece)?;
        }
        Ok(receiving)
    }
}

#[async_trait::async_trait]
impl S3 for Backend {
    async fn put_object(
        &self,
        request: S3Request<PutObjectInput>,
    ) -> S3Result<S3Response<PutObjectOutput>> {
        let arrival = arrival(&request.extensions)?;
        let input = request.input;
        self.known_bucket(&input.bucket)?;
        let received = self.received(input.body, input.content_length).await?;
        let mut object = received.finish();
        object.content_type = input.content_type;
        object.metadata = input.metadata;
        let output = PutObjectOutput {
            e_tag: Some(e_tag(&object)),
            ..PutObjectOutput::default()
        };
        self.objects
            .store(&input.bucket, &input.key, object, arrival)?;
        Ok(S3Response::new(output))
    }

    async fn get_object(
        &self,
        request: S3Request<GetObjectInput>,
    ) -> S3Result<S3Response<GetObjectOutput>> {
        let input = request.input;
        let object = self.known_object(&input.bucket, &input.key)?;
        if let Some(wanted) = input.if_match
            && !wanted.is_any()
            && wanted.as_etag() != Some(&e_tag(&object))
        {
            return Err(s3_error!(PreconditionFailed));
        }
        let (content, content_range) = match input.range {
            None => (object.content.clone(), None),
            Some(range) => {
                let total = object.content.len();
                let range = range
                    .check(total)
                    .map_err(|source| s3_error!(source, InvalidRange))?;
                let shown = format!("bytes {}-{}/{total}", range.start, range.end - 1);
                (object.content.slice(range), Some(shown))
            }
        };
        let status = content_range.as_ref().map(|_| StatusCode::PARTIAL_CONTENT);
        let output = GetObjectOutput {
            accept_ranges: Some("bytes".into()),
            content_length: Some(signed(content.len())?),
            content_range,
            content_type: object.content_type.clone(),
            e_tag: Some(e_tag(&object)),
            last_modified: Some(Timestamp::from(object.modified_at)),
            metadata: object.metadata.clone(),
            body: Some(body(content)),
            ..GetObjectOutput::default()
        };
        let mut response = S3Response::new(output);
        response.status = status;
        Ok(response)
    }

    async fn head_object(
        &self,
        request: S3Request<HeadObjectInput>,
    ) -> S3Result<S3Response<HeadObjectOutput>> {
        let object = self.known_object(&request.input.bucket, &request.input.key)?;
        Ok(S3Response::new(HeadObjectOutput {
            accept_ranges: Some("bytes".into()),
            content_length: Some(signed(object.content.len())?),
            content_type: object.content_type.clone(),
            e_tag: Some(e_tag(&object)),
            last_modified: Some(Timestamp::from(object.modified_at)),
            metadata: object.metadata,
            ..HeadObjectOutput::default()
        }))
    }

    async fn delete_object(
        &self,
        request: S3Request<DeleteObjectInput>,
    ) -> S3Result<S3Response<DeleteObjectOutput>> {
        self.known_bucket(&request.input.bucket)?;
        self.objects
            .remove(&request.input.bucket, &request.input.key);
        Ok(S3Response::new(DeleteObjectOutput::default()))
    }

    async fn delete_objects(
        &self,
        request: S3Request<DeleteObjectsInput>,
    ) -> S3Result<S3Response<DeleteObjectsOutput>> {
        let input = request.input;
        self.known_bucket(&input.bucket)?;
        let deleted = input.delete.objects.into_iter().map(|object| {
            self.objects.remove(&input.bucket, &object.key);
            DeletedObject {
                key: Some(object.key),
                ..DeletedObject::default()
            }
        });
        Ok(S3Response::new(DeleteObjectsOutput {
            deleted: Some(deleted.collect()),
            ..DeleteObjectsOutput::default()
        }))
    }

    async fn list_objects_v2(
        &self,
        request: S3Request<ListObjectsV2Input>,
    ) -> S3Result<S3Response<ListObjectsV2Output>> {
        let input = request.input;
        self.known_bucket(&input.bucket)?;
        let prefix = input.prefix.as_deref().unwrap_or_default();
        // The token is the last key that was answered: it is opaque to clients by contract.
        let after = input
            .continuation_token
            .as_deref()
            .or(input.start_after.as_deref())
            .unwrap_or_default();
        let all = self.objects.list(&input.bucket, prefix, after);
        // 1000 is both S3's default and its maximum.
        let most = input
            .max_keys
            .and_then(|keys| usize::try_from(keys).ok())
            .unwrap_or(1000)
            .min(1000);
        let page = Page::of(all, prefix, input.delimiter.as_deref(), most)?;
        Ok(S3Response::new(ListObjectsV2Output {
            key_count: i32::try_from(page.contents.len() + page.prefixes.len()).ok(),
            max_keys: i32::try_from(most).ok(),
            is_truncated: Some(page.next.is_some()),
            next_continuation_token: page.next,
            contents: Some(page.contents),
            common_prefixes: Some(page.prefixes),
            name: Some(input.bucket),
            prefix: input.prefix,
            delimiter: input.delimiter,
            continuation_token: input.continuation_token,
            start_after: input.start_after,
            ..ListObjectsV2Output::default()
        }))
    }

    async fn list_buckets(
        &self,
        _request: S3Request<ListBucketsInput>,
    ) -> S3Result<S3Response<ListBucketsOutput>> {
        let buckets = self.objects.buckets().iter().map(|name| Bucket {
            name: Some(name.clone()),
            creation_date: Some(Timestamp::from(self.created_at)),
            ..Bucket::default()
        });
        Ok(S3Response::new(ListBucketsOutput {
            buckets: Some(buckets.collect()),
            ..ListBucketsOutput::default()
        }))
    }

    async fn head_bucket(
        &self,
        request: S3Request<HeadBucketInput>,
    ) -> S3Result<S3Response<HeadBucketOutput>> {
        self.known_bucket(&request.input.bucket)?;
        Ok(S3Response::new(HeadBucketOutput::default()))
    }

    async fn get_bucket_location(
        &self,
        request: S3Request<GetBucketLocationInput>,
    ) -> S3Result<S3Response<GetBucketLocationOutput>> {
        self.known_bucket(&request.input.bucket)?;
        // No constraint is how S3 spells us-east-1.
        Ok(S3Response::new(GetBucketLocationOutput::default()))
    }

    async fn create_multipart_upload(
        &self,
        request: S3Request<CreateMultipartUploadInput>,
    ) -> S3Result<S3Response<CreateMultipartUploadOutput>> {
        let input = request.input;
        self.known_bucket(&input.bucket)?;
        let about = About {
            content_type: input.content_type,
            metadata: input.metadata,
        };
        let whole = self.objects.receive(None)?;
        let id = self.uploads.begin(&input.bucket, &input.key, about, whole);
        Ok(S3Response::new(CreateMultipartUploadOutput {
            bucket: Some(input.bucket),
            key: Some(input.key),
            upload_id: Some(id),
            ..CreateMultipartUploadOutput::default()
        }))
    }

    async fn upload_part(
        &self,
        request: S3Request<UploadPartInput>,
    ) -> S3Result<S3Response<UploadPartOutput>> {
        let input = request.input;
        let part = self
            .received(input.body, input.content_length)
            .await?
            .finish();
        let tag = e_tag(&part);
        let limit = self.objects.object_limit();
        self.uploads
            .add(&input.upload_id, input.part_number, part, limit)?;
        Ok(S3Response::new(UploadPartOutput {
            e_tag: Some(tag),
            ..UploadPartOutput::default()
        }))
    }

    async fn complete_multipart_upload(
        &self,
        request: S3Request<CompleteMultipartUploadInput>,
    ) -> S3Result<S3Response<CompleteMultipartUploadOutput>> {
        let arrival = arrival(&request.extensions)?;
        let input = request.input;
        let wanted = input
            .multipart_upload
            .and_then(|upload| upload.parts)
            .unwrap_or_default();
        let fresh = self.objects.receive(None)?;
        let (whole, about) = self.uploads.finish(
            &input.upload_id,
            (&input.bucket, &input.key),
            &wanted,
            fresh,
        )?;
        let mut object = whole.finish();
        object.content_type = about.content_type;
        object.metadata = about.metadata;
        let tag = e_tag(&object);
        self.objects
            .store(&input.bucket, &input.key, object, arrival)?;
        Ok(S3Response::new(CompleteMultipartUploadOutput {
            bucket: Some(input.bucket),
            key: Some(input.key),
            e_tag: Some(tag),
            ..CompleteMultipartUploadOutput::default()
        }))
    }

    async fn list_multipart_uploads(
        &self,
        request: S3Request<ListMultipartUploadsInput>,
    ) -> S3Result<S3Response<ListMultipartUploadsOutput>> {
        self.known_bucket(&request.input.bucket)?;
        Ok(S3Response::new(ListMultipartUploadsOutput {
            uploads: Some(self.uploads.list(&request.input.bucket)),
            bucket: Some(request.input.bucket),
            is_truncated: Some(false),
            ..ListMultipartUploadsOutput::default()
        }))
    }

    async fn abort_multipart_upload(
        &self,
        request: S3Request<AbortMultipartUploadInput>,
    ) -> S3Result<S3Response<AbortMultipartUploadOutput>> {
        self.uploads.abort(&request.input.upload_id)?;
        Ok(S3Response::new(AbortMultipartUploadOutput::default()))
    }
}

impl From<Refused> for S3Error {
    fn from(refused: Refused) -> Self {
        let code = match refused {
            Refused::TooLarge { .. } => S3ErrorCode::EntityTooLarge,
            // S3 itself is never full; the name and the status are MinIO's.
            Refused::Full { .. } => S3ErrorCode::Custom("XMinioStorageFull".into()),
            Refused::NoBucket => S3ErrorCode::NoSuchBucket,
        };
        let mut error = Self::with_message(code, refused.to_string());
        if matches!(refused, Refused::Full { .. }) {
            error.set_status_code(StatusCode::INSUFFICIENT_STORAGE);
        }
        error
    }
}

/// One page of a listing.
#[derive(Default)]
struct Page {
    contents: Vec<Listed>,
    prefixes: Vec<CommonPrefix>,
    /// Last key that this page covers, where there are more.
    next: Option<String>,
}

impl Page {
    /// The first `most` entries of `objects`, keys sharing a part up to `delimiter` as one entry.
    fn of(
        objects: Vec<(String, Object)>,
        prefix: &str,
        delimiter: Option<&str>,
        most: usize,
    ) -> S3Result<Self> {
        let delimiter = delimiter.filter(|text| !text.is_empty());
        let mut page = Self::default();
        let mut covered = None;
        for (key, object) in objects {
            let common = delimiter.and_then(|delimiter| {
                let rest = key.get(prefix.len()..)?;
                let end = rest.find(delimiter)? + delimiter.len();
                Some(format!("{prefix}{}", rest.get(..end)?))
            });
            let known =
                common.is_some() && page.prefixes.last().map(|last| &last.prefix) == Some(&common);
            if !known && page.contents.len() + page.prefixes.len() >= most {
                page.next = covered;
                break;
            }
            covered = Some(key.clone());
            if known {
                continue;
            }
            match common {
                Some(_) => page.prefixes.push(CommonPrefix { prefix: common }),
                None => page.contents.push(Listed {
                    key: Some(key),
                    size: Some(signed(object.content.len())?),
                    e_tag: Some(e_tag(&object)),
                    last_modified: Some(Timestamp::from(object.modified_at)),
                    ..Listed::default()
                }),
            }
        }
        Ok(page)
    }
}

fn arrival(extensions: &Extensions) -> S3Result<Arrival> {
    extensions
        .get::<Arrival>()
        .copied()
        .ok_or_else(|| s3_error!(InternalError, "the request did not come over a connection"))
}

/// An opaque tag. Longer than an MD5 on purpose: clients that check content against an MD5 `ETag` see
/// that this is none.
pub(super) fn e_tag(object: &Object) -> ETag {
    ETag::Strong(object.sha256.clone())
}

fn body(content: Content) -> StreamingBlob {
    let pieces = content.into_pieces().into_iter();
    StreamingBlob::wrap(stream::iter(pieces.map(Ok::<_, Infallible>)))
}

/// S3's schema counts bytes with a sign.
fn signed(bytes: u64) -> S3Result<i64> {
    i64::try_from(bytes).map_err(|source| s3_error!(source, InternalError))
}

//! Buckets and objects in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};

use bytes::Bytes;
use tokio::sync::mpsc::UnboundedSender;

use super::{Arrival, Config, Stored};
use crate::digest::Running;
use crate::payload;

/// All buckets of an origin.
pub(super) struct Objects {
    started_at: Instant,
    object_limit: u64,
    capacity: u64,
    form_bucket: String,
    buckets: BTreeSet<String>,
    events: UnboundedSender<Stored>,
    held: Mutex<Held>,
}

/// One object. Clones share the bytes.
#[derive(Clone, Debug)]
pub(super) struct Object {
    pub(super) bytes: Bytes,
    pub(super) sha256: String,
    pub(super) content_type: Option<String>,
    pub(super) metadata: Option<s3s::dto::Metadata>,
    pub(super) modified_at: SystemTime,
}

/// Why an object was not stored.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub(super) enum Refused {
    #[error("the object is larger than the {limit} bytes that this origin takes")]
    TooLarge { limit: u64 },
    #[error("this origin holds at most {capacity} bytes")]
    Full { capacity: u64 },
    #[error("there is no such bucket")]
    NoBucket,
}

#[derive(Default)]
struct Held {
    /// By bucket and key, so that a listing is a range.
    objects: BTreeMap<(String, String), Object>,
    bytes: u64,
    /// Number of the last form posted.
    forms: u64,
}

impl Held {
    fn insert(
        &mut self,
        place: (String, String),
        object: Object,
        capacity: u64,
    ) -> Result<(), Refused> {
        let replaced = self.objects.get(&place).map_or(0, |old| len(&old.bytes));
        // `replaced` is part of `bytes`, so the difference cannot go below zero.
        let after = self.bytes - replaced + len(&object.bytes);
        if after > capacity {
            return Err(Refused::Full { capacity });
        }
        self.bytes = after;
        self.objects.insert(place, object);
        Ok(())
    }
}

impl Objects {
    pub(super) fn new(config: &Config, events: UnboundedSender<Stored>) -> Self {
        let mut buckets: BTreeSet<String> = config.buckets.iter().cloned().collect();
        buckets.insert(config.form_bucket.clone());
        Self {
            started_at: Instant::now(),
            object_limit: config.object_limit,
            capacity: config.capacity,
            form_bucket: config.form_bucket.clone(),
            buckets,
            events,
            held: Mutex::default(),
        }
    }

    /// Puts the object of this size into every bucket, without an event.
    pub(super) fn make(&self, seed: u64, bytes: u64) -> Result<(), Refused> {
        let limit = self.object_limit;
        let size = usize::try_from(bytes).ok().filter(|_| bytes <= limit);
        let content = payload::made(seed, size.ok_or(Refused::TooLarge { limit })?);
        let mut receiving = self.receive(Some(bytes))?;
        receiving.push(&content)?;
        let object = receiving.finish();
        for bucket in &self.buckets {
            let place = (bucket.clone(), payload::made_key(bytes));
            self.held().insert(place, object.clone(), self.capacity)?;
        }
        Ok(())
    }

    pub(super) fn buckets(&self) -> &BTreeSet<String> {
        &self.buckets
    }

    pub(super) fn form_bucket(&self) -> &str {
        &self.form_bucket
    }

    pub(super) fn object_limit(&self) -> u64 {
        self.object_limit
    }

    /// A key for the next posted form.
    pub(super) fn form_key(&self) -> String {
        let mut held = self.held();
        held.forms += 1;
        format!("files/{:06}", held.forms)
    }

    /// Starts an object whose size the request announces as `expected`, if it does.
    pub(super) fn receive(&self, expected: Option<u64>) -> Result<Receiving, Refused> {
        Receiving::new(self.object_limit, expected)
    }

    /// Stores what was received and tells the lab.
    pub(super) fn store(
        &self,
        bucket: &str,
        key: &str,
        object: Object,
        arrival: Arrival,
    ) -> Result<(), Refused> {
        if !self.buckets.contains(bucket) {
            return Err(Refused::NoBucket);
        }
        let stored = Stored {
            bucket: bucket.into(),
            key: key.into(),
            bytes: len(&object.bytes),
            sha256: object.sha256.clone(),
            peer: arrival.peer,
            started_s: arrival.at.duration_since(self.started_at).as_secs_f64(),
            seconds: arrival.at.elapsed().as_secs_f64(),
        };
        let place = (bucket.to_owned(), key.to_owned());
        self.held().insert(place, object, self.capacity)?;
        // A lab that no longer listens is no reason to fail an upload.
        let _ = self.events.send(stored);
        Ok(())
    }

    pub(super) fn object(&self, bucket: &str, key: &str) -> Option<Object> {
        self.held()
            .objects
            .get(&(bucket.to_owned(), key.to_owned()))
            .cloned()
    }

    /// Removes an object; S3 does not mind when there is none.
    pub(super) fn remove(&self, bucket: &str, key: &str) {
        let mut held = self.held();
        let removed = held.objects.remove(&(bucket.to_owned(), key.to_owned()));
        held.bytes -= removed.map_or(0, |object| len(&object.bytes));
    }

    /// Objects of `bucket` whose keys start with `prefix` and come after `after`, by key.
    pub(super) fn list(&self, bucket: &str, prefix: &str, after: &str) -> Vec<(String, Object)> {
        let first = prefix.max(after).to_owned();
        self.held()
            .objects
            .range((bucket.to_owned(), first)..)
            .take_while(|((of, key), _)| of == bucket && key.starts_with(prefix))
            .filter(|((_, key), _)| after.is_empty() || key.as_str() > after)
            .map(|((_, key), object)| (key.clone(), object.clone()))
            .collect()
    }

    /// A panic while the lock is held leaves whole objects behind, never half of one, so its poison
    /// means nothing here.
    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An object on its way: hashed while it arrives, never longer than the limit.
#[derive(Debug)]
pub(super) struct Receiving {
    limit: u64,
    bytes: Vec<u8>,
    digest: Running,
}

impl Receiving {
    fn new(limit: u64, expected: Option<u64>) -> Result<Self, Refused> {
        let expected = expected.unwrap_or(0);
        if expected > limit {
            return Err(Refused::TooLarge { limit });
        }
        // The announced size is believed only up to here; what really arrives may grow further.
        let first = usize::try_from(expected.min(1 << 20)).unwrap_or_default();
        Ok(Self {
            limit,
            bytes: Vec::with_capacity(first),
            digest: Running::default(),
        })
    }

    /// Takes the next piece. The piece is copied: to keep hyper's own would keep its whole read
    /// buffer in memory with it.
    pub(super) fn push(&mut self, piece: &[u8]) -> Result<(), Refused> {
        if len(&self.bytes).saturating_add(len(piece)) > self.limit {
            return Err(Refused::TooLarge { limit: self.limit });
        }
        self.digest.update(piece);
        self.bytes.extend_from_slice(piece);
        Ok(())
    }

    pub(super) fn finish(self) -> Object {
        Object {
            bytes: Bytes::from(self.bytes),
            sha256: self.digest.finish(),
            content_type: None,
            metadata: None,
            modified_at: SystemTime::now(),
        }
    }
}

/// A length in the unit of sizes on the wire.
pub(super) fn len(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

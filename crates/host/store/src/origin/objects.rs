//! Buckets and objects in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};

use tokio::sync::mpsc::UnboundedSender;

use super::content::{Content, Growing, Memory, size};
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
    memory: Memory,
    held: Mutex<Held>,
}

/// One object. Clones share the bytes.
#[derive(Clone, Debug)]
pub(super) struct Object {
    pub(super) content: Content,
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
        let replaced = self.objects.get(&place).map_or(0, |old| old.content.len());
        // `replaced` is part of `bytes`, so the difference cannot go below zero.
        let after = self.bytes - replaced + object.content.len();
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
            memory: Memory::default(),
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
        Receiving::new(self.object_limit, expected, &self.memory)
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
            bytes: object.content.len(),
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
        held.bytes -= removed.map_or(0, |object| object.content.len());
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
    content: Growing,
    digest: Running,
}

impl Receiving {
    fn new(limit: u64, expected: Option<u64>, memory: &Memory) -> Result<Self, Refused> {
        if expected.is_some_and(|expected| expected > limit) {
            return Err(Refused::TooLarge { limit });
        }
        Ok(Self {
            limit,
            content: memory.growing(),
            digest: Running::default(),
        })
    }

    /// Takes the next piece. The piece is copied: to keep hyper's own would keep its whole read
    /// buffer in memory with it.
    pub(super) fn push(&mut self, piece: &[u8]) -> Result<(), Refused> {
        self.room_for(size(piece))?;
        self.digest.update(piece);
        self.content.extend(piece);
        Ok(())
    }

    /// Takes all of another object, whose memory both then share.
    pub(super) fn append(&mut self, content: &Content) -> Result<(), Refused> {
        self.room_for(content.len())?;
        for piece in content.clone().into_pieces() {
            self.digest.update(&piece);
        }
        self.content.append(content);
        Ok(())
    }

    pub(super) fn finish(self) -> Object {
        Object {
            content: self.content.finish(),
            sha256: self.digest.finish(),
            content_type: None,
            metadata: None,
            modified_at: SystemTime::now(),
        }
    }

    fn room_for(&self, more: u64) -> Result<(), Refused> {
        if self.content.len().saturating_add(more) > self.limit {
            return Err(Refused::TooLarge { limit: self.limit });
        }
        Ok(())
    }
}

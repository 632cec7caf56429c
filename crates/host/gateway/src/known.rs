//! What large objects were when they were seen last, so that the next download asks for all of it at once.
//!
//! A download does not know how long its object is before the first answer, which is a round trip in which the path carries
//! nothing. Where the object has passed here before, its ranges are asked for at the same time, of that version alone
//! (`If-Match`). The first request stays what it is, and its answer decides: of another version, nothing of what was
//! asked for ahead is delivered. So this can be wrong, and costs requests and their connections then, but brings no wrong byte.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use http::HeaderMap;
use http::header::{ETAG, HeaderValue};

/// Objects that are remembered, at some 200 bytes and twice their names each.
const REMEMBERED: usize = 10_000;
const VERSION_ID: &str = "x-amz-version-id";

/// Objects and what they were.
#[derive(Debug, Default)]
pub(crate) struct Known {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    versions: HashMap<Object, Version>,
    /// The one seen first for the first time is forgotten first.
    order: VecDeque<Object>,
}

/// As the origin calls it.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Object {
    bucket: String,
    key: String,
}

/// One content of an object.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Version {
    tag: HeaderValue,
    id: Option<HeaderValue>,
    /// Stored bytes that a download of the whole reads.
    pub(crate) length: u64,
}

// === impl Version ===

impl Version {
    /// That of an answer; `None` where it does not name one.
    pub(crate) fn of(head: &HeaderMap, length: u64) -> Option<Self> {
        Some(Self {
            tag: head.get(ETAG)?.clone(),
            id: head.get(VERSION_ID).cloned(),
            length,
        })
    }

    /// Whether an answer is of it.
    pub(crate) fn is_of(&self, head: &HeaderMap) -> bool {
        head.get(ETAG) == Some(&self.tag) && head.get(VERSION_ID) == self.id.as_ref()
    }

    /// What an answer says that is of it.
    pub(crate) fn head(&self) -> HeaderMap {
        let mut head = HeaderMap::new();
        head.insert(ETAG, self.tag.clone());
        if let Some(id) = &self.id {
            head.insert(VERSION_ID, id.clone());
        }
        head
    }
}

// === impl Known ===

impl Known {
    /// The object is this now, or nothing worth remembering.
    pub(crate) fn saw(&self, bucket: &str, key: &str, version: Option<Version>) {
        let object = Object::new(bucket, key);
        let mut state = self.state();
        match version {
            None => {
                if state.versions.remove(&object).is_some() {
                    state.order.retain(|known| *known != object);
                }
            }
            Some(version) => {
                if state.versions.insert(object.clone(), version).is_none() {
                    state.order.push_back(object);
                }
                if state.order.len() > REMEMBERED
                    && let Some(oldest) = state.order.pop_front()
                {
                    state.versions.remove(&oldest);
                }
            }
        }
    }

    /// What the object was when it was seen last.
    pub(crate) fn version(&self, bucket: &str, key: &str) -> Option<Version> {
        let object = Object::new(bucket, key);
        self.state().versions.get(&object).cloned()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Object ===

impl Object {
    fn new(bucket: &str, key: &str) -> Self {
        Self {
            bucket: bucket.to_owned(),
            key: key.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(tag: &'static str, id: Option<&'static str>) -> Version {
        let mut head = HeaderMap::new();
        head.insert(ETAG, HeaderValue::from_static(tag));
        if let Some(id) = id {
            head.insert(VERSION_ID, HeaderValue::from_static(id));
        }
        Version::of(&head, 1).unwrap()
    }

    #[test]
    fn a_version_is_of_its_own_answers_alone() {
        let one = version("\"a\"", Some("1"));
        assert!(one.is_of(&one.head()));
        for other in [
            version("\"b\"", Some("1")),
            version("\"a\"", Some("2")),
            version("\"a\"", None),
        ] {
            assert!(!one.is_of(&other.head()), "{other:?}");
            assert!(!other.is_of(&one.head()), "{other:?}");
        }
        assert_eq!(Version::of(&HeaderMap::new(), 1), None);
    }

    #[test]
    fn the_newest_counts_and_the_oldest_is_forgotten() {
        let known = Known::default();
        let of = |number: usize| known.version("b", &number.to_string());
        for number in 0..REMEMBERED {
            known.saw("b", &number.to_string(), Some(version("\"a\"", None)));
        }
        known.saw("b", "0", Some(version("\"b\"", None)));
        assert_eq!(of(0), Some(version("\"b\"", None)));
        known.saw("b", "1", None);
        known.saw("b", "nothing", None);
        assert_eq!(of(1), None);
        known.saw("b", "more", Some(version("\"a\"", None)));
        assert!(of(0).is_some());
        known.saw("b", "yet more", Some(version("\"a\"", None)));
        assert_eq!((of(0), of(2).is_some()), (None, true));
        assert_eq!(known.version("other", "2"), None);
    }
}

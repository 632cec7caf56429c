use record::LimitName;
use record::page::Sort;
use serde::Deserialize;
use serde::de::IntoDeserializer as _;
use serde::de::value::{Error, StrDeserializer};

/// Connections in an answer, unless asked otherwise: what a screen shows.
const USUAL: usize = 100;
/// And at most: with their bands some 300 kB.
const MOST: usize = 500;

/// Which connections are asked for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Question {
    /// In which order.
    pub sort: Sort,
    /// A part of an address of theirs.
    pub find: Option<String>,
    /// What holds one of their directions back now.
    pub limit: Option<LimitName>,
    /// Those that are over instead of those that are open.
    pub ended: bool,
    /// How many at most.
    pub count: usize,
    /// How many are passed over first.
    pub from: usize,
}

// === impl Question ===

impl Default for Question {
    fn default() -> Self {
        Self {
            sort: Sort::default(),
            find: None,
            limit: None,
            ended: false,
            count: USUAL,
            from: 0,
        }
    }
}

impl Question {
    /// Reads a query string; refuses what it does not know, so that a slip is not taken for an answer.
    pub(crate) fn parse(query: &str) -> Result<Self, String> {
        let mut question = Self::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let refused = || format!("`{name}` cannot be `{value}`");
            match &*name {
                "sort" => question.sort = word(&value).ok_or_else(refused)?,
                "limit" => question.limit = Some(word(&value).ok_or_else(refused)?),
                "find" => {
                    let text = Some(value.trim().to_owned());
                    question.find = text.filter(|text| !text.is_empty());
                }
                "ended" => question.ended = value.parse().map_err(|_| refused())?,
                "from" => question.from = value.parse().map_err(|_| refused())?,
                "count" => {
                    let count: usize = value.parse().map_err(|_| refused())?;
                    question.count = count.min(MOST);
                }
                _ => {
                    return Err(format!(
                        "there is no `{name}`: sort, find, limit, ended, count, from"
                    ));
                }
            }
        }
        Ok(question)
    }
}

/// A name as documents write it.
fn word<'de, T: Deserialize<'de>>(text: &'de str) -> Option<T> {
    let text: StrDeserializer<'de, Error> = text.into_deserializer();
    T::deserialize(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_says_which_connections() {
        let question = Question::parse(
            "sort=rtt&find=10.0.0.%31+&limit=receive-window&ended=true&count=20&from=40",
        );
        let expected = Question {
            sort: Sort::Rtt,
            find: Some("10.0.0.1".into()),
            limit: Some(LimitName::ReceiveWindow),
            ended: true,
            count: 20,
            from: 40,
        };
        assert_eq!(question, Ok(expected));
        assert_eq!(Question::parse(""), Ok(Question::default()));
        assert_eq!(Question::parse("count=9999999").unwrap().count, MOST);
    }

    #[test]
    fn what_is_not_understood_is_refused_by_name() {
        for (query, word) in [
            ("sort=beauty", "`sort` cannot be `beauty`"),
            ("count=-1", "`count` cannot be `-1`"),
            ("limits=bottleneck", "there is no `limits`"),
        ] {
            let why = Question::parse(query).unwrap_err();
            assert!(why.starts_with(word), "{why}");
        }
    }
}

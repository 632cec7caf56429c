use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;

use record::page::{Connections, History, Overview, Reports};

use crate::{Answer, Question};

/// What a [`Source`] says to a path that is none of the page's.
pub type OtherAnswer<'a> = Pin<Box<dyn Future<Output = Option<Answer>> + Send + 'a>>;

/// Whoever has something to show. Called from the tasks that answer browsers: what a method returns is ready,
/// or made in milliseconds.
pub trait Source: Send + Sync + 'static {
    /// What one look should tell.
    fn overview(&self) -> Overview;

    /// Connections that match a question; nobody has any where nothing else is said.
    fn connections(&self, _question: &Question) -> Connections {
        Connections::default()
    }

    /// All that is known of a connection, while it is known.
    fn history(&self, _id: u64) -> Option<History> {
        None
    }

    /// The lab's reports. May read files: it is called where blocking is allowed.
    fn reports(&self) -> Reports {
        Reports::default()
    }

    /// A file of one of these reports, where there is such a report and it has such a file.
    fn report_file(&self, _id: &str, _file: &str) -> Option<PathBuf> {
        None
    }

    /// The answer to a path that is none of the page's, such as `/metrics`.
    fn other<'a>(&'a self, _path: &'a str) -> OtherAnswer<'a> {
        Box::pin(std::future::ready(None))
    }
}

//! Which path is answered by what.

use std::path::PathBuf;
use std::sync::Arc;

use hyper::{StatusCode, Uri};
use tokio::task::spawn_blocking;

use crate::{Answer, Question, Source, assets};

/// What a report is written as, beside its result.
const PAGE: &str = "report.html";
/// The lab's result.
pub(crate) const RESULT: &str = "result.json";

pub(crate) async fn answer(source: &Arc<dyn Source>, uri: &Uri) -> Answer {
    let (path, query) = (uri.path(), uri.query().unwrap_or_default());
    if let Some(asset) = assets::at(path) {
        return asset;
    }
    match path {
        "/v1/overview" => Answer::json(&source.overview()),
        "/v1/connections" => match Question::parse(query) {
            Ok(question) => Answer::json(&source.connections(&question)),
            Err(why) => Answer::text(StatusCode::BAD_REQUEST, &why),
        },
        "/v1/reports" => {
            let source = Arc::clone(source);
            let reading = spawn_blocking(move || Answer::json(&source.reports()));
            reading.await.unwrap_or_else(|_| interrupted())
        }
        "/v1/reports/document" => {
            let file = report_file(source, query, RESULT).await;
            match file {
                Some(Ok(bytes)) => Answer::ok("application/json", bytes),
                other => unread(other),
            }
        }
        "/v1/reports/page" => match report_file(source, query, PAGE).await {
            Some(Ok(bytes)) => Answer::report(bytes),
            other => unread(other),
        },
        _ => {
            if let Some(id) = path.strip_prefix("/v1/connections/") {
                let known = id.parse().ok().and_then(|id| source.history(id));
                return known.map_or_else(
                    || {
                        Answer::text(
                            StatusCode::NOT_FOUND,
                            "there is no such connection any more",
                        )
                    },
                    |history| Answer::json(&history),
                );
            }
            source.other(path).await.unwrap_or_else(|| {
                let paths =
                    "there is / /v1/overview /v1/connections /v1/connections/ID /v1/reports";
                Answer::text(StatusCode::NOT_FOUND, paths)
            })
        }
    }
}

/// A file of the report that `query` names as `id`; `None` where there is no such report.
async fn report_file(
    source: &Arc<dyn Source>,
    query: &str,
    file: &'static str,
) -> Option<std::io::Result<Vec<u8>>> {
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    let (_, id) = pairs.find(|(name, _)| name == "id")?;
    let (source, id) = (Arc::clone(source), id.into_owned());
    let reading = spawn_blocking(move || {
        let path: PathBuf = source.report_file(&id, file)?;
        Some(std::fs::read(path))
    });
    reading.await.ok().flatten()
}

fn unread(file: Option<std::io::Result<Vec<u8>>>) -> Answer {
    match file {
        Some(Err(error)) => {
            let why = format!("the report's file cannot be read: {error}");
            Answer::text(StatusCode::INTERNAL_SERVER_ERROR, &why)
        }
        _ => Answer::text(StatusCode::NOT_FOUND, "there is no such report"),
    }
}

fn interrupted() -> Answer {
    Answer::text(StatusCode::SERVICE_UNAVAILABLE, "this process is ending")
}

//! The page's files, as `make page` has built them.

use crate::Answer;

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const PICTURE: &str = "image/svg+xml";

/// The page's file at a path.
pub(crate) fn at(path: &str) -> Option<Answer> {
    let (kind, bytes): (_, &'static [u8]) = match path {
        "/" => (HTML, include_bytes!("../assets/index.html")),
        "/page.js" => (SCRIPT, include_bytes!("../assets/page.js")),
        "/page.css" => (STYLE, include_bytes!("../assets/page.css")),
        "/icon.svg" => (PICTURE, include_bytes!("../assets/icon.svg")),
        _ => return None,
    };
    Some(Answer::ok(kind, bytes))
}

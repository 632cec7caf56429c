//! Names of buckets, here and at the origin.

use bytes::Bytes;
use http::{Method, Response, StatusCode};

use super::{Gateway, passed_on};
use crate::answer::Answer;
use crate::asked::{Asked, Operation};
use crate::config::BucketRule;
use crate::failed::Failed;
use crate::origin::Ask;
use crate::xml::{Element, Node};

impl Gateway {
    /// The origin's buckets that are served, by the names that clients have for them.
    pub(super) async fn list_buckets(&self, asked: &Asked) -> Result<Answer, Failed> {
        let mut ask = Ask::new(Method::GET, "", "");
        ask.query.clone_from(&asked.query);
        ask.headers = passed_on(&asked.headers);
        let response = self.origin().ask(ask).await?;
        if !response.status().is_success() {
            return Ok(Answer::whole(response));
        }
        let mut root = Element::parse(response.body())?;
        if let Some(list) = root.elements_mut().find(|child| child.name == "Buckets") {
            list.children.retain_mut(|node| {
                let Node::Element(bucket) = node else {
                    return true;
                };
                let name = bucket.child("Name").unwrap_or_default();
                let Some(name) = self.config().client_name(&name) else {
                    return false;
                };
                bucket.set("Name", name);
                true
            });
        }
        Ok(Answer::xml(StatusCode::OK, root.document()?))
    }
}

/// A document of the origin's with the client's names: of the bucket, and of the place.
pub(crate) fn renamed(body: &Bytes, rule: &BucketRule, asked: &Asked) -> Result<Bytes, Failed> {
    let mut root = Element::parse(body)?;
    match root.name.as_str() {
        "ListBucketResult" | "ListVersionsResult" => root.set("Name", &rule.name),
        "ListMultipartUploadsResult" | "ListPartsResult" | "InitiateMultipartUploadResult" => {
            root.set("Bucket", &rule.name);
        }
        "CompleteMultipartUploadResult" => {
            root.set("Bucket", &rule.name);
            let host = asked.header("host").unwrap_or_default();
            root.set(
                "Location",
                format!("http://{host}/{}/{}", rule.name, asked.key),
            );
        }
        "Error" => root.set("BucketName", &rule.name),
        _ => return Ok(body.clone()),
    }
    Ok(Bytes::from(root.document()?))
}

/// The answer to a client with its own name of the bucket.
pub(crate) fn answer(
    response: Response<Bytes>,
    rule: &BucketRule,
    asked: &Asked,
) -> Result<Answer, Failed> {
    let same = rule.name == rule.origin && asked.operation != Operation::CompleteMultipartUpload;
    if same || response.body().is_empty() {
        return Ok(Answer::whole(response));
    }
    let (head, body) = response.into_parts();
    let body = renamed(&body, rule, asked)?;
    Ok(Answer::whole(Response::from_parts(head, body)))
}

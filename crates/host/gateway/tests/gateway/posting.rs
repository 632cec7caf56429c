//! Forms of browsers, which a client has signed.

use crate::support::{CLIENT, Site, content, gateway_with_stall, raw, signature, signed_get};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use object_store::path::Path;
use object_store::{Attribute, ObjectStoreExt as _};
use std::net::SocketAddr;
use store::digest::sha256_hex;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

const DAY: &str = "20260501";
const LATER: &str = "2144-11-08T04:19:33Z";
const END: &str = "\r\n--frontier--\r\n";

/// A form to a bucket: what its policy names, in JSON, and what it says.
struct Form<'a> {
    bucket: &'a str,
    host: &'a str,
    expiration: &'a str,
    conditions: &'a str,
    fields: &'a [(&'a str, &'a str)],
    name: &'a str,
    after: &'a str,
}

impl Default for Form<'_> {
    fn default() -> Self {
        Self {
            bucket: "lab",
            host: "gateway",
            expiration: LATER,
            conditions: r#"["starts-with","$key",""]"#,
            fields: &[("key", "k")],
            name: "a.bin",
            after: END,
        }
    }
}

fn field(name: &str, value: &str) -> String {
    format!("--frontier\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
}

impl Form<'_> {
    /// The policy, the fields of its signature, and those of the form.
    fn signed(&self) -> Vec<(String, String)> {
        let credential = format!("{}/{DAY}/us-east-1/s3/aws4_request", CLIENT.0);
        let moment = format!("{DAY}T000000Z");
        let policy = format!(
            r#"{{"expiration":"{}","conditions":[{{"bucket":"{}"}},{{"x-amz-credential":"{credential}"}},
            {{"x-amz-algorithm":"AWS4-HMAC-SHA256"}},{{"x-amz-date":"{moment}"}},{}]}}"#,
            self.expiration, self.bucket, self.conditions
        );
        let policy = BASE64_STANDARD.encode(policy);
        let signature = signature(DAY, &policy);
        let own = [
            ("x-amz-credential", credential.as_str()),
            ("x-amz-algorithm", "AWS4-HMAC-SHA256"),
            ("x-amz-date", &moment),
            ("policy", &policy),
            ("x-amz-signature", &signature),
        ];
        let fields = own.iter().chain(self.fields);
        fields
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    async fn post(&self, site: &Site, file: &[u8]) -> String {
        self.post_with(site, &self.signed(), file).await
    }

    async fn post_with(&self, site: &Site, fields: &[(String, String)], file: &[u8]) -> String {
        let before: String = fields
            .iter()
            .map(|(name, value)| field(name, value))
            .collect();
        let head = format!(
            "--frontier\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{}\"\r\n\
             Content-Type: application/x-own\r\n\r\n",
            self.name
        );
        let mut body = (before + &head).into_bytes();
        body.extend_from_slice(file);
        body.extend_from_slice(self.after.as_bytes());
        let path = if self.host == "gateway" {
            self.bucket
        } else {
            ""
        };
        let mut request = format!(
            "POST /{path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\
             content-type: multipart/form-data; boundary=frontier\r\ncontent-length: {}\r\n\r\n",
            self.host,
            body.len()
        )
        .into_bytes();
        request.extend_from_slice(&body);
        answered(site, request).await
    }
}

/// The answer to a request that the gateway need not take to its end.
async fn answered(site: &Site, request: Vec<u8>) -> String {
    let stream = TcpStream::connect(site.gateway).await.unwrap();
    let (mut answers, mut requests) = stream.into_split();
    let sending = tokio::spawn(async move {
        let _ = requests.write_all(&request).await;
        requests
    });
    let mut answer = Vec::new();
    // A connection that is cut with the rest of the request on it is reset behind the answer.
    while answers
        .read_buf(&mut answer)
        .await
        .is_ok_and(|bytes| bytes > 0)
    {}
    drop(answers);
    drop(sending.await.unwrap());
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn a_signed_forms_file_becomes_the_object_that_it_names_whatever_its_size() {
    let mut site = Site::start().await;
    let form = Form {
        conditions: r#"["starts-with","$key","in/"],["eq","$Content-Type","image/png"],{"x-amz-meta-a":"ü"},
            ["content-length-range",0,30000000]"#,
        fields: &[
            ("key", "in/${filename}"),
            ("Content-Type", "image/png"),
            ("x-amz-meta-a", "ü"),
            ("x-ignore-more", "as they like"),
        ],
        name: "C:\\\\pictures\\\\a cat.png",
        ..Form::default()
    };
    for length in [0, 100_000, 20 << 20] {
        let file = content(length);
        let answer = form.post(&site, &file).await;
        assert!(answer.starts_with("HTTP/1.1 204"), "{answer}");
        let answer = answer.to_ascii_lowercase();
        assert!(
            answer.contains("location: http://gateway/lab/in/a%20cat.png\r\n"),
            "{answer}"
        );
        assert!(answer.contains("etag: \""), "{answer}");
        let stored = site.stored.recv().await.unwrap();
        assert_eq!(
            (stored.key.as_str(), stored.sha256),
            ("in/a cat.png", sha256_hex(&file))
        );
    }
    let got = site.owner("lab").get(&Path::from("in/a cat.png")).await;
    let attributes = got.unwrap().attributes;
    let kind = attributes.get(&Attribute::ContentType).unwrap();
    assert_eq!(kind.as_ref(), "image/png");
}

#[tokio::test]
async fn an_answer_is_as_the_form_wishes_it() {
    let site = Site::start().await;
    for (wish, value, status, said) in [
        ("success_action_status", "200", 200, ""),
        ("success_action_status", "204", 204, ""),
        ("success_action_status", "teapot", 204, ""),
        (
            "success_action_status",
            "201",
            201,
            "<Bucket>lab</Bucket><Key>a&amp;b</Key><ETag>",
        ),
        (
            "success_action_redirect",
            "http://site.example/done?from=form#top",
            303,
            "http://site.example/done?from=form&bucket=lab&etag=%22",
        ),
        ("success_action_redirect", "javascript:alert(1)", 204, ""),
    ] {
        let conditions = format!(r#"{{"key":"a&b"}},["starts-with","${wish}",""]"#);
        let form = Form {
            conditions: &conditions,
            fields: &[("key", "a&b"), (wish, value)],
            ..Form::default()
        };
        let answer = form.post(&site, b"abc").await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")),
            "{answer}"
        );
        assert!(answer.contains(said), "{answer}");
    }
    let form = Form {
        host: "lab.s3.test",
        ..Form::default()
    };
    let answer = form.post(&site, b"abc").await.to_ascii_lowercase();
    assert!(
        answer.contains("location: http://lab.s3.test/k\r\n"),
        "{answer}"
    );
}

#[tokio::test]
async fn what_a_policy_does_not_allow_leaves_nothing() {
    let mut site = Site::start().await;
    let refusals = [
        (
            "AccessDenied",
            "Policy expired.",
            Form {
                expiration: "2026-05-02T00:00:00Z",
                ..Form::default()
            },
        ),
        (
            "AccessDenied",
            "Extra input fields: x-amz-meta-a",
            Form {
                fields: &[("key", "k"), ("x-amz-meta-a", "1")],
                ..Form::default()
            },
        ),
        (
            "AccessDenied",
            r#"Policy Condition failed: ["eq","$key","in/k"]"#,
            Form {
                conditions: r#"["eq","$key","in/k"]"#,
                ..Form::default()
            },
        ),
        (
            "InvalidPolicyDocument",
            "unknown operation",
            Form {
                conditions: r#"["like","$key","k"]"#,
                ..Form::default()
            },
        ),
        (
            "InvalidArgument",
            "'key'",
            Form {
                fields: &[],
                ..Form::default()
            },
        ),
        (
            "MalformedPOSTRequest",
            "not well-formed",
            Form {
                after: "",
                ..Form::default()
            },
        ),
        (
            "BadDigest",
            "CRC32",
            Form {
                conditions: r#"{"key":"k"},{"x-amz-checksum-crc32":"AAAAAA=="}"#,
                fields: &[("key", "k"), ("x-amz-checksum-crc32", "AAAAAA==")],
                ..Form::default()
            },
        ),
    ];
    for (code, said, form) in &refusals {
        let answer = form.post(&site, b"abc").await;
        assert!(answer.contains(&format!("<Code>{code}</Code>")), "{answer}");
        let said = said.replace('"', "&quot;").replace('\'', "&apos;");
        assert!(answer.contains(&said), "{answer}");
    }
    for (bucket, code) in [("secret", "AccessDenied"), ("sealed", "AccessDenied")] {
        // Signed for another bucket, by the client's name or by the origin's.
        let form = Form::default();
        let other = Form {
            bucket,
            ..Form::default()
        };
        let answer = form.post_with(&site, &other.signed(), b"abc").await;
        assert!(answer.contains(&format!("<Code>{code}</Code>")), "{answer}");
    }
    assert!(site.stored.try_recv().is_err());
    assert_eq!(site.origin_state.open_uploads(), 0);
}

#[tokio::test]
async fn a_form_that_nobody_signed_is_refused() {
    let mut site = Site::start().await;
    let form = Form::default();
    let changed = |name: &str, value: Option<&str>| -> Vec<(String, String)> {
        let fields = form.signed().into_iter();
        fields
            .filter_map(|(field, before)| match value {
                _ if field != name => Some((field, before)),
                value => Some((field, value?.to_owned())),
            })
            .collect()
    };
    let zeros = "0".repeat(64);
    let nobody = format!("nobody/{DAY}/us-east-1/s3/aws4_request");
    for (fields, code) in [
        (
            changed("x-amz-signature", Some(&zeros)),
            "SignatureDoesNotMatch",
        ),
        (changed("policy", Some("e30=")), "SignatureDoesNotMatch"),
        (
            changed("x-amz-credential", Some(&nobody)),
            "InvalidAccessKeyId",
        ),
        (changed("x-amz-signature", None), "InvalidArgument"),
        (vec![("key".into(), "k".into())], "AccessDenied"),
    ] {
        let answer = form.post_with(&site, &fields, b"abc").await;
        assert!(answer.contains(&format!("<Code>{code}</Code>")), "{answer}");
    }
    assert!(site.stored.try_recv().is_err());
}

#[tokio::test]
async fn a_file_is_as_long_as_its_policy_allows_or_is_not_stored() {
    let mut site = Site::start().await;
    for (range, length, code) in [
        ("0,5", 10, "EntityTooLarge</Code><Message>"),
        ("100,1024", 2, "EntityTooSmall</Code><Message>"),
        // Parts of it have left by then.
        ("0,19000000", 20_000_000, "EntityTooLarge"),
        ("20000001,30000000", 20_000_000, "EntityTooSmall"),
    ] {
        let conditions = format!(r#"{{"key":"k"}},["content-length-range",{range}]"#);
        let form = Form {
            conditions: &conditions,
            ..Form::default()
        };
        for bucket in ["lab", "secret"] {
            let form = Form { bucket, ..form };
            let answer = form.post(&site, &content(length)).await;
            assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
            assert!(answer.contains(code), "{answer}");
        }
    }
    assert!(site.stored.try_recv().is_err());
    assert_eq!(site.origin_state.open_uploads(), 0);
}

#[tokio::test]
async fn a_form_to_an_encrypted_bucket_is_read_back_and_the_origin_sees_nothing_of_it() {
    let site = Site::start().await;
    for length in [0, 100_000, 20 << 20] {
        let file = content(length);
        // CRC-32 of nothing, and nothing said.
        let sum: &[_] = &[("key", "k"), ("x-amz-checksum-crc32", "AAAAAA==")];
        let form = Form {
            bucket: "secret",
            conditions: r#"{"key":"k"},["starts-with","$x-amz-checksum-crc32",""]"#,
            fields: sum,
            ..Form::default()
        };
        let plain = Form {
            bucket: "secret",
            ..Form::default()
        };
        let form = if length == 0 { form } else { plain };
        let answer = form.post(&site, &file).await;
        assert!(answer.starts_with("HTTP/1.1 204"), "{answer}");
        let path = Path::from("k");
        let got = site.client("secret").get(&path).await.unwrap();
        // The tag that the form's answer has is the one that readers see.
        let tag = got.meta.e_tag.clone().unwrap();
        assert!(answer.contains(&tag), "{answer} has not {tag}");
        assert!(got.bytes().await.unwrap() == file, "{length}");
        let kept = site.owner("sealed").get(&path).await.unwrap();
        let kept = kept.bytes().await.unwrap();
        assert!(kept.len() > length);
        if length > 64 {
            assert!(!kept.windows(64).any(|window| window == &file[..64]));
        }
    }
}

#[tokio::test]
async fn what_stands_behind_the_file_is_ignored_and_what_stands_before_is_bounded() {
    let mut site = Site::start().await;
    let behind = format!("\r\n{}--frontier--\r\nand more", field("key", "other"));
    let form = Form {
        after: &behind,
        ..Form::default()
    };
    let answer = form.post(&site, b"abc").await;
    assert!(answer.starts_with("HTTP/1.1 204"), "{answer}");
    assert_eq!(site.stored.recv().await.unwrap().key, "k");

    // A field, a field's head and the form's beginning, none of which ends.
    let endless = "a".repeat(1 << 20);
    for body in [
        field("key", &endless),
        format!("--frontier\r\nContent-Disposition: {endless}"),
        endless.clone(),
    ] {
        let request = format!(
            "POST /lab HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\
             content-type: multipart/form-data; boundary=frontier\r\ntransfer-encoding: chunked\r\n\r\n\
             {:x}\r\n{body}",
            1_u64 << 40
        );
        let answer = answered(&site, request.into_bytes()).await;
        assert!(answer.contains("MaxPostPreDataLengthExceeded"), "{answer}");
    }
    assert!(site.stored.try_recv().is_err());
}

/// An origin that begins uploads, refuses bytes in the middle of them, and tells of those that are given up.
async fn origin_that_refuses() -> (SocketAddr, UnboundedReceiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (tell, told) = unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(refuse(BufReader::new(stream), tell.clone()));
        }
    });
    (address, told)
}

/// One connection of [`origin_that_refuses`].
async fn refuse(mut stream: BufReader<TcpStream>, tell: UnboundedSender<String>) {
    loop {
        let (mut head, mut line) = (String::new(), String::new());
        while line != "\r\n" {
            line.clear();
            if stream.read_line(&mut line).await.unwrap_or(0) == 0 {
                return;
            }
            head.push_str(&line);
        }
        let (method, rest) = head.split_once(' ').unwrap();
        let answer = match method {
            "POST" => {
                let said = "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>";
                format!("200 OK\r\ncontent-length: {}\r\n\r\n{said}", said.len())
            }
            "DELETE" => {
                let target = rest.split(' ').next().unwrap();
                // Whoever waited for it may have heard enough.
                let _ = tell.send(target.to_owned());
                "204 No Content\r\n\r\n".to_owned()
            }
            _ => {
                // Some of its bytes are here, others are not.
                stream.read_exact(&mut [0; 1000]).await.unwrap();
                "507 Full\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_owned()
            }
        };
        let answer = format!("HTTP/1.1 {answer}");
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
        if answer.contains("connection: close") {
            // Unread bytes would end the connection before the answer is heard.
            let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
            return;
        }
    }
}

#[tokio::test]
async fn a_form_whose_file_the_store_refuses_in_the_middle_fails_and_leaves_nothing() {
    let mut site = Site::start().await;
    let (origin, mut given_up) = origin_that_refuses().await;
    site.gateway = gateway_with_stall(origin, ("old", true), "60 s").await;
    for length in [100_000, 12 << 20] {
        let answer = Form::default().post(&site, &content(length)).await;
        assert!(answer.starts_with("HTTP/1.1 5"), "{answer}");
    }
    let target = given_up.recv().await.unwrap();
    assert_eq!(target, "/lab/k?uploadId=u");
}

#[tokio::test]
async fn a_form_that_stands_still_ends_and_leaves_nothing() {
    let mut site = Site::start().await;
    site.gateway = gateway_with_stall(site.origin, ("old", true), "200 ms").await;
    let mut signed = String::new();
    for (name, value) in Form::default().signed() {
        signed += &field(&name, &value);
    }
    let head =
        "--frontier\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n";
    // Within the fields, in a small file, and in one of which parts are at the origin already.
    let large = "a".repeat(12 << 20);
    for body in [
        signed.clone(),
        format!("{signed}{head}abc"),
        format!("{signed}{head}{large}"),
    ] {
        let request = format!(
            "POST /lab HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\
             content-type: multipart/form-data; boundary=frontier\r\ncontent-length: 20000000\r\n\r\n{body}"
        );
        let answer = answered(&site, request.into_bytes()).await;
        assert!(answer.contains("IncompleteBody"), "{answer}");
        assert!(answer.contains("stopped in the middle"), "{answer}");
    }
    assert!(site.stored.try_recv().is_err());
    let uploads = signed_get(site.gateway, "/lab", "uploads=").await;
    assert!(uploads.starts_with("HTTP/1.1 200"), "{uploads}");
    assert!(!uploads.contains("<Upload>"), "{uploads}");
}

#[tokio::test]
async fn what_is_no_form_is_told_so() {
    let site = Site::start().await;
    for (kind, status, code) in [
        ("application/json", 412, "PreconditionFailed"),
        ("multipart/form-data", 400, "MalformedPOSTRequest"),
    ] {
        let request = format!(
            "POST /lab HTTP/1.1\r\nhost: h\r\nconnection: close\r\ncontent-type: {kind}\r\ncontent-length: 4\r\n\r\nbody"
        );
        let answer = raw(site.gateway, request.as_bytes()).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")),
            "{answer}"
        );
        assert!(answer.contains(code), "{answer}");
    }
}

//! The field report's scripts, run unchanged against the origin.
//!
//! They need a Python with `requests` and `boto3`; `LONGHAUL_PYTHON` names its interpreter, `python3`
//! is used without it. A Python without them fails these tests.

use std::path::PathBuf;
use std::process::Stdio;

use longhaul_store::digest::sha256_hex;
use longhaul_store::payload::content;
use tokio::process::Command;

use crate::support::{TestOrigin, connections, credentials};

/// Runs a script and returns what it printed, line by line.
async fn run(script: &str, arguments: &[&str]) -> Vec<String> {
    let python = std::env::var("LONGHAUL_PYTHON").unwrap_or_else(|_| "python3".into());
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../../scenarios/field/clients")
        .join(script);
    let output = Command::new(&python)
        .arg(&path)
        .args(arguments)
        .env("AWS_ACCESS_KEY_ID", credentials().access_key)
        .env("AWS_SECRET_ACCESS_KEY", credentials().secret_key)
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap_or_else(|error| panic!("cannot run {python}: {error}; set LONGHAUL_PYTHON"));
    let talk = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{python} {script} failed; it needs requests and boto3 (`make` installs them, \
         LONGHAUL_PYTHON names the interpreter):\n{talk}"
    );
    let printed = String::from_utf8(output.stdout).unwrap();
    printed.lines().map(ToOwned::to_owned).collect()
}

/// A file of 1 MiB to upload.
fn file() -> (tempfile::NamedTempFile, String) {
    let content = content(3, 1, 1 << 20);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &content).unwrap();
    (file, sha256_hex(&content))
}

#[tokio::test]
async fn the_reports_script_uploads_on_a_new_connection_each_time() {
    let origin = TestOrigin::start().await;
    let (file, sha256) = file();
    let path = file.path().to_str().unwrap();
    let printed = run(
        "form_post.py",
        &[
            "--url",
            &origin.endpoint(),
            "--file_input",
            path,
            "--range=5",
        ],
    )
    .await;
    let stored = origin.stop().await;
    assert_eq!(printed.len(), 5);
    for line in &printed {
        let cost = line
            .strip_prefix(&format!("upload {path}, upload cost "))
            .unwrap_or_else(|| panic!("{line}"));
        assert!(cost.parse::<f64>().unwrap() > 0.0);
    }
    assert_eq!(stored.len(), 5);
    assert!(
        stored
            .iter()
            .all(|event| event.sha256 == sha256 && event.bytes == 1 << 20)
    );
    assert_eq!(connections(&stored), 5);
}

#[tokio::test]
async fn the_reports_other_script_reuses_one_connection() {
    let origin = TestOrigin::start().await;
    let (file, sha256) = file();
    let path = file.path().to_str().unwrap();
    run(
        "form_post.py",
        &[
            "--url",
            &origin.endpoint(),
            "--file_input",
            path,
            "--range=5",
            "--session",
        ],
    )
    .await;
    let stored = origin.stop().await;
    assert_eq!(stored.len(), 5);
    assert!(stored.iter().all(|event| event.sha256 == sha256));
    assert_eq!(connections(&stored), 1);
}

#[tokio::test]
async fn boto3_puts_gets_and_lists_with_and_without_reuse() {
    for (reuse, expected) in [(false, 3), (true, 1)] {
        let origin = TestOrigin::start().await;
        let (file, sha256) = file();
        let endpoint = origin.endpoint();
        let mut arguments = vec![
            "--endpoint",
            &endpoint,
            "--bucket",
            "lab",
            "--verify",
            "--range=3",
            "--file_input",
            file.path().to_str().unwrap(),
        ];
        if reuse {
            arguments.push("--reuse");
        }
        let printed = run("boto3_put.py", &arguments).await;
        let stored = origin.stop().await;
        assert_eq!(printed.len(), 3);
        assert_eq!(stored.len(), 3);
        assert!(stored.iter().all(|event| event.sha256 == sha256));
        assert_eq!(connections(&stored), expected, "reuse: {reuse}");
    }
}

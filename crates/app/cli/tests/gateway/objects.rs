//! `longhaul object`: what a gateway has encrypted, read and wrapped anew without it.

use std::path::Path;

use object_store::aws::AmazonS3Builder;
use object_store::path::Path as Key;
use object_store::{
    Attribute, ClientOptions, MultipartUpload as _, ObjectStore, ObjectStoreExt as _, PutPayload,
};
use tempfile::TempDir;

use crate::common::{Finished, longhaul, run};
use crate::{ACCESS_KEY, Gateway, SECRET, TestOrigin};

const OLD: &str = "0101010101010101010101010101010101010101010101010101010101010101";
const NEW: &str = "0202020202020202020202020202020202020202020202020202020202020202";

/// A store, a gateway that encrypts into it, and a folder for what is fetched past the gateway.
struct Vault {
    origin: TestOrigin,
    _gateway: Gateway,
    client: Box<dyn ObjectStore>,
    folder: TempDir,
}

/// An object as the store has it.
struct Fetched {
    bytes: Vec<u8>,
    envelope: String,
}

impl Vault {
    async fn open() -> Self {
        let origin = TestOrigin::start().await;
        let folder = tempfile::tempdir().unwrap();
        for (name, key) in [("old.key", OLD), ("new.key", NEW)] {
            std::fs::write(folder.path().join(name), key).unwrap();
        }
        let config = folder.path().join("gateway.toml");
        let text = format!(
            r#"
            listen = "127.0.0.1:0"
            origin = "http://{address}"
            via = "{address}"
            credentials = {{ access-key = "origins-key", secret-env = "AWS_SECRET_ACCESS_KEY" }}
            client = [{{ access-key = "{ACCESS_KEY}", secret-env = "LONGHAUL_S3_SECRET" }}]
            bucket = [{{ name = "vault", origin = "lab", encrypt = "main" }}]
            key = [{{ name = "main", file = "{key}" }}]
            "#,
            address = origin.address,
            key = folder.path().join("old.key").display(),
        );
        std::fs::write(&config, text).unwrap();
        let gateway = Gateway::spawn(&["--config", config.to_str().unwrap()]);
        let client = library(&gateway.address, "vault", (ACCESS_KEY, SECRET));
        Self {
            origin,
            _gateway: gateway,
            client,
            folder,
        }
    }

    /// Past the gateway.
    async fn fetch(&self, key: &str) -> Fetched {
        let address = self.origin.address.to_string();
        let owner = library(&address, "lab", ("origins-key", "origins/secret"));
        let got = owner.get(&Key::from(key)).await.unwrap();
        let envelope = got.attributes.get(&Attribute::Metadata("longhaul".into()));
        let envelope = envelope.unwrap().as_ref().to_owned();
        let bytes = got.bytes().await.unwrap().to_vec();
        Fetched { bytes, envelope }
    }

    /// What `object decrypt` makes of it under this name, and the file that it writes.
    fn decrypt(&self, key: &str, fetched: &Fetched, secret: &str) -> (Finished, Option<Vec<u8>>) {
        let stored = self.file("stored");
        let plain = self.file("plain");
        let _ = std::fs::remove_file(&plain);
        std::fs::write(&stored, &fetched.bytes).unwrap();
        let finished = run(longhaul()
            .args(["object", "decrypt"])
            .args([&stored, &plain])
            .args(["--bucket", "lab", "--key", key, "--envelope"])
            .arg(&fetched.envelope)
            .arg("--key-file")
            .arg(self.file(secret)));
        let written = std::fs::read(&plain).ok();
        // Nor is there a half one beside it.
        assert!(!self.file("plain.part").exists());
        (finished, written)
    }

    fn file(&self, name: &str) -> std::path::PathBuf {
        Path::join(self.folder.path(), name)
    }
}

fn library(address: &str, bucket: &str, (key, secret): (&str, &str)) -> Box<dyn ObjectStore> {
    let store = AmazonS3Builder::new()
        .with_endpoint(format!("http://{address}"))
        .with_bucket_name(bucket)
        .with_region("us-east-1")
        .with_access_key_id(key)
        .with_secret_access_key(secret)
        .with_client_options(ClientOptions::new().with_allow_http(true))
        .build();
    Box::new(store.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_is_decrypted_without_the_gateway_and_nothing_comes_of_a_changed_one() {
    let vault = Vault::open().await;
    // Nothing, less than a chunk, and more than a few.
    for (key, length) in [("empty", 0), ("small", 1000), ("large", 300_000)] {
        let sent = store::payload::content(3, 1, length);
        let payload = PutPayload::from_bytes(sent.clone());
        vault.client.put(&Key::from(key), payload).await.unwrap();
        let fetched = vault.fetch(key).await;
        assert_ne!(fetched.bytes, sent);
        let (finished, plain) = vault.decrypt(key, &fetched, "old.key");
        assert_eq!(finished.code, Some(0), "{}", finished.stderr);
        assert_eq!(plain.unwrap(), sent);
    }
    let (large, small) = (vault.fetch("large").await, vault.fetch("small").await);
    let changed = |change: fn(&mut Vec<u8>)| {
        let mut bytes = large.bytes.clone();
        change(&mut bytes);
        Fetched {
            bytes,
            envelope: large.envelope.clone(),
        }
    };
    let swapped = Fetched {
        bytes: small.bytes,
        envelope: large.envelope.clone(),
    };
    for (what, key, fetched, secret) in [
        (
            "a byte",
            "large",
            changed(|bytes| bytes[200_000] ^= 1),
            "old.key",
        ),
        (
            "its end",
            "large",
            changed(|bytes| bytes.truncate(250_000)),
            "old.key",
        ),
        (
            "a chunk",
            "large",
            changed(|bytes| bytes.truncate(65_552)),
            "old.key",
        ),
        ("more", "large", changed(|bytes| bytes.push(0)), "old.key"),
        (
            "two chunks",
            "large",
            changed(|bytes| bytes.rotate_left(65_552)),
            "old.key",
        ),
        ("another object", "large", swapped, "old.key"),
        ("another name", "small", changed(|_| ()), "old.key"),
        ("another key", "large", changed(|_| ()), "new.key"),
    ] {
        let (finished, plain) = vault.decrypt(key, &fetched, secret);
        assert_eq!(finished.code, Some(1), "{what}: {}", finished.stderr);
        assert_eq!(plain, None, "{what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_came_in_parts_is_decrypted_too() {
    let vault = Vault::open().await;
    let sent = store::payload::content(4, 1, 6_000_000);
    let mut upload = vault
        .client
        .put_multipart(&Key::from("parts"))
        .await
        .unwrap();
    for part in [0..5_500_000, 5_500_000..6_000_000] {
        let payload = PutPayload::from_bytes(sent.slice(part));
        upload.put_part(payload).await.unwrap();
    }
    upload.complete().await.unwrap();
    let fetched = vault.fetch("parts").await;
    let (finished, plain) = vault.decrypt("parts", &fetched, "old.key");
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    assert_eq!(plain.unwrap(), sent);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_envelope_is_wrapped_anew_and_the_stored_bytes_stay() {
    let vault = Vault::open().await;
    let sent = store::payload::content(5, 1, 100_000);
    let payload = PutPayload::from_bytes(sent.clone());
    vault.client.put(&Key::from("k"), payload).await.unwrap();
    let mut fetched = vault.fetch("k").await;
    let rewrap = |key: &str, envelope: &str| {
        run(longhaul()
            .args([
                "object",
                "rewrap",
                "--bucket",
                "lab",
                "--key",
                key,
                "--envelope",
                envelope,
            ])
            .arg("--key-file")
            .arg(vault.file("old.key"))
            .arg("--new-key-file")
            .arg(vault.file("new.key")))
    };
    let finished = rewrap("k", &fetched.envelope);
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    let (before, _) = vault.decrypt("k", &fetched, "new.key");
    assert_eq!(before.code, Some(1));
    fetched.envelope = finished.stdout.trim().to_owned();
    let (after, plain) = vault.decrypt("k", &fetched, "new.key");
    assert_eq!(after.code, Some(0), "{}", after.stderr);
    assert_eq!(plain.unwrap(), sent);
    // Under the old key it is no more, nor was it ever another object's.
    assert_eq!(vault.decrypt("k", &fetched, "old.key").0.code, Some(1));
    assert_eq!(rewrap("other", &fetched.envelope).code, Some(1));
}

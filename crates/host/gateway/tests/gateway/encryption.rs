//! Buckets that are encrypted: clients see plaintext, the origin does not, and whatever it does is found.

use crate::support::{CLIENT, Site, content, gateway, library};
use bytes::Bytes;
use object_store::path::Path;
use object_store::{
    Attribute, AttributeValue, Attributes, GetOptions, GetRange, MultipartUpload as _,
    ObjectStore as _, ObjectStoreExt as _, PutOptions, PutPayload,
};

async fn put(site: &Site, key: &str, length: usize) -> Bytes {
    let sent = content(length);
    let payload = PutPayload::from_bytes(sent.clone());
    site.client("secret")
        .put(&Path::from(key), payload)
        .await
        .unwrap();
    sent
}

/// Puts `bytes` where `key` is at the origin, under the envelope that is there.
async fn forge(site: &Site, from: &str, to: &str, change: impl FnOnce(Vec<u8>) -> Vec<u8>) {
    let owner = site.owner("sealed");
    let got = owner.get(&Path::from(from)).await.unwrap();
    let attributes = got.attributes.clone();
    let bytes = change(got.bytes().await.unwrap().to_vec());
    let options = PutOptions {
        attributes,
        ..PutOptions::default()
    };
    let payload = PutPayload::from(bytes);
    owner
        .put_opts(&Path::from(to), payload, options)
        .await
        .unwrap();
}

async fn served(site: &Site, key: &str) -> Result<Bytes, String> {
    let got = site.client("secret").get(&Path::from(key)).await;
    let got = got.map_err(|error| error.to_string())?;
    got.bytes().await.map_err(|error| error.to_string())
}

#[tokio::test]
async fn clients_see_plaintext_and_its_size_and_the_origin_neither() {
    let site = Site::start().await;
    let store = site.client("secret");
    for length in [0_usize, 1, 65_536, 300_000, 33 << 20] {
        let sent = put(&site, "k", length).await;
        let head = store.head(&Path::from("k")).await.unwrap();
        assert_eq!(head.size, length as u64);
        assert!(served(&site, "k").await.unwrap() == sent, "{length}");
        let listed = store.list_with_delimiter(None).await.unwrap().objects;
        assert_eq!(listed[0].size, length as u64);
        assert_eq!(listed[0].e_tag, head.e_tag);
        let kept = site.owner("sealed").get(&Path::from("k")).await.unwrap();
        let kept = kept.bytes().await.unwrap();
        assert!(kept.len() > length);
        if length > 64 {
            assert!(!kept.windows(64).any(|window| window == &sent[..64]));
        }
    }
}

#[tokio::test]
async fn ranges_are_those_of_the_plaintext() {
    let site = Site::start().await;
    let store = site.client("secret");
    let sent = put(&site, "k", 21 << 20).await;
    let end = sent.len() as u64;
    for range in [
        0..1,
        65_535..65_537,
        100..9_000_000,
        end - 1..end,
        8_388_600..16_800_000,
    ] {
        let at = usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap();
        let got = store.get_range(&Path::from("k"), range).await.unwrap();
        assert!(got == sent.slice(at.clone()), "{at:?}");
    }
    for (range, at) in [
        (GetRange::Offset(end - 5), sent.len() - 5..sent.len()),
        (GetRange::Suffix(77), sent.len() - 77..sent.len()),
        (
            GetRange::Suffix(12_000_000),
            sent.len() - 12_000_000..sent.len(),
        ),
        (GetRange::Suffix(end + 5), 0..sent.len()),
    ] {
        let options = GetOptions {
            range: Some(range),
            ..GetOptions::default()
        };
        let got = store.get_opts(&Path::from("k"), options).await.unwrap();
        assert!(got.bytes().await.unwrap() == sent.slice(at));
    }
    let beyond = store
        .get_range(&Path::from("k"), end..end + 1)
        .await
        .unwrap_err();
    assert!(beyond.to_string().contains("416"), "{beyond}");
}

#[tokio::test]
async fn a_clients_own_parts_become_one_object() {
    let site = Site::start().await;
    let store = site.client("secret");
    let sent = content(13_000_000);
    let mut upload = store.put_multipart(&Path::from("k")).await.unwrap();
    for part in [0..6_000_000, 6_000_000..12_000_000, 12_000_000..13_000_000] {
        let payload = PutPayload::from_bytes(sent.slice(part));
        upload.put_part(payload).await.unwrap();
    }
    upload.complete().await.unwrap();
    assert_eq!(store.head(&Path::from("k")).await.unwrap().size, 13_000_000);
    assert_eq!(
        store.list_with_delimiter(None).await.unwrap().objects[0].size,
        13_000_000
    );
    assert!(served(&site, "k").await.unwrap() == sent);
    for range in [
        0..1,
        5_999_990..6_000_010,
        100..12_500_000,
        12_999_999..13_000_000,
    ] {
        let at = usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap();
        let got = store.get_range(&Path::from("k"), range).await.unwrap();
        assert!(got == sent.slice(at.clone()), "{at:?}");
    }
}

/// What a store does to bytes.
type Change = fn(Vec<u8>) -> Vec<u8>;

#[tokio::test]
async fn whatever_the_origin_does_to_an_object_is_found_before_a_wrong_byte_is_served() {
    let site = Site::start().await;
    put(&site, "a", 200_000).await;
    put(&site, "b", 200_000).await;
    // Nothing done: forging itself changes nothing.
    forge(&site, "a", "a", |bytes| bytes).await;
    served(&site, "a").await.unwrap();

    forge(&site, "a", "tampered", |bytes| bytes).await;
    let other_name = served(&site, "tampered").await.unwrap_err();
    assert!(other_name.contains("does not belong"), "{other_name}");

    let changes: [(&str, Change); 6] = [
        ("a flipped bit at the beginning", |mut bytes| {
            bytes[0] ^= 1;
            bytes
        }),
        ("cut", |mut bytes| {
            bytes.truncate(65_552);
            bytes
        }),
        ("cut inside a chunk", |mut bytes| {
            bytes.truncate(100_000);
            bytes
        }),
        ("longer", |mut bytes| {
            bytes.extend([0; 1000]);
            bytes
        }),
        ("chunks in another order", |bytes| {
            let (one, two) = bytes.split_at(65_552);
            let (two, rest) = two.split_at(65_552);
            [two, one, rest].concat()
        }),
        ("nothing", |_| Vec::new()),
    ];
    for (what, change) in changes {
        put(&site, "a", 200_000).await;
        forge(&site, "a", "a", change).await;
        let error = served(&site, "a").await.expect_err(what);
        assert!(error.contains("502"), "{what}: {error}");
    }

    // A flipped bit far behind: everything before it is right, and the answer ends there.
    put(&site, "a", 200_000).await;
    forge(&site, "a", "a", |mut bytes| {
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        bytes
    })
    .await;
    served(&site, "a").await.unwrap_err();

    // Another version's bytes under this version's envelope.
    let before = site.owner("sealed").get(&Path::from("b")).await.unwrap();
    let before = before.bytes().await.unwrap();
    put(&site, "b", 200_000).await;
    forge(&site, "b", "b", |now| {
        [&before[..65_552], &now[65_552..]].concat()
    })
    .await;
    served(&site, "b").await.unwrap_err();
}

#[tokio::test]
async fn an_object_that_nobody_encrypted_is_not_served_as_if_it_were() {
    let site = Site::start().await;
    let payload = PutPayload::from_bytes(content(1000));
    site.owner("sealed")
        .put(&Path::from("plain"), payload)
        .await
        .unwrap();
    let error = served(&site, "plain").await.unwrap_err();
    assert!(error.contains("not encrypted by this gateway"), "{error}");
}

#[tokio::test]
async fn objects_under_an_older_key_are_read_while_that_key_is_at_hand() {
    let site = Site::start().await;
    let store = site.client("old");
    let path = Path::from("k");
    store
        .put(&path, PutPayload::from_static(b"aged"))
        .await
        .unwrap();
    let get = async |address, key: &str| {
        let got = library(address, "old", CLIENT).get(&Path::from(key)).await;
        got.map_err(|error| error.to_string())
    };
    // The same bucket is written under the newer key from now on.
    let rotated = gateway(site.origin, "new", true).await;
    assert_eq!(
        get(rotated, "k").await.unwrap().bytes().await.unwrap(),
        "aged"
    );
    let newer = library(rotated, "old", CLIENT);
    newer
        .put(&Path::from("n"), PutPayload::from_static(b"new"))
        .await
        .unwrap();
    let forgetful = gateway(site.origin, "new", false).await;
    assert_eq!(
        get(forgetful, "n").await.unwrap().bytes().await.unwrap(),
        "new"
    );
    let error = get(forgetful, "k").await.unwrap_err();
    assert!(error.contains("a key that is not configured"), "{error}");
}

#[tokio::test]
async fn what_clients_say_about_an_object_stays_with_it() {
    let site = Site::start().await;
    let store = site.client("secret");
    let mut attributes = Attributes::new();
    attributes.insert(Attribute::ContentType, AttributeValue::from("text/x-own"));
    attributes.insert(
        Attribute::Metadata("colour".into()),
        AttributeValue::from("red"),
    );
    for length in [10, 33 << 20] {
        let options = PutOptions {
            attributes: attributes.clone(),
            ..PutOptions::default()
        };
        let payload = PutPayload::from_bytes(content(length));
        store
            .put_opts(&Path::from("k"), payload, options)
            .await
            .unwrap();
        let got = store.get(&Path::from("k")).await.unwrap();
        assert_eq!(got.attributes, attributes);
    }
}

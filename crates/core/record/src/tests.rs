use std::collections::BTreeSet;

use super::*;

#[test]
fn every_limit_has_one_stable_name() {
    let names: BTreeSet<&str> = LimitName::ALL.iter().map(|name| name.as_str()).collect();
    assert_eq!(names.len(), LimitName::ALL.len());
    for name in LimitName::ALL {
        assert_eq!(
            serde_json::to_value(name).unwrap(),
            serde_json::json!(name.as_str())
        );
    }
}

#[test]
fn limits_serialise_as_an_object_of_seconds() {
    let limits = LimitSeconds::from([(LimitName::SlowStart, 0.6), (LimitName::Handshake, 0.2)]);
    let text = serde_json::to_string(&limits).unwrap();
    assert_eq!(text, r#"{"handshake":0.2,"slow-start":0.6}"#);
    assert_eq!(serde_json::from_str::<LimitSeconds>(&text).unwrap(), limits);
}

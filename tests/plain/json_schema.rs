//! docs/json.schema.json says what the JSON of a measurement is: the example that docs/json.md shows has a
//! row of each kind, and each field that it has can be wrong.

use serde_json::{Value, json};

use crate::common::schema::{is_known, is_valid};

fn example() -> Value {
    let page = include_str!("../../docs/json.md");
    let example = page.split_once("```json\n").unwrap().1.split_once("\n```").unwrap().0;
    serde_json::from_str(example).unwrap()
}

#[test]
fn the_documented_measurement_is_valid_and_every_field_of_it_is_known() {
    is_known(&example().to_string()).unwrap();
}

#[test]
fn what_is_not_as_documented_is_refused() {
    let wrong: [(&str, Value); 12] = [
        ("/schema", json!(2)),
        ("/start", json!("2026-05-28 10:03:01")),
        ("/duration_seconds", json!("1.4")),
        ("/attach", json!("ptrace")),
        ("/host", Value::Null),
        ("/lost/unwatched", json!(-1)),
        ("/servers/0/name", Value::Null),
        ("/servers/0/ports/0", json!(65_536)),
        ("/roles/0/via", json!("aio_uring")),
        ("/files/0/latency_seconds/p99", json!("1 ms")),
        ("/files/0/device_number", json!(7)),
        ("/in_flight/0/age_seconds", json!(-0.1)),
    ];
    for (place, value) in wrong {
        let mut broken = example();
        *broken.pointer_mut(place).unwrap_or_else(|| panic!("no {place} in the example")) = value;
        let name = place.trim_start_matches('/');
        assert!(is_valid(&broken.to_string()).is_err_and(|why| why.contains(name)), "{place}");
    }
}

#[test]
fn a_field_may_be_added_and_none_may_be_missing() {
    let example = example();
    let mut more = example.clone();
    more["servers"][0]["colour"] = json!("blue");
    is_valid(&more.to_string()).unwrap();
    assert!(is_known(&more.to_string()).is_err_and(|why| why.contains("colour")));
    for name in example.as_object().unwrap().keys() {
        let mut less = example.clone();
        less.as_object_mut().unwrap().remove(name);
        let is_optional = ["note", "writes", "threads", "unsynced", "unsynced_files"].contains(&&**name)
            || name == "unsynced_unknown_bytes";
        assert_eq!(is_valid(&less.to_string()).is_ok(), is_optional, "{name}");
    }
    assert!(is_valid("").is_err(), "nothing is no measurement");
}

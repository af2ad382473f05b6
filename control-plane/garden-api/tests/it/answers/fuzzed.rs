//! Objects that Gardener takes, spoilt at random with a fixed seed: no request fails inside, what is stored can be read
//! back as it was answered, and sending it again changes nothing.

use base_clock::Entropy;
use http::Method;
use serde_json::{Value, json};

use super::CASES;
use super::replay::{Recorded, Replay, Step};

const REQUESTS: usize = 3_000;
/// Places of one object that are spoilt at most.
const PLACES_MAX: usize = 2;

/// Refusals that upstream gives as internal errors, too. Its plain errors are 500 as well, without a reason.
const INTERNAL_AS_UPSTREAM: [&str; 2] = ["could not find referenced cloud profile", "spec.bucketName"];

fn below(random: &Entropy, bound: usize) -> usize {
    usize::try_from(random.below(bound as u64)).unwrap()
}

/// The pointers of all values in an object.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                let key = key.replace('~', "~0").replace('/', "~1");
                places(value, &format!("{at}/{key}"), found);
            }
        }
        Value::Array(list) => {
            for (index, value) in list.iter().enumerate() {
                places(value, &format!("{at}/{index}"), found);
            }
        }
        _ => {}
    }
}

fn spoil(object: &mut Value, random: &Entropy) {
    let mut found = Vec::new();
    for part in ["spec", "metadata", "helm", "credentialsRef", "provider"] {
        if let Some(value) = object.get(part) {
            places(value, &format!("/{part}"), &mut found);
        }
    }
    let place = found[below(random, found.len())].clone();
    let nested = (0..100).fold(json!(1), |inner, _| json!({"a": inner}));
    let values = [
        Value::Null,
        json!(""),
        json!(0),
        json!(-1),
        json!(9_007_199_254_740_993_i64),
        json!(1.5),
        json!(true),
        json!([]),
        json!({}),
        json!([null]),
        json!({"": null}),
        json!("x".repeat(300)),
        json!("\u{0}ä\u{2028}"),
        json!("10.0.0.0/33"),
        json!("1.35"),
        nested,
    ];
    let target = object.pointer_mut(&place).unwrap();
    match (below(random, 3), target) {
        (0, Value::Array(list)) if !list.is_empty() => list.push(list[0].clone()),
        (0, Value::Object(fields)) if !fields.is_empty() => {
            let key = fields.keys().nth(below(random, fields.len())).unwrap().clone();
            fields.remove(&key);
        }
        (_, target) => *target = values[below(random, values.len())].clone(),
    }
}

/// The requests of the recorded cases that create something, and that Gardener accepted.
fn creations(recorded: &Recorded) -> Vec<&Step> {
    let cases = recorded.cases.iter();
    let first = cases.filter(|case| {
        case.expect
            .first()
            .is_some_and(|answer| answer.as_ref().is_some_and(|answer| answer.code == 201))
    });
    first
        .map(|case| &case.steps[0])
        .filter(|step| {
            step.method == "POST"
                && step.user.is_none()
                && !step.path.contains('?')
                && step.body.pointer("/metadata/name").is_some()
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn spoilt_objects_are_refused_or_stored_as_they_are_answered() {
    let recorded = Recorded::read(CASES);
    let replay = Replay::start(&recorded.fixtures).await;
    let creations = creations(&recorded);
    let (random, mut stored) = (Entropy::seeded(22), 0);
    for number in 0..REQUESTS {
        let creation = creations[below(&random, creations.len())];
        let mut body = creation.body.clone();
        body["metadata"]["name"] = json!(format!("f{number}"));
        for _ in 0..=below(&random, PLACES_MAX) {
            spoil(&mut body, &random);
        }
        let (code, answer) = replay.call(Method::POST, &creation.path, &body).await;
        let message = answer["message"].as_str().unwrap_or_default();
        let is_as_upstream =
            answer.get("reason").is_none() || INTERNAL_AS_UPSTREAM.iter().any(|part| message.contains(part));
        assert!(code < 500 || code == 500 && is_as_upstream, "{code} {answer}\n{body}");
        if code != 201 {
            continue;
        }
        stored += 1;
        let path = format!("{}/{}", creation.path, answer["metadata"]["name"].as_str().unwrap());
        let (code, read) = replay.call(Method::GET, &path, &Value::Null).await;
        assert_eq!((code, &read), (200, &answer), "{body}");
        let (code, again) = replay.call(Method::PUT, &path, &read).await;
        assert_eq!((code, &again), (200, &read), "{body}");
        replay.call(Method::DELETE, &path, &Value::Null).await;
    }
    assert!(stored > REQUESTS / 20, "only {stored} were accepted");
}

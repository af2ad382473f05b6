//! Gatekeepers decide before the access rules: what they allow, refuse and leave open, for requests, writes and reviews.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cluster_apiserver::{Attempt, Attributes, Gatekeeper, Objection, Opinion, Selectors, Target, User};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::server::{CONFIG_MAPS, config_map, delete, get, post, start_with};

const REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

/// Decides for users named `guarded-*`: names that begin with `open` are allowed, `closed` are refused, `soon` are refused until
/// there is news; lists need `metadata.namespace=default` and the label `a=b`.
struct Doors {
    open: watch::Sender<bool>,
    seen: Mutex<Vec<String>>,
}

impl Doors {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            open: watch::Sender::new(false),
            seen: Mutex::default(),
        })
    }

    fn answer(&self, name: &str) -> Result<bool, Objection> {
        let refused = |patience| {
            let why = format!("{name} is closed");
            Err(Objection { why, patience })
        };
        match name {
            name if name.starts_with("open") => Ok(true),
            name if name.starts_with("closed") => refused(Duration::ZERO),
            name if name.starts_with("soon") && !*self.open.borrow() => refused(Duration::from_secs(5)),
            name if name.starts_with("soon") => Ok(true),
            _ => Ok(false),
        }
    }
}

impl Gatekeeper for Doors {
    fn concerns(&self, user: &User) -> bool {
        user.name.starts_with("guarded-")
    }

    fn decide(&self, attributes: &Attributes, selectors: &Selectors) -> Opinion {
        let Target::Resource(target) = &attributes.target else {
            return Opinion::NoOpinion;
        };
        if target.name.is_empty() && attributes.verb == "list" {
            let (field, label) = (("metadata.namespace", "default"), ("a", "b"));
            let has =
                |all: &[(String, String)], one: (&str, &str)| all.iter().any(|(k, v)| (k.as_str(), v.as_str()) == one);
            return match has(&selectors.fields, field) && has(&selectors.labels, label) {
                true => Opinion::Allow("narrow".to_owned()),
                false => Opinion::NoOpinion,
            };
        }
        if attributes.verb == "create" {
            return Opinion::Allow("a name is to come".to_owned());
        }
        match self.answer(&target.name) {
            Ok(true) => Opinion::Allow("an open door".to_owned()),
            Ok(false) => Opinion::NoOpinion,
            Err(objection) => Opinion::Deny(objection),
        }
    }

    fn admit(&self, attempt: &Attempt<'_>) -> Result<(), Objection> {
        let what = match (attempt.object.is_some(), attempt.old.is_some()) {
            (true, false) => "create",
            (true, true) => "update",
            (false, _) => "delete",
        };
        let Attempt {
            resource,
            namespace,
            name,
            ..
        } = attempt;
        self.seen
            .lock()
            .unwrap()
            .push(format!("{what} {resource} {namespace}/{name}"));
        self.answer(name).map(drop)
    }

    fn news(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let mut open = self.open.subscribe();
        Box::pin(async move {
            let _ = open.changed().await;
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_gatekeeper_allows_refuses_or_leaves_it_to_the_rules() {
    let doors = Doors::new();
    let server = start_with(|builder| builder.gatekeeper(doors.clone())).await;
    for name in ["open", "closed", "other"] {
        post(&server.admin(), CONFIG_MAPS, &config_map(name, &json!({}))).await;
    }
    let guarded = server.user("guarded-a", &[]);
    assert_eq!(get(&guarded, &format!("{CONFIG_MAPS}/open")).await.0, 200);
    let (code, refused) = get(&guarded, &format!("{CONFIG_MAPS}/closed")).await;
    assert_eq!(code, 403);
    assert_eq!(
        refused["message"],
        r#"configmaps "closed" is forbidden: User "guarded-a" cannot get resource "configmaps" in API group "" in the namespace "default": closed is closed"#
    );
    assert_eq!(
        get(&guarded, &format!("{CONFIG_MAPS}/other")).await.0,
        403,
        "no rule allows it"
    );
    let free = server.user("free", &[]);
    assert_eq!(
        get(&free, &format!("{CONFIG_MAPS}/open")).await.0,
        403,
        "others are not let in"
    );
    let super_user = server.user("guarded-super", &["system:masters"]);
    assert_eq!(get(&super_user, &format!("{CONFIG_MAPS}/closed")).await.0, 200);
    assert_eq!(get(&guarded, "/version").await.0, 200, "paths are left to the rules");
}

#[tokio::test(start_paused = true)]
async fn writes_are_refused_once_their_object_is_known() {
    let doors = Doors::new();
    let server = start_with(|builder| builder.gatekeeper(doors.clone())).await;
    let guarded = server.user("guarded-a", &[]);
    assert_eq!(
        post(&guarded, CONFIG_MAPS, &config_map("open-1", &json!({}))).await.0,
        201
    );
    let (code, refused) = post(&guarded, CONFIG_MAPS, &config_map("closed-1", &json!({}))).await;
    assert_eq!(
        (code, &refused["message"]),
        (403, &json!(r#"configmaps "closed-1" is forbidden: closed-1 is closed"#))
    );
    assert_eq!(get(&server.admin(), &format!("{CONFIG_MAPS}/closed-1")).await.0, 404);
    assert_eq!(delete(&guarded, &format!("{CONFIG_MAPS}/open-1")).await.0, 200);
    let seen = doors.seen.lock().unwrap().clone();
    assert_eq!(
        seen,
        [
            "create configmaps default/open-1",
            "create configmaps default/closed-1",
            "delete configmaps default/open-1"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn refusal_that_may_change_waits_for_news_within_its_limit() {
    let doors = Doors::new();
    let server = start_with(|builder| builder.gatekeeper(doors.clone())).await;
    post(&server.admin(), CONFIG_MAPS, &config_map("soon", &json!({}))).await;
    let guarded = server.user("guarded-a", &[]);
    let begun = Instant::now();
    assert_eq!(get(&guarded, &format!("{CONFIG_MAPS}/soon")).await.0, 403);
    assert_eq!(begun.elapsed(), Duration::from_secs(5));
    let opening = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        doors.open.send_replace(true);
    };
    let begun = Instant::now();
    let path = format!("{CONFIG_MAPS}/soon");
    let ((code, _), ()) = tokio::join!(get(&guarded, &path), opening);
    assert_eq!((code, begun.elapsed()), (200, Duration::from_secs(2)));
}

#[tokio::test(start_paused = true)]
async fn selectors_reach_a_gatekeeper_from_requests_and_from_reviews() {
    let server = start_with(|builder| builder.gatekeeper(Doors::new())).await;
    let guarded = server.user("guarded-a", &[]);
    let narrow = "fieldSelector=metadata.namespace%3Ddefault&labelSelector=a%3Db";
    assert_eq!(get(&guarded, &format!("{CONFIG_MAPS}?{narrow}")).await.0, 200);
    for wide in [
        "",
        "fieldSelector=metadata.namespace%3Ddefault",
        "fieldSelector=metadata.namespace%3Ddefault&labelSelector=a!%3Db",
        "fieldSelector=metadata.namespace!%3Ddefault&labelSelector=a%3Db",
        "fieldSelector=metadata.namespace%3Ddefault&labelSelector=a+in+(b,c)",
    ] {
        assert_eq!(get(&guarded, &format!("{CONFIG_MAPS}?{wide}")).await.0, 403, "{wide}");
    }
    let review = |fields: Value, labels: Value| {
        json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {"user": "guarded-a",
            "resourceAttributes": {"verb": "list", "resource": "configmaps", "namespace": "default",
                "fieldSelector": fields, "labelSelector": labels}}})
    };
    let one = |key: &str, operator: &str, value: &str| json!({"requirements": [{"key": key, "operator": operator, "values": [value]}]});
    let field = one("metadata.namespace", "In", "default");
    for (fields, labels, allowed) in [
        (field.clone(), one("a", "In", "b"), true),
        (
            json!({"rawSelector": "metadata.namespace=default"}),
            json!({"rawSelector": "a=b"}),
            true,
        ),
        (field, one("a", "NotIn", "b"), false),
        (Value::Null, Value::Null, false),
    ] {
        let (code, answer) = post(&server.admin(), REVIEWS, &review(fields, labels)).await;
        assert_eq!((code, &answer["status"]["allowed"]), (201, &json!(allowed)), "{answer}");
    }
    let rules = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": {"namespace": "default"}});
    let (_, answered) = post(
        &guarded,
        "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
        &rules,
    )
    .await;
    assert_eq!(answered["status"]["incomplete"], json!(true), "{answered}");
}

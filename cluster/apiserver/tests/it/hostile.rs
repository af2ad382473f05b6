//! Requests that no honest client sends, and those that only careless ones send: each gets the right code with a
//! `Status`, or a warning, and the server goes on.

use http::{Method, Request};
use serde_json::json;

use crate::server::{CONFIG_MAPS, DEPLOYMENTS, answer, config_map, get, post, send, start};

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

fn map(rest: &str) -> Vec<u8> {
    format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"m"}}{rest}}}"#).into_bytes()
}

fn replicas(number: &str) -> Vec<u8> {
    let template = r#"{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}"#;
    let selector = r#"{"matchLabels":{"a":"b"}}"#;
    format!(
        r#"{{"metadata":{{"name":"d"}},"spec":{{"replicas":{number},"selector":{selector},"template":{template}}}}}"#
    )
    .into_bytes()
}

fn named(name: &str) -> Vec<u8> {
    json!({"metadata": {"name": name}}).to_string().into_bytes()
}

/// A few lines that stand for 9^14 texts.
fn yaml_bomb() -> Vec<u8> {
    (b'b'..b'o').fold(b"a: &a [x, x, x, x, x, x, x, x, x]\n".to_vec(), |text, name| {
        let (name, before) = (char::from(name), char::from(name - 1));
        let nine = vec![format!("*{before}"); 9].join(", ");
        [text, format!("{name}: &{name} [{nine}]\n").into_bytes()].concat()
    })
}

#[tokio::test(start_paused = true)]
async fn invalid_bodies_get_a_status() {
    let server = start().await;
    let client = server.admin();
    let deep = |open: &str, close: &str| [open.repeat(100_000), close.repeat(100_000)].concat().into_bytes();
    let too_large = vec![b' '; (3 << 20) + 1];
    #[rustfmt::skip]
    let table = [
        (CONFIG_MAPS, JSON, too_large, 413, "RequestEntityTooLarge", "limit is 3145728"),
        (CONFIG_MAPS, JSON, deep("{\"a\":", "}"), 400, "BadRequest", "exceeded max depth"),
        (CONFIG_MAPS, JSON, deep("[", "]"), 400, "BadRequest", "exceeded max depth"),
        (CONFIG_MAPS, JSON, b"{\"metadata\":{\"name\":\"\xff\"}}".to_vec(), 422, "Invalid", "RFC 1123 subdomain"),
        (CONFIG_MAPS, JSON, b"{\"metadata\":\xff}".to_vec(), 400, "BadRequest", "looking for beginning of value"),
        (CONFIG_MAPS, JSON, map("").split_last().unwrap().1.to_vec(), 400, "BadRequest", "unexpected end of JSON input"),
        (CONFIG_MAPS, JSON, [map(""), map("")].concat(), 400, "BadRequest", "after top-level value"),
        (CONFIG_MAPS, JSON, Vec::new(), 400, "BadRequest", "unexpected end of JSON input"),
        (CONFIG_MAPS, JSON, b"null".to_vec(), 422, "Invalid", "name or generateName is required"),
        (CONFIG_MAPS, JSON, b"{\"metadata\":[]}".to_vec(), 400, "BadRequest", "metadata"),
        (CONFIG_MAPS, JSON, named("a\0b"), 422, "Invalid", "RFC 1123 subdomain"),
        (CONFIG_MAPS, JSON, named("A_b"), 422, "Invalid", "RFC 1123 subdomain"),
        (CONFIG_MAPS, JSON, named(".."), 422, "Invalid", "RFC 1123 subdomain"),
        ("/api/v1/namespaces", JSON, named("a.b"), 422, "Invalid", "must not contain dots"),
        (DEPLOYMENTS, JSON, replicas("123456789012345678901234567890"), 400, "BadRequest", "int32"),
        (DEPLOYMENTS, JSON, replicas("4294967296"), 400, "BadRequest", "int32"),
        (DEPLOYMENTS, JSON, replicas("1e400"), 400, "BadRequest", "out of range"),
        (DEPLOYMENTS, JSON, replicas("1.5"), 400, "BadRequest", "number 1.5"),
        (DEPLOYMENTS, JSON, replicas("-1"), 422, "Invalid", "greater than or equal to 0"),
        (CONFIG_MAPS, YAML, yaml_bomb(), 400, "BadRequest", "is unrecognized"),
        (CONFIG_MAPS, YAML, b"[".repeat(100_000), 400, "BadRequest", "is unrecognized"),
        (CONFIG_MAPS, YAML, b"a: *b".to_vec(), 400, "BadRequest", "(613a202a62)"),
        (CONFIG_MAPS, YAML, b"\xff".to_vec(), 400, "BadRequest", "(ff)"),
        (CONFIG_MAPS, PROTOBUF, map(""), 400, "BadRequest", "protobuf"),
        (CONFIG_MAPS, PROTOBUF, b"k8s\0\xff\xff\xff".to_vec(), 400, "BadRequest", "does not end"),
        (CONFIG_MAPS, PROTOBUF, [b"k8s\0".to_vec(), b"\x0a".repeat(100_000)].concat(), 400, "BadRequest", "ends within"),
        (CONFIG_MAPS, "text/plain", map(""), 415, "UnsupportedMediaType", "unknown format"),
        (CONFIG_MAPS, "application/cbor", map(""), 415, "UnsupportedMediaType", "application/yaml"),
        (CONFIG_MAPS, "\u{e9}", map(""), 415, "UnsupportedMediaType", "unknown format"),
    ];
    for (path, media, body, code, reason, part) in table {
        let shown = String::from_utf8_lossy(&body[..body.len().min(60)]).into_owned();
        let request = Request::post(path).header("content-type", media).body(body).unwrap();
        let (answered, status) = send(&client, request).await;
        let message = status["message"].as_str().unwrap_or_default();
        assert_eq!(
            (answered, &status["kind"]),
            (code, &json!("Status")),
            "{media} {shown}: {status}"
        );
        assert_eq!(
            (&status["code"], &status["reason"]),
            (&json!(code), &json!(reason)),
            "{shown}"
        );
        assert!(message.contains(part), "{media} {shown}: {message}");
    }
    assert_eq!(
        post(&client, CONFIG_MAPS, &json!({"metadata": {"name": "m"}})).await.0,
        201
    );
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    assert_eq!(
        post(&client, roles, &json!({"metadata": {"name": "system:A_b"}}))
            .await
            .0,
        201
    );
}

#[tokio::test(start_paused = true)]
async fn malformed_paths_never_reach_another_resource() {
    let server = start().await;
    let client = server.admin();
    post(&client, CONFIG_MAPS, &json!({"metadata": {"name": "m"}})).await;
    let long = format!("/{}", "a".repeat(5000));
    let maps = |rest: &str| format!("{CONFIG_MAPS}{rest}");
    #[rustfmt::skip]
    let table = [
        ("/api/v1/namespaces/default/../kube-system/configmaps".to_owned(), 404),
        ("/api/v1/./namespaces".to_owned(), 404),
        ("/api/v1/namespaces/default%2Fpods%2Fm".to_owned(), 404),
        ("/api/v1/namespaces//configmaps".to_owned(), 404),
        ("/API/v1/namespaces".to_owned(), 404),
        ("/healthz/../api/v1/secrets".to_owned(), 404),
        ("/healthz/%2e%2e/api/v1/secrets".to_owned(), 404),
        (maps("/.."), 400),
        (maps("/%2e%2e"), 400),
        (maps("/x%2Fm"), 404),
        (maps("/%00"), 404),
        (maps("/m/x/y"), 404),
        ("/api/v1/namespaces/default%00/configmaps".to_owned(), 400),
        ("/api/v1/namespaces/%2e%2e/configmaps".to_owned(), 400),
        ("/api/v1/namespaces/a%2Fb/configmaps/m".to_owned(), 404),
        (maps("/a%25b"), 400),
        ("/api/v1/namespaces/Default/configmaps".to_owned(), 400),
        (maps("/%zz"), 400),
        (maps("/%ff"), 404),
        (maps("?limit=x"), 400),
        (maps("?labelSelector=%25"), 400),
        (maps("?labelSelector=%25&a=%zz"), 400),
        ("/api/v1/namespaces/../nodes".to_owned(), 404),
        (long, 414),
        (maps("//m/"), 404),
        (maps("/m/"), 200),
        ("/api/v1/namespaces/default%2Fconfigmaps%2Fm".to_owned(), 200),
        (maps("/m"), 200),
    ];
    for (path, code) in table {
        let (answered, body) = get(&client, &path).await;
        // Outside of APIs an error is no Status.
        let kind = match code {
            200 => json!("ConfigMap"),
            404 if !path.starts_with("/api/") => json!(null),
            _ => json!("Status"),
        };
        assert_eq!((answered, &body["kind"]), (code, &kind), "{path}: {body}");
    }
    let stranger = server.api.client_for(cluster_apiserver::Identity::Anonymous);
    for path in ["/healthz/../api/v1/secrets", "/version/%2e%2e/api/v1/secrets"] {
        let (code, status) = get(&stranger, path).await;
        assert_eq!(
            (code, &status["reason"]),
            (403, &json!("Forbidden")),
            "{path}: {status}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn strict_warning_and_ignoring_validation_differ_in_every_verb() {
    let server = start().await;
    let client = server.admin();
    post(&client, CONFIG_MAPS, &json!({"metadata": {"name": "m"}})).await;
    let one = format!("{CONFIG_MAPS}/m");
    let (merge, patch, apply) = (
        "application/merge-patch+json",
        "application/json-patch+json",
        "application/apply-patch+yaml",
    );
    let twice = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m"},"data":{"a":"b","a":"c"}}"#;
    let unknown = r#"{"metadata":{"name":"m"},"dato":{}}"#;
    let yaml = "{apiVersion: v1, kind: ConfigMap, metadata: {name: m}, data: {a: b, a: c}}";
    let duplicate = "duplicate field \"data.a\"";
    #[rustfmt::skip]
    let table = [
        (Method::POST, CONFIG_MAPS, JSON, twice, 400, duplicate),
        (Method::POST, CONFIG_MAPS, JSON, unknown, 400, "unknown field \"dato\""),
        (Method::POST, CONFIG_MAPS, YAML, yaml, 400, duplicate),
        (Method::PUT, &one, JSON, twice, 400, duplicate),
        (Method::PUT, &one, JSON, unknown, 400, "unknown field \"dato\""),
        (Method::PATCH, &one, merge, twice, 422, duplicate),
        (Method::PATCH, &one, merge, unknown, 422, "unknown field \"dato\""),
        (Method::PATCH, &one, "application/strategic-merge-patch+json", twice, 422, duplicate),
        (Method::PATCH, &one, patch, r#"[{"op":"add","path":"/dato","value":{}}]"#, 422, "unknown field \"dato\""),
        (Method::PATCH, &one, patch, r#"[{"op":"add","path":"/data","value":{},"path":"/data"}]"#, 422, "json patch duplicate field \"[0].path\""),
        (Method::PATCH, &one, patch, r#"[{"op":"add","path":"/data","value":{},"way":1}]"#, 422, "json patch unknown field \"[0].way\""),
        (Method::PATCH, &one, apply, twice, 400, duplicate),
        (Method::PATCH, &one, apply, yaml, 400, duplicate),
    ];
    for (method, path, media, body, refused, problem) in table {
        let create = |validation: &str| {
            let path = format!("{path}?dryRun=All&force=true&fieldManager=me&fieldValidation={validation}");
            let path = if media == apply {
                path
            } else {
                path.replace("&force=true", "")
            };
            let body = if method == Method::POST {
                body.replace(r#""m""#, r#""new""#).replace("name: m", "name: new")
            } else {
                body.to_owned()
            };
            let (client, method) = (client.clone(), method.clone());
            async move { answer(&client, method, &path, media, &body).await }
        };
        let (code, message, warnings) = create("Strict").await;
        assert_eq!(
            (code, &warnings),
            (refused, &Vec::new()),
            "{method} {media} {body}: {message}"
        );
        assert!(message.contains(problem), "{method} {media} {body}: {message}");
        for validation in ["", "Warn"] {
            let (code, message, warnings) = create(validation).await;
            assert!(code < 300, "{method} {media} {body}: {message}");
            assert_eq!(warnings, [format!("299 - \"{problem}\"")], "{method} {media} {body}");
        }
        let (code, message, warnings) = create("Ignore").await;
        assert!(
            code < 300 && warnings.is_empty(),
            "{method} {media} {body}: {message} {warnings:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn apply_refuses_unknown_fields_with_any_field_validation() {
    let server = start().await;
    let client = server.admin();
    let one = format!("{CONFIG_MAPS}/m");
    let (apply, unknown) = (
        "application/apply-patch+yaml",
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m"},"dato":{}}"#,
    );
    let (code, message, _) = answer(
        &client,
        Method::PATCH,
        &format!("{one}?fieldManager=me&fieldValidation=Ignore"),
        apply,
        unknown,
    )
    .await;
    assert_eq!(
        (code, message.as_str()),
        (
            500,
            "failed to create typed patch object (/m; /v1, Kind=ConfigMap): .dato: field not declared in schema"
        )
    );
}

#[tokio::test(start_paused = true)]
async fn a_continue_token_is_valid_only_for_the_path_of_its_list() {
    let server = start().await;
    let client = server.admin();
    for name in ["a", "b", "c"] {
        post(&client, CONFIG_MAPS, &config_map(name, &json!({}))).await;
    }
    let token = async |path: &str| {
        let (_, page) = get(&client, &format!("{path}?limit=1")).await;
        page["metadata"]["continue"].as_str().unwrap().to_owned()
    };
    let of_default = token(CONFIG_MAPS).await;
    let of_all = token("/api/v1/configmaps").await;
    let of_cluster = token("/api/v1/namespaces").await;
    let system = "/api/v1/namespaces/kube-system/configmaps";
    for (path, token, code) in [
        (CONFIG_MAPS, &of_default, 200),
        ("/api/v1/configmaps", &of_all, 200),
        ("/api/v1/namespaces", &of_cluster, 200),
        (system, &of_default, 400),
        (CONFIG_MAPS, &of_cluster, 400),
        ("/api/v1/configmaps", &of_cluster, 400),
        ("/api/v1/namespaces", &of_default, 400),
    ] {
        let (answered, body) = get(&client, &format!("{path}?limit=1&continue={token}")).await;
        assert_eq!(answered, code, "{path}: {body}");
    }
}

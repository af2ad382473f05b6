//! Kinds of admission, extension and aggregation in the bodies that Go's clients write: created and replaced like the JSON
//! that the same clients write.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Request;
use serde_json::{Value, json};

use crate::server::{delete, get, post, send, start};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

fn path(object: &Value) -> String {
    let plural = match object["kind"].as_str().unwrap() {
        "ValidatingAdmissionPolicy" => "validatingadmissionpolicies".to_owned(),
        kind => format!("{}s", kind.to_lowercase()),
    };
    format!("/apis/{}/{plural}", object["apiVersion"].as_str().unwrap())
}

/// The object without status, and without metadata that differ between two creates.
fn without_metadata_and_status(mut object: Value) -> Value {
    object.as_object_mut().unwrap().remove("status");
    let metadata = object["metadata"].as_object_mut().unwrap();
    for name in [
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "managedFields",
        "generation",
    ] {
        metadata.remove(name);
    }
    object
}

#[tokio::test(start_paused = true)]
async fn a_protobuf_body_creates_the_object_that_the_same_clients_json_creates() {
    let server = start().await;
    let client = server.admin();
    let bodies: Vec<Value> = serde_json::from_str(include_str!("protobuf_bodies.json")).unwrap();
    for body in bodies {
        let packed = STANDARD.decode(body["protobuf"].as_str().unwrap()).unwrap();
        let (object, path) = (&body["json"], path(&body["json"]));
        let one = format!("{path}/{}", object["metadata"]["name"].as_str().unwrap());
        let (wanted_code, wanted) = post(&client, &path, object).await;
        if wanted_code == 201 {
            let wanted = get(&client, &one).await.1;
            assert_eq!(delete(&client, &one).await.0, 200, "{one}");
            let request = Request::post(path.as_str()).header("content-type", PROTOBUF);
            let (code, made) = send(&client, request.body(packed).unwrap()).await;
            assert_eq!(code, 201, "{one}: {made}");
            let made = get(&client, &one).await.1;
            assert_eq!(
                without_metadata_and_status(made),
                without_metadata_and_status(wanted),
                "{one}"
            );
        } else {
            let request = Request::post(path.as_str()).header("content-type", PROTOBUF);
            let (code, refusal) = send(&client, request.body(packed).unwrap()).await;
            assert_eq!((code, &refusal["message"]), (wanted_code, &wanted["message"]), "{one}");
            assert_eq!(refusal["reason"], json!("Invalid"), "{one}");
        }
    }
}

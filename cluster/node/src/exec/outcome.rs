//! How a command ended, as clients read it from the stream of errors: a Status of Kubernetes as JSON. Pure.
//! (k8s.io/kubelet v0.35 pkg/cri/streaming/remotecommand/exec.go ServeExec)

use serde_json::{Value, json};

/// The end with an exit code.
pub(super) fn exited(words: &[String], code: i32) -> Value {
    if code == 0 {
        return json!({"metadata": {}, "status": "Success"});
    }
    let words = words.join(" ");
    json!({
        "metadata": {},
        "status": "Failure",
        "message": format!(
            "command terminated with non-zero exit code: error executing command [{words}], exit code {code}"
        ),
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
    })
}

/// It was not run, or its end was not seen.
pub(super) fn failed(why: &str) -> Value {
    let why = format!("error executing command in container: {why}");
    json!({
        "metadata": {},
        "status": "Failure",
        "message": format!("Internal error occurred: {why}"),
        "reason": "InternalError",
        "details": {"causes": [{"message": why}]},
        "code": 500,
    })
}

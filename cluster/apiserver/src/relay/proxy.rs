//! Requests that are forwarded to what runs in the cluster: `proxy` of nodes, pods and services. Where a name leads is in
//! `proxy_target`, what goes there and comes back in `forwarding`. A request has been authenticated, authorized and admitted
//! before; its credentials stay here.
//! (kubernetes/kubernetes v1.35 pkg/registry/core/{node,pod,service}, staging/src/k8s.io/apimachinery/pkg/util/proxy)

use base_client::{HttpService, ResponseBody, Upgrade, answer_apart, requests_upgrade};
use http::request::Parts;
use http::{Request, Response};
use kube::client::Body;
use serde_json::json;

use crate::admission::subresource_body;
use crate::connections::kubelets::NodePlace;
use crate::kinds::resource::Proxied;
use crate::relay::forwarded_request::Forwarded;
use crate::relay::forwarding::forward;
use crate::relay::headers::without_identity;
use crate::relay::proxy_target::{self, Place};
use crate::relay::rewriting::clean;
use crate::state::context::Context;
use crate::wire::answer::Answer;
use crate::wire::status::Status;

/// Answers a request to `proxy`. `path` is that of the request, decoded.
pub(crate) async fn answer(
    context: &Context,
    proxied: Proxied,
    path: &str,
    parts: &Parts,
    body: Body,
) -> Result<Answer, Status> {
    if !METHODS.contains(&parts.method.as_str()) {
        return Err(Status::method_not_allowed());
    }
    let mut options = match path_behind(context, path) {
        path if path.is_empty() => json!({}),
        path => json!({"path": path}),
    };
    let kind = ("", "v1", proxied.options());
    let warnings = subresource_body::review_connection(context, kind, &mut options).await?;
    let place = proxy_target::find(context, proxied).await?;
    let target_path = clean(options["path"].as_str().unwrap_or_default());
    let forwarded = Forwarded {
        parts,
        path,
        target_path: &target_path,
        query: parts.uri.query(),
        is_of_server: false,
    };
    Ok(forward(&context.server, &place, forwarded, body).await?.warn(warnings))
}

/// The methods that are forwarded (kubernetes/kubernetes v1.35 pkg/registry/core/pod/rest/subresources.go, proxyMethods).
const METHODS: [&str; 7] = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];

/// Forwards an upgrade request to the kubelet of a node, as a request of this server.
pub(crate) async fn to_kubelet(
    context: &Context,
    kubelet: NodePlace,
    (path, query): (&str, &str),
    parts: &Parts,
    body: Body,
) -> Result<Answer, Status> {
    if !requests_upgrade(&parts.headers) {
        return Err(Status::bad_request("Upgrade request required"));
    }
    let forwarded = Forwarded {
        parts,
        path,
        target_path: path,
        query: Some(query),
        is_of_server: true,
    };
    forward(&context.server, &Place::of_kubelet(kubelet), forwarded, body).await
}

/// Sends a request to a node of this process as to a kubelet. If the node agrees to an upgrade, it takes over the client's
/// connection, which counts against the limit of forwarded requests until it ends.
pub(crate) async fn to_node(
    context: &Context,
    node: HttpService,
    path: &str,
    parts: &Parts,
    body: Body,
) -> Result<Response<ResponseBody>, Status> {
    let permit = context.server.relay_limit.acquire()?;
    let request = Request::builder().method(parts.method.clone()).uri(path);
    let mut request = request.body(body).map_err(Status::internal)?;
    *request.headers_mut() = without_identity(parts);
    if let Some(upgrade) = parts.extensions.get::<Upgrade>().cloned() {
        request.extensions_mut().insert(upgrade.holding(permit));
    }
    answer_apart(node, request).await.map_err(Status::internal)
}

/// What follows `proxy` in the path (kubernetes/kubernetes v1.35
/// staging/src/k8s.io/apiserver/pkg/endpoints/handlers/rest.go, getRequestOptions).
fn path_behind(context: &Context, path: &str) -> String {
    let mut behind = context.target.rest.join("/");
    if !behind.is_empty() && !behind.starts_with('/') {
        behind.insert(0, '/');
    }
    if path.ends_with('/') && !behind.ends_with('/') {
        behind.push('/');
    }
    behind
}

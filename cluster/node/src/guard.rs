//! The node's service for callers from outside its process, as a kubelet's port: a caller is known by a client
//! certificate or a token, and the API server authorizes it (kubernetes/kubernetes v1.35 pkg/kubelet/server/auth.go).

use std::sync::Arc;

use api_meta::Fault;
use async_trait::async_trait;
use base_client::{HttpService, ResponseBody, answer_apart, full_body};
use base_clock::Clock;
use cluster_access::{Authenticator, Live, Lookup, PeerCertificates, User};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode, header};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ObjectMeta, PostParams};
use kube::client::Body;
use kube::{Api, Client};

use crate::NodeServices;

/// Authenticates and authorizes callers.
struct Guard {
    node: String,
    client: Client,
    authenticator: Authenticator,
    services: NodeServices,
}

impl NodeServices {
    /// The service of a node for callers from outside: they show a certificate that `authorities` (PEM) signed, as
    /// [`PeerCertificates`] of the request, or a token that the API server knows, and `client` reviews whether they have the
    /// right to `nodes/proxy` of the node, or to the requested part of it. To be served behind TLS.
    ///
    /// # Errors
    /// The authorities cannot be read.
    pub fn guarded(&self, node: &str, client: Client, authorities: &str, clock: Clock) -> Result<HttpService, Fault> {
        let authenticator = Authenticator::new(clock, Arc::new(NoLookup)).with_anonymous(false);
        authenticator.trust_clients_of(authorities).map_err(|error| {
            Fault::user(format!(
                "the authorities of clients of node {node} cannot be read: {error}"
            ))
            .hint("give them as PEM")
        })?;
        let guard = Arc::new(Guard {
            node: node.to_owned(),
            client,
            authenticator,
            services: self.clone(),
        });
        Ok(HttpService::new(tower::service_fn(move |request| {
            let guard = guard.clone();
            async move { Ok(guard.answer(request).await) }
        })))
    }
}

impl Guard {
    async fn answer(&self, request: Request<Body>) -> Response<ResponseBody> {
        let (parts, body) = request.into_parts();
        let user = match self.authenticate(&parts).await {
            Ok(Some(user)) => user,
            Ok(None) => return respond(StatusCode::UNAUTHORIZED, "Unauthorized"),
            Err(error) => return respond(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
        };
        let verb = match parts.method {
            Method::POST => "create",
            Method::GET | Method::HEAD => "get",
            Method::PUT => "update",
            Method::DELETE => "delete",
            _ => "patch",
        };
        let subresources = subresources(parts.uri.path());
        match self.may(&user, verb, subresources).await {
            Ok(true) => {}
            Ok(false) => {
                let (user, node, subresources) = (&user.name, &self.node, subresources.join(" "));
                let why = format!(
                    "Forbidden (user={user}, verb={verb}, resource=nodes, subresource(s)=[{subresources}], name={node})"
                );
                return respond(StatusCode::FORBIDDEN, &why);
            }
            Err(error) => return respond(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
        }
        let Some(service) = self.services.find(&self.node) else {
            return respond(StatusCode::SERVICE_UNAVAILABLE, "the node does not run");
        };
        answer_apart(service, Request::from_parts(parts, body))
            .await
            .unwrap_or_else(|error| respond(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()))
    }

    async fn authenticate(&self, parts: &Parts) -> Result<Option<User>, kube::Error> {
        let peer = parts.extensions.get::<PeerCertificates>();
        let none = http::HeaderMap::new();
        if let Ok(user) = self.authenticator.authenticate(&none, peer).await {
            return Ok(Some(user));
        }
        let bearer = parts.headers.get(header::AUTHORIZATION);
        let token = bearer.and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
        let Some(token) = token else { return Ok(None) };
        let review = TokenReview {
            metadata: ObjectMeta::default(),
            spec: TokenReviewSpec {
                token: Some(token.to_owned()),
                audiences: None,
            },
            status: None,
        };
        let reviews: Api<TokenReview> = Api::all(self.client.clone());
        let answer = reviews.create(&PostParams::default(), &review).await?;
        let status = answer.status.filter(|status| status.authenticated == Some(true));
        let info = status.and_then(|status| status.user);
        Ok(info.map(|info| {
            let groups = info.groups.unwrap_or_default();
            let groups: Vec<&str> = groups.iter().map(String::as_str).collect();
            User::new(info.username.unwrap_or_default(), &groups)
        }))
    }

    /// Whether the user may access one of the subresources of the node.
    async fn may(&self, user: &User, verb: &str, subresources: &[&str]) -> Result<bool, kube::Error> {
        for subresource in subresources {
            if self.may_one(user, verb, subresource).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn may_one(&self, user: &User, verb: &str, subresource: &str) -> Result<bool, kube::Error> {
        let review = SubjectAccessReview {
            metadata: ObjectMeta::default(),
            spec: SubjectAccessReviewSpec {
                user: Some(user.name.clone()),
                groups: Some(user.groups.clone()),
                resource_attributes: Some(ResourceAttributes {
                    verb: Some(verb.to_owned()),
                    version: Some("v1".to_owned()),
                    resource: Some("nodes".to_owned()),
                    subresource: Some(subresource.to_owned()),
                    name: Some(self.node.clone()),
                    ..ResourceAttributes::default()
                }),
                ..SubjectAccessReviewSpec::default()
            },
            status: None,
        };
        let reviews: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let answer = reviews.create(&PostParams::default(), &review).await?;
        Ok(answer.status.is_some_and(|status| status.allowed))
    }
}

/// What of a node a path belongs to: any of these rights is enough.
fn subresources(path: &str) -> &'static [&'static str] {
    match path.trim_start_matches('/').split('/').next().unwrap_or_default() {
        "healthz" => &["healthz", "proxy"],
        "pods" => &["pods", "proxy"],
        _ => &["proxy"],
    }
}

fn respond(code: StatusCode, text: &str) -> Response<ResponseBody> {
    let mut response = Response::new(full_body(text.to_owned()));
    *response.status_mut() = code;
    response
}

/// Tokens are verified by the API server.
struct NoLookup;

#[async_trait]
impl Lookup for NoLookup {
    async fn live(&self, _resource: &str, _namespace: &str, _name: &str) -> Result<Option<Live>, String> {
        Ok(None)
    }

    async fn secret(&self, _namespace: &str, _name: &str) -> Result<Option<Secret>, String> {
        Ok(None)
    }
}

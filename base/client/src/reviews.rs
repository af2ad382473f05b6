//! A server of reviews, as kube-apiserver posts them to webhooks: JSON in, JSON out, by path. It decides nothing and knows no
//! kind of review.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use kube::client::Body;
use serde_json::Value;

use crate::service::{HttpService, ResponseBody, full_body};

/// Largest review that is read, in bytes: the largest object that kube-apiserver takes twice, before and after a change, and 2 MiB
/// around them. A listener in front of [`review_server`] must take it.
pub const REVIEW_BYTES_MAX: usize = 8 << 20;

/// Answers a review; the text of an error says why it is none.
pub type Reviewer = Arc<dyn Fn(Value) -> Pin<Box<dyn Future<Output = Result<Value, String>> + Send>> + Send + Sync>;

/// The reviewer that a function is.
pub fn reviewer<F>(review: impl Fn(Value) -> F + Send + Sync + 'static) -> Reviewer
where
    F: Future<Output = Result<Value, String>> + Send + 'static,
{
    Arc::new(move |posted| Box::pin(review(posted)))
}

/// The server: each path has a reviewer. Another path is answered with 404, another method with 405, what is no review or larger
/// than 8 MiB with 400.
#[must_use]
pub fn review_server(paths: Vec<(&'static str, Reviewer)>) -> HttpService {
    let paths = Arc::new(paths);
    HttpService::new(tower::service_fn(move |request: Request<Body>| {
        let paths = Arc::clone(&paths);
        async move { Ok::<_, Infallible>(answer(&paths, request).await) }
    }))
}

async fn answer(paths: &[(&'static str, Reviewer)], request: Request<Body>) -> Response<ResponseBody> {
    let path = request.uri().path();
    let Some((_, review)) = paths.iter().find(|(known, _)| *known == path) else {
        return respond(StatusCode::NOT_FOUND, "text/plain", "404 page not found".into());
    };
    if request.method() != Method::POST {
        let message = "a review is posted".into();
        return respond(StatusCode::METHOD_NOT_ALLOWED, "text/plain", message);
    }
    let body = Limited::new(request.into_body(), REVIEW_BYTES_MAX).collect().await;
    let posted = body.map_err(|error| error.to_string()).and_then(|body| {
        serde_json::from_slice::<Value>(&body.to_bytes()).map_err(|error| format!("the review is not JSON: {error}"))
    });
    let answer = match posted {
        Ok(posted) => review(posted).await,
        Err(why) => Err(why),
    };
    match answer {
        Ok(answer) => respond(StatusCode::OK, "application/json", answer.to_string()),
        Err(why) => respond(StatusCode::BAD_REQUEST, "text/plain", why),
    }
}

fn respond(code: StatusCode, content_type: &'static str, body: String) -> Response<ResponseBody> {
    let mut response = Response::new(full_body(body));
    *response.status_mut() = code;
    let content_type = header::HeaderValue::from_static(content_type);
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    response
}

#[cfg(test)]
mod tests {
    use tower::ServiceExt;

    use super::*;

    async fn posted(method: Method, path: &str, body: &str) -> (u16, String) {
        let server = review_server(vec![(
            "/echo",
            reviewer(|review| async move {
                review
                    .is_object()
                    .then_some(review)
                    .ok_or_else(|| "no object".to_owned())
            }),
        )]);
        let request = Request::builder().method(method).uri(path);
        let request = request.body(Body::from(body.as_bytes().to_vec())).unwrap();
        let response = server.oneshot(request).await.unwrap();
        let code = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (code, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn only_posted_reviews_of_known_paths_are_answered() {
        assert_eq!(
            posted(Method::POST, "/echo", r#"{"a":1}"#).await,
            (200, r#"{"a":1}"#.to_owned())
        );
        assert_eq!(posted(Method::POST, "/other", "{}").await.0, 404);
        assert_eq!(posted(Method::GET, "/echo", "").await.0, 405);
        assert_eq!(posted(Method::POST, "/echo", "[]").await, (400, "no object".to_owned()));
        let (code, why) = posted(Method::POST, "/echo", "{").await;
        assert!(code == 400 && why.starts_with("the review is not JSON"), "{why}");
        let (code, _) = posted(Method::POST, "/echo", &" ".repeat(REVIEW_BYTES_MAX + 1)).await;
        assert_eq!(code, 400);
    }
}

//! Signing requests of gardenlets (gardener/gardener v1.150 pkg/controllermanager/controller/certificatesigningrequest): approves those
//! that register or renew, and denies those that would make a gardenlet of another seed. It signs nothing.

mod plan;

use std::sync::Arc;

use api_meta::Fault;
use base_client::{Decision, fault_of, record_decision};
use base_controller::{Controller, Next, ObjectKey};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::ResourceExt;
use kube::api::PostParams;
use tokio_util::sync::CancellationToken;

pub use self::plan::{SIGNER, USAGES};
use self::plan::{Verdict, evaluate};
use crate::context::Context;

/// Answers the requests of gardenlets.
pub(crate) async fn run(context: Context, stop: CancellationToken) {
    let requests = context.caches.signing_requests.clone();
    Controller::new("certificatesigningrequest", requests)
        .when(|_, _| true)
        .run(stop, move |request| {
            let context = context.clone();
            async move { reconcile(&context, &request).await }
        })
        .await;
}

async fn reconcile(context: &Context, request: &Arc<CertificateSigningRequest>) -> Result<Next, Fault> {
    context.caches.seeds.ready().await;
    let seeds = &context.caches.seeds;
    let verdict = evaluate(request, |seed| seeds.get(&ObjectKey::cluster(seed)).is_some());
    let (decision, reason, message) = match verdict {
        Verdict::NotOurs => return Ok(Next::Change),
        Verdict::Register => {
            check_right(context, request).await?;
            (
                Decision::Approved,
                "AutoApproved",
                "it registers a gardenlet".to_owned(),
            )
        }
        Verdict::Renew => (
            Decision::Approved,
            "AutoApproved",
            "it renews a gardenlet's certificate".to_owned(),
        ),
        Verdict::Deny(why) => (Decision::Denied, "AutoDenied", why),
    };
    tracing::info!(request = request.name_any(), "{decision:?}: {message}");
    let requests = context.cluster::<CertificateSigningRequest>();
    record_decision(&requests, request, decision, (reason, &message), context.clock.now()).await?;
    Ok(Next::Change)
}

/// The requester needs the right to `create` `certificatesigningrequests/seedclient`, as in Gardener.
async fn check_right(context: &Context, request: &CertificateSigningRequest) -> Result<(), Fault> {
    let spec = &request.spec;
    let (name, user) = (request.name_any(), spec.username.clone().unwrap_or_default());
    let review = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(user.clone()),
            groups: spec.groups.clone(),
            uid: spec.uid.clone(),
            extra: spec.extra.clone(),
            resource_attributes: Some(ResourceAttributes {
                group: Some("certificates.k8s.io".to_owned()),
                resource: Some("certificatesigningrequests".to_owned()),
                subresource: Some("seedclient".to_owned()),
                verb: Some("create".to_owned()),
                ..ResourceAttributes::default()
            }),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    };
    let answered = context.cluster::<SubjectAccessReview>();
    let answered = answered.create(&PostParams::default(), &review).await;
    let answered = answered.map_err(|error| fault_of(error, &format!("review the rights of {user}")))?;
    if answered.status.is_some_and(|status| status.allowed) {
        return Ok(());
    }
    Err(Fault::user(format!(
        "CertificateSigningRequest {name} is not approved: {user} may not create certificatesigningrequests/seedclient"
    ))
    .hint(
        "bind ClusterRole gardener.cloud:system:seed-bootstrapper to group system:bootstrappers, or approve it by hand",
    ))
}

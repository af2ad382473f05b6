//! The server of both reviews, at the paths of gardener-admission-controller (gardener/gardener v1.150
//! pkg/admissioncontroller/webhook/{auth/seed,admission/seedrestriction}). It listens nowhere by itself.

use base_client::{HttpService, review_server, reviewer};

use crate::keeper::Keeper;
use crate::review::{review_access, review_write};

/// Path of SubjectAccessReviews.
pub const AUTHORIZER_PATH: &str = "/webhooks/auth/seed";
/// Path of AdmissionReviews.
pub const RESTRICTION_PATH: &str = "/webhooks/admission/seedrestriction";

/// The server over what a keeper knows.
#[must_use]
pub fn webhooks(keeper: Keeper) -> HttpService {
    let of_writes = keeper.clone();
    let access = reviewer(move |review| {
        let keeper = keeper.clone();
        async move { review_access(&keeper, &review).await }
    });
    let write = reviewer(move |review| {
        let keeper = of_writes.clone();
        async move { review_write(&keeper, &review).await }
    });
    review_server(vec![(AUTHORIZER_PATH, access), (RESTRICTION_PATH, write)])
}

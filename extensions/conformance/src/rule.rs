//! The rules of the contract that the kit checks: a table. It names and explains them; whether an extension follows them
//! is decided elsewhere. Sources are files of gardener/gardener v1.150.

use std::fmt;

use serde::{Serialize, Serializer};

macro_rules! rules {
    ($($group:literal: $($rule:ident $id:literal { $sentence:literal, $source:literal, $hint:literal })+)+) => {
        /// A rule of the contract between gardenlet and extensions.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Rule {
            $($(#[doc = $sentence] $rule,)+)+
        }

        impl Rule {
            /// Every rule, in the order of the table.
            pub const ALL: &'static [Self] = &[$($(Self::$rule,)+)+];

            /// Its name on command lines and in reports, such as `operation-type`.
            #[must_use]
            pub const fn id(self) -> &'static str {
                match self { $($(Self::$rule => $id,)+)+ }
            }

            /// What it demands, as a sentence.
            #[must_use]
            pub const fn sentence(self) -> &'static str {
                match self { $($(Self::$rule => $sentence,)+)+ }
            }

            /// Where the contract states it.
            #[must_use]
            pub const fn source(self) -> &'static str {
                match self { $($(Self::$rule => $source,)+)+ }
            }

            /// What an author does about a finding.
            #[must_use]
            pub const fn hint(self) -> &'static str {
                match self { $($(Self::$rule => $hint,)+)+ }
            }

            /// The heading that it stands under.
            #[must_use]
            pub const fn group(self) -> &'static str {
                match self { $($(Self::$rule => $group,)+)+ }
            }
        }
    };
}

rules! {
    "Requests and the status":
    ReconcileAnnotationRemovedFirst "reconcile-annotation-removed-first" {
        "The annotation `gardener.cloud/operation=reconcile` is removed before the operation is reported.",
        "docs/extensions/reconcile-trigger.md",
        "Remove the annotation as the first write: a request that is made while you work is then seen, and not removed with the present one."
    }
    FinalizerBeforeProcessing "finalizer-before-processing" {
        "The extension's finalizer is on the object before work on it is reported.",
        "extensions/pkg/controller/infrastructure/reconciler.go",
        "Add the finalizer before anything is made: without it a deletion in between leaves behind what you have made."
    }
    ProcessingBeforeResult "processing-before-result" {
        "Each operation is reported as Processing before its result is reported.",
        "extensions/pkg/controller/status.go",
        "Write lastOperation with state Processing before you begin: otherwise no reader knows that you work on the request."
    }
    OperationType "operation-type" {
        "`lastOperation.type` names the operation that was requested: Create, Reconcile, Delete, Migrate or Restore.",
        "pkg/api/core/v1beta1/helper (ComputeOperationType)",
        "Compute the type from annotation, deletion timestamp and last operation, in this order: an operation that did not succeed keeps its type Create, Migrate or Restore."
    }
    ProgressInBounds "progress-in-bounds" {
        "`lastOperation.progress` lies between 0 and 100, does not fall while one operation is worked on, and is 100 when the operation succeeded and only then.",
        "extensions/pkg/controller/status.go",
        "Write 100 with Succeeded, and less with Processing and Error."
    }
    DescriptionPresent "description-present" {
        "`lastOperation.description` and `lastError.description` are not empty.",
        "pkg/apis/extensions/v1alpha1/types_defaults.go",
        "Write a sentence for people: it reaches the status of their Shoot."
    }
    ObservedGenerationWithResult "observed-generation-with-result" {
        "`observedGeneration` is written with the result of an operation and not before, and is then the object's generation.",
        "extensions/pkg/controller/status.go; pkg/utils/kubernetes/health/extensions.go",
        "Write observedGeneration together with Succeeded or Error: written earlier it makes an old result look like that of the new spec."
    }
    AnswerNotOlderThanRequest "answer-not-older-than-request" {
        "`lastOperation.lastUpdateTime` of a result is not before the annotation `gardener.cloud/timestamp` of its request, in whole seconds.",
        "pkg/utils/kubernetes/health/extensions.go",
        "Write the time of the write with every lastOperation: gardenlet waits until it is not older than its request."
    }
    RequestAnswered "request-answered" {
        "A request ends in Succeeded, with the operation annotation removed, within the time limit.",
        "pkg/extensions/customresources.go",
        "Look at the log of the extension: it does not see the object, does not end, or reports the error that is quoted."
    }
    ReconcileIsIdempotent "reconcile-is-idempotent" {
        "A second reconcile of an unchanged object changes neither `state` nor `providerStatus` (byte by byte) nor what is in the cloud.",
        "docs/extensions/reconcile-trigger.md",
        "Derive names from the object, look for what is there before you make it, and write neither times nor counters nor maps in random order into state and providerStatus."
    }
    QuietWhenSettled "quiet-when-settled" {
        "While nothing is requested, `lastOperation` is not written again and again.",
        "extensions/pkg/predicate/default.go",
        "Leave an object alone whose last operation succeeded: your own write of its status is a change that you are called for, too."
    }

    "Errors":
    BadConfigReported "bad-config-reported" {
        "A provider configuration that cannot be read ends in state Error or Failed with a `lastError`.",
        "docs/extensions/validation-guidelines-for-extensions.md",
        "Decode providerConfig strictly, and report what does not decode in lastError: the user sees nothing else."
    }
    BadConfigCode "bad-config-code" {
        "The error of a provider configuration that cannot be read has the code ERR_CONFIGURATION_PROBLEM.",
        "extensions/pkg/controller/infrastructure/reconciler.go (validateConfig)",
        "Add the code: without it the Shoot is retried for hours, though only its owner can act."
    }
    KnownErrorCodes "known-error-codes" {
        "All codes of `lastError` are codes of Gardener.",
        "pkg/apis/core/v1beta1/types_common.go",
        "Use the constants of Gardener: no client acts on an unknown code."
    }
    ErrorKeptUntilSuccess "error-kept-until-success" {
        "`lastError` stays while the operation is tried again, until it succeeds.",
        "extensions/pkg/controller/status.go",
        "Change only lastOperation when you begin: an error that comes and goes with every attempt is easily missed."
    }
    ErrorGoneAfterSuccess "error-gone-after-success" {
        "`lastError` is removed when an operation succeeds.",
        "extensions/pkg/controller/status.go; pkg/utils/kubernetes/health/extensions.go",
        "Remove lastError together with writing Succeeded: gardenlet takes the operation for failed as long as there is one."
    }
    RetriesWithPauses "retries-with-pauses" {
        "A failed operation is tried again after pauses, and not as fast as it fails.",
        "extensions/pkg/predicate/default.go (changes of the status alone call for nothing)",
        "React to the annotation, the generation, the deletion and the start of your process: your own report of an error is a change, too, and calls you at once unless you leave it out."
    }
    RecoversAfterCorrection "recovers-after-correction" {
        "An object that ended in Error is worked on when its spec is corrected, without another annotation.",
        "extensions/pkg/controller/infrastructure/reconciler.go (an error is returned, and so tried again)",
        "Try failed operations again with growing pauses, from the object as it is then."
    }

    "What belongs to others":
    SpecUntouched "spec-untouched" {
        "The spec is written by gardenlet alone.",
        "docs/extensions/overview.md",
        "Write status only; what you compute belongs into providerStatus or state."
    }
    MetadataOfOthersKept "metadata-of-others-kept" {
        "Labels, annotations and finalizers of other writers stay.",
        "pkg/extensions/customresources.go (gardenlet waits for its own timestamp annotation)",
        "Patch the one annotation and the one finalizer that are yours, instead of writing the object that you have read."
    }
    ConditionsOfOthersKept "conditions-of-others-kept" {
        "Conditions of other writers stay.",
        "docs/extensions/registration.md (secondary controllers); docs/extensions/healthcheck-library.md",
        "Merge your conditions into the list by their type."
    }
    ConcurrentWritesKept "concurrent-writes-kept" {
        "What others write while an operation is under way is not set back.",
        "docs/extensions/registration.md",
        "Never write back what you read at the start: send differences, and lists with the resourceVersion that they were read at."
    }
    ConflictsSurvived "conflicts-survived" {
        "An operation succeeds though others write the object all the time.",
        "docs/extensions/registration.md",
        "Read the object again after a conflict, and write again."
    }
    OtherTypesUntouched "other-types-untouched" {
        "Objects of another type are left alone.",
        "docs/extensions/registration.md; pkg/api/extensions (GetExtensionType)",
        "Compare spec.type as a whole."
    }
    OtherClassesUntouched "other-classes-untouched" {
        "Objects of another class are left alone.",
        "docs/extensions/conventions.md",
        "Compare spec.class; nothing means shoot."
    }
    SecondaryWritesConditionsOnly "secondary-writes-conditions-only" {
        "Where another extension is primary, only conditions are written.",
        "docs/extensions/registration.md",
        "Write status.conditions alone on objects that you are registered for with primary: false."
    }
    FailedShootUntouched "failed-shoot-untouched" {
        "While the Shoot in the Cluster is Failed, its objects are left alone.",
        "extensions/pkg/predicate/preconditions.go",
        "Read the Cluster named as the namespace before each operation, and stop if its Shoot is Failed."
    }
    FailedShootResumed "failed-shoot-resumed" {
        "When the Shoot is Failed no more, a request is worked on again.",
        "extensions/pkg/predicate/preconditions.go",
        "Read the Cluster for each request; do not remember that it was Failed."
    }

    "Deletion":
    FinalizerGoneAfterDeletion "finalizer-gone-after-deletion" {
        "After the deletion was requested, the extension removes its finalizer within the time limit.",
        "pkg/extensions/customresources.go",
        "Remove the finalizer when everything is gone, also when there was nothing."
    }
    DeletionCleansUp "deletion-cleans-up" {
        "What was made in the cloud is gone when the finalizer is removed.",
        "docs/extensions/overview.md",
        "Delete first and remove the finalizer last: afterwards nothing names what is left."
    }
    SecondDeletionHarmless "second-deletion-harmless" {
        "A second request for the deletion of an object that the extension has released changes nothing.",
        "extensions/pkg/controller/infrastructure/reconciler.go (no finalizer, no operation)",
        "Leave an object in deletion alone that does not have your finalizer."
    }
    UnreconciledObjectDeletable "unreconciled-object-deletable" {
        "An object that was never reconciled can be deleted.",
        "extensions/pkg/controller/infrastructure/reconciler.go (no finalizer, no operation)",
        "Leave an object in deletion alone that does not have your finalizer: do not expect a status on it."
    }
    ForceDeletionEnds "force-deletion-ends" {
        "The deletion of an object ends when the Shoot in the Cluster requests a forced deletion.",
        "docs/extensions/force-deletion.md",
        "Clean up what is in the seed and release the object, though the cloud may be out of reach."
    }

    "Migration":
    WaitForStateIgnored "wait-for-state-ignored" {
        "An object with `gardener.cloud/operation=wait-for-state` is left alone.",
        "docs/extensions/migration.md; pkg/extensions/customresources.go",
        "Do nothing while the annotation is there: the state that the other seed has left is not there yet."
    }
    MigrateAnnotationRemovedLast "migrate-annotation-removed-last" {
        "The annotation `gardener.cloud/operation=migrate` is removed after the migration succeeded.",
        "docs/extensions/migration.md",
        "Remove the annotation after Succeeded: a process that ends before goes on with the migration, and not with a reconcile."
    }
    FinalizerGoneAfterMigration "finalizer-gone-after-migration" {
        "The extension's finalizer is removed after the migration succeeded.",
        "docs/extensions/migration.md",
        "Remove your finalizer at the end: gardenlet deletes the object next, and nothing else may hold it."
    }
    MigrateLeavesState "migrate-leaves-state" {
        "`state` is still there after the migration.",
        "docs/extensions/migration.md",
        "Do not remove status.state when you migrate: gardenlet takes it to the other seed."
    }
    MigrateLeavesCloud "migrate-leaves-cloud" {
        "A migration, and the deletion of the object after it, change nothing in the cloud.",
        "docs/extensions/migration.md",
        "Forget what you have made, without deleting it: the other seed takes it over."
    }
    MigratedObjectIgnored "migrated-object-ignored" {
        "An object that was migrated is left alone, also when it is deleted.",
        "extensions/pkg/controller/utils.go (ShouldSkipOperation)",
        "Stop if the last operation is a Migrate that succeeded, unless migrate or restore is requested."
    }
    RestoreAnnotationRemovedLast "restore-annotation-removed-last" {
        "The annotation `gardener.cloud/operation=restore` is removed when the work is done, and not before.",
        "docs/extensions/migration.md",
        "Remove the annotation at the end: a process that ends before goes on with the restore, and not with a create."
    }
    RestoreKeepsState "restore-keeps-state" {
        "An object that is restored with a state has the same state afterwards.",
        "docs/extensions/migration.md",
        "Read status.state when restore is requested, and take over what it names."
    }
    RestoreTakesOver "restore-takes-over" {
        "A restore makes nothing in the cloud that was there before.",
        "docs/extensions/migration.md",
        "Take over what status.state names instead of making it again."
    }

    "Faults and the process":
    CrashInReconcileSurvived "crash-in-reconcile-survived" {
        "A process that ends in the middle of a reconcile goes on after its next start.",
        "extensions/pkg/predicate/default.go (objects whose last operation did not succeed, at the start)",
        "At the start look at all objects: those in Processing were left by the process before."
    }
    CrashInDeletionSurvived "crash-in-deletion-survived" {
        "A process that ends in the middle of a deletion goes on after its next start.",
        "extensions/pkg/predicate/default.go (objects in deletion, at the start)",
        "At the start look at all objects, also at those in deletion."
    }
    CrashDoublesNothing "crash-doubles-nothing" {
        "After a process ended in the middle of a create, the cloud holds as many resources as after an undisturbed one.",
        "docs/extensions/migration.md (state)",
        "Announce in status.state what you are about to make, or give it a name or tag by which it is found again."
    }
    HeartbeatRenewed "heartbeat-renewed" {
        "The Lease `gardener-extension-heartbeat` in the extension's namespace is renewed.",
        "docs/extensions/heartbeat.md",
        "Renew it every 30 seconds while the process works: after five minutes gardenlet takes conditions of the extension for outdated."
    }
    WebhooksAnswer "webhooks-answer" {
        "The extension's webhooks answer for objects that they do not know, and allow them.",
        "docs/extensions/controlplane-webhooks.md",
        "Allow what is not yours without a change; check certificate, Service and network policies if the webhook does not answer."
    }
    WebhooksSpareOtherProviders "webhooks-spare-other-providers" {
        "The extension's webhooks do not refuse objects in namespaces of Shoots of other providers.",
        "docs/extensions/controlplane-webhooks.md",
        "Select namespaces by `shoot.gardener.cloud/provider` or `extensions.gardener.cloud/TYPE`, and ask in the handler whose the object is."
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

impl Serialize for Rule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.id())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ids_are_unique_and_texts_are_sentences() {
        let ids: BTreeSet<&str> = Rule::ALL.iter().map(|rule| rule.id()).collect();
        assert_eq!(ids.len(), Rule::ALL.len());
        for rule in Rule::ALL {
            assert!(
                rule.id().bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'),
                "{rule}"
            );
            for text in [rule.sentence(), rule.hint()] {
                assert!(text.ends_with('.') && !text.contains("  "), "{rule}: {text}");
            }
        }
    }
}

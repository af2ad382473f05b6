//! Each rule has an extension that breaks it, and the rule is the first finding.

use api_extensions::{Extension, ExtensionObject, Infrastructure};
use extensions_conformance::{Report, Rule};

use crate::hook::Hook;
use crate::seed::Seed;

fn is_first(report: &Report, rule: Rule) {
    let found: Vec<Rule> = report.findings().map(|(rule, _)| rule).collect();
    assert_eq!(found.first(), Some(&rule), "{found:?}\n{}", report.text());
    let (_, evidence) = report.findings().next().unwrap();
    assert!(
        !evidence[0].seen.is_empty() && !evidence[0].object.is_empty(),
        "{evidence:?}"
    );
    assert_eq!(report.exit_code(), 1);
}

async fn broken<K: ExtensionObject>(rule: Rule) {
    let seed = Seed::new().await;
    let report = seed.validate::<K>(Some(rule)).await;
    is_first(&report, rule);
    assert_eq!(seed.left::<K>().await, Vec::<String>::new(), "{rule}");
}

macro_rules! breaks {
    ($($name:ident: $rule:ident,)+) => {
        $(
            #[tokio::test(start_paused = true)]
            async fn $name() {
                broken::<Extension>(Rule::$rule).await;
            }
        )+

        /// Rules with a switch in the extension, for which a test stands here.
        const BROKEN: &[Rule] = &[$(Rule::$rule,)+];
    };
}

breaks! {
    an_annotation_that_is_removed_late_is_found: ReconcileAnnotationRemovedFirst,
    a_finalizer_that_is_added_late_is_found: FinalizerBeforeProcessing,
    a_result_without_processing_is_found: ProcessingBeforeResult,
    a_wrong_type_of_operation_is_found: OperationType,
    success_at_ninety_percent_is_found: ProgressInBounds,
    an_empty_description_is_found: DescriptionPresent,
    an_early_observed_generation_is_found: ObservedGenerationWithResult,
    an_answer_with_an_old_time_is_found: AnswerNotOlderThanRequest,
    a_request_without_an_answer_is_found: RequestAnswered,
    a_state_that_counts_reconciles_is_found: ReconcileIsIdempotent,
    a_status_that_is_rewritten_for_no_reason_is_found: QuietWhenSettled,
    a_configuration_that_is_not_read_is_found: BadConfigReported,
    an_error_without_its_code_is_found: BadConfigCode,
    a_code_that_does_not_exist_is_found: KnownErrorCodes,
    an_error_that_vanishes_while_it_is_tried_again_is_found: ErrorKeptUntilSuccess,
    an_error_that_stays_after_success_is_found: ErrorGoneAfterSuccess,
    an_error_that_is_retried_because_it_was_reported_is_found: RetriesWithPauses,
    an_object_that_is_given_up_after_an_error_is_found: RecoversAfterCorrection,
    a_spec_that_is_defaulted_is_found: SpecUntouched,
    labels_that_are_replaced_are_found: MetadataOfOthersKept,
    conditions_that_are_replaced_are_found: ConditionsOfOthersKept,
    a_condition_that_is_written_back_is_found: ConcurrentWritesKept,
    an_operation_that_ends_at_a_conflict_is_found: ConflictsSurvived,
    a_type_that_is_compared_by_its_beginning_is_found: OtherTypesUntouched,
    a_class_that_is_not_compared_is_found: OtherClassesUntouched,
    a_secondary_that_writes_the_last_operation_is_found: SecondaryWritesConditionsOnly,
    work_for_a_failed_shoot_is_found: FailedShootUntouched,
    a_shoot_that_stays_failed_in_memory_is_found: FailedShootResumed,
    a_finalizer_that_stays_after_a_deletion_is_found: FinalizerGoneAfterDeletion,
    a_resource_that_stays_after_a_deletion_is_found: DeletionCleansUp,
    an_error_at_a_second_deletion_is_found: SecondDeletionHarmless,
    an_error_at_the_deletion_of_an_unreconciled_object_is_found: UnreconciledObjectDeletable,
    a_forced_deletion_that_is_refused_is_found: ForceDeletionEnds,
    work_on_an_object_that_waits_for_its_state_is_found: WaitForStateIgnored,
    a_migrate_annotation_that_is_removed_early_is_found: MigrateAnnotationRemovedLast,
    a_finalizer_that_stays_after_a_migration_is_found: FinalizerGoneAfterMigration,
    a_state_that_is_lost_in_a_migration_is_found: MigrateLeavesState,
    a_migration_that_deletes_in_the_cloud_is_found: MigrateLeavesCloud,
    a_deletion_of_a_migrated_object_is_found: MigratedObjectIgnored,
    a_restore_annotation_that_is_removed_early_is_found: RestoreAnnotationRemovedLast,
    a_restore_that_forgets_the_state_is_found: RestoreKeepsState,
    a_restore_that_makes_a_second_resource_is_found: RestoreTakesOver,
    a_reconcile_that_a_crash_ends_for_good_is_found: CrashInReconcileSurvived,
    a_deletion_that_a_crash_ends_for_good_is_found: CrashInDeletionSurvived,
    a_resource_that_a_crash_doubles_is_found: CrashDoublesNothing,
    a_missing_heartbeat_is_found: HeartbeatRenewed,
}

#[tokio::test(start_paused = true)]
async fn a_webhook_that_does_not_answer_is_found() {
    let seed = Seed::new().await;
    Hook::dead().register(&seed.client, Hook::in_own_namespaces()).await;
    let report = seed.validate::<Extension>(None).await;
    is_first(&report, Rule::WebhooksAnswer);
    assert!(
        report.passed().any(|rule| rule == Rule::WebhooksSpareOtherProviders),
        "{}",
        report.text()
    );
}

#[tokio::test(start_paused = true)]
async fn a_webhook_that_refuses_objects_of_other_providers_is_found() {
    let seed = Seed::new().await;
    Hook::dead().register(&seed.client, Hook::in_other_namespaces()).await;
    let report = seed.validate::<Extension>(None).await;
    is_first(&report, Rule::WebhooksSpareOtherProviders);
    assert_eq!(report.findings().count(), 1, "{}", report.text());
}

#[tokio::test(start_paused = true)]
async fn an_infrastructure_is_looked_at_as_any_other_kind() {
    for rule in [Rule::OperationType, Rule::MigrateLeavesCloud, Rule::CrashDoublesNothing] {
        broken::<Infrastructure>(rule).await;
    }
}

#[test]
fn every_rule_has_an_extension_that_breaks_it() {
    let by_webhooks = [Rule::WebhooksAnswer, Rule::WebhooksSpareOtherProviders];
    let missing: Vec<&Rule> = Rule::ALL
        .iter()
        .filter(|rule| !BROKEN.contains(rule) && !by_webhooks.contains(rule))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

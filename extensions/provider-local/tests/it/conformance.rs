//! The conformance kit against every kind of this provider: no rule is broken, and those that are skipped are skipped for a
//! reason that is written down here.

pub(crate) mod place;

use api_extensions::{ExtensionClass, ExtensionKind};
use base_client::list;
use extensions_conformance::{BadSpec, Fragments, Hook, Rule, Subject};
use extensions_provider_local::ledger;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{Api, Client, ResourceExt};

use crate::landscape::TYPE;
use place::{EXTENSION_TYPE, Place};

/// This provider registers no webhooks.
const NO_WEBHOOKS: &str = "no configuration of webhooks of the extension was found";
const WITHOUT_WEBHOOKS: [(Rule, &str); 2] = [
    (Rule::WebhooksAnswer, NO_WEBHOOKS),
    (Rule::WebhooksSpareOtherProviders, NO_WEBHOOKS),
];
/// What these kinds made is found by its names.
const NO_STATE: &str = "the extension leaves no state";
const WITHOUT_STATE: [(Rule, &str); 2] = [
    (Rule::MigrateLeavesState, NO_STATE),
    (Rule::RestoreKeepsState, NO_STATE),
];
/// These kinds have no configuration that could be wrong.
const NOTHING_REFUSED: &str = "the extension refuses no spec, as the file with the fragments has it (badSpec: null)";
const WITHOUT_ERRORS: [(Rule, &str); 7] = [
    (Rule::BadConfigReported, NOTHING_REFUSED),
    (Rule::BadConfigCode, NOTHING_REFUSED),
    (Rule::KnownErrorCodes, NOTHING_REFUSED),
    (Rule::ErrorKeptUntilSuccess, NOTHING_REFUSED),
    (Rule::ErrorGoneAfterSuccess, NOTHING_REFUSED),
    (Rule::RetriesWithPauses, NOTHING_REFUSED),
    (Rule::RecoversAfterCorrection, NOTHING_REFUSED),
];
/// Nothing is made outside of the seed, or beside the object's status.
const NO_CLOUD: &str = "no command was given that prints what the cloud holds (--cloud-check)";
const WITHOUT_CLOUD: [(Rule, &str); 4] = [
    (Rule::DeletionCleansUp, NO_CLOUD),
    (Rule::MigrateLeavesCloud, NO_CLOUD),
    (Rule::RestoreTakesOver, NO_CLOUD),
    (Rule::CrashDoublesNothing, NO_CLOUD),
];
/// This provider is no secondary.
const NO_SECONDARY: (Rule, &str) = (
    Rule::SecondaryWritesConditionsOnly,
    "no kind and type was given that the extension is a secondary for (--secondary)",
);
/// Backups belong to no Shoot's namespace.
const NO_SHOOT: &str = "objects of this kind are in no Shoot's namespace";
const WITHOUT_SHOOT: [(Rule, &str); 3] = [
    (Rule::FailedShootUntouched, NO_SHOOT),
    (Rule::FailedShootResumed, NO_SHOOT),
    (Rule::ForceDeletionEnds, NO_SHOOT),
];
/// As the Infrastructure reports it.
const INFRASTRUCTURE_STATUS: &str = "
    apiVersion: local.provider.extensions.gardener.cloud/v1alpha1
    kind: InfrastructureStatus
    description: the network of a test
    network:
      id: 9007199254740993
      cidr: 10.7.0.0/18
      subnets: [{zone: conformance-a, cidr: 10.7.0.0/20}]
      egressCidrs: [203.0.113.1/32]
";

fn subject(kind: ExtensionKind, fragments: &str) -> Subject {
    let type_ = match kind {
        ExtensionKind::Extension => EXTENSION_TYPE,
        _ => TYPE,
    };
    Subject {
        fragments: Fragments::parse(fragments).unwrap(),
        ..Subject::new(kind, type_)
    }
}

/// What the extension has made in the namespaces of shoots, but for Secrets of ManagedResources.
fn of_seed(client: &Client) -> Hook {
    let client = client.clone();
    Hook::new(move || {
        let client = client.clone();
        async move {
            let namespaces: Vec<Namespace> = list(&Api::all(client.clone()), "").await?;
            let mut found = String::new();
            for namespace in namespaces {
                for line in ledger(&client, &namespace.name_any()).await? {
                    found += &format!("{line}\n");
                }
            }
            Ok(found)
        }
    })
}

/// What the extension has put into the shoot.
fn of_shoot(client: &Client) -> Hook {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "kube-system");
    Hook::new(move || {
        let maps = maps.clone();
        async move {
            let maps = list(&maps, "resources.gardener.cloud/managed-by=gardener").await?;
            Ok(maps.iter().map(|map| format!("{}\n", map.name_any())).collect())
        }
    })
}

#[tokio::test(start_paused = true)]
async fn infrastructures_break_no_rule_of_the_conformance_kit() {
    let place = Place::new().await;
    let subject = subject(
        ExtensionKind::Infrastructure,
        "
        badSpec: {providerConfig: {networks: 5}}
        changedSpec: {providerConfig: {networks: {}}}
        cluster: {shoot: {spec: {networking: {nodes: null}}}}
        ",
    );
    let skipped = [&[NO_SECONDARY][..], &WITHOUT_WEBHOOKS].concat();
    place.passes(subject, Some(of_seed(&place.client)), &skipped).await;
}

#[tokio::test(start_paused = true)]
async fn control_planes_break_no_rule_of_the_conformance_kit() {
    let place = Place::new().await;
    let fragments = format!("spec:\n  infrastructureProviderStatus:{INFRASTRUCTURE_STATUS}\nbadSpec: null");
    let subject = subject(ExtensionKind::ControlPlane, &fragments);
    let skipped = [&WITHOUT_ERRORS[..], &[NO_SECONDARY], &WITHOUT_STATE, &WITHOUT_WEBHOOKS].concat();
    place.passes(subject, Some(of_shoot(&place.shoot)), &skipped).await;
}

#[tokio::test(start_paused = true)]
async fn networks_break_no_rule_of_the_conformance_kit() {
    let place = Place::new().await;
    let subject = subject(
        ExtensionKind::Network,
        "
        changedSpec: {ipFamilies: []}
        badSpec: {ipFamilies: [IPv6]}
        ",
    );
    let skipped = [&[NO_SECONDARY][..], &WITHOUT_STATE, &WITHOUT_WEBHOOKS].concat();
    place.passes(subject, Some(of_shoot(&place.shoot)), &skipped).await;
}

#[tokio::test(start_paused = true)]
async fn dns_records_break_no_rule_of_the_conformance_kit() {
    const NAME: &str = "api.conformance.example.org";
    let place = Place::new().await;
    let fragments = format!(
        "
        spec: {{name: {NAME}}}
        changedSpec: {{values: [192.0.2.2]}}
        badSpec: {{values: [nowhere]}}
        "
    );
    let subject = subject(ExtensionKind::DNSRecord, &fragments);
    let skipped = [&[NO_SECONDARY][..], &WITHOUT_STATE, &WITHOUT_WEBHOOKS].concat();
    place.passes(subject, Some(place.name(NAME)), &skipped).await;
}

#[tokio::test(start_paused = true)]
async fn operating_system_configs_break_no_rule_of_the_conformance_kit() {
    const UNREADABLE: &str = "{files: [{path: /a, content: {inline: {encoding: rot13, data: a}}}]}";
    // On machines that run, files are written by others, and this provider adds one in the status.
    for (purpose, bad, errors) in [
        ("provision", UNREADABLE, &[][..]),
        ("reconcile", "null", &WITHOUT_ERRORS),
    ] {
        let place = Place::new().await;
        let fragments = format!(
            "
            spec: {{purpose: {purpose}}}
            changedSpec: {{units: []}}
            badSpec: {bad}
            "
        );
        let subject = subject(ExtensionKind::OperatingSystemConfig, &fragments);
        let mut skipped = [errors, &[NO_SECONDARY], &WITHOUT_STATE, &WITHOUT_WEBHOOKS].concat();
        let is_made = purpose == "provision";
        if !is_made {
            skipped.extend(WITHOUT_CLOUD);
        }
        let inventory = is_made.then(|| of_seed(&place.client));
        place.passes(subject, inventory, &skipped).await;
    }
}

/// A ConfigMap is all that there is: it lies in the seed, and goes with it.
#[tokio::test(start_paused = true)]
async fn extensions_of_both_classes_break_no_rule_of_the_conformance_kit() {
    const NO_SHOOT: &str = "objects of this class belong to no Shoot";
    let fragments = "
        spec: {providerConfig: {greeting: hello}}
        changedSpec: {providerConfig: {greeting: bye}}
        badSpec: null
        ";
    for (class, other) in [
        (ExtensionClass::Shoot, ExtensionClass::Seed),
        (ExtensionClass::Seed, ExtensionClass::Shoot),
    ] {
        let place = Place::new().await;
        let mut skipped = [&WITHOUT_ERRORS[..], &[NO_SECONDARY], &WITHOUT_WEBHOOKS].concat();
        skipped.extend(WITHOUT_CLOUD);
        if class == ExtensionClass::Seed {
            skipped.extend(WITHOUT_SHOOT.map(|(rule, _)| (rule, NO_SHOOT)));
        }
        let subject = Subject {
            class,
            other_classes: vec![other],
            ..subject(ExtensionKind::Extension, fragments)
        };
        place.passes(subject, None, &skipped).await;
    }
}

#[tokio::test(start_paused = true)]
async fn backup_buckets_break_no_rule_of_the_conformance_kit() {
    const STAYS: &str = "gardenlet does not migrate objects of this kind";
    let place = Place::new().await;
    let mut subject = subject(ExtensionKind::BackupBucket, "");
    subject.fragments.bad_spec = BadSpec::None;
    let of_migration = [
        Rule::MigrateAnnotationRemovedLast,
        Rule::FinalizerGoneAfterMigration,
        Rule::MigrateLeavesState,
        Rule::MigrateLeavesCloud,
        Rule::MigratedObjectIgnored,
        Rule::RestoreAnnotationRemovedLast,
        Rule::RestoreKeepsState,
        Rule::RestoreTakesOver,
    ];
    let of_migration = of_migration.map(|rule| (rule, STAYS));
    let skipped = [
        &WITHOUT_ERRORS[..],
        &[NO_SECONDARY],
        &WITHOUT_SHOOT,
        &of_migration,
        &WITHOUT_WEBHOOKS,
    ]
    .concat();
    place.passes(subject, Some(place.folders("buckets")), &skipped).await;
}

#[tokio::test(start_paused = true)]
async fn backup_entries_break_no_rule_of_the_conformance_kit() {
    let place = Place::new().await;
    std::fs::create_dir_all(place.data_dir().join("buckets/conformance")).unwrap();
    let subject = subject(ExtensionKind::BackupEntry, "badSpec: {bucketName: ../conformance}");
    let skipped = [&[NO_SECONDARY][..], &WITHOUT_SHOOT, &WITHOUT_STATE, &WITHOUT_WEBHOOKS].concat();
    let folders = place.folders("buckets/conformance");
    place.passes(subject, Some(folders), &skipped).await;
}

/// Its machines are pods that no node runs: a task of the test lets each of them join the shoot, as its agent would.
#[tokio::test(start_paused = true)]
async fn workers_break_no_rule_of_the_conformance_kit() {
    let place = Place::new().await;
    place.let_machines_join();
    let pool = |machines: u8| {
        format!(
            "[{{name: p, machineType: m, minimum: {machines}, maximum: {machines}, maxSurge: 1, maxUnavailable: 0, \
             zones: [conformance-a], nodeAgentSecretName: agent, machineImage: {{name: {TYPE}, version: '1'}}, \
             userDataSecretRef: {{name: user-data, key: cloud_config}}}}]"
        )
    };
    let fragments = format!(
        "
spec:
  pools: {}
  infrastructureProviderStatus:{INFRASTRUCTURE_STATUS}
changedSpec: {{pools: {}}}
badSpec: null
objects:
- {{apiVersion: v1, kind: Secret, metadata: {{name: user-data}}, stringData: {{cloud_config: '{{}}'}}}}
- {{apiVersion: v1, kind: Secret, metadata: {{name: shoot-access-machine-controller-manager}}, stringData: {{kubeconfig: '{{}}'}}}}
        ",
        pool(1),
        pool(2)
    );
    let subject = subject(ExtensionKind::Worker, &fragments);
    let skipped = [&WITHOUT_ERRORS[..], &[NO_SECONDARY], &WITHOUT_STATE, &WITHOUT_WEBHOOKS].concat();
    place.passes(subject, Some(of_seed(&place.client)), &skipped).await;
}

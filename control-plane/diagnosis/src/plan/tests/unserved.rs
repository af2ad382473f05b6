//! Kinds and types that no controller serves.

use super::*;

#[test]
fn a_type_whose_registration_is_gone_stands_with_all_its_objects() {
    let mut gone = with(
        |shoot| {
            shoot["spec"]["networking"]["type"] = json!("extra");
            let problem = problem("Check required extensions", "missing: Network/extra (not registered)");
            failing(shoot, "Error", problem);
        },
        vec![ExtensionFact {
            reported: Reported {
                type_: "Extra".to_owned(),
                ..object("Network", requested).reported
            },
            ..object("Network", requested)
        }],
    );
    let blocker = only(&gone, Cause::NotRegistered);
    assert_mentions(
        &blocker,
        &[
            "no ControllerRegistration is responsible for Network/extra",
            "Network shoot--dev--s/s",
        ],
    );
    assert_eq!(blocker.tasks, ["Check required extensions"]);
    gone.registrations = Seen::Unknown("forbidden".to_owned());
    let answer = plan(&gone);
    assert!(
        !causes(&answer).contains(&Cause::NotRegistered),
        "an unread list is not an empty one"
    );
    assert_eq!(answer.unknown, ["the registrations: forbidden"]);
}

#[test]
fn an_error_stands_beside_the_installation_that_has_gone_bad_since() {
    let wrong = |reported: &mut Reported| {
        reported.last_operation = operation("Create", "Error");
        reported.last_error = error("no such zone", "ERR_CONFIGURATION_PROBLEM");
    };
    let mut facts = with(
        |_| {},
        vec![object("Infrastructure", wrong), object("Network", requested)],
    );
    let mut unwell = installation();
    unwell.status.as_mut().unwrap().conditions[1].status = ConditionStatus::False;
    facts.installations = Seen::Present(vec![unwell]);
    let answer = plan(&facts);
    assert_eq!(causes(&answer), [Cause::NotInstalled, Cause::ExtensionError]);
    let [installation, error] = answer.blockers.as_slice() else {
        panic!("{answer:#?}")
    };
    assert_eq!(
        objects(installation),
        [
            "ControllerInstallation provider-moon-abcde",
            "Network shoot--dev--s/s in seed seed"
        ]
    );
    assert_eq!(installation.since, Some(at("2026-01-01T00:07:00Z")));
    assert_eq!((error.class, installation.codes.len()), (Some("user"), 0));
}

#[test]
fn an_unhealthy_installation_is_reported_with_its_own_message() {
    let mut facts = facts(|_| {});
    let mut unwell = installation();
    let healthy = serde_json::from_value(condition("Healthy", "False")).unwrap();
    unwell.status.as_mut().unwrap().conditions.push(healthy);
    facts.installations = Seen::Present(vec![unwell]);
    assert_mentions(
        &only(&facts, Cause::NotInstalled),
        &[
            "needed for ControlPlane/moon",
            "provider-moon cannot be used",
            "installation not healthy: m",
            "ControllerInstallation provider-moon-abcde",
        ],
    );
    facts.installations = Seen::Present(Vec::new());
    assert_mentions(&only(&facts, Cause::NotInstalled), &["not installed on the seed"]);
}

#[test]
fn an_installation_without_conditions_has_no_pods_to_look_at() {
    let mut facts = facts(|_| {});
    let mut untouched = installation();
    untouched.status = None;
    facts.installations = Seen::Present(vec![untouched]);
    let blocker = only(&facts, Cause::NotInstalled);
    assert_mentions(
        &blocker,
        &["wait a minute; if it lasts, look at the log of the gardenlet of seed seed"],
    );
    let command = blocker.command.as_deref();
    assert_eq!(command, Some("orangery why controllerinstallation provider-moon-abcde"));
    let mut abandoned = condition("Valid", "Unknown");
    abandoned["reason"] = json!("NoOperator");
    let mut served_by_none = installation();
    served_by_none.status = serde_json::from_value(json!({"conditions": [abandoned]})).unwrap();
    facts.installations = Seen::Present(vec![served_by_none]);
    assert_mentions(&only(&facts, Cause::NotInstalled), &["start the operator of that type"]);
}

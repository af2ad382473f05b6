//! A spec that has to be refused, and its correction.

use api_meta::ErrorCode;
use api_meta::annotations::operation;
use serde_json::Value;

use crate::episode::{Episode, RequestKind};
use crate::fragments::Field;
use crate::rule::Rule;
use crate::stage::{Actor, Expected, Stage, Stop};
use crate::subject::{BadSpec, merge};
use crate::template;

/// Reports of a failing operation, while it is looked at, that are fine: controller-runtime begins with a pause of 5 ms and
/// doubles it, which makes ten attempts within 5 s and two reports for each.
const REPORTS_MAX: usize = 40;

/// The rules that are looked at here.
const RULES: [Rule; 7] = [
    Rule::BadConfigReported,
    Rule::BadConfigCode,
    Rule::KnownErrorCodes,
    Rule::ErrorKeptUntilSuccess,
    Rule::ErrorGoneAfterSuccess,
    Rule::RetriesWithPauses,
    Rule::RecoversAfterCorrection,
];

/// Runs the part.
///
/// # Errors
/// See [`Stop`].
pub(crate) async fn run(stage: &mut Stage, actor: &Actor) -> Result<(), Stop> {
    let given = stage.subject.fragments.bad_spec.clone();
    let Some(fragment) = given.fragment() else {
        skip(
            stage,
            "the extension refuses no spec, as the file with the fragments has it (badSpec: null)",
        );
        return Ok(());
    };
    stage.step("write a spec that has to be refused");
    let good = template::spec(&stage.subject, &stage.names);
    let mut bad = good.clone();
    merge(&mut bad, &fragment);
    let request = stage
        .request(actor, operation::RECONCILE, Some(Value::Object(bad)))
        .await
        .map_err(|stop| stop.of(Field::BadSpec))?;
    let expected = Expected::of(RequestKind::Refusal);
    if given == BadSpec::OfTheKit && accepts(stage, actor, request.at).await {
        skip(
            stage,
            "the extension accepts a providerConfig of a kind that does not exist: name a spec that it has to refuse (badSpec of --config)",
        );
        return restore(stage, actor, good).await;
    }
    match stage.answered(actor, request, expected).await {
        Ok(episode) => {
            stage.checked(Rule::BadConfigCode, &actor.title, code(&episode));
            pauses(stage, actor).await;
        }
        Err(Stop::Unanswered(_)) => {
            skip(stage, "the spec that has to be refused was not refused");
            return restore(stage, actor, good).await;
        }
        Err(stop) => return Err(stop),
    }
    correct(stage, actor, good).await
}

fn skip(stage: &mut Stage, reason: &str) {
    RULES.into_iter().for_each(|rule| stage.ledger.skipped(rule, reason));
}

/// Whether the extension reports success with the spec.
async fn accepts(stage: &Stage, actor: &Actor, at: usize) -> bool {
    let ended = |entries: &[crate::record::Entry]| crate::episode::end(entries, RequestKind::Refusal);
    let ended = actor.record.wait(at, stage.options.timeout, ended).await;
    ended == Some(crate::episode::End::Succeeded)
}

fn code(episode: &Episode) -> Result<(), String> {
    let newest = episode.newest();
    let errors = std::iter::once(newest).chain(episode.after.iter().rev());
    let Some((version, error)) = errors
        .filter_map(|version| Some((version, version.status.last_error.as_ref()?)))
        .next()
    else {
        return Ok(());
    };
    match error.codes.contains(&ErrorCode::ConfigurationProblem) {
        true => Ok(()),
        false => {
            let codes: Vec<String> = error.codes.iter().map(ToString::to_string).collect();
            Err(format!(
                "{} lastError has the codes [{}]",
                version.place(),
                codes.join(", ")
            ))
        }
    }
}

/// Whether the failed operation is left in peace between two attempts.
async fn pauses(stage: &mut Stage, actor: &Actor) {
    stage.step("leave the spec as it is");
    let versions = stage.look(actor, actor.record.len()).await;
    let reports = versions
        .windows(2)
        .filter(|pair| pair[0].last() != pair[1].last())
        .count();
    let outcome = match reports <= REPORTS_MAX {
        true => Ok(()),
        false => Err(format!(
            "lastOperation was written {reports} times within {} s, and the newest is {:?}",
            stage.options.patience.as_secs(),
            versions.last().map(|version| version.state()).unwrap_or_default()
        )),
    };
    stage.checked(Rule::RetriesWithPauses, &actor.title, outcome);
}

/// Writes the right spec and nothing else: an extension tries again what failed.
async fn correct(stage: &mut Stage, actor: &Actor, good: serde_json::Map<String, Value>) -> Result<(), Stop> {
    stage.step("correct the spec, without an annotation");
    let request = stage.respec(actor, Value::Object(good.clone())).await?;
    match stage
        .answered(actor, request, Expected::of(RequestKind::Correction))
        .await
    {
        Ok(_) => Ok(()),
        Err(Stop::Unanswered(_)) => restore(stage, actor, good).await,
        Err(stop) => Err(stop),
    }
}

/// The right spec with a request, as gardenlet writes both.
async fn restore(stage: &mut Stage, actor: &Actor, good: serde_json::Map<String, Value>) -> Result<(), Stop> {
    stage.step("write the spec from before and request a reconcile");
    let request = stage
        .request(actor, operation::RECONCILE, Some(Value::Object(good)))
        .await?;
    stage
        .answered(actor, request, Expected::of(RequestKind::Reconcile))
        .await
        .map(drop)
}

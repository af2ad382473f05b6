//! Compares all cases with Helm's recorded answers. `cargo xtask test helm` runs Helm again.

use tests_helm::{case, our_answer};

#[test]
fn every_case_has_the_answer_that_helm_gives() {
    let mut cases = 0;
    let mut differ = Vec::new();
    for mut file in case::files().expect("cases are read") {
        for case in file.cases() {
            cases += 1;
            let ours = our_answer(case).expect("the case is one");
            match case.answer() {
                Some(answer) if answer == ours => {}
                Some(answer) => differ.push(format!(
                    "{}\n  Helm {}\n  ours {}",
                    case.shown(),
                    answer.shown(),
                    ours.shown()
                )),
                None => differ.push(format!(
                    "{}: no answer, `cargo xtask test helm --update` records it",
                    case.shown()
                )),
            }
        }
    }
    assert!(cases > 0, "there are cases");
    assert!(
        differ.is_empty(),
        "{} of {cases} differ:\n{}",
        differ.len(),
        differ.join("\n")
    );
}

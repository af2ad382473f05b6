//! All cases against the answers that Go gave. `cargo xtask test gotemplate` runs Go again.

use tests_gotemplate::{case, our_answer};

#[test]
fn every_case_has_the_answer_that_go_gives() {
    let mut cases = 0;
    let mut differ = Vec::new();
    for file in case::files().expect("cases are read") {
        for case in &file.cases {
            cases += 1;
            let ours = our_answer(case).expect("data are read");
            match &case.answer {
                Some(_) if case.agrees_with(&ours) => {}
                Some(answer) => differ.push(format!("{}: Go {}, ours {}", case.name, answer.shown(), ours.shown())),
                None => differ.push(format!(
                    "{}: no answer, `cargo xtask test gotemplate --update` asks",
                    case.name
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

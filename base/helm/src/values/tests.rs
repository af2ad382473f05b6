//! Hostile arguments and files. Comparisons with Helm are in `tests/helm`.

use super::*;

fn set(argument: &str) -> Result<Values, ValuesError> {
    let options = Options {
        set: vec![argument.to_owned()],
        ..Options::default()
    };
    options.merge(&|name| Err(format!("{name} is not there")))
}

#[test]
fn indices_make_no_more_items_than_the_limit() {
    let wide = (0..40)
        .map(|number| format!("a{number}[65536]=1"))
        .collect::<Vec<_>>()
        .join(",");
    assert!(set(&wide).unwrap_err().to_string().contains("more than 1048576 items"));
    let deep = format!("a{}=1", "[0]".repeat(200_000));
    assert!(set(&deep).unwrap_err().to_string().contains("more than 100 deep"));
}

#[test]
fn a_file_of_values_is_read_up_to_the_limit() {
    let large = vec![b'#'; FILE_BYTES_MAX + 1];
    assert_eq!(
        load_values(&large),
        Err(ValuesError::TooLarge {
            bytes: FILE_BYTES_MAX + 1
        })
    );
}

#[test]
fn numbers_of_files_are_floats_and_those_of_arguments_are_whole() {
    let options = Options {
        files: vec!["values".to_owned()],
        set: vec!["b=2".to_owned()],
        ..Options::default()
    };
    let values = options.merge(&|_| Ok(b"a: 1\n".to_vec())).unwrap();
    assert!(values["a"].is_f64() && values["b"].is_i64(), "{values:?}");
}

//! Hostile archives and folders. Comparisons with Helm are in `tests/helm`.

use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::*;

/// A gzipped tar of entries: their names, which end with a slash if they are folders, the size that is claimed, what they hold.
fn archive(entries: impl IntoIterator<Item = (String, u64, Vec<u8>)>) -> Vec<u8> {
    let mut zipped = GzEncoder::new(Vec::new(), Compression::fast());
    for (name, size, data) in entries {
        let mut header = tar::Header::new_gnu();
        if name.ends_with('/') {
            header.set_entry_type(tar::EntryType::Directory);
        }
        header.set_path(name).unwrap();
        header.set_size(size);
        header.set_cksum();
        zipped.write_all(header.as_bytes()).unwrap();
        zipped.write_all(&data).unwrap();
        let padding = data.len().next_multiple_of(512) - data.len();
        zipped.write_all(&vec![0; padding]).unwrap();
    }
    zipped.write_all(&[0; 1024]).unwrap();
    zipped.finish().unwrap()
}

fn file(name: &str, data: &[u8]) -> (String, u64, Vec<u8>) {
    (name.to_owned(), data.len() as u64, data.to_vec())
}

fn problem(archive: &[u8]) -> String {
    Chart::from_archive(archive).unwrap_err().to_string()
}

/// Asserts that so many copies of the archive of a chart take too much in another chart.
fn assert_copies_are_too_large(inner: &[u8], count: usize) {
    let inners = (0..count).map(|number| file(&format!("a/charts/{number}.tgz"), inner));
    let why = problem(&archive(inners.chain([file("a/Chart.yaml", CHART_YAML)])));
    assert!(why.contains("larger than the maximum size"), "{why}");
}

const CHART_YAML: &[u8] = b"apiVersion: v2\nname: a\nversion: 1.0.0\n";

#[test]
fn an_archive_that_claims_or_holds_too_much_is_refused() {
    let claims = archive([("a/x".to_owned(), u64::MAX >> 2, Vec::new())]);
    assert!(
        problem(&claims).contains("larger than the maximum size"),
        "{}",
        problem(&claims)
    );
    let large = archive([("a/x".to_owned(), FILE_BYTES_MAX + 1, Vec::new())]);
    assert!(problem(&large).contains("larger than the maximum file size"));
    let file_of_5_mib = vec![0; FILE_BYTES_MAX as usize];
    let many = archive((0..21).map(|number| file(&format!("a/{number}"), &file_of_5_mib)));
    assert!(problem(&many).contains("larger than the maximum size"));
}

#[test]
fn an_archive_of_100_000_files_is_refused_after_10_000() {
    let many = archive((0..100_000).map(|number| file(&format!("a/{number}"), b"")));
    assert!(problem(&many).contains("more than 10000 files"), "{}", problem(&many));
}

#[test]
fn folders_in_an_archive_are_no_files_but_have_a_limit() {
    let with_folders = |count: usize| {
        let folders = (0..count).map(|number| file(&format!("a/{number}/"), b""));
        archive(folders.chain([file("a/Chart.yaml", CHART_YAML)]))
    };
    assert!(Chart::from_archive(&with_folders(11_000)).is_ok());
    // 50 MB of headers in each, which are small when they are packed.
    let inner = with_folders(100_000);
    assert_copies_are_too_large(&inner, 3);
}

#[test]
fn an_entry_name_of_a_terabyte_is_refused() {
    let mut zipped = GzEncoder::new(Vec::new(), Compression::fast());
    let mut header = tar::Header::new_gnu();
    header.set_path("././@LongLink").unwrap();
    header.set_entry_type(tar::EntryType::GNULongName);
    header.set_size(1 << 40);
    header.set_cksum();
    zipped.write_all(header.as_bytes()).unwrap();
    let zeroes = vec![b'x'; 1 << 20];
    for _ in 0..200 {
        zipped.write_all(&zeroes).unwrap();
    }
    assert!(!problem(&zipped.finish().unwrap()).is_empty());
}

#[test]
fn charts_that_nest_too_deep_are_refused() {
    let mut inner = archive([file("a/Chart.yaml", CHART_YAML)]);
    for _ in 0..20 {
        inner = archive([file("a/Chart.yaml", CHART_YAML), file("a/charts/a.tgz", &inner)]);
    }
    assert!(problem(&inner).ends_with("charts lie more than 16 deep in each other"));
}

#[test]
fn archives_of_archives_share_one_limit() {
    let file_of_4_mib = vec![0; 4 << 20];
    let contents = (0..24).map(|number| file(&format!("b/{number}"), &file_of_4_mib));
    let inner = archive(contents.chain([file("b/Chart.yaml", CHART_YAML)]));
    assert!(inner.len() < 1 << 20);
    assert_copies_are_too_large(&inner, 10);
}

#[test]
fn archive_base64_and_folder_give_the_same_chart() {
    let packed = archive([file("a/Chart.yaml", CHART_YAML), file("a/values.yaml", b"x: 1\n")]);
    let chart = Chart::from_archive(&packed).unwrap();
    assert_eq!(chart.metadata.name, "a");
    assert_eq!(Chart::from_base64(&STANDARD.encode(&packed)).unwrap(), chart);
    assert!(matches!(Chart::from_base64("?"), Err(ChartError::Base64(_))));
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("Chart.yaml"), CHART_YAML).unwrap();
    std::fs::write(folder.path().join("values.yaml"), "x: 1\n").unwrap();
    assert_eq!(Chart::from_folder(folder.path()).unwrap(), chart);
}

#[test]
fn sockets_and_cyclic_links_in_folders_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("Chart.yaml"), CHART_YAML).unwrap();
    symlink(folder.path(), folder.path().join("again")).unwrap();
    let error = Chart::from_folder(folder.path()).unwrap_err().to_string();
    assert!(error.contains("folders lie more than 32 deep"), "{error}");
    std::fs::remove_file(folder.path().join("again")).unwrap();
    let _socket = UnixListener::bind(folder.path().join("socket")).unwrap();
    let error = Chart::from_folder(folder.path()).unwrap_err().to_string();
    assert!(error.starts_with("cannot load irregular file"), "{error}");
    std::fs::write(folder.path().join(".helmignore"), "socket\n.helmignore\n").unwrap();
    let chart = Chart::from_folder(folder.path()).unwrap();
    assert_eq!(*chart.files, []);
}

#[test]
fn a_large_file_in_a_folder_is_refused_whatever_it_is_for() {
    for name in ["x", ".helmignore"] {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("Chart.yaml"), CHART_YAML).unwrap();
        std::fs::write(folder.path().join(name), vec![b'#'; FILE_BYTES_MAX as usize + 1]).unwrap();
        let error = Chart::from_folder(folder.path()).unwrap_err().to_string();
        let expected = format!("chart file {name:?} is larger than the maximum file size 5242880");
        assert_eq!(error, expected);
    }
}

#[test]
fn linked_files_are_read_as_files() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("Chart.yaml"), CHART_YAML).unwrap();
    std::fs::write(folder.path().join("x"), "data").unwrap();
    symlink(folder.path().join("x"), folder.path().join("y")).unwrap();
    let chart = Chart::from_folder(folder.path()).unwrap();
    assert_eq!(chart.files.len(), 2);
    assert_eq!(chart.files[0].data, chart.files[1].data);
}

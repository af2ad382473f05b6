//! Writes the files of a chart as an archive that [`super::Chart::from_archive`] and Helm read. The same files give the same
//! bytes, so that the digest changes only with the chart.

use std::io::{self, Write as _};

use flate2::Compression;
use flate2::write::GzEncoder;

use super::File;

/// Readable by everyone, as `helm package` writes files.
const FILE_MODE: u32 = 0o644;

/// A gzipped tar of `files` in a folder `name`, which is the chart's name. Chart.yaml comes first, as `helm package` puts it;
/// the others keep their order. No entry has a time or an owner.
///
/// # Panics
/// Never: the archive is written to memory, and a tar holds names of any length.
#[must_use]
pub fn archive_of_files(name: &str, files: &[File]) -> Vec<u8> {
    pack(name, files).expect("memory takes what is written to it")
}

fn pack(name: &str, files: &[File]) -> io::Result<Vec<u8>> {
    let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::best()));
    let (first, others): (Vec<&File>, Vec<&File>) = files.iter().partition(|file| file.name == "Chart.yaml");
    for file in first.into_iter().chain(others) {
        let mut header = tar::Header::new_gnu();
        header.set_mode(FILE_MODE);
        header.set_size(file.data.len() as u64);
        tar.append_data(&mut header, format!("{name}/{}", file.name), &*file.data)?;
    }
    let mut zipped = tar.into_inner()?;
    zipped.flush()?;
    zipped.finish()
}

#[cfg(test)]
mod tests {
    use super::super::{Chart, files_of_archive};
    use super::*;

    fn file(name: &str, data: &str) -> File {
        File {
            name: name.to_owned(),
            data: data.as_bytes().into(),
        }
    }

    #[test]
    fn a_packed_chart_is_read_back_with_chart_yaml_first() {
        let long = format!("templates/{}.yaml", "x".repeat(300));
        let files = [
            file(&long, "kind: ConfigMap\n"),
            file("Chart.yaml", "apiVersion: v2\nname: a\nversion: 1.0.0\n"),
            file("crds/a.yaml", ""),
        ];
        let archive = archive_of_files("a", &files);
        assert_eq!(archive, archive_of_files("a", &files));
        let names: Vec<_> = files_of_archive(&archive)
            .unwrap()
            .into_iter()
            .map(|file| file.name)
            .collect();
        assert_eq!(names, ["Chart.yaml", &long, "crds/a.yaml"]);
        let chart = Chart::from_archive(&archive).unwrap();
        assert_eq!(chart.metadata.name, "a");
        assert_eq!(chart.templates.len(), 1);
    }
}

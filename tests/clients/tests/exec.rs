//! kubectl exec, cp and port-forward with a program of `orangery apiserver --node --images`: the real kubectl, the real program, with
//! namespaces where this machine's users may make them. Run by `cargo xtask test clients exec` and by `ci`, which build orangery and
//! prepare kubectl; `ORANGERY_KUBECTL` names another kubectl.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test ends where its set-up fails, and prints what it measures"
)]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::json;
use tempfile::TempDir;
use tests_kit::cache_folder;

/// Real time: many times what a slow machine needs.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks at what no event announces: processes of the machine.
const LOOK_PAUSE: Duration = Duration::from_millis(20);
/// How often the time of a command is taken.
const RUNS: usize = 11;
const LARGE_BYTES: usize = 8 << 20;
/// Variables of kubectl: without these it speaks SPDY, as before 1.31.
const WEBSOCKETS: [&str; 2] = ["KUBECTL_REMOTE_COMMAND_WEBSOCKETS", "KUBECTL_PORT_FORWARD_WEBSOCKETS"];

/// A process that does not outlive the test.
struct Running(Child);

impl Drop for Running {
    /// As `kill -9` does.
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A cluster with a pod `web` of a program that serves a folder, and a pod `pretended` whose image is not mapped.
struct Scene {
    folder: TempDir,
    kubeconfig: PathBuf,
    websockets: bool,
    _cluster: Running,
}

impl Scene {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let www = folder.path().join("www");
        fs::create_dir(&www).unwrap();
        fs::write(www.join("large"), vec![b'x'; LARGE_BYTES]).unwrap();
        let images = folder.path().join("images.yaml");
        let server = ["python3", "-u", "-m", "http.server", "8080"];
        let mapping = json!({"images": [{"image": "web", "command": server, "workingDir": "./www"}]});
        fs::write(&images, mapping.to_string()).unwrap();
        let here = std::env::current_exe().unwrap();
        let mut found = here.ancestors().skip(1).take(2).map(|folder| folder.join("orangery"));
        let binary = found.find(|path| path.is_file());
        let mut command =
            Command::new(binary.expect("`cargo xtask test clients exec` builds orangery beside the tests"));
        command
            .args(["apiserver", "--memory", "--node", "--port", "0", "--images"])
            .arg(images);
        command.arg("--data-dir").arg(folder.path().join("data"));
        let mut cluster = Running(command.stdout(Stdio::piped()).spawn().unwrap());
        let mut lines = BufReader::new(cluster.0.stdout.as_mut().unwrap()).lines();
        let ready = lines
            .find_map(|line| line.unwrap().strip_prefix("ready: ").map(str::to_owned))
            .unwrap();
        let path = ready.split("KUBECONFIG=").nth(1).unwrap().split(';').next().unwrap();
        let scene = Self {
            kubeconfig: path.into(),
            folder,
            websockets: true,
            _cluster: cluster,
        };
        scene.succeeds(
            &["wait", "serviceaccount/default", "--for", "create", "--timeout", "60s"],
            "",
        );
        for (name, image) in [("web", "example.org/web:v1"), ("pretended", "example.org/none:v1")] {
            let container = json!({"name": "main", "image": image, "ports": [{"containerPort": 8080}], "readinessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1}});
            let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}},
                "spec": {"containers": [container]}});
            scene.succeeds(&["apply", "-f", "-"], &pod.to_string());
            scene.succeeds(
                &["wait", "pod", name, "--for", "condition=Ready", "--timeout", "60s"],
                "",
            );
        }
        scene
    }

    fn command(&self, words: &[&str]) -> Command {
        let usual = || cache_folder().unwrap().join("real/kubectl/kubectl");
        let program = std::env::var_os("ORANGERY_KUBECTL").map_or_else(usual, PathBuf::from);
        let mut command = Command::new(program);
        command.args(words).current_dir(self.folder.path());
        command
            .env("KUBECONFIG", &self.kubeconfig)
            .env("HOME", self.folder.path());
        for variable in WEBSOCKETS {
            command.env(variable, self.websockets.to_string());
        }
        command
    }

    fn kubectl(&self, words: &[&str], input: &[u8]) -> Output {
        let mut command = self.command(words);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (mut stdin, input) = (child.stdin.take().unwrap(), input.to_vec());
        let feeding = std::thread::spawn(move || {
            // One that reads nothing has ended before.
            let _ = stdin.write_all(&input);
        });
        let output = child.wait_with_output().unwrap();
        feeding.join().unwrap();
        output
    }

    fn succeeds(&self, words: &[&str], input: &str) -> String {
        let output = self.kubectl(words, input.as_bytes());
        assert!(output.status.success(), "{words:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    fn fails(&self, words: &[&str]) -> String {
        let output = self.kubectl(words, b"");
        assert!(!output.status.success(), "{words:?}: {}", text(&output.stdout));
        text(&output.stderr)
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// How many processes of this machine have a word among their arguments, kubectl left out.
fn processes(word: &str) -> usize {
    let entries = fs::read_dir("/proc").unwrap();
    let lines = entries.filter_map(|entry| fs::read(entry.ok()?.path().join("cmdline")).ok());
    let words = lines.map(|line| line.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect::<Vec<_>>());
    words
        .filter(|words| words[0].ends_with(b"sleep") && words.contains(&word.as_bytes().to_vec()))
        .count()
}

fn until_processes(word: &str, count: usize) {
    let began = Instant::now();
    while processes(word) != count {
        assert!(began.elapsed() < PATIENCE, "{} processes sleep {word}", processes(word));
        sleep(LOOK_PAUSE);
    }
}

#[test]
fn kubectl_runs_commands_in_a_program() {
    let mut scene = Scene::start();
    for websockets in [true, false] {
        scene.websockets = websockets;
        let script = "echo out; echo problem >&2; exit 7";
        let output = scene.kubectl(&["exec", "web", "--", "sh", "-c", script], b"");
        assert_eq!(text(&output.stdout), "out\n");
        assert_eq!(text(&output.stderr), "problem\ncommand terminated with exit code 7\n");
        assert_eq!(output.status.code(), Some(7));
        let input = vec![b'y'; LARGE_BYTES];
        let output = scene.kubectl(&["exec", "-i", "web", "-c", "main", "--", "cat"], &input);
        assert!(
            output.status.success() && output.stdout == input,
            "{}",
            text(&output.stderr)
        );
        assert_eq!(
            scene.succeeds(&["exec", "web", "--", "cat"], "left out"),
            "",
            "without -i nothing is read"
        );
        terminal(&scene);
        went_away(&scene);
        let copied = scene.folder.path().join(format!("copied-{websockets}"));
        scene.succeeds(&["cp", "web:large", copied.file_name().unwrap().to_str().unwrap()], "");
        assert_eq!(fs::metadata(copied).unwrap().len(), LARGE_BYTES as u64);
    }
    refused(&scene);
    for websockets in [true, false] {
        scene.websockets = websockets;
        took(&scene);
    }
}

/// With a terminal of its own, which Python makes.
fn terminal(scene: &Scene) {
    let kubectl = scene.command(&["exec", "-it", "web", "--", "sh", "-c", "tty; exit 3"]);
    let mut words: Vec<String> = vec![
        "-c".into(),
        "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)".into(),
    ];
    words.push(kubectl.get_program().to_str().unwrap().to_owned());
    words.extend(kubectl.get_args().map(|word| word.to_str().unwrap().to_owned()));
    let mut python = Command::new("python3");
    python.args(words).stdin(Stdio::null());
    for (name, value) in kubectl.get_envs() {
        python.env(name, value.unwrap());
    }
    let output = python.output().unwrap();
    let shown = text(&output.stdout);
    // Without namespaces it is refused with the reason.
    let refused = shown.contains("leave out -t");
    let expected = if refused { Some(1) } else { Some(3) };
    assert!(refused || shown.contains("/dev/pts/0"), "{shown}");
    assert_eq!(output.status.code(), expected, "{shown}");
}

/// A client that is killed takes its command with it.
fn went_away(scene: &Scene) {
    let word = format!("9{}{}", u8::from(scene.websockets), std::process::id());
    let client = Running(scene.command(&["exec", "web", "--", "sleep", &word]).spawn().unwrap());
    until_processes(&word, 1);
    drop(client);
    until_processes(&word, 0);
}

fn refused(scene: &Scene) {
    for (words, why) in [
        (
            ["exec", "web", "-c", "x", "--", "true"].as_slice(),
            "container x is not valid for pod web",
        ),
        (
            &["exec", "pretended", "--", "true"],
            "there is no program to run in one",
        ),
        (&["exec", "none", "--", "true"], "pods \"none\" not found"),
        (&["exec", "web", "--", "no-such-program"], "no-such-program"),
        (&["attach", "web"], "attaches to no container"),
    ] {
        let text = scene.fails(words);
        println!("kubectl {}: {}", words.join(" "), text.trim());
        assert!(text.contains(why), "{words:?}: {text}");
    }
}

/// Prints the time of a command that does nothing, kubectl's own included, and of a request that kubectl sends anyway.
fn took(scene: &Scene) {
    let median = |words: &[&str]| {
        let mut times: Vec<Duration> = (0..RUNS)
            .map(|_| {
                let began = Instant::now();
                scene.succeeds(words, "");
                began.elapsed()
            })
            .collect();
        times.sort();
        times[RUNS / 2]
    };
    let (exec, get) = (
        median(&["exec", "web", "--", "echo", "x"]),
        median(&["get", "pod", "web", "-o", "name"]),
    );
    println!(
        "websockets={}: kubectl exec {exec:.0?}, kubectl get {get:.0?} (median of {RUNS})",
        scene.websockets
    );
}

#[test]
fn kubectl_forwards_ports_of_a_program() {
    let mut scene = Scene::start();
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]}});
    scene.succeeds(&["apply", "-f", "-"], &service.to_string());
    for websockets in [true, false] {
        scene.websockets = websockets;
        for target in [["pod/web", ":8080"], ["service/web", ":80"]] {
            let mut command = scene.command(&["port-forward", target[0], target[1]]);
            let mut forwarding = Running(command.stdout(Stdio::piped()).spawn().unwrap());
            let mut lines = BufReader::new(forwarding.0.stdout.as_mut().unwrap()).lines();
            let address = lines.find_map(|line| {
                let line = line.unwrap();
                let rest = line.strip_prefix("Forwarding from ")?;
                Some(rest.split(' ').next()?.to_owned())
            });
            let address = address.unwrap();
            // Two at once, then one more.
            let readers = [(), ()].map(|()| {
                let address = address.clone();
                std::thread::spawn(move || large(&address))
            });
            assert_eq!(readers.map(|reader| reader.join().unwrap()), [LARGE_BYTES; 2]);
            assert_eq!(large(&address), LARGE_BYTES);
        }
    }
}

/// Reads the large file through a forwarded port; how many bytes it has.
fn large(address: &str) -> usize {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"GET /large HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let head = answer.windows(4).position(|part| part == b"\r\n\r\n").unwrap();
    answer.len() - head - 4
}

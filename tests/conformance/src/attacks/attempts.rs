//! What attackers send: floods, bombs, and frames that the protocol forbids.

mod violations;

use crate::http2::{END_HEADERS, END_STREAM, Kind, PREFACE, field, frame, get, hello, request, setting};

/// Frames that are cheaper to send than to handle: so many of them.
const MANY: u32 = 20_000;
/// The largest frame.
const FRAME_BYTES_MAX: usize = 16 << 10;
/// A large answer.
const LARGE: &str = "/openapi/v2";
const SMALL: &str = "/version";
/// The identifiers of settings: the window of a stream, and the size of the header table.
const INITIAL_WINDOW: u16 = 4;
const TABLE_BYTES: u16 = 1;
const WHOLE: u8 = END_STREAM | END_HEADERS;

/// What one attacker sends.
pub(super) struct Attempt {
    pub(super) title: &'static str,
    pub(super) bytes: Vec<u8>,
    /// Whether it reads the answers.
    pub(super) reads_answers: bool,
    /// Whether its outcome is independent of the servers' speed.
    pub(super) is_deterministic: bool,
    /// Whether it is expensive for a server; otherwise it is refused at once.
    pub(super) is_expensive: bool,
}

pub(super) fn all() -> Vec<Attempt> {
    let of = |all: Vec<Titled>, reads_answers, is_deterministic, is_expensive| {
        all.into_iter().map(move |(title, parts)| Attempt {
            title,
            bytes: parts.concat(),
            reads_answers,
            is_deterministic,
            is_expensive,
        })
    };
    let expensive = [floods(), bombs(), holds()].concat();
    let unread = vec![
        ("a flood of pings by who does not listen", pings()),
        ("large answers that are not read", larges()),
    ];
    of(expensive, true, true, true)
        .chain(of(violations::all(), true, true, false))
        .chain(of(races(), true, false, true))
        .chain(of(unread, false, false, true))
        .collect()
}

type Titled = (&'static str, Vec<Vec<u8>>);

/// The numbers of streams that a client opens.
fn streams(count: u32) -> impl Iterator<Item = u32> {
    (0..count).map(|number| 2 * number + 1)
}

/// The client's preface, and the same frame again and again.
fn again(count: u32, frame: &[u8]) -> Vec<Vec<u8>> {
    vec![hello(), frame.repeat(count as usize)]
}

fn on_streams(count: u32, each: impl Fn(u32) -> Vec<u8>) -> Vec<Vec<u8>> {
    std::iter::once(hello()).chain(streams(count).map(each)).collect()
}

fn cancel(stream: u32) -> Vec<u8> {
    frame(Kind::Reset, 0, stream, &8_u32.to_be_bytes())
}

/// A request whose body does not follow at once.
fn post(stream: u32) -> Vec<u8> {
    let path = "/api/v1/namespaces?dryRun=All";
    frame(Kind::Headers, END_HEADERS, stream, &request("POST", path))
}

fn pings() -> Vec<Vec<u8>> {
    again(10 * MANY, &frame(Kind::Ping, 0, 0, &[0; 8]))
}

fn larges() -> Vec<Vec<u8>> {
    let window = frame(Kind::Window, 0, 0, &0x7fff_0000_u32.to_be_bytes());
    let hello = [PREFACE.to_vec(), setting(INITIAL_WINDOW, 0x7fff_ffff), window];
    hello
        .into_iter()
        .chain(streams(200).map(|stream| get(stream, LARGE)))
        .collect()
}

fn floods() -> Vec<Titled> {
    let open = [hello(), post(1)].concat();
    let on_open = |frame: Vec<u8>| vec![open.clone(), frame.repeat(MANY as usize)];
    let nothing = frame(Kind::Continuation, 0, 1, &[]);
    vec![
        ("an ordinary request", vec![hello(), get(1, SMALL)]),
        ("a flood of settings", again(MANY, &setting(INITIAL_WINDOW, 65_535))),
        (
            "a flood of answers to pings",
            again(MANY, &frame(Kind::Ping, 1, 0, &[0; 8])),
        ),
        (
            "a flood of priorities",
            again(MANY, &frame(Kind::Priority, 0, 1, &[0, 0, 0, 0, 1])),
        ),
        (
            "a flood of unknown frames",
            again(MANY, &frame(Kind::Unknown, 0, 0, &[0; 100])),
        ),
        ("a flood of empty data", on_open(frame(Kind::Data, 0, 1, &[]))),
        (
            "a flood of small windows",
            on_open(frame(Kind::Window, 0, 1, &1_u32.to_be_bytes())),
        ),
        (
            "headers that go on and on",
            vec![
                hello(),
                frame(Kind::Headers, END_STREAM, 1, &request("GET", SMALL)),
                frame(Kind::Continuation, 0, 1, &field("x-a", &"a".repeat(1000))).repeat(MANY as usize),
            ],
        ),
        (
            "headers that go on with nothing",
            vec![
                hello(),
                frame(Kind::Headers, END_STREAM, 1, &request("GET", SMALL)),
                nothing.repeat(MANY as usize),
            ],
        ),
    ]
}

/// A header that is added to the connection's table once, and repeated by one byte (0xbe) each time.
fn indexed() -> Vec<u8> {
    let value = "a".repeat(4000);
    [&[0x40][..], field("x-a", &value).get(1..).unwrap_or_default()].concat()
}

/// Floods whose outcome depends on the server's speed.
fn races() -> Vec<Titled> {
    let indexed = indexed();
    let small = |stream: u32| {
        let block = [request("GET", SMALL), indexed.clone(), vec![0xbe; 20]].concat();
        frame(Kind::Headers, WHOLE, stream, &block)
    };
    vec![
        ("many small bombs of headers", on_streams(200, small)),
        (
            "thousands of requests at once",
            on_streams(5000, |stream| get(stream, SMALL)),
        ),
        (
            "requests that are taken back at once",
            on_streams(MANY, |stream| [get(stream, SMALL), cancel(stream)].concat()),
        ),
        (
            "bodies that are taken back at once",
            on_streams(MANY, |stream| [post(stream), cancel(stream)].concat()),
        ),
        (
            "requests that make the server break them off",
            on_streams(MANY, |stream| {
                [get(stream, SMALL), frame(Kind::Window, 0, stream, &0_u32.to_be_bytes())].concat()
            }),
        ),
        ("a flood of pings", pings()),
    ]
}

/// Short input that a server expands to a large one.
fn bombs() -> Vec<Titled> {
    let indexed = indexed();
    let bomb = |stream: u32| {
        let first = [request("GET", SMALL), indexed.clone()].concat();
        let rest = vec![0xbe; FRAME_BYTES_MAX];
        [
            frame(Kind::Headers, END_STREAM, stream, &first),
            frame(Kind::Continuation, 0, stream, &rest),
            frame(Kind::Continuation, END_HEADERS, stream, &rest),
        ]
        .concat()
    };
    let many: Vec<u8> = (0..1000)
        .flat_map(|number| field(&format!("x-{number}"), "a"))
        .collect();
    let crumbs = [request("GET", SMALL), field("cookie", "a").repeat(1500)].concat();
    vec![
        ("a bomb of headers", on_streams(1, bomb)),
        ("many bombs of headers", on_streams(100, bomb)),
        (
            "a thousand headers",
            vec![
                hello(),
                frame(Kind::Headers, WHOLE, 1, &[request("GET", SMALL), many].concat()),
            ],
        ),
        (
            "a cookie in crumbs",
            vec![hello(), frame(Kind::Headers, WHOLE, 1, &crumbs)],
        ),
        (
            "a table without bounds",
            vec![PREFACE.to_vec(), setting(TABLE_BYTES, u32::MAX), get(1, SMALL)],
        ),
        (
            "a table larger than allowed",
            vec![
                hello(),
                frame(
                    Kind::Headers,
                    WHOLE,
                    1,
                    &[&[0x3f, 0xe1, 0xff, 0x7f][..], &request("GET", SMALL)].concat(),
                ),
            ],
        ),
    ]
}

/// What is begun and never completed.
fn holds() -> Vec<Titled> {
    let nothing = [PREFACE.to_vec(), setting(INITIAL_WINDOW, 0)].concat();
    let stalled = |count: u32, path: &'static str| {
        let all = streams(count).map(|stream| get(stream, path));
        std::iter::once(nothing.clone()).chain(all).collect()
    };
    let half = frame(Kind::Headers, 0, 1, &request("GET", SMALL));
    vec![
        ("a large answer that is not taken", stalled(1, LARGE)),
        ("large answers that are not taken", stalled(200, LARGE)),
        ("small answers that are not taken", stalled(200, SMALL)),
        (
            "watches that are not taken",
            stalled(200, "/api/v1/namespaces?watch=true"),
        ),
        ("thousands of bodies that do not come", on_streams(5000, post)),
        ("a few bodies that do not come", on_streams(10, post)),
        ("half of the headers", vec![hello(), half]),
        (
            "half of a frame",
            vec![hello(), get(1, SMALL).get(..20).unwrap_or_default().to_vec()],
        ),
        ("the first words alone", vec![hello()]),
        ("half of the first words", vec![b"PRI * HTT".to_vec()]),
    ]
}

//! What the protocol forbids: invalid frames, frames in wrong places, and invalid requests.

use super::{FRAME_BYTES_MAX, INITIAL_WINDOW, SMALL, Titled, WHOLE, cancel, post};
use crate::http2::{END_HEADERS, END_STREAM, Kind, PREFACE, field, frame, get, hello, request, setting};

/// The identifier of a setting: the size of frames.
const MAX_FRAME: u16 = 5;

pub(super) fn all() -> Vec<Titled> {
    [numbers(), places(), requests()].concat()
}

fn after_hello(bytes: Vec<u8>) -> Vec<Vec<u8>> {
    vec![hello(), bytes]
}

/// Windows, sizes and lengths.
fn numbers() -> Vec<Titled> {
    let window = |stream: u32, size: u32| frame(Kind::Window, 0, stream, &size.to_be_bytes());
    let flood = frame(Kind::Data, 0, 1, &vec![b' '; FRAME_BYTES_MAX]);
    vec![
        ("a body beyond every window", vec![hello(), post(1), flood.repeat(4000)]),
        (
            "a window beyond all",
            after_hello([window(0, 0x7fff_ffff), window(0, 0x7fff_ffff)].concat()),
        ),
        (
            "a window of a request beyond all",
            vec![hello(), post(1), window(1, 0x7fff_ffff), window(1, 0x7fff_ffff)],
        ),
        ("a window of nothing", after_hello(window(0, 0))),
        ("a window of a request that is not there", after_hello(window(1, 1))),
        (
            "a first window beyond all",
            vec![PREFACE.to_vec(), setting(INITIAL_WINDOW, u32::MAX)],
        ),
        (
            "a frame size beyond all",
            vec![PREFACE.to_vec(), setting(MAX_FRAME, u32::MAX)],
        ),
        ("a frame size below all", vec![PREFACE.to_vec(), setting(MAX_FRAME, 1)]),
        (
            "settings of an odd length",
            after_hello(frame(Kind::Settings, 0, 0, &[0; 5])),
        ),
        ("settings of a request", after_hello(frame(Kind::Settings, 0, 1, &[]))),
        (
            "an answer to settings that says something",
            after_hello(frame(Kind::Settings, 1, 0, &[0; 6])),
        ),
        ("a ping of an odd length", after_hello(frame(Kind::Ping, 0, 0, &[0; 5]))),
        ("a ping of a request", after_hello(frame(Kind::Ping, 0, 1, &[0; 8]))),
        (
            "a frame that is too long",
            after_hello(frame(Kind::Data, 0, 1, &vec![0; FRAME_BYTES_MAX + 1])),
        ),
    ]
}

/// Frames in places where they are forbidden.
fn places() -> Vec<Titled> {
    vec![
        ("data of no request", after_hello(frame(Kind::Data, 0, 0, b"a"))),
        (
            "data of a request that is not there",
            after_hello(frame(Kind::Data, 0, 1, b"a")),
        ),
        (
            "data behind the end",
            vec![hello(), get(1, SMALL), frame(Kind::Data, 0, 1, b"a")],
        ),
        (
            "data with more padding than data",
            vec![hello(), post(1), frame(Kind::Data, 8, 1, &[200, 0])],
        ),
        (
            "headers of no request",
            after_hello(frame(Kind::Headers, WHOLE, 0, &request("GET", SMALL))),
        ),
        ("a request with a server's number", after_hello(get(2, SMALL))),
        (
            "a request with a number from before",
            vec![hello(), get(5, SMALL), get(3, SMALL)],
        ),
        (
            "headers within headers",
            vec![
                hello(),
                frame(Kind::Headers, END_STREAM, 1, &request("GET", SMALL)),
                get(3, SMALL),
            ],
        ),
        (
            "a continuation of nothing",
            after_hello(frame(Kind::Continuation, END_HEADERS, 1, &request("GET", SMALL))),
        ),
        (
            "a promise of a client",
            after_hello(frame(Kind::Push, END_HEADERS, 1, &[0, 0, 0, 2])),
        ),
        ("a request that is taken back before it is made", after_hello(cancel(1))),
        (
            "a request that hangs on itself",
            after_hello(frame(Kind::Priority, 0, 1, &[0, 0, 0, 1, 1])),
        ),
    ]
}

/// Headers that are invalid, or make no valid request.
fn requests() -> Vec<Titled> {
    let with = |more: Vec<u8>| after_hello(frame(Kind::Headers, WHOLE, 1, &[request("GET", SMALL), more].concat()));
    let bare = |block: &[u8]| after_hello(frame(Kind::Headers, WHOLE, 1, block));
    vec![
        ("headers that are none", bare(&[0xff; 20])),
        ("a header of no table", bare(&[0x80])),
        (
            "a header whose length is beyond all",
            bare(&[0, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f]),
        ),
        ("no headers", bare(&[])),
        (
            "no path",
            bare(&[field(":method", "GET"), field(":scheme", "https")].concat()),
        ),
        ("two paths", with(field(":path", "/"))),
        (
            "a part of the request line behind headers",
            with([field("x-a", "a"), field(":authority", "a")].concat()),
        ),
        ("an unknown part of the request line", with(field(":tea", "a"))),
        ("a header in capitals", with(field("X-A", "a"))),
        ("a header of a connection", with(field("connection", "close"))),
        ("a transfer encoding", with(field("transfer-encoding", "chunked"))),
        ("a header with a line break", with(field("x-a", "a\r\nb: c"))),
        ("a header without a name", with(field("", "a"))),
        ("another host", with(field("host", "other"))),
        (
            "a body that is not as long as it says",
            vec![
                hello(),
                frame(
                    Kind::Headers,
                    END_HEADERS,
                    1,
                    &[request("POST", "/api/v1/namespaces"), field("content-length", "9")].concat(),
                ),
                frame(Kind::Data, END_STREAM, 1, b"{}"),
            ],
        ),
        (
            "a tunnel",
            bare(&[field(":method", "CONNECT"), field(":authority", "localhost:1")].concat()),
        ),
        (
            "a farewell and a request",
            vec![hello(), frame(Kind::GoAway, 0, 0, &[0; 8]), get(1, SMALL)],
        ),
        (
            "other first words",
            vec![b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec()],
        ),
        ("no settings first", vec![PREFACE.to_vec(), get(1, SMALL)]),
    ]
}

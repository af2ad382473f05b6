//! The byte sequences, by their kind. They have no expected answers: real Kubernetes is the reference.

mod bodies;

/// Bytes to send, with a title.
pub(crate) struct Case {
    pub(crate) kind: &'static str,
    pub(crate) title: &'static str,
    pub(crate) bytes: Vec<u8>,
}

/// All of them.
pub(crate) fn all() -> Vec<Case> {
    let mut all = Vec::new();
    for (kind, titled) in [
        ("paths", targets()),
        ("heads", heads()),
        ("headers", headers()),
        ("lengths and chunks", lengths()),
        ("media types", media_types()),
        ("no UTF-8", bodies::texts()),
        ("keys that stand twice", bodies::keys()),
        ("numbers", bodies::numbers()),
        ("depth", bodies::depths()),
        ("no JSON", bodies::broken()),
    ] {
        all.extend(titled.into_iter().map(|(title, bytes)| Case { kind, title, bytes }));
    }
    all
}

/// Where objects are created.
const OBJECTS: &str = "/api/v1/namespaces/default/configmaps";
/// An object that exists.
const THERE: &str = "/api/v1/namespaces/default";

type Titled = (&'static str, Vec<u8>);

/// A request without a body.
fn get(title: &'static str, target: &[u8], headers: &[u8]) -> Titled {
    let bytes = [
        b"GET ",
        target,
        b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n",
        headers,
        b"\r\n",
    ]
    .concat();
    (title, bytes)
}

/// A request that creates an object, with the headers of its length.
fn post(title: &'static str, headers: &str, body: &[u8]) -> Titled {
    let head = format!(
        "POST /api/v1/namespaces/default/configmaps?dryRun=All HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Type: application/json\r\n{headers}\r\n"
    );
    let bytes = [head.as_bytes(), body].concat();
    (title, bytes)
}

/// The same with its true length.
fn sized(title: &'static str, body: &[u8]) -> Titled {
    post(title, &format!("Content-Length: {}\r\n", body.len()), body)
}

const OBJECT: &[u8] = br#"{"metadata":{"name":"raw"}}"#;

fn targets() -> Vec<Titled> {
    let long = [b"/api/v1/namespaces/".to_vec(), b"a".repeat(3000)].concat();
    vec![
        get("an ordinary request", b"/api/v1/namespaces", b""),
        get("a byte that is no UTF-8 in the path", b"/api/v1/namespaces/\xff", b""),
        get(
            "an encoded byte that is no UTF-8 in the path",
            b"/api/v1/namespaces/%ff",
            b"",
        ),
        get("an encoding that is none in the path", b"/api/v1/namespaces/%zz", b""),
        get("half an encoding in the path", b"/api/v1/namespaces/%f", b""),
        get("a NUL in the path", b"/api/v1/namespaces/a%00b", b""),
        get(
            "a byte that is no UTF-8 in the query",
            b"/api/v1/namespaces?a=\xff",
            b"",
        ),
        get(
            "an encoded byte that is no UTF-8 in the query",
            b"/api/v1/namespaces?a=%ff",
            b"",
        ),
        get(
            "an encoding that is none in the query",
            b"/api/v1/namespaces?a=%zz",
            b"",
        ),
        get("a semicolon in the query", b"/api/v1/namespaces?a=1;b=2", b""),
        get("dots in the path", b"/api/v1/namespaces/../nodes", b""),
        get("encoded dots in the path", b"/api/v1/namespaces/%2e%2e/nodes", b""),
        get("an encoded slash in the path", b"/api/v1/namespaces%2fdefault", b""),
        get("two slashes first", b"//api/v1/namespaces", b""),
        get("two slashes within", b"/api/v1//namespaces", b""),
        get("a backslash in the path", b"/api/v1\\namespaces", b""),
        get("a blank in the path", b"/api/v1/name spaces", b""),
        get("a fragment", b"/api/v1/namespaces#a", b""),
        get(
            "a target that is a whole URL",
            b"https://localhost/api/v1/namespaces",
            b"",
        ),
        get("a target without a slash", b"api/v1/namespaces", b""),
        get("a target that is a star", b"*", b""),
        get("a long name", &long, b""),
    ]
}

fn heads() -> Vec<Titled> {
    let line = |title, line: &[u8]| {
        let bytes = [line, b"\r\nHost: localhost\r\nConnection: close\r\n\r\n"].concat();
        (title, bytes)
    };
    let path = b"/api/v1/namespaces";
    vec![
        line("a method in small letters", b"get /api/v1/namespaces HTTP/1.1"),
        line("an unknown method", b"BREW /api/v1/namespaces HTTP/1.1"),
        line("a method that is none", b"G(T /api/v1/namespaces HTTP/1.1"),
        line("a version to come", b"GET /api/v1/namespaces HTTP/3.0"),
        line("a version that is none", b"GET /api/v1/namespaces HTTP/x"),
        line("no version", b"GET /api/v1/namespaces"),
        line("a tunnel", b"CONNECT localhost:443 HTTP/1.1"),
        line("a trace", b"TRACE /api/v1/namespaces HTTP/1.1"),
        (
            "no host",
            b"GET /api/v1/namespaces HTTP/1.1\r\nConnection: close\r\n\r\n".to_vec(),
        ),
        (
            "no host in a version that has none",
            b"GET /api/v1/namespaces HTTP/1.0\r\n\r\n".to_vec(),
        ),
        (
            "ends of lines without a return",
            b"GET /api/v1/namespaces HTTP/1.1\nHost: localhost\nConnection: close\n\n".to_vec(),
        ),
        ("nothing", Vec::new()),
        ("half a head", b"GET /api/v1/namespaces HTTP/1.1\r\nHost: loc".to_vec()),
        get("two hosts", path, b"Host: other\r\n"),
        get("a byte that is no UTF-8 in a header", path, b"User-Agent: \xff\r\n"),
        get("a NUL in a header", path, b"User-Agent: a\0b\r\n"),
        get("a name of a header that is none", path, b"User Agent: a\r\n"),
        get("a blank before the colon", path, b"User-Agent : a\r\n"),
        get("a header without a colon", path, b"User-Agent\r\n"),
        get("a header over two lines", path, b"User-Agent: a\r\n b\r\n"),
        get("an unknown expectation", path, b"Expect: tea\r\n"),
        get(
            "an upgrade to an unknown protocol",
            path,
            b"Connection: upgrade\r\nUpgrade: tea\r\n",
        ),
        get("credentials of another scheme", path, b"Authorization: Basic YTpi\r\n"),
        get("a token that is none", path, b"Authorization: Bearer a.b.c\r\n"),
        get(
            "a token without a signature",
            path,
            b"Authorization: Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIn0.\r\n",
        ),
        get("an unknown encoding of answers", path, b"Accept-Encoding: tea\r\n"),
    ]
}

fn headers() -> Vec<Titled> {
    let path = b"/api/v1/namespaces";
    let large = |name: &str, count: usize| [name.as_bytes(), b": ", &b"a".repeat(count), b"\r\n"].concat();
    let many = |count: usize, name: &dyn Fn(usize) -> String| -> Vec<u8> {
        let lines = (0..count).map(|number| format!("{}: a\r\n", name(number)));
        lines.flat_map(String::into_bytes).collect()
    };
    let long_query = [&b"/api/v1/namespaces?a="[..], &b"a".repeat(60_000)].concat();
    let long_path = [&b"/api/v1/"[..], &b"a/".repeat(30_000)].concat();
    let groups = |_: usize| "Impersonate-Group".to_owned();
    let impersonated = [b"Impersonate-User: a\r\n".to_vec(), many(300, &groups)].concat();
    vec![
        get("a header of 60 KB", path, &large("X-A", 60_000)),
        get("a header of 3 MB", path, &large("X-A", 3_000_000)),
        get(
            "a header whose name has 60 KB",
            path,
            &[&b"X".repeat(60_000)[..], b": a\r\n"].concat(),
        ),
        get("a cookie of 60 KB", path, &large("Cookie", 60_000)),
        get("a token of 60 KB", path, &large("Authorization: Bearer a", 60_000)),
        get("an agent of 60 KB", path, &large("User-Agent", 60_000)),
        get("ninety headers", path, &many(90, &|number| format!("X-{number}"))),
        get(
            "three hundred headers",
            path,
            &many(300, &|number| format!("X-{number}")),
        ),
        get(
            "one header three hundred times",
            path,
            &many(300, &|_| "X-A".to_owned()),
        ),
        get("a user of three hundred groups", path, &impersonated),
        get(
            "a hundred thousand headers",
            path,
            &many(100_000, &|_| "X-A".to_owned()),
        ),
        get("a query of 60 KB", &long_query, b""),
        get("a path of thirty thousand parts", &long_path, b""),
        post(
            "a trailer of 60 KB",
            "Transfer-Encoding: chunked\r\nTrailer: X-A\r\n",
            &[b"1b\r\n", OBJECT, b"\r\n0\r\n", &large("X-A", 60_000), b"\r\n"].concat(),
        ),
    ]
}

fn lengths() -> Vec<Titled> {
    let chunked = |title, chunks: &[u8]| post(title, "Transfer-Encoding: chunked\r\n", chunks);
    let whole = [b"1b\r\n", OBJECT, b"\r\n0\r\n\r\n"].concat();
    vec![
        sized("an ordinary body", OBJECT),
        chunked("an ordinary body in chunks", &whole),
        chunked("chunks that stop", b"1b\r\n{\"meta"),
        chunked("chunks without an end", &[b"1b\r\n", OBJECT, b"\r\n"].concat()),
        chunked("a chunk whose length is none", b"zz\r\n{}\r\n0\r\n\r\n"),
        chunked("a chunk without end", b"ffffffffffffffffff\r\n{}\r\n0\r\n\r\n"),
        chunked("a chunk that is longer than it says", b"2\r\n{}{}\r\n0\r\n\r\n"),
        post("a body that is shorter than it says", "Content-Length: 100\r\n", OBJECT),
        post("a body that is longer than it says", "Content-Length: 10\r\n", OBJECT),
        post("a length below zero", "Content-Length: -1\r\n", OBJECT),
        post("a length with a sign", "Content-Length: +27\r\n", OBJECT),
        post("a length that is none", "Content-Length: abc\r\n", OBJECT),
        post(
            "a length beyond 64 bits",
            "Content-Length: 99999999999999999999\r\n",
            OBJECT,
        ),
        post("two lengths", "Content-Length: 27\r\nContent-Length: 28\r\n", OBJECT),
        post(
            "one length twice",
            "Content-Length: 27\r\nContent-Length: 27\r\n",
            OBJECT,
        ),
        post("no length", "", OBJECT),
        post(
            "chunks and a length",
            "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
            &whole,
        ),
        post("an unknown transfer encoding", "Transfer-Encoding: tea\r\n", OBJECT),
        post(
            "a transfer of two kinds",
            "Transfer-Encoding: gzip, chunked\r\n",
            &whole,
        ),
        post(
            "a body that is announced",
            "Expect: 100-continue\r\nContent-Length: 27\r\n",
            OBJECT,
        ),
        post("a body that says it is too large", "Content-Length: 3145729\r\n", b"{"),
        post(
            "a body that says it is packed",
            "Content-Encoding: gzip\r\nContent-Length: 27\r\n",
            OBJECT,
        ),
    ]
}

fn media_types() -> Vec<Titled> {
    let of = |title, kind: &str| as_kind(title, "POST", OBJECTS, kind, OBJECT);
    let to = |title, kind: &str| as_kind(title, "PATCH", THERE, kind, b"{}");
    let accepting = |title, kind: &str| get(title, b"/api/v1/namespaces", format!("Accept: {kind}\r\n").as_bytes());
    let many = vec!["application/x"; 2000].join(", ");
    let parameter = format!("application/json; a={}", "a".repeat(10_000));
    vec![
        of("a body that is plain text", "text/plain"),
        of("a body that is XML", "application/xml"),
        of("a body of a form", "application/x-www-form-urlencoded"),
        of("a body of parts", "multipart/form-data; boundary=a"),
        of("a body whose type is empty", ""),
        of("a body whose type is none", "json"),
        of("a body whose type is a star", "*/*"),
        of("a body whose type has a star", "application/*"),
        of("a body whose type is nonsense", ";;,,//"),
        of("a body whose type has an empty parameter", "application/json;"),
        of("a body whose type has a broken parameter", "application/json; charset"),
        of("a body in another alphabet", "application/json; charset=latin1"),
        of("a body of two types", "application/json, application/yaml"),
        of("a body whose type is in capitals", "APPLICATION/JSON"),
        of("a body whose type has a long parameter", &parameter),
        of("a body of a type with a byte beyond ASCII", "application/jsön"),
        of("a body that says it is protobuf", "application/vnd.kubernetes.protobuf"),
        of("a body that says it is CBOR", "application/cbor"),
        of("a body that says it is a patch", "application/merge-patch+json"),
        to("a patch that says it is an object", "application/json"),
        to("a patch of an unknown type", "application/tea+json"),
        to("a patch without a type", ""),
        to(
            "a patch that says it is protobuf",
            "application/vnd.kubernetes.protobuf",
        ),
        to(
            "a patch of two types",
            "application/merge-patch+json, application/json-patch+json",
        ),
        accepting("an answer of an unknown type", "application/tea"),
        accepting("an answer as text", "text/plain"),
        accepting("an answer of an empty type", ""),
        accepting("an answer of a type that is none", "json"),
        accepting("an answer of nonsense", ";;,,//"),
        accepting("an answer of any text", "text/*"),
        accepting("an answer that is not wanted at all", "application/json;q=0"),
        accepting("an answer of a weight that is none", "application/json;q=tea"),
        accepting(
            "an answer in an unknown form",
            "application/json;as=Tea;g=meta.k8s.io;v=v1",
        ),
        accepting(
            "an answer in an unknown version",
            "application/json;as=Table;g=meta.k8s.io;v=v9",
        ),
        accepting("an answer of one of two thousand types", &many),
    ]
}

/// A body of a type of its own.
fn as_kind(title: &'static str, method: &str, path: &str, kind: &str, body: &[u8]) -> Titled {
    let head = format!(
        "{method} {path}?dryRun=All HTTP/1.1\r\nHost: localhost\r\n\
         Connection: close\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    (title, [head.as_bytes(), body].concat())
}

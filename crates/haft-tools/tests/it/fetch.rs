//! `fetch_url` against real servers on loopback, through the whole call pipeline.

use std::{
    io::{self, Write as _},
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use haft::{
    BoxFuture, Runtime, ToolCall, ToolRegistry, ToolResult,
    policy::{AllowAll, Decision, PathBase, Pattern, PolicyContext, Rule, Rules},
    taint::Trust,
    tool::{ConcurrencyClass, DynTool, Execution, RetryHint},
};
use haft_tools::{Fetch, Resolve};
use serde_json::{Value, json};

use crate::{
    regressions,
    server::{AUTHORITY, Server, Step, ok, redirect_to, with},
};

/// A DNS resolver that returns these answers in order, then repeats the last one (DNS rebinding).
#[derive(Debug, Clone, Default)]
struct Names {
    answers: Vec<Vec<IpAddr>>,
    lookups: Arc<AtomicUsize>,
}

impl Names {
    fn of(answers: &[&[&str]]) -> Self {
        let parsed = |list: &&[&str]| list.iter().map(|text| text.parse().unwrap()).collect();
        Self { answers: answers.iter().map(parsed).collect(), lookups: Arc::default() }
    }

    fn lookups(&self) -> usize {
        self.lookups.load(Ordering::Relaxed)
    }
}

impl Resolve for Names {
    fn resolve<'a>(&'a self, _: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        let at = self.lookups.fetch_add(1, Ordering::Relaxed);
        let answer = self.answers.get(at).or(self.answers.last()).cloned();
        Box::pin(async { answer.ok_or_else(|| io::Error::other("no such name")) })
    }
}

/// A tool that may reach this server.
fn allowing(server: &Server) -> Fetch {
    Fetch::new().allow("127.0.0.1", server.port).unwrap()
}

fn runtime(fetch: Fetch) -> Runtime {
    let registry = ToolRegistry::builder().add(DynTool::of(fetch)).build().unwrap();
    Runtime::builder().registry(registry).policy(AllowAll).build().unwrap()
}

async fn call(fetch: Fetch, arguments: Value) -> ToolResult {
    let turn = runtime(fetch).run().turn().await.unwrap();
    turn.run(vec![ToolCall::new("c1", "fetch_url", arguments)]).await.remove(0)
}

async fn get(fetch: Fetch, url: &str) -> ToolResult {
    call(fetch, json!({"url": url})).await
}

fn code(answer: &ToolResult) -> &'static str {
    answer.failure().map_or("none", |failure| failure.code().as_str())
}

#[tokio::test]
async fn page_is_returned_as_untrusted_text() {
    let server = Server::responding(|_| {
        ok(
            "text/html; charset=iso-8859-1",
            b"<title>Caf\xe9</title><script>evil()</script><h1>Hi</h1><p>See <a href='/x'>this</a>.",
        )
    })
    .await;
    let answer = get(allowing(&server), &server.url("/a?b=c#d")).await;
    let text = answer.text();
    assert!(text.contains("Title: Caf\u{e9}\n"), "{text}");
    assert!(text.contains("# Hi\n\nSee this (http://127.0.0.1:"), "{text}");
    assert!(!text.contains("evil"), "{text}");
    assert_eq!(answer.label().trust, Trust::Untrusted);
}

#[tokio::test]
async fn request_has_no_cookies_or_credentials() {
    let server = Server::responding(|path| match path {
        "/start" => redirect_to("/end"),
        _ => ok("text/plain", "there"),
    })
    .await;
    let answer = get(allowing(&server), &server.url("/start")).await;
    assert!(answer.text().contains("there"), "{}", answer.text());
    let requests = server.requests();
    assert_eq!(requests.len(), 2);
    for request in requests {
        let request = request.to_lowercase();
        assert!(request.contains(&format!("host: 127.0.0.1:{}\r\n", server.port)), "{request}");
        for word in ["cookie", "authorization", "referer", "origin:", "hunter2", "proxy"] {
            assert!(!request.contains(word), "{word} in {request}");
        }
    }
}

#[tokio::test]
async fn json_text_and_binary_are_shown_by_type() {
    let server = Server::start(|path| {
        vec![Step::Send(match path {
            "/json" => ok("application/json", r#"{"a":[1,2]}"#),
            "/text" => ok("text/csv", "a,b\n1,2\n"),
            "/empty" => ok("text/html", "<script>all()</script>"),
            "/none" => b"HTTP/1.1 204 No Content\r\n\r\n".to_vec(),
            // The head of an image whose bytes never arrive: the tool does not wait for them.
            _ => b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nContent-Length: 999999\r\n\r\n"
                .to_vec(),
        })]
    })
    .await;
    for (path, part) in [
        ("/json", "{\n  \"a\": [\n    1,\n    2\n  ]\n}"),
        ("/text", "\na,b\n1,2"),
        ("/empty", "no text"),
        ("/none", "no text"),
        ("/png", "Type: image/png, 999999 bytes\n\nThis is not text"),
    ] {
        let answer = get(allowing(&server), &server.url(path)).await;
        assert!(answer.text().contains(part), "{path}: {}", answer.text());
    }
}

#[tokio::test]
async fn long_page_is_paged_with_offset() {
    let server = Server::responding(|_| ok("text/plain", "0123456789".repeat(10))).await;
    let url = server.url("/");
    let first = call(allowing(&server), json!({"url": url, "max_chars": 15})).await;
    assert!(
        first
            .text()
            .contains("012345678901234\n\n[characters 0 to 15 of 100; continue with `offset` 15]")
    );
    let last = call(allowing(&server), json!({"url": url, "offset": 95})).await;
    assert!(last.text().contains("\n56789\n\n[characters 95 to 100, the end]"), "{}", last.text());
    let past = call(allowing(&server), json!({"url": url, "offset": 100})).await;
    assert_eq!(code(&past), "invalid_value");
    for wrong in [json!(0), json!(45_001), json!(-1)] {
        let answer = call(allowing(&server), json!({"url": url, "max_chars": wrong})).await;
        assert_eq!(code(&answer), "bad_arguments");
    }
}

#[tokio::test]
async fn ssrf_urls_are_refused_before_any_lookup_or_connection() {
    assert!(regressions::URLS.len() >= 100);
    let server = Server::responding(|_| ok("text/plain", "secret")).await;
    let names = Names::of(&[&["127.0.0.1"]]);
    let runtime = runtime(Fetch::new().resolver(names.clone()));
    let turn = runtime.run().turn().await.unwrap();
    let urls: Vec<_> = regressions::URLS
        .iter()
        .map(|url| url.replace("{port}", &server.port.to_string()))
        .collect();
    let calls = urls
        .iter()
        .enumerate()
        .map(|(at, url)| ToolCall::new(format!("c{at}"), "fetch_url", json!({"url": url})));
    let answers = turn.run(calls.collect::<Vec<_>>()).await;
    assert_eq!(answers.len(), urls.len());
    for (url, answer) in urls.iter().zip(&answers) {
        assert!(matches!(code(answer), "denied" | "invalid_value"), "{url:?}: {}", answer.text());
        assert_eq!(answer.execution(), Execution::NotStarted, "{url:?}");
    }
    assert_eq!((names.lookups(), server.connections()), (0, 0));
}

#[tokio::test]
async fn name_that_resolves_to_a_private_address_is_refused_even_with_public_ones() {
    for address in regressions::ADDRESSES {
        for answers in [&[*address][..], &["8.8.8.8", *address]] {
            let names = Names::of(&[answers]);
            let answer = get(Fetch::new().resolver(names.clone()), "http://page.example/").await;
            assert_eq!(code(&answer), "denied", "{answers:?}: {}", answer.text());
            assert!(
                !answer.text().contains(address),
                "the address is not in the message: {address}"
            );
            assert_eq!(names.lookups(), 1, "looked up once, and not connected to by name");
        }
    }
}

#[tokio::test]
async fn allowed_name_cannot_resolve_to_metadata() {
    for address in ["169.254.169.254", "100.100.100.200", "fd00:ec2::254", "0.0.0.0", "fe80::1"] {
        let fetch = Fetch::new().allow("wiki.corp", 80).unwrap().resolver(Names::of(&[&[address]]));
        assert_eq!(code(&get(fetch, "http://wiki.corp/").await), "denied", "{address}");
    }
}

#[tokio::test]
async fn dns_rebinding_is_checked_on_every_lookup() {
    let server = Server::responding(|path| match path {
        "/again" => redirect_to("/end"),
        _ => ok("text/plain", "served"),
    })
    .await;
    let open = |names: &Names| {
        Fetch::new().allow("page.example", server.port).unwrap().resolver(names.clone())
    };
    let url = |path: &str| format!("http://page.example:{}{path}", server.port);
    // The checked address is the connected address: there is no second lookup (DNS rebinding).
    let names = Names::of(&[&["127.0.0.1"], &["169.254.169.254"]]);
    let answer = get(open(&names), &url("/")).await;
    assert!(answer.text().contains("served"), "{}", answer.text());
    assert_eq!(names.lookups(), 1);
    // The next hop is resolved and checked again.
    let names = Names::of(&[&["127.0.0.1"], &["169.254.169.254"]]);
    let before = server.connections();
    let answer = get(open(&names), &url("/again")).await;
    assert_eq!(code(&answer), "denied", "{}", answer.text());
    assert_eq!((names.lookups(), server.connections() - before), (2, 1));
}

#[tokio::test]
async fn failed_dns_lookup_is_a_failure() {
    for names in [Names::default(), Names::of(&[&[]])] {
        let answer = get(Fetch::new().resolver(names), "http://page.example/").await;
        assert_eq!(code(&answer), "tool_failed");
        assert!(answer.text().contains("DNS lookup"), "{}", answer.text());
    }

    #[derive(Debug)]
    struct Silent;
    impl Resolve for Silent {
        fn resolve<'a>(&'a self, _: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
            Box::pin(std::future::pending())
        }
    }
    let fetch = Fetch::new().resolver(Silent).timeout(Duration::from_millis(50));
    assert_eq!(code(&get(fetch, "http://page.example/").await), "timed_out");
}

#[tokio::test]
async fn redirects_on_one_host_are_followed_five_times() {
    let server = Server::responding(|path| {
        match path.strip_prefix("/hop").and_then(|n| n.parse::<u32>().ok()) {
            Some(0) => ok("text/plain", "arrived"),
            Some(n) => redirect_to(&format!("/hop{}", n - 1)),
            None => redirect_to("/loop"),
        }
    })
    .await;
    let answer = get(allowing(&server), &server.url("/hop5")).await;
    assert!(answer.text().contains("arrived") && answer.text().contains("/hop0"));
    assert_eq!(server.connections(), 6);
    for path in ["/hop6", "/loop"] {
        let before = server.connections();
        let answer = get(allowing(&server), &server.url(path)).await;
        assert!(answer.text().contains("redirects too often"), "{}", answer.text());
        assert_eq!((code(&answer), server.connections() - before), ("tool_failed", 6));
    }
}

#[tokio::test]
async fn ssrf_redirects_are_refused() {
    let inner = Server::responding(|_| ok("text/plain", "secret")).await;
    let port = inner.port;
    let server = Server::responding(move |path| {
        let at: usize = path.trim_start_matches('/').parse().unwrap_or(0);
        redirect_to(&regressions::URLS[at].replace("{port}", &port.to_string()))
    })
    .await;
    // Some are complete only as an argument: in a redirect they are paths, or short for a plain
    // URL.
    let is_whole = |url: &&str| url.contains("//") || url.contains(':') && !url.starts_with(':');
    let carried = |url: &&str| !url.contains(['\r', '\n', '\0']) && url.trim() == *url;
    let short =
        |url: &&str| ["http:example.com", "http:/example.com", ":", "//example.com/"].contains(url);
    let mut tried = 0;
    for (at, url) in regressions::URLS.iter().enumerate() {
        if !is_whole(url) || !carried(url) || short(url) {
            continue;
        }
        tried += 1;
        // Names are never resolved, so none of these has another way out.
        let names = Names::default();
        let fetch = allowing(&server).resolver(names.clone());
        let answer = get(fetch, &server.url(&format!("/{at}"))).await;
        assert!(matches!(code(&answer), "denied" | "invalid_value"), "{url:?}: {}", answer.text());
        assert_eq!(names.lookups(), 0, "{url:?}");
    }
    assert!(tried >= 100, "{tried}");
    assert_eq!(inner.connections(), 0);
}

#[tokio::test]
async fn redirect_to_another_host_needs_another_call() {
    let other = Server::responding(|_| ok("text/plain", "other")).await;
    let to = format!("http://other.example:{}/x", other.port);
    let server = Server::responding(move |_| redirect_to(&to)).await;
    let names = Names::of(&[&["127.0.0.1"]]);
    let open =
        || allowing(&server).allow("other.example", other.port).unwrap().resolver(names.clone());
    let answer = get(open(), &server.url("/")).await;
    let text = answer.text();
    assert!(text.contains(&format!("\nhttp://other.example:{}/x\n", other.port)), "{text}");
    assert_eq!((names.lookups(), other.connections()), (0, 0));
    let answer = get(open(), &format!("http://other.example:{}/x", other.port)).await;
    assert!(answer.text().contains("other"), "{}", answer.text());
}

#[tokio::test]
async fn tls_is_verified_and_never_downgraded() {
    let server = Server::encrypted(|path| match path {
        "/plain" => redirect_to("http://secure.example/"),
        _ => ok("text/plain", "private words"),
    })
    .await;
    let open = || {
        Fetch::new()
            .allow("secure.example", server.port)
            .and_then(|fetch| fetch.allow("wrong.example", server.port))
            .unwrap()
            .resolver(Names::of(&[&["127.0.0.1"]]))
    };
    let trusting = || open().trust_root(AUTHORITY).unwrap();
    let url = |host: &str, path: &str| format!("https://{host}:{}{path}", server.port);
    let answer = get(trusting(), &url("secure.example", "/")).await;
    assert!(answer.text().contains("private words"), "{}", answer.text());
    for (fetch, host) in [(open(), "secure.example"), (trusting(), "wrong.example")] {
        let answer = get(fetch, &url(host, "/")).await;
        assert_eq!(code(&answer), "tool_failed", "{host}");
        assert!(answer.text().contains("no trusted TLS connection"), "{}", answer.text());
    }
    assert_eq!(server.requests().len(), 1, "nothing was asked of a server that was not trusted");
    let answer = get(trusting(), &url("secure.example", "/plain")).await;
    assert_eq!(code(&answer), "denied");
    assert!(answer.text().contains("plain http"), "{}", answer.text());
    assert!(Fetch::new().trust_root(b"nonsense".to_vec()).is_err());
}

#[tokio::test]
async fn slow_servers_time_out() {
    let head = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n".to_vec();
    let server = Server::start(move |path| match path {
        "/silent" => vec![Step::Wait(Duration::from_secs(60))],
        "/head" => vec![Step::Repeat(b"H".to_vec(), Duration::from_millis(20))],
        _ => vec![
            Step::Send(head.clone()),
            Step::Repeat(b"drip ".to_vec(), Duration::from_millis(20)),
        ],
    })
    .await;
    for path in ["/silent", "/drip"] {
        let fetch = allowing(&server).timeout(Duration::from_millis(300));
        let answer = get(fetch, &server.url(path)).await;
        assert_eq!(code(&answer), "timed_out", "{path}: {}", answer.text());
        assert!(answer.elapsed() < Duration::from_secs(5), "{path}: {:?}", answer.elapsed());
    }
    let fetch = allowing(&server).timeout(Duration::from_millis(300));
    assert!(get(fetch, &server.url("/head")).await.is_error(), "what is no HTTP is not waited for");
}

#[tokio::test]
async fn interrupt_does_not_wait_for_a_server() {
    let server = Server::start(|_| vec![Step::Wait(Duration::from_secs(60))]).await;
    let turn = runtime(allowing(&server)).run().turn().await.unwrap();
    let control = turn.handle();
    let calls = vec![ToolCall::new("c1", "fetch_url", json!({"url": server.url("/")}))];
    let stop = async {
        while server.requests().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        control.interrupt();
    };
    let (answers, ()) = tokio::join!(turn.run(calls), stop);
    assert_eq!(code(&answers[0]), "cancelled", "{}", answers[0].text());
    assert!(answers[0].elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn endless_body_and_gzip_bomb_are_truncated() {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    let zeros = vec![b'0'; 1 << 20];
    for _ in 0..64 {
        packer.write_all(&zeros).unwrap();
    }
    let bomb = packer.finish().unwrap();
    assert!(bomb.len() < 100_000, "64 MiB in {} bytes", bomb.len());
    let pack = |bytes: &[u8]| {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        packer.write_all(bytes).unwrap();
        packer.finish().unwrap()
    };
    let (twice, small) = (pack(&bomb), pack(b"a few words that end in the middle of a sentence"));
    let server = Server::start(move |path| {
        let packed = |encoding: &str, body: &[u8]| {
            let headers = format!("Content-Type: text/plain\r\nContent-Encoding: {encoding}\r\n");
            vec![Step::Send(with("200 OK", &headers, body))]
        };
        match path {
            "/bomb" => packed("gzip", &bomb),
            "/twice" => packed("gzip, gzip", &twice),
            "/br" => packed("br", b"whatever"),
            "/damaged" => packed("gzip", &small[..small.len() / 2]),
            "/not" => packed("gzip", b"plain words"),
            _ => vec![
                Step::Send(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n".to_vec()),
                Step::Repeat(vec![b'x'; 64 << 10], Duration::ZERO),
            ],
        }
    })
    .await;
    let fetch = || allowing(&server).max_bytes(1_000_000);
    for path in ["/bomb", "/endless"] {
        let answer = get(fetch(), &server.url(path)).await;
        assert!(
            answer.text().contains("truncated to the first 1000000 bytes"),
            "{}",
            answer.text()
        );
    }
    for path in ["/twice", "/br"] {
        let answer = get(fetch(), &server.url(path)).await;
        assert!(answer.text().contains("not requested"), "{path}: {}", answer.text());
    }
    for path in ["/damaged", "/not"] {
        let answer = get(fetch(), &server.url(path)).await;
        assert!(answer.text().contains("not valid gzip"), "{path}: {}", answer.text());
    }
}

#[tokio::test]
async fn oversized_heads_and_wrong_lengths_are_refused() {
    let server = Server::responding(|path| match path {
        "/large" => {
            with("200 OK", &format!("Content-Type: text/plain\r\nX-A: {}\r\n", "a".repeat(1 << 20)), "x")
        }
        "/many" => with("200 OK", &"X-A: a\r\n".repeat(1_000), "x"),
        "/long" => b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 50\r\n\r\nshort".to_vec(),
        "/two" => b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 50\r\n\r\nshort".to_vec(),
        "/minus" => b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nshort".to_vec(),
        "/chunks" => {
            b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nx".to_vec()
        }
        "/cut" => {
            b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab".to_vec()
        }
        "/ssh" => b"SSH-2.0-OpenSSH_9.6\r\n".to_vec(),
        "/nothing" => Vec::new(),
        _ => b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nshort and more".to_vec(),
    })
    .await;
    for path in
        ["/large", "/many", "/long", "/two", "/minus", "/chunks", "/cut", "/ssh", "/nothing"]
    {
        let answer = get(allowing(&server), &server.url(path)).await;
        assert_eq!(code(&answer), "tool_failed", "{path}: {}", answer.text());
        assert!(answer.text().contains("could not be fetched"), "{path}: {}", answer.text());
    }
    let answer = get(allowing(&server), &server.url("/less")).await;
    assert!(answer.text().ends_with("\nshort"), "{}", answer.text());
}

#[tokio::test]
async fn status_sets_the_retry_hint() {
    let server = Server::responding(|path| match path {
        "/429" => with("429 Too Many Requests", "Retry-After: 7\r\n", ""),
        path => with(&format!("{} Status", path.trim_start_matches('/')), "", "words of a server"),
    })
    .await;
    for (path, retry) in [
        ("/404", RetryHint::Fix),
        ("/403", RetryHint::Fix),
        ("/429", RetryHint::Later),
        ("/500", RetryHint::Later),
        ("/503", RetryHint::Later),
        ("/304", RetryHint::Fix),
    ] {
        let answer = get(allowing(&server), &server.url(path)).await;
        let failure = answer.failure().unwrap();
        assert_eq!((failure.code().as_str(), failure.retry()), ("tool_failed", retry), "{path}");
        assert!(failure.message().contains(&path[1..]), "{failure}");
        assert!(failure.next().is_some(), "{path}");
        assert!(!failure.model_text().contains("words of a server"), "{failure}");
        if path == "/429" {
            assert_eq!(failure.retry_after(), Some(Duration::from_secs(7)));
        }
    }
    let closed = {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap().port()
    };
    let fetch = Fetch::new().allow("127.0.0.1", closed).unwrap();
    let answer = get(fetch, &format!("http://127.0.0.1:{closed}/")).await;
    assert!(answer.text().contains("connection refused or host unreachable"), "{}", answer.text());
}

#[tokio::test]
async fn fetches_run_in_parallel_and_rules_match_their_hosts() {
    let server = Server::responding(|_| ok("text/plain", "served")).await;
    let rule = |decision, text: &str| {
        Rule::new(
            decision,
            Pattern::parse(text, &PathBase::default()).unwrap_or_else(|_| panic!("{text}")),
        )
    };
    let rules = Rules::new(
        vec![
            rule(Decision::Allow, "WebFetch(domain:127.0.0.1)"),
            rule(Decision::Deny, "WebFetch(domain:evil.example)"),
        ],
        PolicyContext::default(),
    )
    .unwrap();
    let names = Names::of(&[&["127.0.0.1"]]);
    let fetch = allowing(&server).resolver(names.clone());
    let registry = ToolRegistry::builder().add(DynTool::of(fetch)).build().unwrap();
    let runtime = Runtime::builder().registry(registry).policy(rules).build().unwrap();
    let turn = runtime.run().turn().await.unwrap();
    let calls = vec![
        ToolCall::new("a", "fetch_url", json!({"url": server.url("/a")})),
        ToolCall::new("b", "fetch_url", json!({"url": "https://evil.example/"})),
        ToolCall::new("c", "fetch_url", json!({"url": "https://unknown.example/"})),
    ];
    let planned = turn.plan(calls.clone());
    for planned in planned {
        assert_eq!(
            (planned.class, planned.batch),
            (Some(ConcurrencyClass::ReadOnly), 0),
            "{planned:?}"
        );
    }
    let answers = turn.run(calls).await;
    assert!(answers[0].text().contains("served"), "{}", answers[0].text());
    assert_eq!(code(&answers[1]), "denied");
    assert_eq!(
        code(&answers[2]),
        "denied",
        "the host is not approved, and no approver is configured"
    );
    assert_eq!(names.lookups(), 0);
}

/// Hostile pages that are slow to parse, one megabyte each.
fn slow_page(path: &str) -> String {
    let bytes = 1_000_000;
    let fill = |head: String, piece: &str| head + &piece.repeat(bytes / piece.len());
    let deep = || "<b>".repeat(300);
    match path {
        "/nested" => fill(String::new(), "<div>") + "bottom",
        "/paragraphs" => fill(deep(), "<p>"),
        "/ends" => fill(deep(), "</i>"),
        "/items" => fill("<ul>".repeat(300), "<li>"),
        "/cells" => fill("<table>".to_owned(), "<td>x"),
        "/links" => fill(deep(), "<a href=/x>y"),
        "/attribute" => format!("<p title=\"{}\">words", "a".repeat(bytes)),
        "/alt" => format!("<img alt=\"{}\">words", "a ".repeat(bytes / 2)),
        "/href" => format!("<a href=\"{}\">words</a>", "a".repeat(bytes)),
        "/attributes" => {
            let many: String = (0..bytes / 10).map(|n| format!(" a{n}=b")).collect();
            format!("<p{many}>words")
        }
        "/style" => fill(String::new(), "<p style=\"display : none\">"),
        "/hidden" => format!("<p hidden>{}", "<p>".repeat(bytes / 3)),
        "/articles" => fill(String::new(), "<article>x</article><nav>y</nav>"),
        "/quotes" => fill(String::new(), "<blockquote>x\n"),
        "/fences" => fill(String::new(), "<pre>x\n"),
        "/entities" => fill(String::new(), "&CounterClockwiseContourIntegral;"),
        "/half" => fill(String::new(), "&CounterClockwiseContourIntegra"),
        "/comment" => fill("<!--".to_owned(), "<!-- -"),
        "/script" => fill("<script>".to_owned(), "</scrip"),
        "/title" => fill("<title>".to_owned(), "a "),
        _ => fill(String::new(), "<"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_page_is_converted_in_time() {
    let paths = [
        "/nested",
        "/paragraphs",
        "/ends",
        "/items",
        "/cells",
        "/links",
        "/attribute",
        "/alt",
        "/href",
        "/attributes",
        "/style",
        "/hidden",
        "/articles",
        "/quotes",
        "/fences",
        "/entities",
        "/half",
        "/comment",
        "/script",
        "/title",
        "/angles",
    ];
    let server = Server::responding(|path| ok("text/html", slow_page(path))).await;
    for path in paths {
        // Complete or truncated: there is a result within the timeout.
        let answer = get(allowing(&server), &server.url(path)).await;
        assert_eq!(code(&answer), "none", "{path}: {}", answer.text());
        assert!(answer.text().len() < 100_000, "{path}: {}", answer.text().len());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn endless_response_times_out() {
    let server = Server::start(|path| {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n";
        let chunked = format!("{head}Transfer-Encoding: chunked\r\n\r\n");
        let (first, again) = match path {
            "/continue" => (String::new(), "HTTP/1.1 100 Continue\r\n\r\n"),
            "/head" => (head.to_owned(), "X-A: b\r\n"),
            "/line" => (format!("{head}X-A: "), "aaaaaaaaaaaaaaaa"),
            "/size" => (chunked, "0"),
            "/extension" => (format!("{chunked}1;"), "aaaaaaaaaaaaaaaa"),
            "/trailer" => (format!("{chunked}1\r\nx\r\n0\r\n"), "X-A: b\r\n"),
            "/chunks" => (chunked, "1\r\nx\r\n"),
            _ => (format!("{head}\r\n"), "x"),
        };
        vec![Step::Send(first.into_bytes()), Step::Repeat(again.into(), Duration::ZERO)]
    })
    .await;
    let paths = ["/continue", "/head", "/line", "/size", "/extension", "/trailer", "/chunks", "/x"];
    for path in paths {
        let fetch = allowing(&server).timeout(Duration::from_millis(400)).max_bytes(1 << 20);
        let answer = get(fetch, &server.url(path)).await;
        assert!(matches!(code(&answer), "timed_out" | "tool_failed"), "{path}: {}", answer.text());
    }
}

//! Attempts to reach more than the listed hosts, each from inside the real sandbox.

use super::*;
use crate::server::{Server, ok, redirect_to, with};

/// Sends raw proxy requests and returns the status of each.
async fn statuses(fixture: &Networked, requests: &[String]) -> Vec<String> {
    let lines: Vec<String> = requests.iter().map(|request| format!("raw '{request}'")).collect();
    let result = fixture.shell(&format!("touch x\n{RAW}{}\nexit 0", lines.join("\n"))).await;
    let shown = text(&result);
    let out = shown.split("\n\n").next().unwrap_or_default().replace("stdout:\n", "");
    let is_status = |line: &&str| line.len() == 3 && line.bytes().all(|b| b.is_ascii_digit());
    let found: Vec<String> = out.lines().filter(is_status).map(str::to_owned).collect();
    assert_eq!(found.len(), requests.len(), "{shown}");
    found
}

fn connect(target: &str) -> String {
    format!("CONNECT {target} HTTP/1.1\\r\\n\\r\\n")
}

/// A fixture that lists every public host, and a resolver that must not be asked.
fn open_to_all() -> (Networked, FixedDns) {
    let dns = FixedDns::default();
    let fixture = Networked::new("[sandbox]\nnetwork = [\"*\"]")
        .tools(|tools| tools.network_resolver(dns.clone()));
    (fixture, dns)
}

async fn all_refused(targets: &[&str], status: &str) {
    if !has_namespaces().await {
        return;
    }
    let (fixture, dns) = open_to_all();
    let requests: Vec<String> = targets.iter().map(|target| connect(target)).collect();
    let found = statuses(&fixture, &requests).await;
    for (target, found) in targets.iter().zip(found) {
        assert_eq!(found, status, "{target}");
    }
    assert_eq!(dns.lookups(), 0, "nothing was looked up");
}

#[tokio::test(flavor = "multi_thread")]
async fn ip_literals_of_inside_addresses_are_refused() {
    let targets = [
        "127.0.0.1:80",
        "127.0.0.1:443",
        "127.8.9.10:80",
        "10.0.0.1:443",
        "172.16.0.1:80",
        "192.168.1.1:443",
        "169.254.169.254:80",
        "100.64.0.1:80",
        "0.0.0.0:80",
        "224.0.0.1:80",
        "255.255.255.255:80",
        "168.63.129.16:80",
    ];
    all_refused(&targets, "403").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn decimal_octal_and_hex_spellings_of_addresses_are_refused() {
    let targets = [
        "2130706433:80",
        "0x7f000001:80",
        "017700000001:80",
        "0177.0.0.1:80",
        "0x7f.0.0.1:80",
        "127.1:80",
        "127.0.1:80",
        "0:80",
    ];
    all_refused(&targets, "400").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ipv6_forms_of_inside_addresses_are_refused() {
    let targets = [
        "[::1]:80",
        "[0:0:0:0:0:0:0:1]:80",
        "[::]:80",
        "[fe80::1]:80",
        "[fd00::1]:80",
        "[fd00:ec2::254]:80",
        "[64:ff9b::7f00:1]:80",
        "[2002:7f00:1::]:80",
        "[ff02::1]:80",
    ];
    all_refused(&targets, "403").await;
    all_refused(&["[::1%%25lo]:80", "[::1]", "::1:80"], "400").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ipv4_mapped_ipv6_addresses_are_refused() {
    let targets =
        ["[::ffff:127.0.0.1]:80", "[::ffff:7f00:1]:80", "[::ffff:8.8.8.8]:443", "[::127.0.0.1]:80"];
    all_refused(&targets, "403").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nul_byte_in_a_host_is_refused() {
    all_refused(&["listed.example\\0.evil.example:443", "listed.example:443\\0"], "400").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn trailing_dot_and_empty_labels_are_refused() {
    all_refused(&["listed.example.:443", "localhost.:80", "a..example:443"], "403").await;
    all_refused(&["127.0.0.1.:80"], "400").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn idn_is_refused_and_punycode_is_compared_as_it_is() {
    all_refused(
        &["b\u{fc}cher.example:443", "\u{ff41}.example:443", "x\u{3002}example:443"],
        "400",
    )
    .await;
    if !has_namespaces().await {
        return;
    }
    let dns = FixedDns::default();
    let fixture = Networked::new("[sandbox]\nnetwork = [\"xn--bcher-kva.example\"]")
        .tools(|tools| tools.network_resolver(dns.clone()));
    let requests = [connect("XN--BCHER-KVA.example:443"), connect("xn--bcher-lva.example:443")];
    assert_eq!(statuses(&fixture, &requests).await, ["403", "403"]);
    assert_eq!(dns.lookups(), 1, "only the listed name was looked up");
}

#[tokio::test(flavor = "multi_thread")]
async fn internal_names_are_refused_without_a_lookup() {
    let targets = [
        "localhost:80",
        "a.localhost:80",
        "printer.local:80",
        "metadata.google.internal:80",
        "intranet:80",
        "db.svc:80",
        "x.in-addr.arpa:80",
    ];
    all_refused(&targets, "403").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dns_rebinding_cannot_reach_an_inside_address() {
    if !has_namespaces().await || !has_program("curl") {
        return;
    }
    let server = Server::responding(|_| ok("text/plain", "inside\n")).await;
    let port = server.port;
    // A listed public name that resolves to loopback, and one that is opened by its port and turns
    // to the metadata address at the second lookup.
    let dns = FixedDns::default()
        .answer("rebind.example", &["127.0.0.1"])
        .answer("opened.example", &["127.0.0.1", "169.254.169.254"]);
    let list = format!("[sandbox]\nnetwork = [\"rebind.example\", \"opened.example:{port}\"]");
    let fixture = Networked::new(&list).tools(|tools| tools.network_resolver(dns.clone()));
    let script = format!(
        "touch x; curl -s http://rebind.example/; curl -s http://opened.example:{port}/
         curl -s http://opened.example:{port}/; exit 0"
    );
    let result = fixture.shell(&script).await;
    let shown = text(&result);
    assert_eq!(shown.matches("inside\n").count(), 1, "{shown}");
    assert!(shown.contains("`rebind.example` resolves to a loopback address"), "{shown}");
    assert!(shown.contains("`opened.example` resolves to a link-local address"), "{shown}");
    assert!(!shown.contains("169.254"), "the address is for the operator only: {shown}");
    assert_eq!((dns.lookups(), server.connections()), (3, 1), "one lookup for each connection");
}

#[tokio::test(flavor = "multi_thread")]
async fn redirect_to_an_inside_address_is_refused_by_the_proxy() {
    if !has_namespaces().await || !has_program("curl") {
        return;
    }
    let inside = Server::responding(|_| ok("text/plain", "secret\n")).await;
    let location = format!("http://127.0.0.1:{}/", inside.port);
    let server = Server::responding(move |path| match path {
        "/metadata" => redirect_to("http://169.254.169.254/latest/"),
        _ => redirect_to(&location),
    })
    .await;
    let port = server.port;
    let fixture = Networked::new(&format!("[sandbox]\nnetwork = [\"127.0.0.1:{port}\"]"));
    let script = format!(
        "touch x; curl -sSL http://127.0.0.1:{port}/; curl -sSL http://127.0.0.1:{port}/metadata; exit 0"
    );
    let result = fixture.shell(&script).await;
    assert!(!text(&result).contains("secret"), "{}", text(&result));
    assert_eq!((server.connections(), inside.connections()), (2, 0));
    assert!(contacts(&result).contains(&"169.254.169.254:80 refused".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn smuggled_second_request_reaches_no_server() {
    if !has_namespaces().await {
        return;
    }
    let server = Server::responding(|_| with("200 OK", "", "first")).await;
    let other = Server::responding(|_| with("200 OK", "", "second")).await;
    let (port, hidden) = (server.port, other.port);
    let fixture = Networked::new(&format!("[sandbox]\nnetwork = [\"127.0.0.1:{port}\"]"));
    let first = format!("GET http://127.0.0.1:{port}/1 HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n");
    let second = format!("GET http://127.0.0.1:{hidden}/2 HTTP/1.1\\r\\nHost: b\\r\\n\\r\\n");
    let body = "POST http://127.0.0.1:PORT/3 HTTP/1.1\\r\\nContent-Length: 7\\r\\n\\r\\nabc\\r\\n\\r\\nGET /4 HTTP/1.1\\r\\n\\r\\n"
        .replace("PORT", &port.to_string());
    let requests = [
        format!("{first}{second}"),
        body,
        format!(
            "GET http://127.0.0.1:{port}/ HTTP/1.1\\r\\nContent-Length: 1\\r\\nContent-Length: 2\\r\\n\\r\\n"
        ),
        format!(
            "GET http://127.0.0.1:{port}/ HTTP/1.1\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n0\\r\\n\\r\\n"
        ),
        format!("GET http://127.0.0.1:{port}/ HTTP/1.1\\nX: 1\\r\\n\\r\\n"),
        format!("GET http://127.0.0.1:{port}/ HTTP/1.1\\r\\nA: b\\r\\n folded\\r\\n\\r\\n"),
        format!("GET http://127.0.0.1:{port}@127.0.0.1:{hidden}/ HTTP/1.1\\r\\n\\r\\n"),
        "GET / HTTP/1.1\\r\\nHost: 127.0.0.1\\r\\n\\r\\n".to_owned(),
    ];
    let found = statuses(&fixture, &requests).await;
    assert_eq!(found, ["200", "200", "400", "411", "400", "400", "400", "400"]);
    assert_eq!(other.connections(), 0);
    let seen = server.requests();
    assert_eq!(seen.len(), 2, "{seen:?}");
    assert!(
        seen.iter().all(|request| !request.contains("/2") && !request.contains("/4")),
        "{seen:?}"
    );
    assert!(seen[0].contains(&format!("Host: 127.0.0.1:{port}\r\n")), "{seen:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn connect_to_port_22_and_others_is_refused_unless_the_port_is_listed() {
    all_refused(&["listed.example:22", "listed.example:25", "listed.example:8080"], "403").await;
    if !has_namespaces().await {
        return;
    }
    let dns = FixedDns::default();
    let fixture =
        Networked::new("[sandbox]\nnetwork = [\"git.example:22\", \"*.corp.example:8443\"]")
            .tools(|tools| tools.network_resolver(dns.clone()));
    let requests = ["git.example:22", "a.corp.example:8443", "git.example:23", "a.corp.example:22"]
        .map(connect);
    statuses(&fixture, &requests).await;
    assert_eq!(dns.lookups(), 2, "only listed ports are looked up");
}

#[tokio::test(flavor = "multi_thread")]
async fn udp_raw_sockets_and_a_second_listener_reach_nothing() {
    if !has_namespaces().await || !has_program("perl") {
        return;
    }
    let (fixture, _) = open_to_all();
    let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    udp.set_nonblocking(true).unwrap();
    let port = udp.local_addr().unwrap().port();
    let script = format!(
        "touch x; echo data > /dev/udp/127.0.0.1/{port} && echo sent
         perl -MSocket -e 'socket(S, PF_INET, SOCK_RAW, 1) and print \"raw\\n\"'
         perl -MSocket -e 'socket(S, PF_INET, SOCK_STREAM, 6); setsockopt(S, SOL_SOCKET, 15, 1);
             bind(S, sockaddr_in(3128, INADDR_LOOPBACK)) and print \"taken\\n\"'
         exit 0"
    );
    let shown = text(&fixture.shell(&script).await);
    for bad in ["sent\n", "raw\n", "taken\n"] {
        assert!(!shown.contains(bad), "{shown}");
    }
    assert!(udp.recv(&mut [0; 8]).is_err(), "no datagram arrived");
}

#[tokio::test(flavor = "multi_thread")]
async fn ssh_has_no_way_through_and_the_note_says_so() {
    if !has_namespaces().await {
        return;
    }
    let (fixture, _) = open_to_all();
    let result =
        fixture.shell(&format!("touch x\n{RAW}raw '{}'\nexit 1", connect("git.example:22"))).await;
    let shown = text(&result);
    assert!(shown.contains("port 22 is not allowed") && shown.contains("ssh"), "{shown}");
}

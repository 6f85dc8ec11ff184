//! Bounds of the proxy: heads, waits, connections and bytes.

use std::time::Duration;

use super::*;
use crate::server::{Server, Step, ok};

#[tokio::test(flavor = "multi_thread")]
async fn oversized_head_is_refused() {
    if !has_namespaces().await {
        return;
    }
    let fixture = Networked::new("[sandbox]\nnetwork = [\"*\"]");
    let script = format!(
        "touch x\n{RAW}big=$(head -c 40000 /dev/zero | tr '\\0' a)
         raw \"GET http://x.example/$big HTTP/1.1\\r\\n\\r\\n\"
         raw \"GET http://x.example/ HTTP/1.1\\r\\nA: $big\\r\\n\\r\\n\"
         raw \"$big\"; exit 0"
    );
    let shown = text(&fixture.shell(&script).await);
    assert_eq!(shown.matches("431").count(), 3, "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_loris_does_not_block_other_connections() {
    if !has_namespaces().await || !has_program("curl") {
        return;
    }
    let server = Server::responding(|_| ok("text/plain", "served\n")).await;
    let port = server.port;
    let fixture =
        Networked::new(&format!("[sandbox]\nnetwork = [\"127.0.0.1:{port}\"]")).limits(|limits| {
            limits.connections = 4;
            limits.head_time = Duration::from_millis(500);
        });
    // Four connections that never finish their head use all slots.
    let script = format!(
        "touch x
         for fd in 4 5 6 7; do eval \"exec $fd<>/dev/tcp/127.0.0.1/3128\"; printf 'GET ' >&$fd; done
         curl -sS --max-time 20 http://127.0.0.1:{port}/
         for fd in 4 5 6 7; do head -1 <&$fd | cut -d' ' -f2; done"
    );
    let shown = text(&fixture.shell(&script).await);
    assert_eq!(shown, "served\n408\n408\n408\n408\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_connections_are_bounded_and_leave_the_proxy_usable() {
    if !has_namespaces().await || !has_program("curl") || !has_program("perl") {
        return;
    }
    let server = Server::responding(|_| ok("text/plain", "served\n")).await;
    let port = server.port;
    let fixture =
        Networked::new(&format!("[sandbox]\nnetwork = [\"127.0.0.1:{port}\"]")).limits(|limits| {
            limits.connections = 8;
            limits.head_time = Duration::from_millis(300);
        });
    let script = format!(
        "touch x
         perl -MSocket -MFcntl -e 'for my $i (1..1000) {{
             socket($s[$i], PF_INET, SOCK_STREAM, 6) or last; $n++;
             fcntl($s[$i], F_SETFL, O_NONBLOCK);
             connect($s[$i], sockaddr_in(3128, INADDR_LOOPBACK)); }}
             print $n > 900 ? \"many\\n\" : \"few $n\\n\"; select(undef, undef, undef, 0.5);'
         curl -sS --max-time 60 --retry 5 --retry-connrefused http://127.0.0.1:{port}/"
    );
    let result = fixture.shell(&script).await;
    assert_eq!(text(&result), "many\nserved\n");
    assert_eq!(contacts(&result), [format!("127.0.0.1:{port} allowed")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_connection_is_closed_and_an_active_one_is_not() {
    if !has_namespaces().await || !has_program("curl") {
        return;
    }
    // Its answer takes longer than the idle time, but never pauses for that long.
    let server = Server::start(|path| match path {
        "/drip" => {
            let head = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n".to_vec();
            let mut steps = vec![Step::Send(head)];
            for _ in 0..5 {
                steps.extend([Step::Wait(Duration::from_millis(300)), Step::Send(b"d".to_vec())]);
            }
            steps
        }
        _ => vec![Step::Wait(Duration::from_secs(60))],
    })
    .await;
    let port = server.port;
    let fixture = Networked::new(&format!("[sandbox]\nnetwork = [\"127.0.0.1:{port}\"]"))
        .limits(|limits| limits.idle = Duration::from_millis(800));
    let script = format!(
        "touch x; curl -sS -p http://127.0.0.1:{port}/drip; echo
         curl -sS -p --max-time 30 http://127.0.0.1:{port}/silent; echo \"exit $?\""
    );
    let shown = text(&fixture.shell(&script).await);
    assert!(shown.contains("ddddd\n"), "{shown}");
    assert!(shown.contains("exit 52") || shown.contains("exit 56"), "closed by the proxy: {shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_of_a_command_are_bounded() {
    if !has_namespaces().await || !has_program("curl") {
        return;
    }
    let server = Server::responding(|_| ok("text/plain", vec![b'x'; 300_000])).await;
    let port = server.port;
    let fixture = Networked::new(&format!("[sandbox]\nnetwork = [\"127.0.0.1:{port}\"]"))
        .limits(|limits| limits.bytes = 400_000);
    let script = format!(
        "touch x; for i in 1 2 3; do curl -s http://127.0.0.1:{port}/ | wc -c; done; exit 0"
    );
    let result = fixture.shell(&script).await;
    let shown = text(&result);
    let counts: Vec<u64> = shown.lines().filter_map(|line| line.trim().parse().ok()).collect();
    assert_eq!(counts.len(), 3, "{shown}");
    assert!(counts[0] == 300_000 && counts[1] < 200_000 && counts[2] < 40_000, "{counts:?}");
    let received = result.tier().unwrap()["hosts"][0]["received"].as_u64().unwrap();
    assert!(received < 500_000, "{received}");
}

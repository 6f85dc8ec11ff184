//! `Network::Proxy`: one listening socket inside an own network namespace, and nothing else.

use std::{net::TcpListener, time::Duration};

use haft_sandbox::{
    Command, Helper, Level, Network, PROXY_PORT, ProcessResult, Profile, Sandbox, SandboxErrorKind,
};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

use crate::kit::*;

/// The sandbox with namespaces; `None`, printed, if this machine has none.
async fn namespaces() -> Option<Sandbox> {
    match Sandbox::at(Helper::At(helper()), Level::Namespaces).await {
        Ok(sandbox) => Some(sandbox),
        Err(error) => {
            eprintln!("NOT TESTED: level namespaces is missing here: {error}");
            None
        }
    }
}

fn proxied(fixture: &Fixture) -> Profile {
    Profile { network: Network::Proxy, ..fixture.profile() }
}

/// Runs a bash script; each accepted connection is answered with the line it sent.
async fn with_echo(sandbox: &Sandbox, profile: Profile, script: &str) -> ProcessResult {
    let command = Command::new("bash").args(["-c", script]).deadline(Duration::from_secs(30));
    let mut running = sandbox.start(command, profile).await.unwrap();
    let listener = running.take_listener().unwrap().unwrap();
    let listener = tokio::net::TcpListener::from_std(listener).unwrap();
    assert!(running.take_listener().unwrap().is_none(), "it is taken once");
    #[expect(clippy::disallowed_methods, reason = "the task is aborted below")]
    let echo = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let mut stream = BufReader::new(stream);
            let mut line = String::new();
            let _ = stream.read_line(&mut line).await;
            let _ = stream.get_mut().write_all(format!("echo {line}").as_bytes()).await;
        }
    });
    let ended = running.wait().await;
    echo.abort();
    ended
}

#[tokio::test]
async fn listening_socket_inside_the_namespace_is_accepted_outside() {
    let Some(sandbox) = namespaces().await else { return };
    let fixture = Fixture::new();
    let script = format!(
        "for i in 1 2; do exec 3<>/dev/tcp/127.0.0.1/{PROXY_PORT}; echo hello $i >&3; head -1 <&3; done"
    );
    let ended = with_echo(&sandbox, proxied(&fixture), &script).await;
    assert_eq!(out(&ended), "echo hello 1\necho hello 2\n", "{}", err(&ended));
    assert_eq!(ended.tier.level, Level::Namespaces);
    let notes = ended.tier.notes.join("; ");
    assert!(notes.contains("a proxy, and no other network"), "{notes}");
    let mut plain = sandbox.start(Command::new("true"), fixture.profile()).await.unwrap();
    assert!(plain.take_listener().unwrap().is_none(), "no proxy, no socket");
}

#[tokio::test]
async fn no_port_of_the_host_is_reachable_next_to_the_proxy() {
    let Some(sandbox) = namespaces().await else { return };
    let fixture = Fixture::new();
    let host = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = host.local_addr().unwrap().port();
    let script = format!(
        "exec 3<>/dev/tcp/127.0.0.1/{port} && echo connected
         exec 4<>/dev/tcp/192.0.2.1/80 && echo routed
         exec 5<>/dev/tcp/::1/{port} && echo six
         cat /proc/net/route /proc/net/dev | grep -c -E 'eth|ens|wl'
         exit 0"
    );
    let ended = with_echo(&sandbox, proxied(&fixture), &script).await;
    assert_eq!(out(&ended), "0\n", "{}", err(&ended));
    host.set_nonblocking(true).unwrap();
    assert!(host.accept().is_err(), "no connection arrived");
}

#[tokio::test]
async fn udp_and_raw_sockets_are_refused_next_to_the_proxy() {
    let Some(sandbox) = namespaces().await else { return };
    let fixture = Fixture::new();
    let ended = with_echo(
        &sandbox,
        proxied(&fixture),
        "echo x > /dev/udp/127.0.0.1/53 && echo sent; exit 0",
    )
    .await;
    assert_eq!(out(&ended), "", "{}", err(&ended));
    assert!(err(&ended).contains("not permitted"), "{}", err(&ended));
    let perl = "use Socket;
        for ([PF_INET, SOCK_DGRAM, 17], [PF_INET, SOCK_DGRAM, 0], [PF_INET, SOCK_RAW, 1],
             [PF_INET, SOCK_RAW, 255], [PF_INET6, SOCK_DGRAM, 0], [PF_INET6, SOCK_RAW, 58],
             [PF_INET, SOCK_STREAM, 132], [PF_INET, SOCK_STREAM, 262], [PF_UNIX, SOCK_STREAM, 0],
             [17, SOCK_RAW, 0], [PF_INET, SOCK_SEQPACKET, 132], [PF_INET, SOCK_DGRAM | 02000000, 0]) {
            print socket(my $s, $_->[0], $_->[1], $_->[2]) ? \"@$_ opened\\n\" : \"\";
        }
        print socket(my $s, PF_INET, SOCK_STREAM, 6) ? \"tcp\\n\" : \"no tcp: $!\\n\";";
    let command = Command::new("perl").args(["-e", perl]);
    match sandbox.run(command, proxied(&fixture)).await {
        Ok(ended) => assert_eq!(out(&ended), "tcp\n", "{}", err(&ended)),
        Err(error) if error.kind() == SandboxErrorKind::BadCommand => {
            eprintln!("NOT TESTED: raw sockets, because there is no perl here: {error}");
        }
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn second_listener_inside_reaches_nothing_outside_and_cannot_take_the_port() {
    let Some(sandbox) = namespaces().await else { return };
    let fixture = Fixture::new();
    let perl = format!(
        "use Socket;
        socket(my $s, PF_INET, SOCK_STREAM, 6) or die;
        setsockopt($s, SOL_SOCKET, SO_REUSEADDR, 1); setsockopt($s, SOL_SOCKET, 15, 1);
        print bind($s, sockaddr_in({PROXY_PORT}, INADDR_LOOPBACK)) ? \"taken\\n\" : \"in use\\n\";
        print bind($s, sockaddr_in({PROXY_PORT}, INADDR_ANY)) ? \"taken\\n\" : \"in use\\n\";
        socket(my $t, PF_INET, SOCK_STREAM, 6) or die;
        bind($t, sockaddr_in(4444, INADDR_ANY)) and listen($t, 5) and print \"listens\\n\";
        $| = 1; print \"ready\\n\"; sleep 2;"
    );
    let command = Command::new("perl").args(["-e", &perl]);
    let mut running = match sandbox.start(command, proxied(&fixture)).await {
        Ok(running) => running,
        Err(error) if error.kind() == SandboxErrorKind::BadCommand => {
            return eprintln!("NOT TESTED: a second listener, because there is no perl: {error}");
        }
        Err(error) => panic!("{error}"),
    };
    let mut text = String::new();
    while let Some(chunk) = running.next().await {
        text.push_str(&String::from_utf8_lossy(&chunk.bytes));
        if text.contains("ready") {
            break;
        }
    }
    assert_eq!(text, "in use\nin use\nlistens\nready\n");
    let from_outside = tokio::net::TcpStream::connect("127.0.0.1:4444").await;
    assert!(from_outside.is_err(), "it listens in its own namespace only");
    running.stop().await;
}

#[tokio::test]
async fn tier_landlock_refuses_a_proxy_with_the_reason() {
    let sandbox = match Sandbox::at(Helper::At(helper()), Level::Landlock).await {
        Ok(sandbox) => sandbox,
        Err(error) => return eprintln!("NOT TESTED: level landlock is missing here: {error}"),
    };
    let fixture = Fixture::new();
    let error = sandbox.run(Command::new("true"), proxied(&fixture)).await.unwrap_err();
    assert_eq!(error.kind(), SandboxErrorKind::BadProfile);
    assert!(error.to_string().contains("Landlock filters ports, not hosts"), "{error}");
}

//! Where network access comes from: the workspace, a rule, a declared tool, the call.

use haft::{
    FailureCode,
    approval::{ApprovalRequest, ApprovalResponse},
    journal::RecordQuery,
};

use super::*;
use crate::server::{Server, ok};

#[tokio::test(flavor = "multi_thread")]
async fn listed_host_is_reached_and_an_unlisted_one_is_refused_with_the_reason() {
    if !has_namespaces().await || !has_program("curl") {
        return;
    }
    let server =
        Server::responding(|path| ok("text/plain", format!("you asked for {path}\n"))).await;
    let port = server.port;
    let fixture = Networked::new(&format!("[sandbox]\nnetwork = [\"127.0.0.1:{port}\"]"));
    let got =
        fixture.shell(&format!("curl -sS http://127.0.0.1:{port}/hello > got; cat got")).await;
    assert_eq!(text(&got), "you asked for /hello\n");
    assert_eq!(contacts(&got), [format!("127.0.0.1:{port} allowed")]);
    let tier = got.tier().unwrap();
    assert!(tier["hosts"][0]["received"].as_u64().unwrap() > 20, "{tier}");
    assert!(tier["hosts"][0]["sent"].as_u64().is_some(), "{tier}");
    assert_eq!(tier["hosts"][0]["connections"], 1);

    let tunnel =
        fixture.shell(&format!("curl -sS -p http://127.0.0.1:{port}/t > got; cat got")).await;
    assert_eq!(text(&tunnel), "you asked for /t\n", "through CONNECT");

    let refused = fixture
        .shell("touch x; curl -sS http://unlisted.example/; curl -sS https://unlisted.example/; exit 3")
        .await;
    let shown = text(&refused);
    assert!(shown.contains("haft: `unlisted.example` is not listed"), "{shown}");
    assert!(shown.contains("no approver is configured"), "{shown}");
    assert!(shown.contains("403"), "{shown}");
    assert!(shown.contains("ssh, git over ssh and UDP do not"), "{shown}");
    assert_eq!(contacts(&refused), ["unlisted.example:80 refused", "unlisted.example:443 refused"]);
    assert_eq!(server.connections(), 2, "one for each request that was allowed");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_list_there_is_no_network_and_no_proxy() {
    let fixture = Networked::new("");
    let none = fixture
        .shell(
            "touch x; env | grep -ic proxy; exec 3<>/dev/tcp/127.0.0.1/3128 && echo open; exit 0",
        )
        .await;
    let shown = text(&none);
    assert!(shown.contains("stdout:\n0\n") && !shown.contains("open"), "{shown}");
    assert_eq!(contacts(&none), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_find_the_proxy_by_their_variables() {
    if !has_namespaces().await {
        return;
    }
    let fixture = Networked::new("[sandbox]\nnetwork = [\"packages.example\"]");
    let shown = text(&fixture.shell("touch x; env | grep -i proxy | sort").await);
    let at = "http://127.0.0.1:3128";
    let expected = [
        format!("HTTPS_PROXY={at}"),
        format!("HTTP_PROXY={at}"),
        "NODE_USE_ENV_PROXY=1".to_owned(),
        "NO_PROXY=".to_owned(),
        format!("http_proxy={at}"),
        format!("https_proxy={at}"),
        "no_proxy=".to_owned(),
    ];
    let mut found: Vec<&str> = shown.lines().collect();
    found.sort_unstable();
    assert_eq!(found, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn contacts_are_in_the_execution_record() {
    if !has_namespaces().await || !has_program("curl") {
        return;
    }
    let server = Server::responding(|_| ok("text/plain", "x")).await;
    let port = server.port;
    let fixture =
        Networked::new(&format!("[sandbox]\nnetwork = [\"localhost:{port}\"]")).tools(|tools| {
            tools.network_resolver(FixedDns::default().answer("localhost", &["127.0.0.1"]))
        });
    let runtime = fixture.builder().build().unwrap();
    let turn = fixture.run(&runtime).turn().await.unwrap();
    let command =
        format!("touch x; curl -sS http://localhost:{port}/; curl -s http://evil.example/");
    let calls = vec![ToolCall::new("c1", "shell", json!({"command": command}))];
    turn.run(calls).await;
    let records = runtime.records(&RecordQuery::default());
    let record = records.iter().find(|record| record.tool_name == "shell").unwrap();
    let tier = record.end.as_ref().unwrap().tier.as_ref().unwrap();
    assert_eq!(tier["hosts"][0]["host"], "localhost", "{tier}");
    assert_eq!(tier["hosts"][0]["verdict"], "allowed");
    assert_eq!(tier["hosts"][1]["verdict"], "refused");
    // The question about the other host has its own record.
    assert!(records.iter().any(|record| record.tool_name == "contact_host"), "{records:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_gives_its_command_more_hosts_and_no_other_command() {
    if !has_namespaces().await || !has_program("curl") {
        return;
    }
    let server = Server::responding(|_| ok("text/plain", "package\n")).await;
    let port = server.port;
    let fixture = Networked::with_rules(&format!(
        "[[rule]]\nmatch = \"Bash(curl *)\"\ndecision = \"allow\"\nnetwork = [\"127.0.0.1:{port}\"]\n\
         [[rule]]\nmatch = [\"Bash(bash *)\", \"Bash(touch *)\"]\ndecision = \"allow\"\n"
    ));
    let url = format!("http://127.0.0.1:{port}/");
    let allowed = fixture.shell(&format!("curl -sS {url}")).await;
    assert_eq!(text(&allowed), "package\n");
    assert_eq!(contacts(&allowed), [format!("127.0.0.1:{port} allowed")]);
    let other = fixture.shell(&format!("bash -c 'curl -sS {url}'")).await;
    assert!(!text(&other).contains("package"), "{}", text(&other));
    assert_eq!(server.connections(), 1);
    let both = fixture.shell(&format!("touch a && curl -sS {url}")).await;
    assert_eq!(text(&both), "package\n", "every part has a rule");
    let not_covered = fixture.shell(&format!("curl -sS {url} && rm a")).await;
    assert_eq!(not_covered.failure().map(|f| f.code()), Some(FailureCode::Denied));
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_that_a_call_requests_need_approval_unless_they_are_listed() {
    if !has_namespaces().await || !has_program("curl") {
        return;
    }
    let server = Server::responding(|_| ok("text/plain", "x\n")).await;
    let port = server.port;
    let fixture = Networked::new("[sandbox]\nnetwork = [\"packages.example\"]");
    let command = format!("curl -sS http://127.0.0.1:{port}/");
    let request = json!({"command": command, "network": [format!("127.0.0.1:{port}")]});
    let refused = fixture.call("shell", request.clone()).await;
    let shown = text(&refused);
    assert!(shown.contains("it requests network access to `127.0.0.1:"), "{shown}");
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    let yes = move |question: &ApprovalRequest<'_>| {
        seen.lock().unwrap().push(question.verdict.reason.to_string());
        Ok(ApprovalResponse::allow())
    };
    let approved = fixture.call_with(fixture.builder().approver(yes), "shell", request).await;
    assert_eq!(text(&approved), "x\n");
    assert_eq!(asked.lock().unwrap().len(), 1, "{asked:?}");
    let listed = json!({"command": "touch x", "network": ["packages.example"]});
    assert!(fixture.call("shell", listed).await.output().is_some(), "it is listed already");
    let wrong = json!({"command": "touch x", "network": ["http://x"]});
    let wrong = fixture.call("shell", wrong).await;
    assert!(wrong.is_error() && text(&wrong).contains("network"), "{}", text(&wrong));
}

#[tokio::test(flavor = "multi_thread")]
async fn declared_tool_contacts_only_its_own_hosts() {
    if !has_namespaces().await || !has_program("curl") {
        return;
    }
    let server = Server::responding(|_| ok("text/plain", "x\n")).await;
    let port = server.port;
    let fixture = Networked::with_rules(&format!(
        "[tool.get]\ndescription = \"Gets.\"\ncommand = [\"curl\", \"-sS\", \"-f\", \"--\", \"{{url}}\"]\n\
         network = [\"127.0.0.1:{port}\"]\n[tool.get.parameters.url]\ntype = \"string\"\n\
         [[rule]]\nmatch = \"get\"\ndecision = \"allow\"\n"
    ));
    let got = fixture.call("get", json!({"url": format!("http://127.0.0.1:{port}/")})).await;
    assert_eq!(text(&got), "x\n");
    let refused = fixture.call("get", json!({"url": "http://other.example/"})).await;
    assert!(text(&refused).contains("`other.example` is not listed"), "{}", text(&refused));
    assert_eq!(contacts(&refused), ["other.example:80 refused"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn tier_landlock_refuses_hosts_with_the_reason_unless_all_are_allowed() {
    let Some(sandbox) = landlock().await else {
        return eprintln!("NOT TESTED: level landlock is missing here");
    };
    let fixture = Networked::new("[sandbox]\nnetwork = [\"packages.example\"]")
        .tools(|tools| tools.sandbox(sandbox.clone()));
    let request = json!({"command": "touch x", "network": ["packages.example"]});
    let refused = fixture.call("shell", request).await;
    assert_eq!(refused.failure().map(|f| f.code()), Some(FailureCode::SandboxUnavailable));
    assert!(text(&refused).contains("Landlock filters ports, not hosts"), "{}", text(&refused));
    let without = fixture.shell("touch x; env | grep -ic proxy; exit 0").await;
    assert!(text(&without).starts_with('0'), "commands run, without network: {}", text(&without));
    let all = Networked::new("[sandbox]\nnetwork = \"all\"").tools(|tools| tools.sandbox(sandbox));
    let server = Server::responding(|_| ok("text/plain", "x")).await;
    let script = format!("touch x; exec 3<>/dev/tcp/127.0.0.1/{} && echo open", server.port);
    assert_eq!(text(&all.shell(&script).await), "open\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_without_approval_have_no_network_even_with_a_list() {
    let fixture = Networked::with_rules("[sandbox]\nnetwork = [\"*\"]\n");
    let confined = fixture.shell("env | grep -ic proxy; exit 0").await;
    assert!(text(&confined).starts_with('0'), "{}", text(&confined));
    let read_only = fixture.shell("ls").await;
    assert!(read_only.output().is_some() && contacts(&read_only).is_empty());
}

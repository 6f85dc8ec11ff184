//! A host that is not listed: rules decide at its first contact, and an approver is asked once.

use haft::approval::{ApprovalRequest, ApprovalResponse};

use super::*;
use crate::server::{Server, ok};

/// An approver that answers questions about hosts and keeps them.
#[derive(Clone, Default)]
struct Asked(Arc<Mutex<Vec<(String, Value)>>>);

impl Asked {
    fn answer(
        &self,
        answer: ApprovalResponse,
    ) -> impl Fn(&ApprovalRequest<'_>) -> Result<ApprovalResponse, haft::Failure> + use<> {
        let seen = self.clone();
        move |question| {
            let tool = question.call.tool().name().to_string();
            seen.0.lock().unwrap().push((tool, question.call.arguments().as_ref().clone()));
            Ok(answer.clone())
        }
    }

    fn questions(&self) -> Vec<(String, Value)> {
        self.0.lock().unwrap().clone()
    }
}

fn about(host: &str, port: u16) -> (String, Value) {
    ("contact_host".to_owned(), json!({"host": host, "port": port, "for": "shell"}))
}

#[tokio::test(flavor = "multi_thread")]
async fn approver_is_asked_once_for_each_host_and_concurrent_contacts_share_the_answer() {
    if !has_namespaces().await || !has_program("curl") {
        return;
    }
    let dns = FixedDns::default().answer("a.example", &["127.0.0.1"]);
    let fixture = Networked::new("[sandbox]\nnetwork = \"ask\"")
        .tools(|tools| tools.network_resolver(dns.clone()));
    let asked = Asked::default();
    let script = "touch x; for i in 1 2 3 4 5; do curl -s http://a.example/ & done; wait; \
        curl -s http://a.example/; curl -s https://a.example/; exit 0";
    let runtime = fixture.builder().approver(asked.answer(ApprovalResponse::allow()));
    let result = fixture.call_with(runtime, "shell", json!({"command": script})).await;
    assert_eq!(asked.questions(), [about("a.example", 80)], "{}", text(&result));
    // The answer allows the host; the SSRF check of its address still applies.
    assert_eq!(dns.lookups(), 7, "each connection is looked up and checked");
    let shown = text(&result);
    assert!(shown.contains("resolves to a loopback address"), "{shown}");
    assert_eq!(contacts(&result), ["a.example:80 refused", "a.example:443 refused"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn host_that_the_approver_denies_is_not_even_looked_up() {
    if !has_namespaces().await || !has_program("curl") {
        return;
    }
    let dns = FixedDns::default();
    let fixture = Networked::new("[sandbox]\nnetwork = [\"listed.example\"]")
        .tools(|tools| tools.network_resolver(dns.clone()));
    let asked = Asked::default();
    let no = ApprovalResponse::Deny(Some("not this one".to_owned()));
    let runtime = fixture.builder().approver(asked.answer(no));
    let script = "touch x; curl -s http://b.example/; curl -s http://b.example/; exit 0";
    let result = fixture.call_with(runtime, "shell", json!({"command": script})).await;
    assert_eq!(asked.questions(), [about("b.example", 80)]);
    assert_eq!(dns.lookups(), 0, "a lookup could carry data");
    assert!(text(&result).contains("`b.example` is not listed; not this one"), "{}", text(&result));
    assert_eq!(result.tier().unwrap()["hosts"][0]["connections"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_about_hosts_decide_before_an_approver_and_even_about_listed_hosts() {
    if !has_namespaces().await || !has_program("curl") {
        return;
    }
    let server = Server::responding(|_| ok("text/plain", "x\n")).await;
    let port = server.port;
    let dns = FixedDns::default()
        .answer("asks.example", &["127.0.0.1"])
        .answer("free.example", &["127.0.0.1"]);
    let rules = format!(
        "[sandbox]\nnetwork = [\"asks.example:{port}\", \"denied.example:{port}\", \"free.example:{port}\"]\n\
         [[rule]]\nmatch = \"host=asks.example\"\ndecision = \"ask\"\n\
         [[rule]]\nmatch = \"host=denied.example\"\ndecision = \"deny\"\nreason = \"not from here\"\n\
         [[rule]]\nmatch = \"host=allowed.example\"\ndecision = \"allow\"\n"
    );
    let fixture = Networked::new(&rules).tools(|tools| tools.network_resolver(dns.clone()));
    let asked = Asked::default();
    let runtime = fixture.builder().approver(asked.answer(ApprovalResponse::allow()));
    let script = format!(
        "touch x; for host in free asks; do curl -sS http://$host.example:{port}/; done
         curl -sS http://denied.example:{port}/; curl -sS http://allowed.example/; exit 0"
    );
    let result = fixture.call_with(runtime, "shell", json!({"command": script})).await;
    assert_eq!(asked.questions(), [about("asks.example", port)], "{}", text(&result));
    let found = contacts(&result);
    let expected = [
        format!("free.example:{port} allowed"),
        format!("asks.example:{port} approved"),
        format!("denied.example:{port} refused"),
        "allowed.example:80 refused".to_owned(),
    ];
    assert_eq!(found, expected, "{}", text(&result));
    let shown = text(&result);
    assert!(shown.contains("not from here"), "{shown}");
    assert!(shown.contains("DNS lookup of `allowed.example` failed"), "a rule allowed it: {shown}");
    assert_eq!(server.connections(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn question_about_a_host_ends_with_its_command() {
    if !has_namespaces().await || !has_program("curl") {
        return;
    }
    let fixture = Networked::new("[sandbox]\nnetwork = \"ask\"");
    let waiting = haft::approval::approver_fn("the test", |_| Box::pin(std::future::pending()));
    let arguments = json!({"command": "touch x; curl -s http://c.example/", "timeout_ms": 700});
    let runtime = fixture.builder().approver(waiting);
    let result = fixture.call_with(runtime, "shell", arguments).await;
    assert_eq!(result.failure().map(|f| f.code()), Some(haft::FailureCode::TimedOut));
}

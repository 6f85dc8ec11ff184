//! Hosts that rules let commands contact: `network = ["packages.example"]` in a rule.
//!
//! A rule that allows a command adds its hosts to the argument of the call that lists them. So the
//! hosts are frozen with the other arguments, an approver sees them, and the record has them.

use haft_core::Scope;
use serde_json::Value;

use super::{Rules, cover::Cover};
use crate::{
    PolicyRequest,
    facts::{Facts, Parts, Sample},
    network::{HostEntry, NetworkAccess},
    pattern::Key,
    request::traits::Mark,
    rule::Rule,
};

impl Rules {
    /// Returns the argument that lists hosts, with those of the rules added that allow the call or
    /// ask about it. `None` if the tool has no such argument or nothing is added.
    pub(super) fn network_argument(
        &self,
        facts: &Facts<'_>,
        call: &PolicyRequest<'_>,
        at: usize,
    ) -> Option<(String, Value)> {
        let marks = &call.tool.traits().marks;
        let (name, _) = marks.iter().find(|(_, mark)| *mark == Mark::Network)?;
        let granted = self
            .rules_that_allow(facts)
            .chain([&self.rules[at]])
            .fold(NetworkAccess::none(), |all, rule| all.join(&rule.network));
        if granted.is_none() {
            return None;
        }
        let current = call.arguments.get(name).and_then(Value::as_array);
        let mut list: Vec<Value> = current.cloned().unwrap_or_default();
        for text in granted.texts() {
            if !list.iter().any(|own| own.as_str() == Some(&text)) {
                list.push(text.into());
            }
        }
        Some((name.clone(), list.into()))
    }

    fn rules_that_allow(&self, facts: &Facts<'_>) -> impl Iterator<Item = &Rule> {
        let found = self.allow.find(facts, &self.rules);
        let applies = |at: &u32| self.applies(*at as usize, facts).is_some();
        let found: Vec<u32> = found.into_iter().filter(applies).collect();
        found.into_iter().filter_map(|at| self.rules.get(at as usize))
    }

    /// Adds the requested hosts that a rule lists to the parts that it covers.
    pub(super) fn cover_hosts(rule: &Rule, facts: &Facts<'_>, cover: &mut Cover) {
        if rule.network.is_none() {
            return;
        }
        let is_listed = |entry: &Option<HostEntry>| match entry {
            Some(entry) => rule.network.covers(entry),
            None => rule.network.is_all(),
        };
        let hosts = facts.requested_hosts.iter().filter(|(_, entry)| is_listed(entry));
        let hosts = hosts.fold(Parts::NONE, |hosts, (at, _)| hosts.with(*at));
        cover.add_hosts(hosts);
    }

    /// Returns whether a rule that names hosts denies this one or asks about it.
    pub(super) fn restricts_host(&self, host: &str, scope: &Scope) -> bool {
        let sample = Sample::contacting(host, scope.clone());
        let facts = sample.facts(&self.context);
        let names_hosts =
            |rule: &Rule| rule.matches.iter().any(|pattern| matches!(pattern.key(), Key::Host(_)));
        [&self.deny, &self.ask]
            .into_iter()
            .any(|index| self.strongest_where(index, &facts, &mut (), "", names_hosts).is_some())
    }
}

impl Facts<'_> {
    /// Returns the parts that are hosts which the call requests for its command.
    pub(super) fn requested(&self) -> Parts {
        self.requested_hosts.iter().fold(Parts::NONE, |set, (at, _)| set.with(*at))
    }
}

/// Returns why a call needs approval because of the hosts that it requests and no rule covers.
pub(super) fn request_reason(facts: &Facts<'_>, covered: Parts) -> Option<String> {
    let open = facts.requested_hosts.iter().filter(|(at, _)| !covered.has(*at));
    let name = |entry: &Option<HostEntry>| match entry {
        Some(entry) => format!("`{entry}`"),
        None => "the whole network".to_owned(),
    };
    let names: Vec<String> = open.map(|(_, entry)| name(entry)).collect();
    (!names.is_empty()).then(|| format!("it requests network access to {}", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use haft_core::{Capability, Decision, ToolSpec};
    use serde_json::json;

    use super::*;
    use crate::{
        Policy,
        pattern::{PathBase, Pattern},
        testing::{TestCall, call, context},
    };

    fn rule(decision: Decision, pattern: &str, hosts: &[&str]) -> Rule {
        let anchor = PathBase { directory: Some("/w".into()), home: None };
        let mut rule = Rule::new(decision, Pattern::parse(pattern, &anchor).unwrap());
        rule.network = NetworkAccess::parse(hosts.iter().copied()).unwrap();
        rule
    }

    /// Rules in a workspace that lists `listed.example`.
    fn rules(rules: Vec<Rule>) -> Rules {
        let mut context = context();
        context.network = NetworkAccess::parse(["listed.example"]).unwrap();
        Rules::new(rules, context).unwrap()
    }

    fn shell(command: &str, network: Value) -> TestCall {
        let spec = ToolSpec::new("shell", "Runs.")
            .capabilities([Capability::Subprocess, Capability::Filesystem]);
        let schema = json!({"properties": {
            "command": {"type": "string", "x-haft": "command"},
            "network": {"type": "array", "x-haft": "network"},
        }});
        call(spec, schema, json!({"command": command, "network": network}))
    }

    fn decided(rules: &Rules, call: &TestCall) -> (Decision, String) {
        let verdict = rules.decide(&call.request());
        (verdict.decision, verdict.reason.to_string())
    }

    #[test]
    fn rule_adds_its_hosts_to_the_argument_and_covers_them() {
        let rules = rules(vec![
            rule(Decision::Allow, "Bash(npm *)", &["registry.example", "localhost:4873"]),
            rule(Decision::Allow, "Bash(cargo *)", &["*.crates.example"]),
        ]);
        let bare = shell("npm ci && cargo fetch", json!(null));
        let rewritten = rules.rewrite(&bare.request()).unwrap();
        let hosts = json!(["registry.example", "localhost:4873", "*.crates.example"]);
        assert_eq!(rewritten["network"], hosts, "those of both rules");
        let again = shell("npm ci && cargo fetch", hosts);
        assert_eq!(decided(&rules, &again).0, Decision::Allow);
        assert_eq!(rules.rewrite(&again.request()), None, "nothing is left to add");
        let other = shell("npm ci && rm -r x", json!(null));
        assert_eq!(rules.rewrite(&other.request()), None, "no rule allows all of it");
    }

    #[test]
    fn host_of_the_argument_that_no_rule_lists_asks_with_its_name() {
        let rules = rules(vec![
            rule(Decision::Allow, "Bash(npm *)", &["registry.example"]),
            rule(Decision::Allow, "host=named.example", &[]),
        ]);
        for (network, wanted) in [
            (json!(["registry.example"]), Decision::Allow),
            (json!(["listed.example"]), Decision::Allow),
            (json!(["named.example"]), Decision::Allow),
            (json!(["ask"]), Decision::Allow),
            (json!(["evil.example"]), Decision::Ask),
            (json!(["registry.example", "evil.example"]), Decision::Ask),
            (json!(["registry.example:22"]), Decision::Ask),
            (json!(["named.example:8080"]), Decision::Ask),
            (json!(["127.0.0.1:80"]), Decision::Ask),
            (json!(["*.example"]), Decision::Ask),
            (json!(["*"]), Decision::Ask),
            (json!(["all"]), Decision::Ask),
            (json!(["https://registry.example"]), Decision::Ask),
            (json!([3]), Decision::Ask),
        ] {
            let call = shell("npm ci", network.clone());
            assert_eq!(decided(&rules, &call).0, wanted, "{network}");
        }
        let (_, reason) = decided(&rules, &shell("npm ci", json!(["evil.example", "x.org:8443"])));
        assert_eq!(reason, "it requests network access to `evil.example`, `x.org:8443`");
    }

    #[test]
    fn allowing_all_commands_allows_no_requested_host() {
        let rules = rules(vec![
            rule(Decision::Allow, "Bash", &[]),
            rule(Decision::Allow, "*", &[]),
            rule(Decision::Allow, "Bash(*)", &[]),
        ]);
        assert_eq!(decided(&rules, &shell("npm ci", json!(null))).0, Decision::Allow);
        for host in ["evil.example", "169.254.169.254:80", "*", "all"] {
            assert_eq!(decided(&rules, &shell("npm ci", json!([host]))).0, Decision::Ask, "{host}");
        }
    }

    #[test]
    fn whole_network_needs_a_rule_that_says_so() {
        let all = rules(vec![rule(Decision::Allow, "Bash(npm *)", &["all"])]);
        assert_eq!(decided(&all, &shell("npm ci", json!(["all", "x.org"]))).0, Decision::Allow);
        let some = rules(vec![rule(Decision::Allow, "Bash(npm *)", &["*"])]);
        assert_eq!(decided(&some, &shell("npm ci", json!(["all"]))).0, Decision::Ask);
    }

    #[test]
    fn deny_of_a_host_applies_to_requested_and_to_contacted_hosts() {
        let rules = rules(vec![
            rule(Decision::Allow, "Bash(npm *)", &["registry.example"]),
            rule(Decision::Deny, "host=registry.example", &[]),
            rule(Decision::Ask, "WebFetch(domain:asks.example)", &[]),
            rule(Decision::Deny, "WebSearch", &[]),
        ]);
        let call = shell("npm ci", json!(["registry.example"]));
        assert_eq!(decided(&rules, &call).0, Decision::Deny);
        let scope = crate::testing::at("/w");
        assert!(rules.restricts_host("registry.example", &scope));
        assert!(rules.restricts_host("asks.example", &scope));
        assert!(!rules.restricts_host("other.example", &scope));
        assert!(!rules.restricts_host("::1", &scope));
    }

    #[test]
    fn tool_without_an_argument_for_hosts_is_not_rewritten() {
        let rules = rules(vec![rule(Decision::Allow, "Bash(npm *)", &["registry.example"])]);
        let spec = ToolSpec::new("Bash", "Of another program.");
        let schema = json!({"properties": {"command": {"type": "string"}}});
        let call = call(spec, schema, json!({"command": "npm ci"}));
        assert_eq!(rules.rewrite(&call.request()), None);
    }
}

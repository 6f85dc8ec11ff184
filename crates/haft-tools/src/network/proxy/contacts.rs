//! What a command contacted, for the record: host, port, verdict, connections and bytes.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use serde::Serialize;
use serde_json::{Value, json};

/// Hosts that are recorded one by one. Further ones are only counted.
const MAX_HOSTS: usize = 16;
/// Characters of a host or a reason in the record.
const MAX_CHARS: usize = 160;

/// How a contact was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ContactVerdict {
    /// The host is listed.
    Allowed,
    /// A rule or a person allowed it at the first contact.
    Approved,
    /// Nothing was sent to it.
    Refused,
}

/// The contacts of one command.
#[derive(Debug, Clone, Default)]
pub(crate) struct Contacts(Arc<Mutex<ContactList>>);

#[derive(Debug, Default)]
struct ContactList {
    all: Vec<Contact>,
    /// Contacts to hosts that are not listed.
    more: u64,
}

#[derive(Debug)]
struct Contact {
    host: String,
    port: u16,
    verdict: ContactVerdict,
    reason: Option<String>,
    connections: u64,
    traffic: Traffic,
}

/// Bytes of a contact, counted while they pass.
#[derive(Debug, Clone, Default)]
pub(super) struct Traffic {
    pub(super) sent: Arc<AtomicU64>,
    pub(super) received: Arc<AtomicU64>,
}

impl Contacts {
    fn list(&self) -> std::sync::MutexGuard<'_, ContactList> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a connection. Returns the counters of its contact.
    pub(super) fn add(
        &self,
        host: &str,
        port: u16,
        verdict: ContactVerdict,
        reason: Option<&str>,
    ) -> Traffic {
        let cut = |text: &str| text.chars().take(MAX_CHARS).collect::<String>();
        let (host, reason) = (cut(host), reason.map(cut));
        let mut list = self.list();
        let is_same =
            |own: &&mut Contact| own.host == host && own.port == port && own.verdict == verdict;
        if let Some(own) = list.all.iter_mut().find(is_same) {
            own.connections += 1;
            return own.traffic.clone();
        }
        let traffic = Traffic::default();
        if list.all.len() < MAX_HOSTS {
            let contact =
                Contact { host, port, verdict, reason, connections: 1, traffic: traffic.clone() };
            list.all.push(contact);
        } else {
            list.more += 1;
        }
        traffic
    }

    /// Returns the contacts as data; `None` if there were none.
    pub(crate) fn value(&self) -> Option<Value> {
        let list = self.list();
        if list.all.is_empty() {
            return None;
        }
        let mut all: Vec<Value> = list
            .all
            .iter()
            .map(|contact| {
                let bytes = |count: &AtomicU64| count.load(Ordering::Relaxed);
                let mut value = json!({
                    "host": contact.host,
                    "port": contact.port,
                    "verdict": contact.verdict,
                    "connections": contact.connections,
                    "sent": bytes(&contact.traffic.sent),
                    "received": bytes(&contact.traffic.received),
                });
                if let Some(reason) = &contact.reason {
                    value["reason"] = reason.as_str().into();
                }
                value
            })
            .collect();
        if list.more > 0 {
            all.push(json!({ "more": list.more }));
        }
        Some(all.into())
    }

    /// Returns a note for the model about contacts that were refused.
    pub(crate) fn note(&self) -> Option<String> {
        let list = self.list();
        let refused = list.all.iter().filter(|own| own.verdict == ContactVerdict::Refused);
        let lines: Vec<String> = refused
            .take(8)
            .map(|own| {
                let why = own.reason.as_deref().unwrap_or("refused");
                format!("- `{}:{}`: {why}", own.host, own.port)
            })
            .collect();
        if lines.is_empty() {
            return None;
        }
        Some(format!(
            "note: the network proxy of this command refused:\n{}\nOnly HTTP and HTTPS through the \
             proxy in `HTTP_PROXY` and `HTTPS_PROXY` leave the sandbox; ssh, git over ssh and UDP \
             do not. If the command needs one of these hosts, call again with `network` and the \
             host; this may need approval.",
            lines.join("\n")
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contacts_of_one_host_are_counted_together_and_bounded() {
        let contacts = Contacts::default();
        assert_eq!((contacts.value(), contacts.note()), (None, None));
        let traffic = contacts.add("x.org", 443, ContactVerdict::Allowed, None);
        contacts.add("x.org", 443, ContactVerdict::Allowed, None);
        contacts.add("y.org", 443, ContactVerdict::Refused, Some("it is not listed"));
        traffic.sent.fetch_add(7, Ordering::Relaxed);
        let value = contacts.value().unwrap();
        assert_eq!(
            value[0],
            json!({"host": "x.org", "port": 443, "verdict": "allowed", "connections": 2,
                "sent": 7, "received": 0})
        );
        assert_eq!(value[1]["reason"], "it is not listed");
        let note = contacts.note().unwrap();
        assert!(note.contains("- `y.org:443`: it is not listed") && note.contains("ssh"), "{note}");
        for n in 0..100 {
            contacts.add(&format!("{n}.org"), 80, ContactVerdict::Refused, Some(&"x".repeat(500)));
        }
        let value = contacts.value().unwrap();
        assert_eq!(value.as_array().unwrap().len(), MAX_HOSTS + 1);
        assert_eq!(value[MAX_HOSTS]["more"], 86);
    }
}

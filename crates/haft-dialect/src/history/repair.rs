//! Repairs the call/result pairs of a transcript: every call has one result, directly after its
//! message.
//!
//! `Plan` finds the problems without changing anything; `repair` repairs them and `check` returns
//! them as an error. A result belongs to the preceding unanswered call with its id, in the latest
//! message first, because some servers number their calls from zero in every turn. A result before
//! its call is accepted only if its id is unique.
//!
//! INVARIANT: repairing a repaired transcript changes nothing (idempotent).

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet, VecDeque},
    fmt,
};

use haft_core::{CallId, Error, ErrorKind};

use super::{AssistantPart, Message, PastCall, PastResult, Transcript};

/// The content of the result that is added for a call without one.
const NO_RESULT: &str =
    "unknown_outcome: no result of this call was recorded; it may or may not have run";

/// How many problems an error names; the rest is only counted.
const MAX_NAMED_PROBLEMS: usize = 8;

/// How a conversation may end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LastTurn {
    /// With a result for every call.
    Closed,
    /// With open calls.
    Open,
}

/// One repair. Messages are counted from 0, at their positions before the repair.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum HistoryFix {
    /// A message of the model continued in the next one; they were merged.
    Joined {
        /// The second message.
        message: usize,
    },
    /// A result was not directly after its call, in the order of the calls; it was moved.
    Moved {
        /// Its old position.
        message: usize,
        /// The id.
        id: CallId,
    },
    /// A result had no call; it was dropped.
    Orphan {
        /// Its old position.
        message: usize,
        /// The id.
        id: CallId,
    },
    /// A call had a second result; the first was kept.
    Duplicate {
        /// The old position of the second.
        message: usize,
        /// The id.
        id: CallId,
    },
    /// A call had no result; one was added that says so.
    Unanswered {
        /// The position of the call.
        message: usize,
        /// The id.
        id: CallId,
    },
    /// A call had the id of an earlier one; it was given a new id.
    Renamed {
        /// The position of the call.
        message: usize,
        /// Its old id.
        id: CallId,
        /// Its new id.
        to: CallId,
    },
}

impl HistoryFix {
    fn message(&self) -> usize {
        match self {
            Self::Joined { message }
            | Self::Moved { message, .. }
            | Self::Orphan { message, .. }
            | Self::Duplicate { message, .. }
            | Self::Unanswered { message, .. }
            | Self::Renamed { message, .. } => *message,
        }
    }
}

impl fmt::Display for HistoryFix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "message {}: ", self.message())?;
        match self {
            Self::Joined { .. } => write!(f, "continues a message with calls"),
            Self::Moved { id, .. } => {
                write!(f, "the result of `{id}` is not directly after its call")
            }
            Self::Orphan { id, .. } => write!(f, "a result of `{id}`, which has no call"),
            Self::Duplicate { id, .. } => write!(f, "a second result of `{id}`"),
            Self::Unanswered { id, .. } => write!(f, "the call `{id}` has no result"),
            Self::Renamed { id, to, .. } => {
                write!(f, "a second call `{id}`, renamed to `{to}`")
            }
        }
    }
}

impl Transcript {
    /// Repairs the pairs of calls and results, and returns the repairs.
    ///
    /// Results move directly after their call's message, in the order of the calls. A result
    /// without a call is dropped, and so is a second result of one call. A call without a result
    /// gets one that says that the outcome is unknown; with [`LastTurn::Open`], the calls of the
    /// last message stay open. Of two calls with the same id the second gets a new id.
    pub fn repair(&mut self, ending: LastTurn) -> Vec<HistoryFix> {
        let plan = Plan::of(self, ending);
        if plan.is_empty() {
            return Vec::new();
        }
        let (messages, fixes) = plan.apply(std::mem::take(&mut self.messages));
        self.messages = messages;
        fixes
    }

    /// Returns the transcript with its pairs repaired.
    pub(super) fn repaired(&self, ending: LastTurn) -> (Cow<'_, Self>, Vec<HistoryFix>) {
        if Plan::of(self, ending).is_empty() {
            return (Cow::Borrowed(self), Vec::new());
        }
        let mut whole = self.clone();
        let fixes = whole.repair(ending);
        (Cow::Owned(whole), fixes)
    }

    /// Refuses a transcript that [`repair`](Self::repair) would change.
    ///
    /// # Errors
    /// Fails and names each broken pair.
    pub fn check(&self, ending: LastTurn) -> Result<(), Error> {
        let fixes = Plan::of(self, ending).fixes;
        if fixes.is_empty() {
            return Ok(());
        }
        let mut lines: Vec<String> =
            fixes.iter().take(MAX_NAMED_PROBLEMS).map(HistoryFix::to_string).collect();
        if fixes.len() > MAX_NAMED_PROBLEMS {
            lines.push(format!("and {} more", fixes.len() - MAX_NAMED_PROBLEMS));
        }
        Err(Error::new(
            ErrorKind::BadHistory,
            format!("calls and results do not pair up: {}", lines.join("; ")),
        )
        .hint("`Transcript::repair` fixes this and says how"))
    }
}

/// The problems, and where everything belongs. It holds indices only, so that the transcript can be
/// taken apart while the plan is applied.
#[derive(Debug)]
struct Plan {
    fixes: Vec<HistoryFix>,
    /// Whether there are changes that are not reported: an empty message, one list split in two.
    is_untidy: bool,
    /// For each message of the model, the message it belongs to: itself, or the one it continues.
    heads: Vec<Option<usize>>,
    calls: Vec<PlannedCall>,
}

/// One call, in order.
#[derive(Debug)]
struct PlannedCall {
    head: usize,
    message: usize,
    id: CallId,
    /// The position of its result: the message, and the index in it.
    answer: Option<(usize, usize)>,
    /// Whether a result with an unknown outcome is added.
    is_closed: bool,
}

impl Plan {
    fn of(transcript: &Transcript, ending: LastTurn) -> Self {
        let messages = &transcript.messages;
        let mut plan = Self {
            fixes: Vec::new(),
            is_untidy: false,
            heads: vec![None; messages.len()],
            calls: Vec::new(),
        };
        let owners = plan.group_messages(messages);
        plan.pair(messages);
        plan.find_moved(messages, &owners);
        plan.deduplicate_ids();
        plan.close(ending, plan.tail(messages));
        plan.fixes.sort_by_key(HistoryFix::message);
        plan
    }

    fn is_empty(&self) -> bool {
        self.fixes.is_empty() && !self.is_untidy
    }

    /// Finds the messages that belong together and all calls. Returns, for each list of results,
    /// the message of the model directly before it.
    fn group_messages(&mut self, messages: &[Message]) -> Vec<Option<usize>> {
        let mut owners = vec![None; messages.len()];
        // The latest message of the model, whether it has calls, and whether results have come
        // since.
        let mut behind: Option<(usize, bool, bool)> = None;
        for (index, message) in messages.iter().enumerate() {
            match message {
                Message::System(_) | Message::User(_) => behind = None,
                Message::Results(results) if results.is_empty() => self.is_untidy = true,
                Message::Results(_) => {
                    if let Some((head, _, answered)) = &mut behind {
                        owners[index] = Some(*head);
                        self.is_untidy |= *answered;
                        *answered = true;
                    }
                }
                Message::Assistant(assistant) => {
                    let (head, had_calls) = match behind {
                        Some((head, true, false)) => {
                            self.fixes.push(HistoryFix::Joined { message: index });
                            (head, true)
                        }
                        _ => (index, false),
                    };
                    self.heads[index] = Some(head);
                    let before = self.calls.len();
                    for call in calls(assistant) {
                        self.calls.push(PlannedCall {
                            head,
                            message: index,
                            id: call.id.clone(),
                            answer: None,
                            is_closed: false,
                        });
                    }
                    behind = Some((head, had_calls || self.calls.len() > before, false));
                }
            }
        }
        owners
    }

    /// Assigns every result to its call.
    fn pair(&mut self, messages: &[Message]) {
        // Per id: the unanswered calls of each message, the latest message last.
        let mut open: HashMap<CallId, Vec<(usize, VecDeque<usize>)>> = HashMap::new();
        let mut left = Vec::new();
        let mut next = 0;
        for (index, message) in messages.iter().enumerate() {
            while let Some(call) = self.calls.get(next).filter(|call| call.message == index) {
                let waiting = open.entry(call.id.clone()).or_default();
                match waiting.last_mut() {
                    Some((head, queue)) if *head == call.head => queue.push_back(next),
                    _ => waiting.push((call.head, VecDeque::from([next]))),
                }
                next += 1;
            }
            let Message::Results(results) = message else { continue };
            for (nth, result) in results.iter().enumerate() {
                match open.get_mut(&result.id).and_then(take) {
                    Some(call) => self.calls[call].answer = Some((index, nth)),
                    None => left.push((index, nth, &result.id)),
                }
            }
        }
        let mut only: HashMap<CallId, Option<usize>> = HashMap::new();
        for (at, call) in self.calls.iter().enumerate() {
            only.entry(call.id.clone()).and_modify(|only| *only = None).or_insert(Some(at));
        }
        for (message, nth, id) in left {
            let id = id.clone();
            match only.get(&id) {
                None => self.fixes.push(HistoryFix::Orphan { message, id }),
                Some(Some(call)) if self.calls[*call].answer.is_none() => {
                    self.calls[*call].answer = Some((message, nth));
                }
                Some(_) => self.fixes.push(HistoryFix::Duplicate { message, id }),
            }
        }
    }

    /// Records the results at the wrong position or in the wrong order.
    fn find_moved(&mut self, messages: &[Message], owners: &[Option<usize>]) {
        let answered: HashMap<(usize, usize), usize> = self
            .calls
            .iter()
            .enumerate()
            .filter_map(|(at, call)| Some((call.answer?, at)))
            .collect();
        let mut latest = None;
        for (message, of) in messages.iter().enumerate() {
            let Message::Results(results) = of else { continue };
            for (nth, result) in results.iter().enumerate() {
                let Some(&at) = answered.get(&(message, nth)) else { continue };
                // Calls are numbered through the whole transcript, so one number serves all lists.
                if owners[message] == Some(self.calls[at].head) && latest < Some(at) {
                    latest = Some(at);
                } else {
                    self.fixes.push(HistoryFix::Moved { message, id: result.id.clone() });
                }
            }
        }
    }

    /// Gives a new id to a later call with the id of an earlier one.
    fn deduplicate_ids(&mut self) {
        let mut taken: HashSet<CallId> = self.calls.iter().map(|call| call.id.clone()).collect();
        let mut seen = HashSet::new();
        let mut counts: HashMap<CallId, u64> = HashMap::new();
        for call in &mut self.calls {
            if seen.insert(call.id.clone()) {
                continue;
            }
            let count = counts.entry(call.id.clone()).or_insert(1);
            let to = loop {
                *count += 1;
                let to = CallId::from(format!("{}_{count}", call.id));
                if taken.insert(to.clone()) {
                    break to;
                }
            };
            let id = std::mem::replace(&mut call.id, to.clone());
            self.fixes.push(HistoryFix::Renamed { message: call.message, id, to });
        }
    }

    /// Returns the message whose calls end the conversation.
    fn tail(&self, messages: &[Message]) -> Option<usize> {
        let last = messages.iter().rposition(|message| !matches!(message, Message::Results(_)))?;
        self.heads[last]
    }

    /// Records the calls without a result, except those that may stay open.
    fn close(&mut self, ending: LastTurn, tail: Option<usize>) {
        for call in self.calls.iter_mut().filter(|call| call.answer.is_none()) {
            call.is_closed = ending == LastTurn::Closed || Some(call.head) != tail;
            if call.is_closed {
                let (message, id) = (call.message, call.id.clone());
                self.fixes.push(HistoryFix::Unanswered { message, id });
            }
        }
    }

    fn apply(self, messages: Vec<Message>) -> (Vec<Message>, Vec<HistoryFix>) {
        let mut whole: Vec<Message> = Vec::with_capacity(messages.len());
        let mut results: HashMap<(usize, usize), PastResult> = HashMap::new();
        let mut rest = Vec::with_capacity(messages.len());
        for (index, message) in messages.into_iter().enumerate() {
            match message {
                Message::Results(list) => {
                    let placed = list.into_iter().enumerate();
                    results.extend(placed.map(|(nth, result)| ((index, nth), result)));
                }
                other => rest.push((index, other)),
            }
        }
        let mut planned = self.calls.into_iter().peekable();
        let mut rest = rest.into_iter().peekable();
        let mut answers = Vec::new();
        while let Some((index, mut message)) = rest.next() {
            if let Message::Assistant(assistant) = &mut message {
                for call in assistant.iter_mut().filter_map(call_mut) {
                    let Some(plan) = planned.next() else { continue };
                    call.id = plan.id.clone();
                    let found = plan.answer.and_then(|at| results.remove(&at));
                    let answer = found.or_else(|| {
                        let made_up = PastResult::error(plan.id.clone(), NO_RESULT);
                        plan.is_closed.then_some(made_up)
                    });
                    answers.extend(answer.map(|result| PastResult { id: plan.id, ..result }));
                }
            }
            match (whole.last_mut(), message) {
                (Some(Message::Assistant(first)), Message::Assistant(more))
                    if self.heads[index] != Some(index) =>
                {
                    first.extend(more);
                }
                (_, message) => whole.push(message),
            }
            let goes_on = rest
                .peek()
                .is_some_and(|(next, _)| self.heads[*next].is_some_and(|head| head != *next));
            if !goes_on && !answers.is_empty() {
                whole.push(Message::Results(std::mem::take(&mut answers)));
            }
        }
        (whole, self.fixes)
    }
}

/// Takes the oldest unanswered call of the latest message.
fn take(waiting: &mut Vec<(usize, VecDeque<usize>)>) -> Option<usize> {
    while let Some((_, queue)) = waiting.last_mut() {
        if let Some(call) = queue.pop_front() {
            return Some(call);
        }
        waiting.pop();
    }
    None
}

fn calls(assistant: &[AssistantPart]) -> impl Iterator<Item = &PastCall> {
    assistant.iter().filter_map(|assistant| match assistant {
        AssistantPart::Call(call) => Some(call),
        AssistantPart::Part(_) => None,
    })
}

fn call_mut(assistant: &mut AssistantPart) -> Option<&mut PastCall> {
    match assistant {
        AssistantPart::Call(call) => Some(call),
        AssistantPart::Part(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::history::ContentPart;

    fn calls_message(ids: &[&str]) -> Message {
        Message::Assistant(
            ids.iter().map(|id| PastCall::new(*id, "look", json!({})).into()).collect(),
        )
    }

    fn results_message(results: &[(&str, &str)]) -> Message {
        Message::Results(results.iter().map(|(id, text)| PastResult::new(*id, *text)).collect())
    }

    fn user(text: &str) -> Message {
        Message::User(vec![ContentPart::text(text)])
    }

    fn repaired(messages: Vec<Message>, ending: LastTurn) -> (Vec<Message>, Vec<String>) {
        let mut transcript = Transcript { messages };
        let fixes = transcript.repair(ending);
        transcript.check(ending).expect("a repaired transcript is complete");
        assert_eq!(transcript.repair(ending), []);
        (transcript.messages, fixes.iter().map(HistoryFix::to_string).collect())
    }

    #[test]
    fn results_move_directly_after_their_call_in_call_order() {
        let (messages, fixes) = repaired(
            vec![
                calls_message(&["a", "b"]),
                results_message(&[("b", "2")]),
                user("and?"),
                results_message(&[("a", "1")]),
            ],
            LastTurn::Closed,
        );
        assert_eq!(
            messages,
            [calls_message(&["a", "b"]), results_message(&[("a", "1"), ("b", "2")]), user("and?")]
        );
        assert_eq!(fixes, ["message 3: the result of `a` is not directly after its call"]);
    }

    #[test]
    fn a_result_in_the_wrong_order_is_moved_and_two_lists_become_one() {
        let (messages, fixes) = repaired(
            vec![
                calls_message(&["a", "b", "c"]),
                results_message(&[("b", "2"), ("a", "1")]),
                results_message(&[("c", "3")]),
            ],
            LastTurn::Closed,
        );
        assert_eq!(messages[1..], [results_message(&[("a", "1"), ("b", "2"), ("c", "3")])]);
        assert_eq!(fixes, ["message 1: the result of `a` is not directly after its call"]);
    }

    #[test]
    fn orphan_and_duplicate_results_are_dropped() {
        let (messages, fixes) = repaired(
            vec![
                results_message(&[("cut", "0")]),
                user("go"),
                calls_message(&["a"]),
                results_message(&[("a", "first"), ("a", "second"), ("x", "?")]),
            ],
            LastTurn::Closed,
        );
        assert_eq!(
            messages,
            [user("go"), calls_message(&["a"]), results_message(&[("a", "first")])]
        );
        assert_eq!(
            fixes,
            [
                "message 0: a result of `cut`, which has no call",
                "message 3: a second result of `a`",
                "message 3: a result of `x`, which has no call",
            ]
        );
    }

    #[test]
    fn call_without_a_result_gets_an_unknown_outcome() {
        let (messages, fixes) = repaired(
            vec![calls_message(&["a", "b"]), results_message(&[("b", "2")]), user("go on")],
            LastTurn::Open,
        );
        let Message::Results(results) = &messages[1] else { panic!("results are second") };
        assert_eq!(results[0], PastResult::error("a", NO_RESULT));
        assert_eq!(results[1], PastResult::new("b", "2"));
        assert_eq!(fixes, ["message 0: the call `a` has no result"]);
    }

    #[test]
    fn last_calls_stay_open_only_with_ending_open() {
        let tail = vec![user("go"), calls_message(&["a", "b"]), results_message(&[("a", "1")])];
        let (messages, fixes) = repaired(tail.clone(), LastTurn::Open);
        assert_eq!((messages, fixes.len()), (tail.clone(), 0));
        let (messages, fixes) = repaired(tail, LastTurn::Closed);
        assert_eq!(fixes, ["message 1: the call `b` has no result"]);
        assert!(matches!(&messages[2], Message::Results(both) if both.len() == 2));
    }

    #[test]
    fn duplicate_call_ids_are_renamed_together_with_their_results() {
        let (messages, fixes) = repaired(
            vec![
                calls_message(&["x"]),
                results_message(&[("x", "1")]),
                calls_message(&["x", "x"]),
                results_message(&[("x", "2"), ("x", "3")]),
            ],
            LastTurn::Closed,
        );
        assert_eq!(
            messages,
            [
                calls_message(&["x"]),
                results_message(&[("x", "1")]),
                calls_message(&["x_2", "x_3"]),
                results_message(&[("x_2", "2"), ("x_3", "3")]),
            ]
        );
        assert_eq!(fixes.len(), 2);
    }

    #[test]
    fn new_call_id_is_unique() {
        let (messages, _) = repaired(vec![calls_message(&["x", "x", "x_2"])], LastTurn::Open);
        assert_eq!(messages, [calls_message(&["x", "x_3", "x_2"])]);
    }

    #[test]
    fn result_is_assigned_to_the_latest_unanswered_call() {
        let (messages, _) = repaired(
            vec![
                calls_message(&["x"]),
                user("again"),
                calls_message(&["x"]),
                results_message(&[("x", "1")]),
            ],
            LastTurn::Closed,
        );
        assert_eq!(messages[4], results_message(&[("x_2", "1")]));
        assert!(matches!(&messages[1], Message::Results(made_up) if made_up[0].is_error));
    }

    #[test]
    fn result_before_its_call_is_accepted_if_the_id_is_unique() {
        let (messages, fixes) =
            repaired(vec![results_message(&[("a", "1")]), calls_message(&["a"])], LastTurn::Closed);
        assert_eq!(messages, [calls_message(&["a"]), results_message(&[("a", "1")])]);
        assert_eq!(fixes, ["message 0: the result of `a` is not directly after its call"]);
        let (messages, fixes) = repaired(
            vec![
                results_message(&[("a", "1")]),
                calls_message(&["a"]),
                user("?"),
                calls_message(&["a"]),
            ],
            LastTurn::Open,
        );
        assert_eq!(messages.len(), 4);
        assert_eq!(fixes[0], "message 0: a second result of `a`");
    }

    #[test]
    fn continued_assistant_message_is_merged() {
        let (messages, fixes) = repaired(
            vec![
                calls_message(&["a"]),
                Message::Results(vec![]),
                calls_message(&["b"]),
                results_message(&[("a", "1"), ("b", "2")]),
            ],
            LastTurn::Closed,
        );
        assert_eq!(
            messages,
            [calls_message(&["a", "b"]), results_message(&[("a", "1"), ("b", "2")])]
        );
        assert_eq!(fixes, ["message 2: continues a message with calls"]);
    }

    #[test]
    fn check_names_broken_pairs_and_counts_the_rest() {
        let many: Vec<String> = (0..10).map(|n| format!("c{n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let transcript = Transcript { messages: vec![calls_message(&many), user("next")] };
        let error = transcript.check(LastTurn::Open).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadHistory);
        assert!(error.message().contains("message 0: the call `c7` has no result; and 2 more"));
        assert!(!error.message().contains("c8"));
    }
}

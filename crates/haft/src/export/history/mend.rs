//! Repairs the pairs of a transcript: every call answered once, directly behind its message.
//!
//! `Plan` finds out what is wrong without touching anything; `mend` carries it out and `check`
//! refuses it. A result belongs to the call before it that has its id and no answer yet, in the
//! latest message first: some servers number their calls from nothing in every turn.
//! A result that stands before its call is believed only if the id is the only one of its kind.
//!
//! INVARIANT: a mended transcript has nothing to mend.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet, VecDeque},
    fmt,
};

use haft_core::CallId;

use super::{AssistantPart, Message, PastCall, PastResult, Transcript};
use crate::error::{Error, ErrorKind};

/// What a call without a result is answered with.
const NO_RESULT: &str =
    "unknown_outcome: no result of this call was recorded, and nobody knows whether it ran";

/// How many problems an error names before it only counts.
const NAMED: usize = 8;

/// How a conversation may end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ending {
    /// With every call answered.
    Closed,
    /// With calls that are still to be answered.
    Open,
}

/// One thing that was repaired. Messages are counted from 0, as they stood before.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum HistoryFix {
    /// A message of the model went on in the next one; they are one now.
    Joined {
        /// The second message.
        message: usize,
    },
    /// A result did not stand directly behind its call, in the order of the calls; it does now.
    Moved {
        /// Where it stood.
        message: usize,
        /// The id.
        id: CallId,
    },
    /// A result had no call; it is gone.
    Orphan {
        /// Where it stood.
        message: usize,
        /// The id.
        id: CallId,
    },
    /// A call had a second result; the first one stayed.
    Duplicate {
        /// Where the second stood.
        message: usize,
        /// The id.
        id: CallId,
    },
    /// A call had no result; it has one now that says so.
    Unanswered {
        /// Where the call stands.
        message: usize,
        /// The id.
        id: CallId,
    },
    /// A call had the id of an earlier one; it has its own now.
    Renamed {
        /// Where the call stands.
        message: usize,
        /// The id it had.
        id: CallId,
        /// The id it has.
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
            Self::Joined { .. } => write!(f, "goes on where a message with calls ended"),
            Self::Moved { id, .. } => write!(f, "the result of `{id}` is not behind its call"),
            Self::Orphan { id, .. } => write!(f, "a result of `{id}`, which nobody called"),
            Self::Duplicate { id, .. } => write!(f, "a second result of `{id}`"),
            Self::Unanswered { id, .. } => write!(f, "the call `{id}` has no result"),
            Self::Renamed { id, to, .. } => {
                write!(f, "a second call `{id}`, to be told apart as `{to}`")
            }
        }
    }
}

impl Transcript {
    /// Repairs the pairs of calls and results, and returns what was done.
    ///
    /// Results move directly behind their call's message, in the order of the calls. A result
    /// without a call is dropped, and so is a second result of one call. A call without a result
    /// gets one that says that nobody knows what became of it; with [`Ending::Open`], the calls of
    /// the last message are left alone. Of two calls with one id the second gets its own.
    pub fn mend(&mut self, ending: Ending) -> Vec<HistoryFix> {
        let plan = Plan::of(self, ending);
        if plan.is_idle() {
            return Vec::new();
        }
        let (messages, mends) = plan.carry_out(std::mem::take(&mut self.messages));
        self.messages = messages;
        mends
    }

    /// Returns the transcript with its pairs repaired.
    pub(super) fn mended(&self, ending: Ending) -> (Cow<'_, Self>, Vec<HistoryFix>) {
        if Plan::of(self, ending).is_idle() {
            return (Cow::Borrowed(self), Vec::new());
        }
        let mut whole = self.clone();
        let mends = whole.mend(ending);
        (Cow::Owned(whole), mends)
    }

    /// Refuses a transcript that [`mend`](Self::mend) would change.
    ///
    /// # Errors
    /// Fails and names each unresolved pair.
    pub fn check(&self, ending: Ending) -> Result<(), Error> {
        let mends = Plan::of(self, ending).mends;
        if mends.is_empty() {
            return Ok(());
        }
        let mut lines: Vec<String> = mends.iter().take(NAMED).map(HistoryFix::to_string).collect();
        if mends.len() > NAMED {
            lines.push(format!("and {} more", mends.len() - NAMED));
        }
        Err(Error::new(
            ErrorKind::BadHistory,
            format!("calls and results do not pair up: {}", lines.join("; ")),
        )
        .hint("`Transcript::mend` repairs this and says how"))
    }
}

/// What is wrong, and where everything belongs. It holds indices only, so that the transcript can
/// be taken apart while it is carried out.
#[derive(Debug)]
struct Plan {
    mends: Vec<HistoryFix>,
    /// Whether something changes that is worth no word: an empty message, one list in two.
    is_untidy: bool,
    /// For each message of the model, the message it belongs to: itself, or the one it continues.
    heads: Vec<Option<usize>>,
    calls: Vec<Planned>,
}

/// One call, in order.
#[derive(Debug)]
struct Planned {
    head: usize,
    message: usize,
    id: CallId,
    /// Where its result stands: the message, and the place in it.
    answer: Option<(usize, usize)>,
    /// Whether it is given a result that says that there is none.
    is_closed: bool,
}

impl Plan {
    fn of(transcript: &Transcript, ending: Ending) -> Self {
        let messages = &transcript.messages;
        let mut plan = Self {
            mends: Vec::new(),
            is_untidy: false,
            heads: vec![None; messages.len()],
            calls: Vec::new(),
        };
        let owners = plan.lay_out(messages);
        plan.pair(messages);
        plan.find_moved(messages, &owners);
        plan.tell_apart();
        plan.close(ending, plan.tail(messages));
        plan.mends.sort_by_key(HistoryFix::message);
        plan
    }

    fn is_idle(&self) -> bool {
        self.mends.is_empty() && !self.is_untidy
    }

    /// Finds the messages that belong together and all calls. Returns, for each list of results,
    /// the message of the model that it stands directly behind.
    fn lay_out(&mut self, messages: &[Message]) -> Vec<Option<usize>> {
        let mut owners = vec![None; messages.len()];
        // The message of the model that the walk stands behind, whether it has calls, and whether
        // results have come since.
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
                Message::Assistant(said) => {
                    let (head, had_calls) = match behind {
                        Some((head, true, false)) => {
                            self.mends.push(HistoryFix::Joined { message: index });
                            (head, true)
                        }
                        _ => (index, false),
                    };
                    self.heads[index] = Some(head);
                    let before = self.calls.len();
                    for call in calls(said) {
                        self.calls.push(Planned {
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

    /// Gives every result to its call.
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
                None => self.mends.push(HistoryFix::Orphan { message, id }),
                Some(Some(call)) if self.calls[*call].answer.is_none() => {
                    self.calls[*call].answer = Some((message, nth));
                }
                Some(_) => self.mends.push(HistoryFix::Duplicate { message, id }),
            }
        }
    }

    /// Names the results that stand in the wrong place, or in the wrong order.
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
                // Calls are counted through the whole transcript, so one number serves all lists.
                if owners[message] == Some(self.calls[at].head) && latest < Some(at) {
                    latest = Some(at);
                } else {
                    self.mends.push(HistoryFix::Moved { message, id: result.id.clone() });
                }
            }
        }
    }

    /// Gives a later call with the id of an earlier one its own.
    fn tell_apart(&mut self) {
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
            self.mends.push(HistoryFix::Renamed { message: call.message, id, to });
        }
    }

    /// Returns the message whose calls end the conversation.
    fn tail(&self, messages: &[Message]) -> Option<usize> {
        let last = messages.iter().rposition(|message| !matches!(message, Message::Results(_)))?;
        self.heads[last]
    }

    /// Names the calls without a result, but for those that may stay open.
    fn close(&mut self, ending: Ending, tail: Option<usize>) {
        for call in self.calls.iter_mut().filter(|call| call.answer.is_none()) {
            call.is_closed = ending == Ending::Closed || Some(call.head) != tail;
            if call.is_closed {
                let (message, id) = (call.message, call.id.clone());
                self.mends.push(HistoryFix::Unanswered { message, id });
            }
        }
    }

    fn carry_out(self, messages: Vec<Message>) -> (Vec<Message>, Vec<HistoryFix>) {
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
            if let Message::Assistant(said) = &mut message {
                for call in said.iter_mut().filter_map(call_mut) {
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
        (whole, self.mends)
    }
}

/// Takes the oldest call of the latest message that still waits.
fn take(waiting: &mut Vec<(usize, VecDeque<usize>)>) -> Option<usize> {
    while let Some((_, queue)) = waiting.last_mut() {
        if let Some(call) = queue.pop_front() {
            return Some(call);
        }
        waiting.pop();
    }
    None
}

fn calls(said: &[AssistantPart]) -> impl Iterator<Item = &PastCall> {
    said.iter().filter_map(|said| match said {
        AssistantPart::Call(call) => Some(call),
        AssistantPart::Part(_) => None,
    })
}

fn call_mut(said: &mut AssistantPart) -> Option<&mut PastCall> {
    match said {
        AssistantPart::Call(call) => Some(call),
        AssistantPart::Part(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::export::history::ContentPart;

    fn ask(ids: &[&str]) -> Message {
        Message::Assistant(
            ids.iter().map(|id| PastCall::new(*id, "look", json!({})).into()).collect(),
        )
    }

    fn tell(results: &[(&str, &str)]) -> Message {
        Message::Results(results.iter().map(|(id, text)| PastResult::new(*id, *text)).collect())
    }

    fn user(text: &str) -> Message {
        Message::User(vec![ContentPart::text(text)])
    }

    fn mended(messages: Vec<Message>, ending: Ending) -> (Vec<Message>, Vec<String>) {
        let mut transcript = Transcript { messages };
        let mends = transcript.mend(ending);
        transcript.check(ending).expect("a mended transcript is whole");
        assert_eq!(transcript.mend(ending), []);
        (transcript.messages, mends.iter().map(HistoryFix::to_string).collect())
    }

    #[test]
    fn results_move_behind_their_call_in_the_order_of_the_calls() {
        let (messages, mends) = mended(
            vec![ask(&["a", "b"]), tell(&[("b", "2")]), user("and?"), tell(&[("a", "1")])],
            Ending::Closed,
        );
        assert_eq!(messages, [ask(&["a", "b"]), tell(&[("a", "1"), ("b", "2")]), user("and?")]);
        assert_eq!(mends, ["message 3: the result of `a` is not behind its call"]);
    }

    #[test]
    fn a_result_in_the_wrong_order_is_moved_and_two_lists_become_one() {
        let (messages, mends) = mended(
            vec![ask(&["a", "b", "c"]), tell(&[("b", "2"), ("a", "1")]), tell(&[("c", "3")])],
            Ending::Closed,
        );
        assert_eq!(messages[1..], [tell(&[("a", "1"), ("b", "2"), ("c", "3")])]);
        assert_eq!(mends, ["message 1: the result of `a` is not behind its call"]);
    }

    #[test]
    fn orphans_and_second_results_are_dropped() {
        let (messages, mends) = mended(
            vec![
                tell(&[("cut", "0")]),
                user("go"),
                ask(&["a"]),
                tell(&[("a", "first"), ("a", "second"), ("x", "?")]),
            ],
            Ending::Closed,
        );
        assert_eq!(messages, [user("go"), ask(&["a"]), tell(&[("a", "first")])]);
        assert_eq!(
            mends,
            [
                "message 0: a result of `cut`, which nobody called",
                "message 3: a second result of `a`",
                "message 3: a result of `x`, which nobody called",
            ]
        );
    }

    #[test]
    fn a_call_without_a_result_gets_one_that_says_so() {
        let (messages, mends) =
            mended(vec![ask(&["a", "b"]), tell(&[("b", "2")]), user("go on")], Ending::Open);
        let Message::Results(results) = &messages[1] else { panic!("results stand second") };
        assert_eq!(results[0], PastResult::error("a", NO_RESULT));
        assert_eq!(results[1], PastResult::new("b", "2"));
        assert_eq!(mends, ["message 0: the call `a` has no result"]);
    }

    #[test]
    fn the_last_calls_stay_open_only_when_asked() {
        let tail = vec![user("go"), ask(&["a", "b"]), tell(&[("a", "1")])];
        let (messages, mends) = mended(tail.clone(), Ending::Open);
        assert_eq!((messages, mends.len()), (tail.clone(), 0));
        let (messages, mends) = mended(tail, Ending::Closed);
        assert_eq!(mends, ["message 1: the call `b` has no result"]);
        assert!(matches!(&messages[2], Message::Results(both) if both.len() == 2));
    }

    #[test]
    fn calls_of_two_turns_with_one_id_are_told_apart_with_their_results() {
        let (messages, mends) = mended(
            vec![
                ask(&["x"]),
                tell(&[("x", "1")]),
                ask(&["x", "x"]),
                tell(&[("x", "2"), ("x", "3")]),
            ],
            Ending::Closed,
        );
        assert_eq!(
            messages,
            [
                ask(&["x"]),
                tell(&[("x", "1")]),
                ask(&["x_2", "x_3"]),
                tell(&[("x_2", "2"), ("x_3", "3")]),
            ]
        );
        assert_eq!(mends.len(), 2);
    }

    #[test]
    fn a_new_id_is_one_that_nobody_has() {
        let (messages, _) = mended(vec![ask(&["x", "x", "x_2"])], Ending::Open);
        assert_eq!(messages, [ask(&["x", "x_3", "x_2"])]);
    }

    #[test]
    fn a_result_goes_to_the_latest_call_that_waits() {
        let (messages, _) = mended(
            vec![ask(&["x"]), user("again"), ask(&["x"]), tell(&[("x", "1")])],
            Ending::Closed,
        );
        assert_eq!(messages[4], tell(&[("x_2", "1")]));
        assert!(matches!(&messages[1], Message::Results(made_up) if made_up[0].is_error));
    }

    #[test]
    fn a_result_before_its_call_is_believed_if_the_id_is_unique() {
        let (messages, mends) = mended(vec![tell(&[("a", "1")]), ask(&["a"])], Ending::Closed);
        assert_eq!(messages, [ask(&["a"]), tell(&[("a", "1")])]);
        assert_eq!(mends, ["message 0: the result of `a` is not behind its call"]);
        let (messages, mends) =
            mended(vec![tell(&[("a", "1")]), ask(&["a"]), user("?"), ask(&["a"])], Ending::Open);
        assert_eq!(messages.len(), 4);
        assert_eq!(mends[0], "message 0: a second result of `a`");
    }

    #[test]
    fn a_message_with_calls_that_goes_on_in_the_next_is_one() {
        let (messages, mends) = mended(
            vec![
                ask(&["a"]),
                Message::Results(vec![]),
                ask(&["b"]),
                tell(&[("a", "1"), ("b", "2")]),
            ],
            Ending::Closed,
        );
        assert_eq!(messages, [ask(&["a", "b"]), tell(&[("a", "1"), ("b", "2")])]);
        assert_eq!(mends, ["message 2: goes on where a message with calls ended"]);
    }

    #[test]
    fn the_strict_mode_names_every_pair_and_counts_the_rest() {
        let many: Vec<String> = (0..10).map(|n| format!("c{n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let transcript = Transcript { messages: vec![ask(&many), user("next")] };
        let error = transcript.check(Ending::Open).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadHistory);
        assert!(error.message().contains("message 0: the call `c7` has no result; and 2 more"));
        assert!(!error.message().contains("c8"));
    }
}

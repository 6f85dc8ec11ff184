//! One request that may ask its client before it is answered: a tool call, a prompt, a resource.
//!
//! A job is polled by the request that started it. If the client has to be asked by the protocol of
//! 2026-07-28, the request ends and the job is parked; the client's next request polls it on.
//! Dropping a job cancels its work.

use std::{collections::BTreeMap, future::Future, pin::Pin};

use haft::turn::ParkedCall;
use rmcp::{
    ErrorData,
    model::{CallToolResult, GetPromptResult, InputRequest, InputRequests, ReadResourceResult},
};
use serde_json::Value;
use tokio::sync::mpsc;

use super::{
    call_peer::{LogEntry, Message, Question},
    client_request::ClientRequest,
    parked_call::JobCall,
};

/// The answer of a job.
#[derive(Debug)]
pub(super) enum Answer {
    Tool(CallToolResult),
    Prompt(GetPromptResult),
    Resource(ReadResourceResult),
    /// The call was written down instead.
    Parked(Box<ParkedCall>),
}

/// What a job did last.
#[derive(Debug)]
pub(super) enum Step {
    /// It is finished.
    Done(Result<Answer, ErrorData>),
    /// It waits for answers to its open questions.
    Asked,
    /// It has an entry for the client's log.
    Log(LogEntry),
    /// It wants to go on as a task.
    BecomeTask,
}

/// The work of one request.
pub(super) struct Job {
    work: Pin<Box<dyn Future<Output = Result<Answer, ErrorData>> + Send>>,
    messages: mpsc::Receiver<Message>,
    finished: Option<Result<Answer, ErrorData>>,
    open: Vec<Question>,
    /// How many questions were asked, so that keys are unique over the lifetime of a job.
    asked: BTreeMap<String, u32>,
    /// Answers that came with the request.
    prepared: BTreeMap<String, Value>,
    /// The call of the runtime that it works on.
    call: Option<JobCall>,
}

impl Job {
    pub(super) fn new(
        messages: mpsc::Receiver<Message>,
        work: impl Future<Output = Result<Answer, ErrorData>> + Send + 'static,
    ) -> Self {
        Self {
            work: Box::pin(work),
            messages,
            finished: None,
            open: Vec::new(),
            asked: BTreeMap::new(),
            prepared: BTreeMap::new(),
            call: None,
        }
    }

    /// Makes a job that has its answer.
    pub(super) fn done(answer: Result<Answer, ErrorData>) -> Self {
        let (_, messages) = mpsc::channel(1);
        Self::new(messages, async move { answer })
    }

    /// Sets the call that it works on.
    pub(super) fn for_call(mut self, call: JobCall) -> Self {
        self.call = Some(call);
        self
    }

    /// Sets answers that came with the request.
    pub(super) fn prepared(mut self, answers: BTreeMap<String, Value>) -> Self {
        self.prepared = answers;
        self
    }

    /// Returns the call that it works on.
    pub(super) fn call(&self) -> Option<&JobCall> {
        self.call.as_ref()
    }

    /// Returns the call, if all that is open is the approval of a call that has not started.
    pub(super) fn parkable_call(&self) -> Option<&JobCall> {
        let is_parkable = !self.open.is_empty() && self.open.iter().all(|open| open.can_park);
        self.call().filter(|_| is_parkable)
    }

    /// Works to the end. Questions are abandoned.
    pub(super) async fn finish(mut self) -> Result<Answer, ErrorData> {
        loop {
            match self.step().await {
                Step::Done(answer) => return answer,
                Step::Asked => self.open.clear(),
                Step::Log(_) | Step::BecomeTask => {}
            }
        }
    }

    /// Works until there is something to say. What was sent before the end is returned before it.
    pub(super) async fn step(&mut self) -> Step {
        loop {
            if let Ok(message) = self.messages.try_recv() {
                match self.received(message) {
                    Some(step) => return step,
                    None => continue,
                }
            }
            if let Some(finished) = self.finished.take() {
                return Step::Done(finished);
            }
            tokio::select! {
                biased;
                Some(message) = self.messages.recv() => {
                    if let Some(step) = self.received(message) {
                        return step;
                    }
                }
                finished = &mut self.work => self.finished = Some(finished),
            }
        }
    }

    /// Takes in a message; `None` if there is nothing to say about it.
    fn received(&mut self, message: Message) -> Option<Step> {
        match message {
            Message::Log(entry) => Some(Step::Log(entry)),
            Message::BecomeTask => Some(Step::BecomeTask),
            Message::Ask(questions) => {
                for mut question in questions {
                    let times = self.asked.entry(question.key.clone()).or_default();
                    *times += 1;
                    if *times > 1 {
                        question.key = format!("{}-{times}", question.key);
                    }
                    self.open.push(question);
                }
                let prepared = std::mem::take(&mut self.prepared);
                (!self.answer(&prepared)).then_some(Step::Asked)
            }
        }
    }

    /// Returns the questions that wait for an answer, as the SDK has them.
    pub(super) fn input_requests(&self) -> InputRequests {
        let request = |question: &Question| {
            let request: InputRequest = question.request.to_sdk().ok()?;
            Some((question.key.clone(), request))
        };
        self.open.iter().filter_map(request).collect()
    }

    /// Returns the questions that wait for an answer.
    pub(super) fn open_requests(&self) -> Vec<(String, ClientRequest)> {
        self.open.iter().map(|open| (open.key.clone(), open.request.clone())).collect()
    }

    /// Passes on the answers that match a question; the others are ignored. Returns whether every
    /// question has its answer.
    pub(super) fn answer(&mut self, responses: &BTreeMap<String, Value>) -> bool {
        for question in std::mem::take(&mut self.open) {
            match responses.get(&question.key).filter(|given| question.request.accepts(given)) {
                Some(given) => {
                    let _ = question.answer.send(given.clone());
                }
                None => self.open.push(question),
            }
        }
        self.open.is_empty()
    }

    /// Drops a question: its asker learns that the client went away.
    pub(super) fn abandon(&mut self, key: &str) {
        self.open.retain(|question| question.key != key);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::server::call_peer::{CallPeer, ClientSupport, LogLevel};

    fn job<F: Future<Output = Result<Answer, ErrorData>> + Send + 'static>(
        work: impl FnOnce(CallPeer) -> F,
    ) -> Job {
        let all = ClientSupport { form: true, url: true, sampling: true, roots: true, tasks: true };
        let (peer, messages) = CallPeer::new(all, Some(LogLevel::Debug));
        Job::new(messages, work(peer))
    }

    fn text(text: String) -> Result<Answer, ErrorData> {
        Ok(Answer::Tool(CallToolResult::success(vec![rmcp::model::ContentBlock::text(text)])))
    }

    #[tokio::test]
    async fn question_waits_until_a_matching_answer_arrives() {
        let mut job = job(|peer| async move {
            let roots = peer.ask("roots", ClientRequest::roots()).await;
            text(format!("{roots:?}"))
        });
        assert!(matches!(job.step().await, Step::Asked));
        assert_eq!(job.input_requests().len(), 1);
        assert!(!job.answer(&[("other".into(), json!({"roots": []}))].into()));
        assert!(!job.answer(&[("roots".into(), json!(12345))].into()), "not an answer");
        assert!(job.answer(&[("roots".into(), json!({"roots": []}))].into()));
        assert!(matches!(job.step().await, Step::Done(Ok(_))));
    }

    #[tokio::test]
    async fn entries_that_were_logged_before_the_end_come_before_it() {
        let mut job = job(|peer| async move {
            peer.log(LogLevel::Info, "tool", json!("a"));
            text(String::new())
        });
        assert!(matches!(job.step().await, Step::Log(_)));
        assert!(matches!(job.step().await, Step::Done(Ok(_))));
    }

    #[tokio::test]
    async fn keys_are_unique_over_the_lifetime_of_a_job() {
        let mut job = job(|peer| async move {
            for _ in 0..2 {
                let _ = peer.ask("roots", ClientRequest::roots()).await;
            }
            text(String::new())
        });
        let roots = || json!({"roots": []});
        assert!(matches!(job.step().await, Step::Asked));
        assert!(job.answer(&[("roots".into(), roots())].into()));
        assert!(matches!(job.step().await, Step::Asked));
        assert_eq!(job.open_requests()[0].0, "roots-2");
        assert!(!job.answer(&[("roots".into(), roots())].into()), "an old answer is not reused");
    }
}

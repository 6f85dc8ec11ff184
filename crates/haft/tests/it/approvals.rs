//! Approvals: which approvers are asked, what an answer covers, and what happens to a late one.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use haft::{
    BoxFuture, Config, Error, Failure, FailureCode, Run, Runtime, RuntimeBuilder, ToolRegistry,
    ToolResult,
    approval::{
        ApprovalRequest, ApprovalResponse, ApprovalScope, Approver, GrantStore, SuggestedRules,
    },
    events::Event,
    hooks::{Hook, PreCallDecision},
    journal::MemoryJournal,
    policy::{
        Decision, Explanation, Guard, Policy, PolicyFingerprint, PolicyRequest, RuleStore, Verdict,
    },
    registry::ToolSource,
    tool::{BoxError, DynTool, Execution, ToolSpec},
    turn::ValidatedCall,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::kit::*;

const LONG_WAIT: Duration = Duration::from_secs(10_000);

/// An approver's answer to one question, its delay, and whether the approver is still there then.
type AnswerFn =
    dyn Fn(&ApprovalRequest<'_>) -> (Duration, Result<ApprovalResponse, Failure>) + Send + Sync;

type Replies = dyn Fn(&ApprovalRequest<'_>) -> ApprovalResponse + Send + Sync;

/// An approver. Records its questions, and those that were settled without it.
#[derive(Clone)]
struct Person {
    name: &'static str,
    says: Arc<AnswerFn>,
    notes: Arc<Mutex<Vec<String>>>,
}

impl Person {
    fn new(
        name: &'static str,
        says: impl Fn(&ApprovalRequest<'_>) -> ApprovalResponse + Send + Sync + 'static,
    ) -> Self {
        Self::after(name, Duration::ZERO, move |q| Ok(says(q)))
    }

    fn after(
        name: &'static str,
        time: Duration,
        says: impl Fn(&ApprovalRequest<'_>) -> Result<ApprovalResponse, Failure> + Send + Sync + 'static,
    ) -> Self {
        Self { name, says: Arc::new(move |q| (time, says(q))), notes: Arc::default() }
    }

    fn yes(name: &'static str) -> Self {
        Self::new(name, |_| ApprovalResponse::allow())
    }

    fn note(&self, text: String) {
        self.notes.lock().unwrap().push(text);
    }

    fn notes(&self) -> Vec<String> {
        self.notes.lock().unwrap().clone()
    }
}

impl Approver for Person {
    fn name(&self) -> &str {
        self.name
    }

    fn closed(&self, question: &ApprovalRequest<'_>, by: &str) {
        self.note(format!("{} answered by {by}", question.call.context().call_id()));
    }

    fn ask<'a>(
        &'a self,
        question: &'a ApprovalRequest<'a>,
    ) -> BoxFuture<'a, Result<ApprovalResponse, Failure>> {
        self.note(format!("asked {}", question.call.arguments()));
        Box::pin(async {
            let (time, answer) = (self.says)(question);
            tokio::time::sleep(time).await;
            answer
        })
    }
}

/// Rules that can be changed while an approver decides.
#[derive(Clone)]
struct Rules(Arc<RulesInner>);

struct RulesInner {
    revision: AtomicU64,
    /// A state that the verdict depends on: a symlink, a label.
    state: AtomicU64,
    decision: Mutex<Decision>,
    offers: AtomicBool,
    keeps: AtomicBool,
    /// Every call gets this as its `key`.
    key: Mutex<Option<&'static str>>,
}

impl Rules {
    fn new(decision: Decision) -> Self {
        Self(Arc::new(RulesInner {
            revision: AtomicU64::new(1),
            state: AtomicU64::new(1),
            decision: Mutex::new(decision),
            offers: AtomicBool::new(false),
            keeps: AtomicBool::new(true),
            key: Mutex::new(None),
        }))
    }

    fn decide(&self, decision: Decision) {
        *self.0.decision.lock().unwrap() = decision;
        self.0.revision.fetch_add(1, Ordering::SeqCst);
    }

    fn move_world(&self) {
        self.0.state.fetch_add(1, Ordering::SeqCst);
    }
}

impl Policy for Rules {
    fn decide(&self, _: &PolicyRequest<'_>) -> Verdict {
        let decision = self.0.decision.lock().unwrap().clone();
        Verdict::new(decision, "a person should look").by("haft.toml:3 `t(*)`")
    }

    fn fingerprint(&self, _: &PolicyRequest<'_>) -> PolicyFingerprint {
        PolicyFingerprint {
            revision: self.0.revision.load(Ordering::SeqCst),
            state: self.0.state.load(Ordering::SeqCst).to_string(),
        }
    }

    fn explain(&self, request: &PolicyRequest<'_>) -> Explanation {
        let mut explanation = Explanation::of(Policy::decide(self, request));
        explanation.smallest_change = Some("allow `t(*)`".to_owned());
        explanation
    }

    fn rule_store(&self) -> Option<&dyn RuleStore> {
        Some(self)
    }

    fn rewrite(&self, request: &PolicyRequest<'_>) -> Option<Value> {
        let key = (*self.0.key.lock().unwrap())?;
        let mut arguments = request.arguments.clone();
        arguments["key"] = json!(key);
        Some(arguments)
    }
}

impl RuleStore for Rules {
    fn suggest_for(&self, _: &PolicyRequest<'_>) -> Option<SuggestedRules> {
        let offers = self.0.offers.load(Ordering::SeqCst);
        offers
            .then(|| SuggestedRules { rules: vec!["t".to_owned()], file: "haft.local.toml".into() })
    }

    fn save(&self, _: &SuggestedRules) -> Result<(), Error> {
        if self.0.keeps.load(Ordering::SeqCst) {
            self.decide(Decision::Allow);
            return Ok(());
        }
        // The library has no public way to make an error, so another one is passed on.
        Err(Config::from_env([("HAFT_REPAIR", "read-only disk")]).unwrap_err())
    }
}

/// A tool that records the arguments it ran with.
fn tool(ran: &Arc<Mutex<Vec<Value>>>) -> DynTool {
    let ran = Arc::clone(ran);
    DynTool::new(write("t"), open_schema(), move |args, _| {
        ran.lock().unwrap().push(Value::clone(&args));
        async { "done" }
    })
}

struct Scene {
    runtime: Runtime,
    ran: Arc<Mutex<Vec<Value>>>,
    journal: MemoryJournal,
    events: Arc<Mutex<Vec<Event>>>,
}

impl Scene {
    fn new(rules: &Rules, people: &[&Person]) -> Self {
        Self::with(rules, people, |builder| builder)
    }

    fn with(
        rules: &Rules,
        people: &[&Person],
        more: impl FnOnce(RuntimeBuilder) -> RuntimeBuilder,
    ) -> Self {
        let ran = Arc::default();
        let journal = MemoryJournal::new(100);
        let events: Arc<Mutex<Vec<Event>>> = Arc::default();
        let seen = Arc::clone(&events);
        let mut builder = Runtime::builder()
            .registry(ToolRegistry::builder().add(tool(&ran)).build().unwrap())
            .policy(rules.clone())
            .journal(journal.clone())
            .observer(move |event: &Event| seen.lock().unwrap().push(event.clone()));
        for person in people {
            builder = builder.approver(Person::clone(person));
        }
        Self { runtime: more(builder).build().unwrap(), ran, journal, events }
    }

    async fn call(&self, run: &Run, x: &str) -> ToolResult {
        run.turn().await.unwrap().run(calls(&format!("t:{x}"))).await.pop().unwrap()
    }

    /// One call in a run of its own.
    async fn once(&self) -> ToolResult {
        self.call(&self.runtime.run(), "a").await
    }

    fn ran(&self) -> usize {
        self.ran.lock().unwrap().len()
    }

    /// What was asked, answered and refused, in order.
    fn log(&self) -> Vec<String> {
        let events = self.events.lock().unwrap();
        let lines = events.iter().filter_map(|event| {
            Some(match event {
                Event::Asked { .. } => "asked".to_owned(),
                Event::Answered { by, answer, comment, .. } => match comment {
                    Some(comment) => format!("{by}: {answer} ({comment})"),
                    None => format!("{by}: {answer}"),
                },
                Event::Rewritten { arguments, .. } => format!("rewritten {arguments}"),
                Event::Authorized { verdict, .. } => format!("permitted by {}", verdict.source),
                Event::Refused { verdict, .. } => format!("refused: {}", verdict.reason),
                Event::Problem { message, .. } => format!("problem: {message}"),
                _ => return None,
            })
        });
        lines.collect()
    }
}

fn code(answer: &ToolResult) -> Option<FailureCode> {
    answer.failure().map(Failure::code)
}

#[tokio::test(start_paused = true)]
async fn approvers_are_asked_in_parallel_and_the_first_answer_wins() {
    let slow =
        Person::after("the console", Duration::from_secs(9), |_| Ok(ApprovalResponse::Deny(None)));
    let quick =
        Person::after("the terminal", Duration::from_secs(1), |_| Ok(ApprovalResponse::allow()));
    let scene = Scene::new(&Rules::new(Decision::Ask), &[&slow, &quick]);
    assert_eq!(code(&scene.once().await), None);
    assert_eq!(slow.notes(), [r#"asked {"x":"a"}"#, "c1 answered by the terminal"]);
    assert_eq!(quick.notes(), [r#"asked {"x":"a"}"#]);
    assert_eq!(scene.log(), ["asked", "the terminal: allow", "permitted by the terminal"]);
    let record = &scene.journal.records()[0];
    assert_eq!(record.answered_by(), Some("the terminal"));
}

#[tokio::test(start_paused = true)]
async fn invalid_answer_is_ignored_while_other_approvers_are_open() {
    let grants = Arc::new(GrantStore::new().unwrap());
    let foreign = Arc::new(GrantStore::new().unwrap());
    let misfits: Vec<(&str, Box<Replies>)> = vec![
        ("input", Box::new(|_| ApprovalResponse::Input(json!("k")))),
        ("no such edit", Box::new(|_| ApprovalResponse::Edit(json!({"x": 1})))),
        ("no object", Box::new(|_| ApprovalResponse::Edit(json!(1)))),
        ("no grant", Box::new(|_| ApprovalResponse::Grant("haft1.nonsense".into()))),
        (
            "foreign grant",
            Box::new(move |q| {
                ApprovalResponse::Grant(foreign.issue(q.binding, ApprovalScope::Once, LONG_WAIT))
            }),
        ),
        (
            "always without an offer",
            Box::new(|_| ApprovalResponse::Allow { scope: ApprovalScope::Always, comment: None }),
        ),
    ];
    for (what, says) in misfits {
        let wrong = Person::new("wrong", says);
        let right =
            Person::after("right", Duration::from_secs(1), |_| Ok(ApprovalResponse::allow()));
        let rules = Rules::new(Decision::Ask);
        let both = Scene::with(&rules, &[&wrong, &right], |b| b.grants(Arc::clone(&grants)));
        assert_eq!(code(&both.once().await), None, "{what}");
        assert_eq!(wrong.notes()[1], "c1 answered by right", "{what}");
        let alone = Scene::with(&rules, &[&wrong], |b| b.grants(Arc::clone(&grants)));
        let answer = alone.once().await;
        let wanted = if what.starts_with("no ") && what != "no grant" {
            FailureCode::Declined
        } else {
            FailureCode::GuardFailed
        };
        assert_eq!(
            (code(&answer), answer.execution()),
            (Some(wanted), Execution::NotStarted),
            "{what}"
        );
        assert_eq!(alone.ran(), 0, "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn failing_approvers_are_dropped_and_none_left_means_deny() {
    let errs = Person::after("errs", Duration::ZERO, |_| Err(Failure::failed("gone")));
    let panics = Person::new("panics", |_| panic!("on purpose"));
    let late = Person::after("late", Duration::from_secs(60), |_| Ok(ApprovalResponse::allow()));
    let rules = Rules::new(Decision::Ask);
    let scene = Scene::new(&rules, &[&errs, &panics, &late]);
    assert_eq!(code(&scene.once().await), None, "one is enough");
    assert_eq!(
        errs.notes().len() + panics.notes().len(),
        2,
        "a dropped approver gets no more notices"
    );
    let scene = Scene::new(&rules, &[&errs, &panics]);
    let answer = scene.once().await;
    assert_eq!((code(&answer), scene.ran()), (Some(FailureCode::GuardFailed), 0));
    let cause = answer.failure().unwrap().cause().unwrap();
    assert!(cause.contains("errs: ") && cause.contains("panics: it panicked"), "{cause}");
}

#[tokio::test(start_paused = true)]
async fn approval_after_the_timeout_is_ignored() {
    let late = Person::after("late", LONG_WAIT, |_| Ok(ApprovalResponse::allow()));
    let hangs = Person::after("hangs", Duration::MAX, |_| Ok(ApprovalResponse::allow()));
    let scene = Scene::new(&Rules::new(Decision::Ask), &[&late, &hangs]);
    let began = tokio::time::Instant::now();
    let answer = scene.once().await;
    assert_eq!(
        (code(&answer), answer.execution()),
        (Some(FailureCode::ApprovalExpired), Execution::NotStarted)
    );
    assert_eq!(began.elapsed(), Config::default().approval_timeout);
    tokio::time::sleep(LONG_WAIT * 2).await;
    assert_eq!(scene.ran(), 0);
}

#[tokio::test(start_paused = true)]
async fn no_approver_means_deny_with_a_recorded_reason() {
    let scene = Scene::new(&Rules::new(Decision::Ask), &[]);
    let answer = scene.once().await;
    assert_eq!(code(&answer), Some(FailureCode::Denied));
    assert!(!answer.text().contains("haft.toml"), "the model does not get the rule");
    let record = &scene.journal.records()[0];
    let verdict = record.verdict().unwrap();
    assert_eq!((&verdict.decision, &*verdict.source), (&Decision::Deny, "haft.toml:3 `t(*)`"));
    assert_eq!(record.explanation().unwrap().smallest_change.as_deref(), Some("allow `t(*)`"));
}

#[tokio::test(start_paused = true)]
async fn denial_gives_the_model_the_reason_and_the_record_the_rule() {
    let scene = Scene::new(&Rules::new(Decision::Deny), &[&Person::yes("alice")]);
    let answer = scene.once().await;
    insta::assert_snapshot!(answer.text(), @r"
    denied: a person should look
    Next: continue without it, or report to the user what you would have done
    ");
    let record = &scene.journal.records()[0];
    assert_eq!(record.verdict().unwrap().source, "haft.toml:3 `t(*)`");
    assert!(record.intent.is_none());
    assert!(scene.events.lock().unwrap().iter().any(|event| matches!(
        event,
        Event::Refused { explanation, .. } if explanation.smallest_change.is_some()
    )));
}

#[tokio::test(start_paused = true)]
async fn call_cancelled_during_approval_never_runs() {
    let slow = Person::after("slow", Duration::from_secs(60), |_| Ok(ApprovalResponse::allow()));
    let scene = Scene::new(&Rules::new(Decision::Ask), &[&slow]);
    for queued in [false, true] {
        let run = scene.runtime.run();
        let other = scene.runtime.run();
        let first = async { if queued { code(&scene.call(&other, "first").await) } else { None } };
        let second = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            scene.call(&run, "second").await
        };
        let cancel = async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            run.cancel();
        };
        let (first, second, ()) = tokio::join!(first, second, cancel);
        assert_eq!(
            (code(&second), second.execution()),
            (Some(FailureCode::Cancelled), Execution::NotStarted)
        );
        assert_eq!(first, None, "the other one is not touched");
    }
    assert_eq!(scene.ran.lock().unwrap().as_slice(), [json!({"x": "first"})]);
}

#[tokio::test(start_paused = true)]
async fn approval_given_under_old_rules_is_authorized_again() {
    for (now, wanted, asked) in [
        (Decision::Allow, None, 1),
        (Decision::Deny, Some(FailureCode::Denied), 1),
        (Decision::Ask, None, 2),
    ] {
        let rules = Rules::new(Decision::Ask);
        let (changes, then) = (rules.clone(), now.clone());
        let once = AtomicBool::new(true);
        let person = Person::new("alice", move |_| {
            if once.swap(false, Ordering::SeqCst) {
                changes.decide(then.clone());
            }
            ApprovalResponse::allow()
        });
        let scene = Scene::new(&rules, &[&person]);
        assert_eq!(code(&scene.once().await), wanted, "{now:?}");
        assert_eq!(person.notes().len(), asked, "{now:?}");
        assert_eq!(scene.ran(), usize::from(wanted.is_none()), "{now:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn symlink_changed_during_approval_is_asked_again_a_bounded_number_of_times() {
    let rules = Rules::new(Decision::Ask);
    let moves = rules.clone();
    let person = Person::new("alice", move |_| {
        moves.move_world();
        ApprovalResponse::allow()
    });
    let scene = Scene::new(&rules, &[&person]);
    let answer = scene.once().await;
    assert_eq!(
        (code(&answer), answer.execution()),
        (Some(FailureCode::Denied), Execution::NotStarted)
    );
    assert_eq!((person.notes().len(), scene.ran()), (3, 0));
}

#[tokio::test(start_paused = true)]
async fn tool_redefined_during_approval_does_not_run() {
    struct Shifting(AtomicUsize);
    impl ToolSource for Shifting {
        fn name(&self) -> &str {
            "s"
        }

        fn tools(&self) -> BoxFuture<'_, Result<Vec<DynTool>, BoxError>> {
            let n = self.0.fetch_add(1, Ordering::SeqCst);
            let spec = ToolSpec::new("t", format!("Does something, as of {n}."));
            Box::pin(async { Ok(vec![quick(spec)]) })
        }
    }
    impl std::fmt::Debug for Shifting {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("Shifting")
        }
    }
    let person = Person::after("alice", Duration::from_secs(60), |_| Ok(ApprovalResponse::allow()));
    let source = Shifting(AtomicUsize::new(0));
    let runtime = Runtime::builder()
        .registry(ToolRegistry::builder().source(source).build().unwrap())
        .approver(person.clone())
        .build()
        .unwrap();
    let run = runtime.run();
    let turn = run.turn().await.unwrap();
    let (answers, _) = tokio::join!(turn.run(calls("s__t:a")), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        run.turn().await.unwrap()
    });
    assert_eq!(ends(&answers), ["c1 denied"]);
    assert!(answers[0].text().contains("the tool definition changed"));
    assert_eq!(person.notes().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn grant_is_valid_for_its_call_and_only_once() {
    let grants = Arc::new(GrantStore::new().unwrap());
    let last: Arc<Mutex<Option<String>>> = Arc::default();
    let signs = (Arc::clone(&grants), Arc::clone(&last));
    // Signs the first question, and returns the same grant for every later one (replay).
    let replays = Person::new("replays", move |q| {
        let mut last = signs.1.lock().unwrap();
        let token = last
            .get_or_insert_with(|| signs.0.issue(q.binding, ApprovalScope::Once, LONG_WAIT))
            .clone();
        ApprovalResponse::Grant(token)
    });
    let rules = Rules::new(Decision::Ask);
    let scene = Scene::with(&rules, &[&replays], |b| b.grants(Arc::clone(&grants)));
    let run = scene.runtime.run();
    assert_eq!(code(&scene.call(&run, "a").await), None);
    assert_eq!(code(&scene.call(&run, "a").await), Some(FailureCode::GuardFailed), "replay");
    assert_eq!(
        code(&scene.call(&run, "b").await),
        Some(FailureCode::GuardFailed),
        "other arguments"
    );
    assert_eq!(code(&scene.call(&scene.runtime.run(), "a").await), Some(FailureCode::GuardFailed));
    assert_eq!(scene.ran(), 1);
    assert_eq!(scene.log()[1], "replays: allow by grant");
}

#[tokio::test(start_paused = true)]
async fn session_approval_covers_exactly_this_call() {
    let person = Person::new("alice", |_| ApprovalResponse::Allow {
        scope: ApprovalScope::Session,
        comment: None,
    });
    let rules = Rules::new(Decision::Ask);
    let scene = Scene::new(&rules, &[&person]);
    let asked = || person.notes().len();
    let run = scene.runtime.run();
    scene.call(&run, "a").await;
    scene.call(&run, "a").await;
    assert_eq!((asked(), scene.ran()), (1, 2), "the same call is not asked about twice");
    assert_eq!(scene.log().last().unwrap(), "permitted by alice");
    scene.call(&run, "b").await;
    assert_eq!(asked(), 2, "other arguments");
    scene.call(&scene.runtime.run(), "a").await;
    assert_eq!(asked(), 3, "another run");
    rules.move_world();
    scene.call(&run, "a").await;
    assert_eq!(asked(), 4, "another world");
    rules.decide(Decision::Ask);
    scene.call(&run, "a").await;
    assert_eq!(asked(), 5, "other rules");
    rules.decide(Decision::Deny);
    assert_eq!(code(&scene.call(&run, "a").await), Some(FailureCode::Denied), "never over a deny");
    assert_eq!(asked(), 5);
}

#[tokio::test(start_paused = true)]
async fn session_approvals_are_shared_between_runs_but_not_directories() {
    let person = Person::new("alice", |_| ApprovalResponse::Allow {
        scope: ApprovalScope::Session,
        comment: None,
    });
    let scene = Scene::new(&Rules::new(Decision::Ask), &[&person]);
    let start = |session: &str, directory: &str| {
        scene.runtime.run_builder().session(session).working_directory(directory).start()
    };
    for (session, directory, asked) in
        [("s", "/w", 1), ("s", "/w", 1), ("s", "/other", 2), ("s2", "/w", 3), ("s2", "/w", 3)]
    {
        assert_eq!(code(&scene.call(&start(session, directory), "a").await), None);
        assert_eq!(person.notes().len(), asked, "{session} {directory}");
    }
}

#[tokio::test(start_paused = true)]
async fn new_guard_question_is_not_answered_by_an_earlier_approval() {
    struct Wary(Arc<AtomicBool>);
    impl Guard for Wary {
        fn name(&self) -> &str {
            "wary"
        }

        fn decide<'a>(
            &'a self,
            _: &'a ValidatedCall,
        ) -> BoxFuture<'a, Result<Option<Verdict>, Failure>> {
            let asks = self.0.load(Ordering::SeqCst);
            Box::pin(async move { Ok(asks.then(|| Verdict::ask("it is late"))) })
        }
    }
    let asks = Arc::new(AtomicBool::new(false));
    let person = Person::new("alice", |_| ApprovalResponse::Allow {
        scope: ApprovalScope::Session,
        comment: None,
    });
    let scene =
        Scene::with(&Rules::new(Decision::Ask), &[&person], |b| b.guard(Wary(Arc::clone(&asks))));
    let run = scene.runtime.run();
    scene.call(&run, "a").await;
    asks.store(true, Ordering::SeqCst);
    scene.call(&run, "a").await;
    assert_eq!(person.notes().len(), 2);
    let record = scene.journal.records().pop().unwrap();
    let checks = &record.explanation().unwrap().checks;
    let wary = checks.iter().find(|check| check.check == "guard `wary`").unwrap();
    assert_eq!((wary.result.as_str(), wary.why.as_str()), ("ask", "it is late"));
}

#[tokio::test(start_paused = true)]
async fn one_shot_call_without_a_session_has_no_session_scope() {
    let offered: Arc<Mutex<Vec<bool>>> = Arc::default();
    let sees = Arc::clone(&offered);
    let person = Person::new("alice", move |q| {
        sees.lock().unwrap().push(q.session);
        ApprovalResponse::Allow { scope: ApprovalScope::Session, comment: None }
    });
    let scene = Scene::new(&Rules::new(Decision::Ask), &[&person]);
    let alone = scene.runtime.call("t", json!({})).await.unwrap_err();
    assert_eq!(alone.code(), FailureCode::GuardFailed);
    let shot = scene.runtime.run_builder().one_shot().start();
    assert_eq!(code(&scene.call(&shot, "a").await), Some(FailureCode::GuardFailed));
    let within = scene.runtime.run_builder().one_shot().session("s").start();
    assert_eq!(code(&scene.call(&within, "a").await), None);
    assert_eq!(*offered.lock().unwrap(), [false, false, true]);
}

#[tokio::test(start_paused = true)]
async fn always_answer_settles_all_queued_questions() {
    let rules = Rules::new(Decision::Ask);
    rules.0.offers.store(true, Ordering::SeqCst);
    let waiting: Arc<Mutex<Vec<usize>>> = Arc::default();
    let sees = Arc::clone(&waiting);
    let person = Person {
        name: "alice",
        says: Arc::new(move |q| {
            assert_eq!(q.offer.unwrap().rules, ["t"]);
            sees.lock().unwrap().push(q.waiting);
            let answer = ApprovalResponse::Allow { scope: ApprovalScope::Always, comment: None };
            (Duration::from_secs(1), Ok(answer))
        }),
        notes: Arc::default(),
    };
    let scene = Scene::new(&rules, &[&person]);
    let runs: Vec<_> = (0..5).map(|_| scene.runtime.run()).collect();
    let all = runs.iter().map(|run| scene.call(run, "a"));
    let answers = futures_util::future::join_all(all).await;
    assert!(answers.iter().all(|answer| code(answer).is_none()));
    assert_eq!((person.notes().len(), scene.ran()), (1, 5));
}

#[tokio::test(start_paused = true)]
async fn approval_that_cannot_be_saved_is_reported_and_holds_once() {
    let rules = Rules::new(Decision::Ask);
    rules.0.offers.store(true, Ordering::SeqCst);
    rules.0.keeps.store(false, Ordering::SeqCst);
    let person = Person::new("alice", |_| ApprovalResponse::Allow {
        scope: ApprovalScope::Always,
        comment: None,
    });
    let scene = Scene::new(&rules, &[&person]);
    let run = scene.runtime.run();
    assert_eq!(code(&scene.call(&run, "a").await), None);
    let log = scene.log();
    assert!(log.iter().any(|line| line.starts_with("problem: the rule that alice approved")));
    assert_eq!(code(&scene.call(&run, "a").await), None);
    assert_eq!(person.notes().len(), 2, "it was only a yes to the first");
}

#[tokio::test(start_paused = true)]
async fn questions_are_queued_and_queue_time_does_not_count_as_answer_time() {
    let open = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&open);
    let person = Person::after("alice", Duration::from_secs(200), move |_| {
        counts.fetch_add(1, Ordering::SeqCst);
        Ok(ApprovalResponse::allow())
    });
    let scene = Scene::new(&Rules::new(Decision::Ask), &[&person]);
    let runs: Vec<_> = (0..4).map(|_| scene.runtime.run()).collect();
    let all = futures_util::future::join_all(runs.iter().map(|run| scene.call(run, "a")));
    let look = async {
        tokio::time::sleep(Duration::from_secs(100)).await;
        assert_eq!(open.load(Ordering::SeqCst), 1, "one at a time");
    };
    let began = tokio::time::Instant::now();
    let (answers, ()) = tokio::join!(all, look);
    // The last one waited 600 seconds, twice the answer timeout.
    assert!(answers.iter().all(|answer| code(answer).is_none()));
    assert_eq!(began.elapsed(), Duration::from_secs(800));
}

#[tokio::test(start_paused = true)]
async fn too_many_questions_are_denied() {
    let slow = Person::after("slow", Duration::from_secs(1), |_| Ok(ApprovalResponse::allow()));
    let mut config = Config::default();
    config.max_waiting_prompts = 2;
    let rules = Rules::new(Decision::Ask);
    let scene = Scene::with(&rules, &[&slow], |b| b.config(config));
    let runs: Vec<_> = (0..5).map(|_| scene.runtime.run()).collect();
    let answers = futures_util::future::join_all(runs.iter().map(|run| scene.call(run, "a"))).await;
    let denied: Vec<_> = answers.iter().filter(|a| code(a) == Some(FailureCode::Denied)).collect();
    assert_eq!((denied.len(), scene.ran()), (2, 3));
    assert!(denied[0].text().contains("too many approval requests"));
    assert!(scene.log().iter().any(|line| line.contains("too many approval requests")));

    let mut config = Config::default();
    config.max_prompts = 2;
    let quick = Person::yes("quick");
    let scene = Scene::with(&rules, &[&quick], |b| b.config(config));
    let run = scene.runtime.run();
    for wanted in [None, None, Some(FailureCode::Denied)] {
        assert_eq!(code(&scene.call(&run, "a").await), wanted);
    }
    assert_eq!(code(&scene.call(&scene.runtime.run(), "a").await), None, "another run may ask");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(code(&scene.call(&run, "a").await), None, "a minute later it may ask again");
}

#[tokio::test(start_paused = true)]
async fn repeated_denials_stop_further_questions() {
    let person = Person::new("alice", |q| match q.call.arguments()["x"].as_str() {
        Some("fine") => ApprovalResponse::allow(),
        _ => ApprovalResponse::Deny(Some("not this".into())),
    });
    let scene = Scene::new(&Rules::new(Decision::Ask), &[&person]);
    let run = scene.runtime.run();
    for x in ["a", "b", "c", "d", "fine", "a", "b", "c", "d"] {
        let wanted = (x != "fine").then_some(FailureCode::Declined);
        let answer = scene.call(&run, x).await;
        assert_eq!(code(&answer), wanted);
        assert!(!answer.text().contains("stop calling"));
    }
    let fifth = scene.call(&run, "e").await;
    assert!(fifth.text().contains("not this") && fifth.text().contains("stop calling `t`"));
    let asked = person.notes().len();
    let unasked = scene.call(&run, "fine").await;
    assert_eq!(code(&unasked), Some(FailureCode::Declined));
    assert!(unasked.text().contains("stop calling `t`"));
    assert_eq!(person.notes().len(), asked, "no approver was asked");
    assert_eq!(code(&scene.call(&scene.runtime.run(), "fine").await), None);
}

#[tokio::test(start_paused = true)]
async fn approver_may_answer_in_place_of_the_tool() {
    let person = Person::new("alice", |_| ApprovalResponse::ReplaceResult("it is 42".into()));
    let scene = Scene::new(&Rules::new(Decision::Ask), &[&person]);
    let answer = scene.once().await;
    assert_eq!((&*answer.text(), answer.is_error()), ("it is 42", false));
    assert_eq!((answer.execution(), answer.replaced_by()), (Execution::NotStarted, Some("alice")));
    assert_eq!(answer.label(), haft::taint::Label::CLEAN, "nothing ran that could taint it");
    assert_eq!(scene.ran(), 0);
    assert_eq!(scene.log(), ["asked", "alice: answer instead (it is 42)"]);
    let record = &scene.journal.records()[0];
    assert!(record.intent.is_none());
    assert_eq!(record.end.as_ref().unwrap().execution, Execution::NotStarted);
    assert_eq!(record.answered_by(), Some("alice"));
}

#[tokio::test(start_paused = true)]
async fn required_input_is_asked_once_and_a_repeated_request_denies() {
    for (insists, wanted) in [(false, None), (true, Some(FailureCode::Denied))] {
        let guarded = quick(read("t")).with_guard(move |args, _| {
            let wants = insists || args.get("key").is_none();
            Ok(wants.then(|| Verdict::need_input("key", "which key?")))
        });
        let person = Person::new("alice", |_| ApprovalResponse::Input(json!("k")));
        let runtime = permissive(vec![guarded]).approver(person.clone()).build().unwrap();
        let got = runtime.call("t", json!({})).await;
        assert_eq!(got.as_ref().err().map(Failure::code), wanted);
        assert_eq!(person.notes().len(), 1, "a person is asked for it once");
    }
}

#[tokio::test(start_paused = true)]
async fn edited_arguments_are_authorized_again_without_the_hooks_allow() {
    struct Vouches;
    impl Hook for Vouches {
        fn name(&self) -> &str {
            "vouches"
        }

        fn before<'a>(
            &'a self,
            call: &'a ValidatedCall,
        ) -> BoxFuture<'a, Result<PreCallDecision, Failure>> {
            let is_known = call.arguments()["x"] == "a";
            let response = if is_known {
                PreCallDecision::verdict(Verdict::allow("known"))
            } else {
                PreCallDecision::proceed()
            };
            Box::pin(async { Ok(response) })
        }
    }
    let person = Person::new("alice", |q| match q.call.arguments()["x"].as_str() {
        Some("a") => ApprovalResponse::Edit(json!({"x": "b"})),
        _ => {
            assert!(q.call.hook_allow().is_none());
            ApprovalResponse::allow()
        }
    });
    let scene =
        Scene::with(&Rules::new(Decision::Ask), &[&person], |builder| builder.hook(Vouches));
    assert_eq!(code(&scene.once().await), None);
    assert_eq!(person.notes(), [r#"asked {"x":"a"}"#, r#"asked {"x":"b"}"#]);
    assert_eq!(*scene.ran.lock().unwrap(), [json!({"x": "b"})]);
    assert_eq!(
        scene.log(),
        ["asked", "alice: edit", "asked", "alice: allow", "permitted by alice"]
    );
}

#[tokio::test(start_paused = true)]
async fn rule_rewrites_arguments_before_authorization() {
    let rules = Rules::new(Decision::Allow);
    *rules.0.key.lock().unwrap() = Some("safe");
    let scene = Scene::new(&rules, &[]);
    assert_eq!(code(&scene.once().await), None);
    assert_eq!(*scene.ran.lock().unwrap(), [json!({"x": "a", "key": "safe"})]);
    assert_eq!(scene.log()[0], r#"rewritten {"x":"a","key":"safe"}"#);

    let asks = Rules::new(Decision::Ask);
    *asks.0.key.lock().unwrap() = Some("safe");
    let person = Person::yes("alice");
    let scene = Scene::new(&asks, &[&person]);
    assert_eq!(code(&scene.once().await), None);
    assert_eq!(person.notes(), [r#"asked {"x":"a","key":"safe"}"#], "asked as it would run");
}

#[tokio::test(start_paused = true)]
async fn zero_concurrent_questions_is_a_build_error() {
    let mut config = Config::default();
    config.prompts_at_once = 0;
    let error = Runtime::builder().config(config).build().unwrap_err();
    assert!(error.to_string().contains("`prompts_at_once`"));
}

/// What a random approver does with a question.
#[derive(Debug, Clone, Copy)]
enum Whim {
    Yes,
    ForSession,
    Edit(u8),
    No,
    Instead,
    Misfit,
    Forged,
    Error,
    Panic,
    Hang,
    /// Changes the state that the verdict depends on, then approves.
    ChangeStateThenAllow,
}

fn whim() -> impl Strategy<Value = Whim> {
    prop_oneof![
        3 => Just(Whim::Yes),
        1 => Just(Whim::ForSession),
        2 => (0..3u8).prop_map(Whim::Edit),
        1 => Just(Whim::No),
        1 => Just(Whim::Instead),
        1 => Just(Whim::Misfit),
        1 => Just(Whim::Forged),
        1 => Just(Whim::Error),
        1 => Just(Whim::Panic),
        1 => Just(Whim::Hang),
        1 => Just(Whim::ChangeStateThenAllow),
    ]
}

/// Acts randomly on each question, and records what it approved.
struct RandomApprover {
    whims: Vec<(Whim, u64)>,
    next: AtomicUsize,
    rules: Rules,
    yes: Arc<Mutex<Vec<Value>>>,
}

impl Approver for RandomApprover {
    fn ask<'a>(
        &'a self,
        question: &'a ApprovalRequest<'a>,
    ) -> BoxFuture<'a, Result<ApprovalResponse, Failure>> {
        Box::pin(async {
            let at = self.next.fetch_add(1, Ordering::SeqCst);
            let (whim, delay) = self.whims[at % self.whims.len()];
            tokio::time::sleep(Duration::from_secs(delay)).await;
            let yes = |lasting| {
                self.yes.lock().unwrap().push(Value::clone(question.call.arguments()));
                Ok(ApprovalResponse::Allow { scope: lasting, comment: None })
            };
            match whim {
                Whim::Yes => yes(ApprovalScope::Once),
                Whim::ForSession => yes(ApprovalScope::Session),
                Whim::Edit(n) => Ok(ApprovalResponse::Edit(json!({"x": format!("e{n}")}))),
                Whim::No => Ok(ApprovalResponse::Deny(None)),
                Whim::Instead => Ok(ApprovalResponse::ReplaceResult("instead".into())),
                Whim::Misfit => Ok(ApprovalResponse::Input(json!(1))),
                Whim::Forged => {
                    let forger = GrantStore::with_key([0; 32], Duration::ZERO).unwrap();
                    Ok(ApprovalResponse::Grant(forger.issue(
                        question.binding,
                        ApprovalScope::Once,
                        LONG_WAIT,
                    )))
                }
                Whim::Error => Err(Failure::failed("gone")),
                Whim::Panic => panic!("on purpose"),
                Whim::Hang => std::future::pending().await,
                Whim::ChangeStateThenAllow => {
                    self.rules.move_world();
                    yes(ApprovalScope::Once)
                }
            }
        })
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn racing_approvers_run_a_body_at_most_once_and_only_as_approved(
        people in prop::collection::vec(prop::collection::vec((whim(), 0..4u64), 1..4), 1..4),
        at_once in 1..3usize,
    ) {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.unwrap().block_on(async {
            let rules = Rules::new(Decision::Ask);
            let yes: Arc<Mutex<Vec<Value>>> = Arc::default();
            let mut config = Config::default();
            config.prompts_at_once = at_once;
            let scene = Scene::with(&rules, &[], |mut builder| {
                for whims in people {
                    let (rules, yes) = (rules.clone(), Arc::clone(&yes));
                    builder = builder.approver(RandomApprover {
                        whims,
                        next: AtomicUsize::new(0),
                        rules,
                        yes,
                    });
                }
                builder.config(config)
            });
            let runs: Vec<_> = (0..3).map(|_| scene.runtime.run()).collect();
            let names = ["a", "b", "c"];
            let all = runs.iter().zip(names).map(|(run, x)| scene.call(run, x));
            let answers = futures_util::future::join_all(all).await;
            let ran = scene.ran.lock().unwrap().clone();
            let succeeded = answers.iter().filter(|a| a.execution() == Execution::Completed).count();
            assert_eq!(ran.len(), succeeded, "each body ran once, and only where the answer says so");
            // Every run used an approval of its own for exactly those arguments.
            let mut left = yes.lock().unwrap().clone();
            for arguments in &ran {
                let at = left.iter().position(|yes| yes == arguments);
                left.swap_remove(at.expect("every execution has an approval"));
            }
            let ends = scene.events.lock().unwrap().iter().filter(|e| e.is_terminal()).count();
            assert_eq!(ends, 3, "every call is answered exactly once");
        });
    }
}

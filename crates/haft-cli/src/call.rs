//! `haft call`: runs one call through the whole pipeline.
//!
//! In: a tool name and arguments as a person types them. Out: the result on stdout, or the failure
//! on stderr, and the exit code of the failure.

use std::{
    io::IsTerminal as _,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use haft::{
    Failure, FailureCode, Runtime, ToolRegistry, ToolResult, events::Event, policy::Decision,
};
use serde_json::{Value, json};

use crate::{
    args, builtin,
    called_tool::CalledTool,
    error::{Problem, print_error},
    host_env::HostEnv,
    live::{self, Live},
    result, session,
    setup::Setup,
    style,
    trace::Trace,
};

/// The id of the only call.
const ID: &str = "call";

pub(crate) fn run(args: &args::Call, setup: Setup, host: &HostEnv) -> Result<ExitCode, Problem> {
    args.location.refuse_wide_default(host)?;
    let asked = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&asked);
    let person = session::Person::at_terminal(&setup, args.yes);
    let called = CalledTool::find(args, &setup, &person)?;
    let registry = called.add_to(builtin::registry(&setup, &person)?).build()?;
    let runtime =
        setup.runtime(Runtime::builder()).registry(registry).observer(move |event: &Event| {
            let asks = match event {
                Event::Asked { .. } => true,
                // No approver was available.
                Event::Refused { explanation, .. } => explanation.verdict.decision == Decision::Ask,
                _ => false,
            };
            if asks {
                seen.store(true, Ordering::Relaxed);
            }
        });
    let trace = args.trace.then(Trace::default);
    let runtime = match &trace {
        Some(trace) => runtime.observer(trace.clone()),
        None => runtime,
    };
    #[cfg(feature = "otlp")]
    let (runtime, sending) = crate::otlp::start(args.otlp.as_deref(), &setup, runtime)?;
    let runtime = builtin::note_workspace(runtime, &args.location, &setup);
    let runtime = result::store_large_results(runtime, &args.artifacts, host)?;
    let runtime =
        session::add_approver(runtime, &setup, person, args.decisions.as_deref())?.build()?;
    let called = called.read_own(builtin::find(runtime.registry(), &args.tool))?;
    let run = setup.run(&runtime).start();
    let events = live::events(&runtime, !args.output.json && !args.rules.quiet);
    let (answers, shown) = session::block_on(async move {
        let live = events.map(Live::start);
        let turn = run.turn().await?;
        let answers = called.call(ID, turn).await?;
        Ok::<_, Problem>((answers, live::finish(live).await))
    })??;
    #[cfg(feature = "otlp")]
    crate::otlp::finish(sending);
    let Some(answer) = answers.first() else {
        return Err(Problem::new("the call has no result; please report this bug"));
    };
    // With `--yes` the approval is already given, so it is not suggested.
    let asked = asked.load(Ordering::Relaxed) && !args.yes;
    let hints = match answer.failure().map(Failure::code) {
        Some(FailureCode::UnknownTool) => unknown_tool(args, &setup, runtime.registry()),
        _ => hints(answer, asked),
    };
    if args.output.json {
        let mut whole = as_json(answer, &hints);
        if let (Some(trace), Some(whole)) = (&trace, whole.as_object_mut()) {
            whole.insert("trace".to_owned(), trace.to_json(ID));
        }
        style::print(format_args!("{whole}\n"))?;
    } else if let Some(output) = answer.output() {
        let (rest, is_less) = shown.rest_of(ID, output);
        if is_less && rest.blocks.is_empty() {
            style::message(style::paint(style::DIM, "done; the result is the output above"));
        }
        let mut text = rest.to_text();
        if std::io::stdout().is_terminal() {
            text = style::visible(&text);
        }
        style::print(if text.ends_with('\n') || text.is_empty() { text } else { text + "\n" })?;
    }
    let failure = answer.failure();
    result::report_lost_results(&answers, &args.artifacts, host);
    if !args.output.json {
        if let Some(failure) = failure {
            explain(answer, failure, &hints, shown.is_whole(ID));
        }
        if let Some(trace) = trace {
            trace.print(ID);
        }
    }
    Ok(failure.map_or(ExitCode::SUCCESS, |failure| ExitCode::from(failure.code().exit_code())))
}

/// The result as JSON. The next step of a failure is written for a model; here it is the hints for
/// a person.
fn as_json(answer: &ToolResult, hints: &[String]) -> Value {
    let mut whole = serde_json::to_value(answer).unwrap_or_default();
    if let Some(failure) = whole.get_mut("failure").and_then(Value::as_object_mut) {
        let next = hints.iter().cloned().reduce(|all, hint| {
            let between = if all.ends_with('?') { " " } else { "; " };
            format!("{all}{between}{hint}")
        });
        failure.insert("next".to_owned(), json!(next));
    }
    let key = if answer.is_error() { "failure" } else { "output" };
    let mut answered = json!({
        "tool": answer.tool_name(),
        "ok": !answer.is_error(),
        key: whole.get_mut(key).map(Value::take),
    });
    if let Some(truncation) = whole.get_mut("truncation").map(Value::take).filter(|t| !t.is_null())
    {
        answered["truncation"] = truncation;
    }
    if let Some(tier) = answer.tier() {
        answered["tier"] = tier.clone();
    }
    answered
}

/// The hints for a tool that does not exist.
fn unknown_tool(args: &args::Call, setup: &Setup, registry: &ToolRegistry) -> Vec<String> {
    if let Some(missing) = builtin::missing_hint(&args.tool, setup) {
        return vec![missing];
    }
    let similar = style::nearest(&args.tool, registry.own().map(|entry| entry.name().as_str()));
    let list = match &args.location.workspace {
        Some(workspace) => format!("haft tools list --workspace {}", workspace.display()),
        None => "haft tools list".to_owned(),
    };
    let similar = similar.map(|name| format!("did you mean `{name}`?"));
    similar.into_iter().chain([format!("`{list}` lists the tools")]).collect()
}

/// The hints for a person. The next step of a failure is written for a model, so it is printed only
/// where a tool wrote it and it does not speak of a user.
fn hints(answer: &ToolResult, asked: bool) -> Vec<String> {
    let Some(failure) = answer.failure() else { return Vec::new() };
    let show = format!("haft tools show {}", answer.tool_name());
    let hint = match failure.code() {
        FailureCode::Denied if asked => {
            let yes = "`--yes` approves this call".to_owned();
            let classified = "`haft shell explain` shows how a command is classified".to_owned();
            let is_shell = answer.tool_name() == "shell";
            return if is_shell { vec![yes, classified] } else { vec![yes] };
        }
        FailureCode::BadArguments | FailureCode::UnparseableArguments => {
            format!("`{show}` lists the arguments")
        }
        FailureCode::NotOffered => {
            format!("`haft explain {}` shows why", answer.requested_name())
        }
        FailureCode::NeedsInteraction => "run the command at a terminal".to_owned(),
        FailureCode::RateLimited | FailureCode::CircuitOpen => "try again later".to_owned(),
        FailureCode::TimedOut | FailureCode::DeadlinePassed => {
            format!("`{show}` shows the limits of the tool")
        }
        FailureCode::Panicked | FailureCode::BadOutput => "this is a bug in the tool".to_owned(),
        FailureCode::UnknownOutcome | FailureCode::Unrecorded => {
            "the tool may have run: check its effects before you call it again".to_owned()
        }
        FailureCode::SandboxUnavailable => "`haft doctor` shows what is missing".to_owned(),
        FailureCode::ToolFailed | FailureCode::InvalidValue | FailureCode::OutsideWorkspace => {
            let is_for_people = |next: &&str| !next.contains("the user");
            return failure.next().filter(is_for_people).map(str::to_owned).into_iter().collect();
        }
        _ => return Vec::new(),
    };
    vec![hint]
}

/// Prints the failure for a person, with the cause that only the operator may see.
fn explain(answer: &ToolResult, failure: &Failure, hints: &[String], is_shown: bool) {
    print_error(&format!("{}: {}", failure.code(), failure.message()), hints);
    if let Some(source) = failure.source() {
        let source = source.to_string();
        if source != failure.message() {
            let source = style::visible(&source).replace('\n', " ");
            style::message(style::paint(style::DIM, format_args!("cause: {source}")));
        }
    }
    let output = answer.interrupted_output();
    if is_shown && !output.is_empty() {
        style::message("Output before the interruption is above.");
    } else if !output.is_empty() {
        let count = style::count(output.chars().count(), "character");
        style::message(format_args!("Output before the interruption ({count}):"));
        crate::screen::message(style::visible(output));
    }
}

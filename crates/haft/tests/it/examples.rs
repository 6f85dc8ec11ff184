//! Runs every example and reads what it says, to the last line.
//!
//! `cargo test` builds the examples beside this binary. `cargo test --test it` alone does not, so a
//! missing one is built here, in the same profile and the same target directory.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// Returns where cargo puts an example: `<target>/<profile>/examples`, next to our own `deps`.
fn binary(name: &str) -> PathBuf {
    let own = std::env::current_exe().expect("a test has a path");
    let profile = own.ancestors().nth(2).expect("it stands in <target>/<profile>/deps");
    let file = format!("{name}{}", std::env::consts::EXE_SUFFIX);
    let example = profile.join("examples").join(file);
    if !example.exists() {
        build(name, profile);
    }
    example
}

fn build(name: &str, profile: &Path) {
    let word = match profile.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(other) => other,
    };
    let built = Command::new(env!("CARGO"))
        .args(["build", "--locked", "--package", "haft", "--example", name, "--profile", word])
        .arg("--target-dir")
        .arg(profile.parent().expect("a profile stands in a target directory"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
}

/// Runs an example that must succeed and keep stderr empty, and returns what it printed.
fn output(name: &str) -> String {
    let ran = Command::new(binary(name)).output().expect("the example runs");
    let talk = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success() && talk.is_empty(), "{name}: {}\n{talk}", ran.status);
    String::from_utf8(ran.stdout).expect("it prints text")
}

#[test]
fn a_first_tool_answers_and_refuses() {
    insta::assert_snapshot!(output("first_tool"), @r#"
    count_words({"text":"a call leaves by one door"})
      6 words
    count_words({"text":"a call leaves by one door","min_length":4})
      3 words
    count_words({"txt":"a call leaves by one door","min_length":0})
      bad_arguments: 3 problems with the arguments:
      /: `text` is missing; you sent `txt`, the name is `text`
      /: unknown `txt` (did you mean `text`?); valid names are `text`, `min_length`
      /min_length: expected an integer from 1 to 50; got 0 (integer)
      Next: call `count_words` again with this fixed
    erase_notes({})
      denied: it must be asked about (it does not say that it only reads), and nobody can be asked here
      Next: go on without it, or tell the user what you would have done
      (because ask: it does not say that it only reads (the default))
    count_words("as itself", 1) = 2 words
    "#);
}

#[test]
fn state_and_side_values_reach_the_tools_and_not_the_schema() {
    insta::assert_snapshot!(output("state"), @r#"
    without a limit: tool `ledger_book` needs a `State<state::Limit>`
    hint: give it to the runtime's builder with `.state(value)`
    ledger_book takes {"amount":{"type":"integer","format":"int64","description":"Whole euros; negative takes away."}}
    ledger_list takes {}
    ada: 2 tools offered
      ledger_book booked 40 for Ada
      ledger_list [40]
    bob: 2 tools offered
      ledger_book tool_failed: 4000 is more than 100 at once
      Next: book it in smaller parts
      ledger_list []
    nobody: 0 tools offered
      ledger_list not_offered: `ledger_list` is not offered: the host did not supply what it needs
      Next: use one of the tools you were given
      ledger_lst unknown_tool: there is no tool called `ledger_lst`
      Next: use one of the tools you were given
    "#);
}

#[test]
fn an_own_loop_goes_on_until_the_model_stops() {
    insta::assert_snapshot!(output("own_loop"), @r#"
    user: Where is it warmer, Paris or Oslo?
    model: I look at both cities.
    model: get_temperature {"city":"Paris","day":"today"}
    model: get_temperatur {"city":"Oslo","day":"today"}
    model: get_temperature {"city":"Oslo","day":"now"}
    tools: toolu_1 19
    tools: toolu_2 unknown_tool: there is no tool called `get_temperatur`
           Next: did you mean `get_temperature`? call it by that name
    tools: toolu_3 bad_arguments: /day: expected text matching `^(today|tomorrow)$`; got "now" (string)
           Next: call `get_temperature` again with this fixed
    model: get_temperature {"city":"Oslo","day":"today"}
    model: send_message {"text":"It is warmer in Paris."}
    tools: toolu_4 7
    tools: toolu_5 denied: it must be asked about (it does not say that it only reads), and nobody can be asked here
           Next: go on without it, or tell the user what you would have done
    model: Paris, with 19 degrees against 7 in Oslo. I was not allowed to send you a message.
    6 messages; what the run has read is Untrusted
    "#);
}

#[test]
fn a_history_is_moved_and_what_changed_is_told() {
    insta::assert_snapshot!(output("move_history"), @r#"
    strict: calls and results do not pair up: message 2: the call `toolu_01B` has no result
    hint: `Transcript::mend` repairs this and says how
    note: mended message 2: the call `toolu_01B` has no result
    note: the call `toolu_01A` is `az0kpLmVo` here
    note: the call `toolu_01B` is `Mql2mKRXY` here
    note: message 2: `thinking` of anthropic is left out
    note: before message 4: added `(the results were read)`
    {"role":"system","content":"Be brief."}
    {"role":"user","content":"How warm is it in Oslo and Rome?"}
    {"role":"assistant","content":"","tool_calls":[{"id":"az0kpLmVo","type":"function","function":{"name":"warmth","arguments":"{\"city\":\"Oslo\"}"}},{"id":"Mql2mKRXY","type":"function","function":{"name":"warmth","arguments":"{\"city\":\"Rome\"}"}}]}
    {"role":"tool","tool_call_id":"az0kpLmVo","name":"warmth","content":"7"}
    {"role":"tool","tool_call_id":"Mql2mKRXY","name":"warmth","content":"[this call failed]\nunknown_outcome: no result of this call was recorded, and nobody knows whether it ran"}
    {"role":"assistant","content":"(the results were read)"}
    {"role":"user","content":"Are you still there?"}
    "#);
}

#[test]
fn a_loop_sends_what_was_recorded_to_two_providers() {
    insta::assert_snapshot!(output("provider_loop"), @r#"
    anthropic
    user: When can I go from Lyon to Turin, and from which track?
    model: I look for trains, also from the other station.
    model: find_trains({"from":"Lyon","to":"Turin"})
    model: find_trains({"from":"Lyon Part-Dieu","to":"Turin","most":3})
    tools: toolu_01A ["TGV 9243 at 8:33"]
    tools: toolu_01B tool_failed: no train goes from Lyon Part-Dieu to Turin
           Next: try a larger city nearby
    model: find_track({"train":"TGV 9243"})
    tools: toolu_02 TGV 9243 leaves from track 5
    model: Take the TGV 9243 at 8:33. It leaves from track 5.

    openai-responses
    user: When can I go from Lyon to Turin, and from which track?
    model: (reasoning)
    model: find_trains({"from":"Lyon","to":"Turin","most":null})
    model: find_trains({"from":"Lyon Part-Dieu","to":"Turin","most":3})
    tools: call_01A ["TGV 9243 at 8:33"]
    tools: call_01B tool_failed: no train goes from Lyon Part-Dieu to Turin
           Next: try a larger city nearby
    model: find_track({"train":"TGV 9243"})
    tools: call_02 TGV 9243 leaves from track 5
    model: Take the TGV 9243 at 8:33. It leaves from track 5.
    "#);
}

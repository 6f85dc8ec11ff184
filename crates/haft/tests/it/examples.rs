//! Runs every example and reads what it says, to the last line.

use std::process::Command;

use crate::built;

/// Runs an example that must succeed and keep stderr empty, and returns what it printed.
fn output(name: &str) -> String {
    let ran = Command::new(built::binary("haft", name)).output().expect("the example runs");
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
fn a_large_result_is_kept_and_read_in_parts() {
    insta::assert_snapshot!(output("large_results"), @r#"
    > list_trains
    [{"train":100,"hour":0,"to":"Oslo"},{"train":101,"hour":1,"to":"Turku"},{"train":102,"hour":2,"to":"Oslo"},{"train":103,"hour":3,"to":"Turku"},"… 295 more items …",{"train":399,"hour":11,"to":"Turku"}]
    [… cut: 201 of 10821 characters are shown; all of it (300 items on 302 lines) is kept as ID; read parts with read_result {"id": "ID", "pointer": "/…"} …]

    > read_result
    {"train":220,"hour":0,"to":"Oslo"}
    [ID: `/120`: all of it]

    > read_result
    300: {"train":398,"hour":10,"to":"Oslo"},
    301: {"train":399,"hour":11,"to":"Turku"}
    [ID: 2 of 2 matching lines]

    > read_result
    {"train":100,"hour":0,"to":"Oslo"}
    {"train":101,"hour":1,"to":"Turku"}
    [ID: 3 columns (train | hour | to), 2 of 300 rows]

    > read_result
    invalid_value: there is no result `ID` here, or it is no longer kept
    Next: use an id from a result of this conversation, or call the tool again

    the operator reads "Oslo" of 11122 bytes
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

#[test]
fn rules_allow_ask_deny_and_say_why() {
    insta::assert_snapshot!(output("rules"), @r#"
    offered: read_file, shell

    shell({"command":"git log --oneline"})
      (here `git log --oneline` would run)
    shell({"command":"git log && git push origin main"})
      denied: it must be asked about (shared branches are looked at first), and nobody can be asked here
      Next: go on without it, or tell the user what you would have done
      (because ask: shared branches are looked at first (haft.toml:9 ask "Bash(git push *)"))
    shell({"command":"timeout 5 rm -r build"})
      denied: nothing is deleted here, and secrets stay where they are
      Next: go on without it, or tell the user what you would have done
      (because deny: nothing is deleted here, and secrets stay where they are (haft.toml:15 deny "Bash(rm *)"))
    shell({"command":"$TOOL x"})
      denied: nothing is deleted here, and secrets stay where they are
      Next: go on without it, or tell the user what you would have done
      (because deny: nothing is deleted here, and secrets stay where they are (haft.toml:15 deny "Bash(rm *)"))
    read_file({"path":"src/../.env"})
      denied: nothing is deleted here, and secrets stay where they are
      Next: go on without it, or tell the user what you would have done
      (because deny: nothing is deleted here, and secrets stay where they are (haft.toml:15 deny "Read(./.env)"))
    format_disk({})
      not_offered: `format_disk` is not offered: nothing is deleted here, and secrets stay where they are
      Next: use one of the tools you were given

    ask: shared branches are looked at first
      decided by  haft.toml:9 ask "Bash(git push *)"
      touches     run `git push origin main`
                  may destroy
      has read    call haft-1 of `shell`
      check       admit        passed    the arguments fit
      check       deny rules   no match  none of 3 is about such a call
      check       input rules  no match  there are none
      check       ask rules    ask       haft.toml:9 ask "Bash(git push *)" it matches
      check       verdict      ask       ask: shared branches are looked at first (haft.toml:9 ask "Bash(git push *)")
      nearly      haft.toml:3 allow "Bash(git status *)": the tool matches, `git push origin main` is not `git status *`
      to flip it  add `except = ["Bash(git push origin main)"]` to the rule at haft.toml:9, and a rule `match = "Bash(git push origin main)"` with `decision = "allow"`, or let the tool say `read_only` and `capabilities(…)`, if that is true

    haft.toml:3:1: unknown key `decison` in a rule
    hint: did you mean `decision`? Known are `id`, `match`, `decision`, `input`, `except`, `reason`, `priority`, `subject`, `when`, `rewrite`, `enabled`, `test`
    haft.toml:1:1: a rule without `decision`
    hint: add `decision = "allow"`, "ask", "deny" or "need_input"
    "#);
}

#[test]
fn whoever_is_asked_allows_edits_answers_and_declines() {
    insta::assert_snapshot!(output("approvals"), @r#"
    allowed once, with a comment: pay Ada 5
      asked about pay({"to":"Ada","amount":5}): it does not say that it only reads
      answered: Allow { lasting: Once, comment: Some("the last one today") }
      model reads: paid 5 to Ada
                   [note from the host: A person allowed this call and said: the last one today]
    edited, then allowed: pay Ada 1000
      asked about pay({"to":"Ada","amount":1000}): it does not say that it only reads
      answered: Edit(Object {"to": String("Ada"), "amount": Number(10)})
      asked about pay({"to":"Ada","amount":10}): it does not say that it only reads
      answered: Allow { lasting: Once, comment: None }
      model reads: paid 10 to Ada
    answered instead: pay Ada 30
      asked about pay({"to":"Ada","amount":30}): it does not say that it only reads
      answered: Instead("already paid in cash")
      model reads: already paid in cash
    declined: pay Ada 40
      asked about pay({"to":"Ada","amount":40}): it does not say that it only reads
      answered: Deny(Some("not on a Friday"))
      model reads: declined: a person said no: not on a Friday
                   Next: go on without it, or tell the user what you would have done
    allowed for the session: pay Ada 7
      asked about pay({"to":"Ada","amount":7}): it does not say that it only reads
      answered: Allow { lasting: Session, comment: None }
      model reads: paid 7 to Ada
    the same again: nobody is asked: pay Ada 7
      model reads: paid 7 to Ada
    another amount: no answer is left, so it does not run: pay Ada 8
      asked about pay({"to":"Ada","amount":8}): it does not say that it only reads
      model reads: guard_failed: whether this call is allowed could not be found out, so it is not
    "#);
}

#[test]
fn a_model_that_obeys_what_it_reads_has_no_effect_nobody_approved() {
    insta::assert_snapshot!(output("obedient"), @r#"
    model: fetch({"_url": "https://news.example"})
    model: mail({"to": "eve@evil.example"})
    model: pay({"to": "DE4471190"})
    model: delete({"file": "notes.txt"})
      asked: `eve@evil.example` comes from untrusted text: call haft-1 of `fetch`
      asked: `DE4471190` comes from untrusted text: call haft-1 of `fetch`
      asked: `notes.txt` comes from untrusted text: call haft-1 of `fetch`
    happened: []
    in a clean run: ["mail to bob@friends.example"]
    "#);
}

//! Runs every example and compares its whole output.

use std::process::Command;

use crate::built;

/// Runs an example that must succeed with an empty stderr, and returns its stdout.
fn output(name: &str) -> String {
    let ran = Command::new(built::binary("haft", name)).output().expect("the example runs");
    let talk = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success() && talk.is_empty(), "{name}: {}\n{talk}", ran.status);
    String::from_utf8(ran.stdout).expect("it prints text")
}

#[test]
fn first_tool_runs_and_refuses_invalid_calls() {
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
      denied: this call needs approval (it is not declared read-only), and no approver is configured
      Next: continue without it, or report to the user what you would have done
      (because ask: it is not declared read-only (the default))
    count_words("as itself", 1) = 2 words
    "#);
}

#[test]
fn state_reaches_the_tools_and_not_the_schema() {
    insta::assert_snapshot!(output("state"), @r#"
    without a limit: tool `ledger_book` needs a `State<state::Limit>`
    hint: pass it to the runtime's builder with `.state(value)`
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
      Next: call a tool from your list of tools
      ledger_lst unknown_tool: there is no tool called `ledger_lst`
      Next: call a tool from your list of tools
    "#);
}

#[test]
fn notebook_plans_reads_together_and_its_guard_denies() {
    let out = output("notebook");
    for line in [
        "batch 1: read_note (first call)",
        "batch 1: read_note (reads run concurrently)",
        "a: Water the beans.",
        "c: deleted `trip`",
        "d: denied: the note `garden` is pinned",
    ] {
        assert!(out.contains(line), "{line}\n{out}");
    }
}

#[test]
fn layers_retry_cache_and_rate_limit() {
    insta::assert_snapshot!(output("layers"), @r"
    tides has these layers
      cache: 1 hour, for one user
      breaker: 30 seconds after 5 failures within that time
      retry: 3 attempts in all
      rate: 2/minute
      timeout: 5 seconds
    Brest, which fails once
      cache: Miss
      tool_failed, attempt 2 in 2s
      waited 2s (Backoff)
      Brest: high water at noon (attempt 2)
      after 2s
    Brest again
      cache: Hit
      Brest: high water at noon (attempt 2)
      after 0ns
    Calais, behind the other two
      cache: Miss
      waited 28s (Rate)
      Calais: high water at noon (attempt 1)
      after 28s
    Dover, in a hurry
      cache: Miss
      rate_limited: `tides` may be called 2 times per minute; this call would have to wait 30 seconds, longer than its deadline allows, so the tool was not run
      Next: call it again in 30 seconds
      after 0ns
    ");
}

#[test]
fn large_result_is_stored_and_read_in_pages() {
    insta::assert_snapshot!(output("large_results"), @r#"
    > list_trains
    [{"train":100,"hour":0,"to":"Oslo"},{"train":101,"hour":1,"to":"Turku"},{"train":102,"hour":2,"to":"Oslo"},{"train":103,"hour":3,"to":"Turku"},"… 295 more items …",{"train":399,"hour":11,"to":"Turku"}]
    [… truncated: 201 of 10821 characters shown; all (300 items on 302 lines) is stored as ID; read parts with read_result {"id": "ID", "pointer": "/…"} …]

    > read_result
    {"train":220,"hour":0,"to":"Oslo"}
    [ID: `/120`: all of it]

    > read_result
    300: {"train":398,"hour":10,"to":"Oslo"},
    301: {"train":399,"hour":11,"to":"Turku"}
    [ID: 2 of 2 matching lines]

    > read_result
    {"train":100,"hour":0,"to":"Oslo"},
    {"train":101,"hour":1,"to":"Turku"},
    [ID: lines 2 to 3 of 302; continue with offset 4]

    > read_result
    invalid_value: there is no result `ID`, or it has expired
    Next: use an id from a result of this conversation, or call the tool again

    the operator reads "Oslo" of 11122 bytes
    "#);
}

#[test]
fn own_loop_runs_until_the_model_stops() {
    insta::assert_snapshot!(output("own_loop"), @r#"
    system: Every tool result is enclosed in two markers, `[haft ID tool=NAME ...]` and `[/haft ID]` …
    user: Where is it warmer, Paris or Oslo?
    model: I look at both cities.
    model: get_temperature {"city":"Paris","day":"today"}
    model: get_temperatur {"city":"Oslo","day":"today"}
    model: get_temperature {"city":"Oslo","day":"now"}
    tools: toolu_1 [haft 0000000000 tool=get_temperature label=untrusted/internal chars=2]
           19
           [/haft 0000000000]
    tools: toolu_2 [haft 0000000001 tool=get_temperatur from=host error=unknown_tool chars=113]
           unknown_tool: there is no tool called `get_temperatur`
           Next: did you mean `get_temperature`? call it by that name
           [/haft 0000000001]
    tools: toolu_3 [haft 0000000002 tool=get_temperature from=host error=bad_arguments chars=135]
           bad_arguments: /day: expected text matching `^(today|tomorrow)$`; got "now" (string)
           Next: call `get_temperature` again with this fixed
           [/haft 0000000002]
    model: get_temperature {"city":"Oslo","day":"today"}
    model: send_message {"text":"It is warmer in Paris."}
    tools: toolu_4 [haft 0000000003 tool=get_temperature label=untrusted/internal chars=1]
           7
           [/haft 0000000003]
    tools: toolu_5 [haft 0000000004 tool=send_message from=host error=denied chars=168]
           denied: this call needs approval (it is not declared read-only), and no approver is configured
           Next: continue without it, or report to the user what you would have done
           [/haft 0000000004]
    model: Paris, with 19 degrees against 7 in Oslo. I was not allowed to send you a message.
    6 messages; what the run has read is Untrusted
    "#);
}

#[test]
fn history_is_converted_and_the_changes_are_printed() {
    insta::assert_snapshot!(output("move_history"), @r#"
    strict: calls and results do not pair up: message 2: the call `toolu_01B` has no result
    hint: `Transcript::repair` fixes this and says how
    changed: repaired message 2: the call `toolu_01B` has no result
    changed: the call `toolu_01A` is `az0kpLmVo` here
    changed: the call `toolu_01B` is `Mql2mKRXY` here
    changed: message 2: `thinking` of anthropic is left out
    changed: before message 4: added `(the results were read)`
    {"role":"system","content":"Be brief."}
    {"role":"user","content":"How warm is it in Oslo and Rome?"}
    {"role":"assistant","content":"","tool_calls":[{"id":"az0kpLmVo","type":"function","function":{"name":"warmth","arguments":"{\"city\":\"Oslo\"}"}},{"id":"Mql2mKRXY","type":"function","function":{"name":"warmth","arguments":"{\"city\":\"Rome\"}"}}]}
    {"role":"tool","tool_call_id":"az0kpLmVo","name":"warmth","content":"7"}
    {"role":"tool","tool_call_id":"Mql2mKRXY","name":"warmth","content":"[this call failed]\nunknown_outcome: no result of this call was recorded; it may or may not have run"}
    {"role":"assistant","content":"(the results were read)"}
    {"role":"user","content":"Are you still there?"}
    "#);
}

#[test]
fn provider_loop_sends_the_recorded_requests_to_two_providers() {
    insta::assert_snapshot!(output("provider_loop"), @r#"
    anthropic
    user: When can I go from Lyon to Turin, and from which track?
    model: I look for trains, also from the other station.
    model: find_trains({"from":"Lyon","to":"Turin"})
    model: find_trains({"from":"Lyon Part-Dieu","to":"Turin","most":3})
    tools: toolu_01A [haft 0000000000 tool=find_trains label=untrusted/internal chars=20]
           ["TGV 9243 at 8:33"]
           [/haft 0000000000]
    tools: toolu_01B [haft 0000000001 tool=find_trains label=untrusted/internal error=tool_failed chars=86]
           tool_failed: no train goes from Lyon Part-Dieu to Turin
           Next: try a larger city nearby
           [/haft 0000000001]
    model: find_track({"train":"TGV 9243"})
    tools: toolu_02 [haft 0000000002 tool=find_track label=untrusted/internal chars=28]
           TGV 9243 leaves from track 5
           [/haft 0000000002]
    model: Take the TGV 9243 at 8:33. It leaves from track 5.

    openai-responses
    user: When can I go from Lyon to Turin, and from which track?
    model: (reasoning)
    model: find_trains({"from":"Lyon","to":"Turin","most":null})
    model: find_trains({"from":"Lyon Part-Dieu","to":"Turin","most":3})
    tools: call_01A [haft 0000000000 tool=find_trains label=untrusted/internal chars=20]
           ["TGV 9243 at 8:33"]
           [/haft 0000000000]
    tools: call_01B [haft 0000000001 tool=find_trains label=untrusted/internal error=tool_failed chars=86]
           tool_failed: no train goes from Lyon Part-Dieu to Turin
           Next: try a larger city nearby
           [/haft 0000000001]
    model: find_track({"train":"TGV 9243"})
    tools: call_02 [haft 0000000002 tool=find_track label=untrusted/internal chars=28]
           TGV 9243 leaves from track 5
           [/haft 0000000002]
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
      denied: this call needs approval (shared branches are looked at first), and no approver is configured
      Next: continue without it, or report to the user what you would have done
      (because ask: shared branches are looked at first (haft.toml:9 ask "Bash(git push *)"))
    shell({"command":"timeout 5 rm -r build"})
      denied: nothing is deleted here, and secrets stay where they are
      Next: continue without it, or report to the user what you would have done
      (because deny: nothing is deleted here, and secrets stay where they are (haft.toml:15 deny "Bash(rm *)"))
    shell({"command":"$TOOL x"})
      denied: this call needs approval (a rule may deny it (nothing is deleted here, and secrets stay where they are), because of `<unknown> x`: a part of the command is known only when it runs), and no approver is configured
      Next: continue without it, or report to the user what you would have done
      (because ask: a rule may deny it (nothing is deleted here, and secrets stay where they are), because of `<unknown> x`: a part of the command is known only when it runs (haft.toml:15 deny "Bash(rm *)"))
    read_file({"path":"src/../.env"})
      denied: nothing is deleted here, and secrets stay where they are
      Next: continue without it, or report to the user what you would have done
      (because deny: nothing is deleted here, and secrets stay where they are (haft.toml:15 deny "Read(./.env)"))
    format_disk({})
      not_offered: `format_disk` is not offered: nothing is deleted here, and secrets stay where they are
      Next: call a tool from your list of tools

    ask: shared branches are looked at first
      decided by  haft.toml:9 ask "Bash(git push *)"
      touches     run `git push origin main`
      has read    call haft-1 of `shell`
      check       admit        passed    the arguments fit
      check       deny rules   no match  none of 3 is for such a call
      check       input rules  no match  there are none
      check       ask rules    ask       haft.toml:9 ask "Bash(git push *)" it matches
      check       verdict      ask       ask: shared branches are looked at first (haft.toml:9 ask "Bash(git push *)")
      nearly      haft.toml:3 allow "Bash(git status *)": the tool matches, `git push origin main` is not `git status *`
      to flip it  add `except = ["Bash(git push origin main)"]` to the rule at haft.toml:9, and a rule `match = "Bash(git push origin main)"` with `decision = "allow"`, or declare `read_only` and `capabilities(…)` in the tool, if that is true

    haft.toml:1:1: a rule without `decision`
    hint: add `decision = "allow"`, "ask", "deny" or "need_input"
    haft.toml:3:1: unknown key `decison` in a rule
    hint: did you mean `decision`? Known keys: `id`, `match`, `decision`, `input`, `except`, `reason`, `priority`, `subject`, `when`, `rewrite`, `network`, `enabled`, `test`
    "#);
}

#[test]
fn approver_allows_edits_answers_and_denies() {
    insta::assert_snapshot!(output("approvals"), @r#"
    allowed once, with a comment: pay Ada 5
      asked about pay({"to":"Ada","amount":5}): it is not declared read-only
      answered: Allow { scope: Once, comment: Some("the last one today") }
      model reads: paid 5 to Ada
                   [note from the host: A person approved this call with the comment: the last one today]
    edited, then allowed: pay Ada 1000
      asked about pay({"to":"Ada","amount":1000}): it is not declared read-only
      answered: Edit(Object {"to": String("Ada"), "amount": Number(10)})
      asked about pay({"to":"Ada","amount":10}): it is not declared read-only
      answered: Allow { scope: Once, comment: None }
      model reads: paid 10 to Ada
    answered instead: pay Ada 30
      asked about pay({"to":"Ada","amount":30}): it is not declared read-only
      answered: ReplaceResult("already paid in cash")
      model reads: already paid in cash
    declined: pay Ada 40
      asked about pay({"to":"Ada","amount":40}): it is not declared read-only
      answered: Deny(Some("not on a Friday"))
      model reads: declined: a person denied this call: not on a Friday
                   Next: continue without it, or report to the user what you would have done
    allowed for the session: pay Ada 7
      asked about pay({"to":"Ada","amount":7}): it is not declared read-only
      answered: Allow { scope: Session, comment: None }
      model reads: paid 7 to Ada
    the same again: no question: pay Ada 7
      model reads: paid 7 to Ada
    another amount: no answer is left, so it does not run: pay Ada 8
      asked about pay({"to":"Ada","amount":8}): it is not declared read-only
      model reads: guard_failed: the approval failed, so this call is not allowed
    "#);
}

#[test]
fn background_work_continues_and_each_result_is_delivered_once() {
    insta::assert_snapshot!(output("background"), @r#"
    model calls build({"part":"library"})
      reads: {"task_id":"task-1","tool_name":"build","status":"running","poll_after_s":5,"summary":"building library","resume_hint":"continue with something else; call `check_task` for the result when you need it"}
    model calls check_task({"task_id":"task-1","wait_s":10})
      a>1: compiling
      task-1 ended: None
      reads: library is built
    model calls build({"part":"command"})
      reads: {"task_id":"task-2","tool_name":"build","status":"running","poll_after_s":5,"summary":"building command","resume_hint":"continue with something else; call `check_task` for the result when you need it"}
    model calls build({"part":"docs"})
      reads: {"task_id":"task-3","tool_name":"build","status":"running","poll_after_s":5,"summary":"building docs","resume_hint":"continue with something else; call `check_task` for the result when you need it"}
      a>1: compiling
      a>1: compiling
      task-2 ended: None
    loop adds: task-2: command is built
    outstanding: ["building docs"]
      task-3 ended: Some(Cancelled)
    loop adds: task-3: cancelled: the run was cancelled
    "#);
}

#[test]
fn prompt_injected_model_has_no_unapproved_effect() {
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

#[test]
fn secrets_reach_only_the_body() {
    insta::assert_snapshot!(output("secrets"), @r#"
    send_mail({"to":"bob","password":"secret://mail"})
      logged in with 13 characters ([REDACTED:secret/mail:13]), wrote to bob
    send_mail({"to":"bob","password":"secret://bank"})
      invalid_value: `send_mail` has no secret called `bank`
      Next: use the name of a configured secret, or ask the user for its name
    show_setup({})
      user=ada password=[REDACTED:secret/mail:13] basic=YWRhOm[REDACTED:secret/mail:16]U= debug=Secret(hidden)
    read_file({"path":".env"})
      # .env
      DATABASE_URL=postgres://app:[REDACTED:url-password:9]@db/main
      RETRIES=3
    read_file({"path":"secret://mail"})
      denied: `read_file` does not declare `capabilities(secrets)`, so it cannot use secrets
    "#);
}

#[test]
fn slow_subscriber_misses_progress_but_no_terminal_event() {
    insta::assert_snapshot!(output("observability"), @r"
    the stream
       1 to 47: missed 47, of them 40 notes and 0 ends
      48 run-1 turn 1: copy ok
      49 to 54: missed 6, of them 0 notes and 0 ends
      57 run-1 turn 2: copy tool_failed
      64 run-1 turn 3: erase denied
    the records that failed, newest first
      erase by ada: this call needs approval (it is not declared read-only), and no approver is configured, attempts 0, because deny: this call needs approval (it is not declared read-only), and no approver is configured (the default)
      copy by ada: there is nothing to copy, attempts 1, because allow: it is read-only, without network or secrets (the default)
    and one that went well: 40 files copied
    ");
}

#[test]
fn first_agent_answers_after_a_wrong_argument() {
    insta::assert_snapshot!(output("first_agent"), @r"
    completed: Oslo has 717710 people, Bergen 291940.
    turn 1 a population: ok
    turn 1 b population: bad_arguments
    turn 2 c population: ok
    3 turns, 3 calls
    ");
}

#[test]
fn agent_keeps_state_across_messages() {
    insta::assert_snapshot!(output("agent_state"), @r#"
    user: Four pears, please.
    shop: Added: 4 × pear, entry 1.
    user: What do I have?
    shop: The basket has ["4 × pear"].
    8 messages in one run
    "#);
}

#[test]
fn agent_waits_for_an_approval_in_code() {
    insta::assert_snapshot!(output("agent_approval"), @r#"
    may it send to ada@example.org? (it is not declared read-only)
    may it send to all@example.org? (it is not declared read-only)
    completed: Ada is invited. I did not write to everyone.
    a ran; answered by Some("the office manager")
    b did not run; answered by Some("the office manager")
    "#);
}

#[test]
fn agent_streams_text_calls_and_a_steering_message() {
    insta::assert_snapshot!(output("agent_stream"), @r#"
    text      "I search "
    text      "the log."
    call      a search_log
    arguments {"word": 
    arguments "timeout"}
    permitted it is read-only, without network or secrets
    running   a
    finished  a
    user      Only the count.
    text      "There are "
    text      "2 timeouts."
    completed after 2 turns
    answer: There are 2 timeouts.
    "#);
}

#[test]
fn agent_runs_on_a_model_of_the_host() {
    insta::assert_snapshot!(output("agent_own_model"), @r#"
    request: 2 messages, tools "add"
    request: 4 messages, tools "add"
    completed: It is 42.
    "#);
}

#[test]
fn many_tools_are_searched_and_loaded() {
    insta::assert_snapshot!(output("many_tools"), @r"
    902 tools, 900 deferred
    2297 tokens instead of 76810
    export the invoice report: invoice_export_report, calendar_export_report
    payroll owner: calendar_archive_owner, calendar_count_owner
    completed: contract 7: sign draft done; meter 3: count entry done
    turn 1 tool_search: ok
    turn 2 contract_sign_draft: ok
    turn 3 meter_count_entry: bad_arguments
    turn 4 meter_count_entry: ok
    ");
}

#[test]
fn coordinator_and_workers_share_a_registry() {
    insta::assert_snapshot!(output("coordinator"), @r"
    run-1: a turn with 2 tools
    run-1.1: a turn with 1 tools
    run-1.1: a turn with 1 tools
    run-1.1: a turn with 1 tools
    run-1: a turn with 2 tools
    run-1.2: a turn with 1 tools
    run-1.2: a turn with 1 tools
    run-1: a turn with 2 tools
    completed: 1814, from the archive. The note is saved.
    the coordinator has read Untrusted text
    ");
}

#[test]
fn agent_ends_at_each_limit() {
    insta::assert_snapshot!(output("agent_budget"), @r"
    turns: failed, a limit was reached: all turns of this run are used
      3 turns, 3 calls, 3000 tokens, 12600 millionths
    tokens: failed, a limit was reached: the next model call needs more tokens than the 1000 that are left for this run
      9 turns, 9 calls, 9000 tokens, 37800 millionths
    money: failed, a limit was reached: the next model call needs more money (in millionths) than the 2200 that are left for this run
      9 turns, 9 calls, 9000 tokens, 37800 millionths
    time: failed, a limit was reached: the time limit of this run, 0 s, has passed
      0 turns, 0 calls, 0 tokens, 0 millionths
    without a price: the run has a money limit, and the price of the model `script` is unknown
    ");
}

#[test]
fn agent_is_resumed_by_another_process() {
    insta::assert_snapshot!(output("agent_resume"), @r#"
    waiting: a call waits for approval
      deploy {"version":"1.4.2"}: it is not declared read-only
    another process approves:
      completed: Done: 1.4.2 is live.
    "#);
}

#[test]
fn agent_run_is_recorded_and_replayed() {
    insta::assert_snapshot!(output("agent_records"), @r"
    completed: I may not delete customers.
    a find_customer: Some(Completed); allow: it is read-only, without network or secrets (the default)
    b delete_customer: Some(NotStarted); deny: this call needs approval (it is not declared read-only), and no approver is configured (the default)
    script: 4 lines, secret inside: false
    replayed: completed: I may not delete customers.
    as anthropic: 1011 bytes
    as openai-chat: 981 bytes
    as gemini: 992 bytes
    ");
}

#[test]
fn a_parked_call_is_finished_by_another_runtime() {
    insta::assert_snapshot!(output("parked_call"), @r"
    the office is asked: it is not declared read-only
    parked: send_invoice waits for Approval
    forged: denied: this parked call cannot be resumed, so the tool was not run
    Next: call the tool again if it is still needed
    the office is asked: it is not declared read-only
    resumed: the invoice for Ada is sent
    resumed again: denied: this parked call cannot be resumed, so the tool was not run
    Next: call the tool again if it is still needed
    ");
}

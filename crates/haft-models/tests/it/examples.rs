//! Runs the example and compares its whole output.

use std::process::Command;

#[path = "../../../haft/tests/it/built.rs"]
mod built;

#[test]
fn provider_agent_runs_without_a_key() {
    let example = built::binary("haft-models", "provider_agent");
    let ran = Command::new(&example).output().expect("the example runs");
    let errors = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success() && errors.is_empty(), "{}\n{errors}", ran.status);
    assert_eq!(
        String::from_utf8_lossy(&ran.stdout),
        "model: a script\ncall: population Completed\ncall: population Completed\ncompleted: Oslo \
         has 717710 people, Bergen 291940.\n960 tokens, 3600 millionths of a dollar\n"
    );
    let ran = Command::new(example).arg("other:m").output().expect("the example runs");
    assert!(!ran.status.success());
    assert!(String::from_utf8_lossy(&ran.stderr).contains("there is no model"));
}

//! The sandbox and the policy give a path the same verdict.

use std::{path::Path, sync::Arc};

use haft::{
    policy::{
        Decision, FileRules as _, LexicalResolver, PathBase, Pattern, PolicyContext, Rule, Rules,
    },
    tool::{Operation, Scope},
};
use haft_sandbox::DeniedNames;
use proptest::prelude::*;

fn step() -> impl Strategy<Value = String> {
    prop_oneof![
        2 => Just("**".to_owned()),
        3 => prop::sample::select(vec!["a", "b", ".env", "*", "a*", "*.b", "?", "a?b"])
            .prop_map(str::to_owned),
        2 => prop::sample::select(vec!["[ab]", "[!a]", "[^a-c]*", "[]a]", "[a-]", "\\*", "\\[a", "**b"])
            .prop_map(str::to_owned),
        1 => "[a-cé.]{1,3}",
    ]
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => prop::sample::select(vec!["a", "b", "c", "ab", ".env", "*", "]", "-", "[a", "x.b"])
            .prop_map(str::to_owned),
        1 => "[a-cé.*]{1,4}".prop_filter("`.` and `..` are no names", |n| n != "." && n != ".."),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn verdicts_are_equal(
        steps in prop::collection::vec(step(), 1..7),
        names in prop::collection::vec(name(), 0..7),
        is_edit: bool,
    ) {
        // A lone `.` or `..` is not a name in a pattern either.
        prop_assume!(!steps.iter().any(|step| step == "." || step == ".."));
        let pattern = format!("/{}", steps.join("/"));
        let path = format!("/{}", names.join("/"));
        let (tool, doing) =
            if is_edit { ("Edit", Operation::Write) } else { ("Read", Operation::Read) };
        let rule = Pattern::parse(&format!("{tool}(/{pattern})"), &PathBase::default()).unwrap();
        let mut context = PolicyContext::default();
        context.resolver = Arc::new(LexicalResolver);
        let rules = Rules::new(vec![Rule::new(Decision::Deny, rule)], context).unwrap();
        let scope = Scope::from(haft::tool::RunScope { working_directory: Path::new("/w").into(), ..haft::tool::RunScope::default() });
        let by_rules = rules.is_path_denied(doing, Path::new(&path), &scope);
        let names = DeniedNames::new(std::slice::from_ref(&pattern)).unwrap();
        prop_assert_eq!(names.matches(Path::new(&path)), by_rules, "{} {}", pattern, path);
    }
}

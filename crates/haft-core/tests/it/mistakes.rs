//! Mistakes are compile errors that read like prose: one file each in `tests/ui`.

#[test]
fn every_mistake_is_told_in_words() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}

//! Mistakes of authors are clear compile errors: one file each in `tests/ui`.

#[test]
fn every_mistake_is_a_clear_compile_error() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}

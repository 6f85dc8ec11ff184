//! Any schema is exported to every dialect without a panic, and its loss report is true.
#![no_main]

use haft_dialect::{Dialect, ExportOptions, StrictMode, ToolDefinition, ToolExport};
use haft_schema::{Formats, Schema};
use libfuzzer_sys::fuzz_target;

/// Larger schemas are exported too, but their verdicts are not compared, to keep a run quick.
const MAX_COMPARED_BYTES: usize = 4_000;

fuzz_target!(|bytes: &[u8]| {
    let Some((input, values)) = haft_fuzz::case(bytes) else { return };
    let source = Schema::compile_with(&input, Formats::Annotation);
    let definition = ToolDefinition::new("tool", "Does it.", &input);
    for dialect in Dialect::ALL.iter().copied() {
        for strict in [StrictMode::Off, StrictMode::Auto, StrictMode::On] {
            if strict != StrictMode::Off && !dialect.has_strict() {
                continue;
            }
            let options = ExportOptions::default().strict(strict);
            let shown = dialect.export_tool(&definition, &options);
            assert!(shown.tool.is_some() || !shown.report.is_empty(), "left out without a word");
            let Ok(source) = &source else {
                assert!(shown.tool.is_none(), "{dialect} shows what cannot be checked: {input}");
                continue;
            };
            if bytes.len() > MAX_COMPARED_BYTES {
                continue;
            }
            let export = ToolExport::of(dialect, std::slice::from_ref(&definition), &options);
            if let Err(why) = haft_fuzz::agrees(&export, source, &values) {
                panic!("{dialect}, strict {strict:?}: {why}");
            }
        }
    }
});

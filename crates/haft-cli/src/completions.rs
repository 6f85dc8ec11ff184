//! `haft completions`: scripts that complete commands, options and tool names in a shell.
//!
//! The generator knows commands and options. Names of tools depend on the directory, since
//! configuration files declare tools too, so each script calls `haft tools names` for them.

use clap::{Command, CommandFactory as _, builder::PossibleValuesParser};
use clap_complete::Shell;

use crate::args::Cli;

/// The value in place of the names in what the generator writes.
const PLACEHOLDER: &str = "HAFT_TOOL_NAMES";

/// The commands with a tool as first argument, as the generators name them.
const WITH_TOOL: [&str; 3] = ["call", "explain", "tools;show"];

/// Returns the script for a shell.
pub(crate) fn script(shell: Shell) -> String {
    // Written to memory first: the generator panics on a closed pipe.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut with_tool_values(), "haft", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    match shell {
        // The list of words is in double quotes, where a command is expanded.
        Shell::Bash => script.replace(PLACEHOLDER, "$(haft tools names 2>/dev/null)"),
        Shell::Zsh => {
            let function = "_haft_tool_names() {\n    \
                local -a names\n    \
                names=(${(f)\"$(haft tools names 2>/dev/null)\"})\n    \
                compadd -a names\n}\n\n";
            let script = script.replace(&format!("({PLACEHOLDER})"), "_haft_tool_names");
            match script.find("_haft() {") {
                Some(at) => format!("{}{function}{}", &script[..at], &script[at..]),
                None => script,
            }
        }
        // These generators leave out the values of positional arguments.
        Shell::Fish => WITH_TOOL.iter().fold(script, |script, command| {
            let last = command.rsplit(';').next().unwrap_or_default();
            script
                + &format!(
                    "complete -c haft -n \"__fish_seen_subcommand_from {last}\" -f \
                     -a \"(haft tools names 2>/dev/null)\"\n"
                )
        }),
        Shell::Elvish => WITH_TOOL.iter().fold(script, |script, command| {
            let start = format!("&'haft;{command}'= {{\n");
            let names = "            e:haft tools names 2>/dev/null | each {|name| cand $name 'tool' }\n";
            script.replace(&start, &format!("{start}{names}"))
        }),
        Shell::PowerShell => WITH_TOOL.iter().fold(script, |script, command| {
            let start = format!("'haft;{command}' {{\n");
            let names = "            haft tools names 2>$null | ForEach-Object { \
                [CompletionResult]::new($_, $_, [CompletionResultType]::ParameterValue, 'tool') }\n";
            script.replace(&start, &format!("{start}{names}"))
        }),
        _ => script,
    }
}

/// The command whose tool arguments have the placeholder as their only value. The real command
/// takes any name.
fn with_tool_values() -> Command {
    let complete = |command: Command| {
        let names = PossibleValuesParser::new([PLACEHOLDER]);
        command.mut_arg("tool", |argument| argument.value_parser(names).index(1))
    };
    // A changed argument moves to the end, so the order is given by index.
    let complete_call =
        |command: Command| complete(command).mut_arg("pairs", |argument| argument.index(2));
    Cli::command()
        .mut_subcommand("call", complete_call)
        .mut_subcommand("explain", complete_call)
        .mut_subcommand("tools", |tools| tools.mut_subcommand("show", complete))
}

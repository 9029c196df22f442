//! The commands of the program in groups, by what a user is about to do.

use clap::Command;

/// The groups: the heading, and the names in their order.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Commands to analyse", &["scan", "distribution", "trace"]),
    (
        "Commands to load",
        &["generate", "bench", "suite", "replay", "filebench", "dedisbench", "verify", "log"],
    ),
    ("Commands to compare", &["compare", "campaign", "report"]),
    ("Commands to store", &["pool", "volume", "serve", "attach", "detach", "domain", "support"]),
    ("Commands for the program itself", &["completions", "manual", "schema", "help"]),
];

/// Columns of the help.
const COLUMNS: usize = 100;

/// Returns the template of the help of the program, with the commands in groups.
pub(super) fn template(command: &Command) -> String {
    let mut text = "{about-with-newline}\n{usage-heading} {usage}\n".to_owned();
    let names = GROUPS.iter().flat_map(|(_, names)| *names);
    let width = names.map(|name| name.len()).max().unwrap_or_default();
    for (heading, names) in GROUPS {
        text += &format!("\n{heading}:\n");
        for name in names {
            let about = command.find_subcommand(name).and_then(Command::get_about);
            let about = about.map(ToString::to_string);
            let about = about.unwrap_or_else(|| "Print the help of a command".to_owned());
            text += &wrapped(&format!("  {name:<width$}  "), &about);
        }
    }
    text + "\nOptions:\n{options}\n\nEach command has a help of its own, with examples: gemelo help \
            pool create\n"
}

/// Returns a text after a beginning, on as many lines as it needs.
fn wrapped(first: &str, text: &str) -> String {
    let indent = first.len();
    let (mut lines, mut line) = (String::new(), first.to_owned());
    for word in text.split(' ') {
        if line.len() > indent && line.trim_end().len() + 1 + word.len() > COLUMNS {
            lines += line.trim_end();
            lines.push('\n');
            line = " ".repeat(indent);
        }
        line += word;
        line.push(' ');
    }
    lines + line.trim_end() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::Arguments;
    use clap::CommandFactory;

    #[test]
    fn every_command_is_in_one_group() {
        let command = Arguments::command();
        let grouped: Vec<&str> =
            GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
            let found = grouped.iter().filter(|name| **name == below.get_name()).count();
            assert_eq!(found, 1, "{}", below.get_name());
        }
        let known = |name: &&&str| **name == "help" || command.find_subcommand(name).is_some();
        assert_eq!(grouped.iter().filter(known).count(), grouped.len());
    }
}

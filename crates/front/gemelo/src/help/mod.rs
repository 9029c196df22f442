//! What the help of the program has beside the definition of its commands: groups, examples, and
//! hints for words of other programs.

mod examples;
mod groups;
mod hints;
mod pages;

use examples::examples_of;
pub(crate) use hints::hint;
pub(crate) use pages::sections;

use clap::Command;

/// Adds groups and examples to the command line.
pub(crate) fn completed(command: Command) -> Command {
    let template = groups::template(&command);
    with_examples(command, "").help_template(template)
}

fn with_examples(command: Command, before: &str) -> Command {
    let words = |below: &Command| format!("{before} {}", below.get_name()).trim().to_owned();
    let names: Vec<String> =
        command.get_subcommands().map(|below| below.get_name().into()).collect();
    let mut command = command;
    for name in names {
        command = command.mut_subcommand(&name, |below| {
            let words = words(&below);
            let below = match examples_of(&words) {
                Some(lines) => {
                    let text: String = lines.iter().map(|line| format!("\n  {line}")).collect();
                    below.after_help(format!("Examples:{text}"))
                }
                None => below,
            };
            with_examples(below, &words)
        });
    }
    command
}

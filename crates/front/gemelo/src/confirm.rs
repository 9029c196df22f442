//! The question that is asked before data are lost for ever.

use crate::context::Context;
use crate::exit::{OrFailure as _, refused};
use std::io::IsTerminal;

/// Prints what will be lost, and asks on a terminal whether to continue.
///
/// # Errors
/// Fails with `refused` if the answer is not yes, or if there is no terminal to ask on.
pub(crate) fn confirm(
    lost: &str,
    question: &str,
    refused: &str,
    context: &Context,
) -> crate::Result<()> {
    let answer = ask(lost, question, refused, context)?;
    if answer == "yes" { Ok(()) } else { Err(refused!("{refused}")) }
}

/// Tells what is given up, and returns the answer to a question asked on a terminal.
///
/// # Errors
/// Fails with `refused` if there is no terminal to ask on.
pub(crate) fn ask(
    lost: &str,
    question: &str,
    refused: &str,
    context: &Context,
) -> crate::Result<String> {
    lost.lines().for_each(|line| context.monitor.warn(line));
    let (input, output) = (std::io::stdin(), std::io::stderr());
    if !input.is_terminal() || !output.is_terminal() {
        return Err(refused!("{refused}"));
    }
    context.monitor.warn(question);
    let mut answer = String::new();
    input.read_line(&mut answer).context("cannot read the answer")?;
    Ok(answer.trim().to_owned())
}

//! Parses tokens to commands by recursive descent.

mod expressions;

use super::error::Fault;
use super::lex::{Token, TokenKind, tokens};
use super::syntax::{
    At, Attribute, Command, Expression, FlowopUse, QuitMode, StatsAction, Template,
    ThreadDefinition,
};
use super::words;

/// Greatest nesting of parentheses, `foreach` and arithmetic. It is far above that of any script,
/// and bounds the stack.
const DEEPEST_NESTING: usize = 64;

pub(crate) type Parsed<T> = Result<T, Fault>;

/// Parses a script.
pub(crate) fn parse(text: &str) -> Parsed<Vec<At<Command>>> {
    let mut parser = Parser { tokens: tokens(text)?, next: 0, depth: 0 };
    let mut commands = Vec::new();
    while parser.peek().kind != TokenKind::End {
        commands.push(parser.command()?);
    }
    Ok(commands)
}

pub(super) struct Parser {
    tokens: Vec<Token>,
    next: usize,
    depth: usize,
}

impl Parser {
    fn peek(&self) -> &Token {
        // The last token is the end of the script, which the parser never passes.
        &self.tokens[self.next]
    }

    fn take(&mut self) -> Token {
        let token = self.tokens[self.next].clone();
        self.next = (self.next + 1).min(self.tokens.len() - 1);
        token
    }

    fn expected(&self, what: &str) -> Fault {
        Fault::new(self.peek().at, format!("expected {what}, found {}", self.peek().describe()))
    }

    fn accept_sign(&mut self, sign: char) -> bool {
        let found = self.peek().kind == TokenKind::Sign(sign);
        if found {
            self.take();
        }
        found
    }

    fn expect_sign(&mut self, sign: char, after: &str) -> Parsed<()> {
        if self.accept_sign(sign) {
            Ok(())
        } else {
            Err(self.expected(&format!("'{sign}' {after}")))
        }
    }

    fn accept_word(&mut self, word: &str) -> bool {
        let found = matches!(&self.peek().kind, TokenKind::Word(found) if found == word);
        if found {
            self.take();
        }
        found
    }

    fn word(&mut self, what: &str) -> Parsed<At<String>> {
        let at = self.peek().at;
        let TokenKind::Word(word) = &self.peek().kind else { return Err(self.expected(what)) };
        let value = word.clone();
        self.take();
        Ok(At { value, at })
    }

    /// Takes a word that must be in a list.
    fn one_of(&mut self, what: &str, known: &[&str]) -> Parsed<At<String>> {
        let word = self.word(&format!("{what}: {}", known.join(", ")))?;
        if known.contains(&word.value.as_str()) {
            Ok(word)
        } else {
            Err(Fault::unknown(word.at, what, &word.value, known.iter().copied()))
        }
    }

    fn nested<T>(&mut self, inner: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth >= DEEPEST_NESTING {
            return Err(Fault::new(
                self.peek().at,
                format!("nested more than {DEEPEST_NESTING} levels deep: use variables for parts"),
            ));
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }

    fn command(&mut self) -> Parsed<At<Command>> {
        let word = self.one_of("command", words::COMMANDS)?;
        let at = word.at;
        let value = match word.value.as_str() {
            "set" => self.set()?,
            "define" => self.define()?,
            "create" => match self.one_of("thing to create", words::CREATED)?.value.as_str() {
                "process" | "processes" => Command::CreateProcesses,
                _ => Command::CreateFiles,
            },
            "shutdown" => {
                self.one_of("thing to shut down", &["process", "processes"])?;
                Command::ShutdownProcesses
            }
            "eventgen" => {
                Command::EventGenerator(self.attributes(words::EVENT_GENERATOR, "eventgen", &[])?)
            }
            "run" => Command::Run(self.optional_number()?),
            "psrun" => Command::PeriodicRun {
                period: self.optional_number()?,
                time: self.optional_number()?,
            },
            "sleep" => Command::Sleep(self.expression()?),
            "quit" => Command::Quit,
            "echo" | "usage" => Command::Echo(self.text()?),
            "system" => Command::System(self.text()?),
            "stats" => self.stats()?,
            "enable" => self.enable()?,
            "list" => {
                match self
                    .one_of("thing to list", &["fileset", "filesets", "flowop"])?
                    .value
                    .as_str()
                {
                    "flowop" => Command::ListFlowops,
                    _ => Command::ListFilesets,
                }
            }
            "debug" => {
                self.expression()?;
                Command::Nothing
            }
            "version" => Command::Version,
            "foreach" => self.nested(Self::for_each)?,
            _ => {
                return Err(Fault::new(
                    at,
                    "domultisync needs the mode with several clients, which is not supported: \
                     start one gemelo on each host",
                ));
            }
        };
        Ok(At { value, at })
    }

    fn set(&mut self) -> Parsed<Command> {
        if self.accept_word("mode") {
            if self.one_of("mode", words::MODES)?.value == "nousestats" {
                return Ok(Command::Nothing);
            }
            return Ok(Command::SetMode(
                match self.one_of("mode to quit", words::QUIT_MODES)?.value.as_str() {
                    "alldone" => QuitMode::AllDone,
                    "firstdone" => QuitMode::FirstDone,
                    _ => QuitMode::Timeout,
                },
            ));
        }
        let TokenKind::Variable(name) = self.peek().kind.clone() else {
            return Err(self.expected("a variable ($name) or 'mode' after 'set'"));
        };
        self.take();
        self.expect_sign('=', "after the variable")?;
        Ok(Command::Set { name, value: self.expression()? })
    }

    fn enable(&mut self) -> Parsed<Command> {
        let word = self.one_of("feature", &["lathist", "multi"])?;
        if word.value == "lathist" {
            return Ok(Command::EnableHistogram);
        }
        Err(Fault::new(
            word.at,
            "the mode with several clients is not supported: start one gemelo on each host, at the \
             same time",
        ))
    }

    fn stats(&mut self) -> Parsed<Command> {
        let action = self.one_of("action of stats", words::STATS)?;
        Ok(match action.value.as_str() {
            "clear" => Command::Stats(StatsAction::Clear),
            "snap" => Command::Stats(StatsAction::Snap),
            "directory" | "command" => {
                self.value()?;
                Command::Nothing
            }
            _ => {
                self.value()?;
                Command::Stats(StatsAction::Dump)
            }
        })
    }

    fn for_each(&mut self) -> Parsed<Command> {
        let TokenKind::Variable(variable) = self.peek().kind.clone() else {
            return Err(self.expected("a variable after 'foreach'"));
        };
        self.take();
        if !self.accept_word("in") {
            return Err(self.expected("'in' after the variable of 'foreach'"));
        }
        let mut values = vec![self.value()?];
        while self.accept_sign(',') {
            values.push(self.value()?);
        }
        self.expect_sign('{', "before the commands of 'foreach'")?;
        let mut body = Vec::new();
        while !self.accept_sign('}') {
            if self.peek().kind == TokenKind::End {
                return Err(self.expected("'}' after the commands of 'foreach'"));
            }
            body.push(self.command()?);
        }
        Ok(Command::ForEach { variable, values, body })
    }

    fn define(&mut self) -> Parsed<Command> {
        let sources = crate::sources::attribute_names();
        let next = self.peek();
        if matches!(&next.kind, TokenKind::Word(word) if word == "thread") {
            let message =
                "a thread belongs in a process: define process name=p { thread name=t { ... } }";
            return Err(Fault::new(next.at, message));
        }
        match self.one_of("thing to define", words::DEFINABLE)?.value.as_str() {
            "file" => Ok(Command::DefineFile(self.attributes(words::FILE, "file", &sources)?)),
            "fileset" => {
                Ok(Command::DefineFileset(self.attributes(words::FILESET, "fileset", &sources)?))
            }
            "process" => {
                let attributes = self.attributes(words::PROCESS, "process", &[])?;
                self.expect_sign('{', "before the threads of a process")?;
                let mut threads = vec![self.thread()?];
                while !self.accept_sign('}') {
                    threads.push(self.thread()?);
                }
                Ok(Command::DefineProcess { attributes, threads })
            }
            "flowop" => {
                let attributes =
                    self.attributes_with_locals(words::COMPOSITE, "composite flowop")?;
                Ok(Command::DefineFlowop { attributes, body: self.flowops()? })
            }
            _ => self.define_random_variable(),
        }
    }

    /// Parses `define randvar name=$x, ...`, the older form of `set $x=randvar(...)`.
    fn define_random_variable(&mut self) -> Parsed<Command> {
        let at = self.peek().at;
        let attributes = self.attributes(words::RANDOM_VARIABLE, "random variable", &[])?;
        let named = attributes.iter().find(|attribute| attribute.name == "name");
        let Some(Attribute { value: Some(At { value: Expression::Variable(name), .. }), .. }) =
            named
        else {
            return Err(Fault::new(
                at,
                "expected name=$variable among the attributes of a random variable",
            ));
        };
        Ok(Command::Set {
            name: name.clone(),
            value: At { value: Expression::RandomVariable(attributes.clone()), at },
        })
    }

    fn thread(&mut self) -> Parsed<ThreadDefinition> {
        let at = self.peek().at;
        if !self.accept_word("thread") {
            return Err(self.expected("'thread', or '}' after the threads of a process"));
        }
        let attributes = self.attributes(words::THREAD, "thread", &[])?;
        Ok(ThreadDefinition { at, attributes, flowops: self.flowops()? })
    }

    fn flowops(&mut self) -> Parsed<Vec<FlowopUse>> {
        self.expect_sign('{', "before the flowops")?;
        let mut flowops = vec![self.flowop()?];
        while !self.accept_sign('}') {
            flowops.push(self.flowop()?);
        }
        Ok(flowops)
    }

    fn flowop(&mut self) -> Parsed<FlowopUse> {
        if !self.accept_word("flowop") {
            return Err(self.expected("'flowop', or '}' after the flowops"));
        }
        let kind = self.word("the kind of a flowop, such as 'read'")?;
        Ok(FlowopUse { kind, attributes: self.attributes_with_locals(words::FLOWOP, "flowop")? })
    }

    /// Parses `name`, `name=value`, ... until no comma follows.
    fn attributes(&mut self, known: &[&str], what: &str, more: &[&str]) -> Parsed<Vec<Attribute>> {
        let known: Vec<&str> = known.iter().chain(more).copied().collect();
        self.attribute_list(&known, what, false)
    }

    fn attributes_with_locals(&mut self, known: &[&str], what: &str) -> Parsed<Vec<Attribute>> {
        self.attribute_list(known, what, true)
    }

    fn attribute_list(
        &mut self,
        known: &[&str],
        what: &str,
        locals: bool,
    ) -> Parsed<Vec<Attribute>> {
        let mut found: Vec<Attribute> = Vec::new();
        loop {
            let Token { kind, at } = self.peek().clone();
            let name = match kind {
                TokenKind::Variable(name) if locals => format!("${name}"),
                TokenKind::Word(word) if known.contains(&word.as_str()) => word,
                TokenKind::Word(word) => {
                    let what = format!("attribute of a {what}");
                    return Err(Fault::unknown(at, &what, &word, known.iter().copied()));
                }
                _ => return Err(self.expected(&format!("an attribute of a {what}"))),
            };
            if found.iter().any(|earlier| earlier.name == name) {
                return Err(Fault::new(at, format!("'{name}' is given twice")));
            }
            self.take();
            let value = if self.accept_sign('=') { Some(self.expression()?) } else { None };
            found.push(Attribute { name, at, value });
            if !self.accept_sign(',') {
                return Ok(found);
            }
        }
    }

    fn optional_number(&mut self) -> Parsed<Option<At<Expression>>> {
        match self.peek().kind {
            TokenKind::Integer(_) | TokenKind::Decimal(_) | TokenKind::Variable(_) => {
                self.value().map(Some)
            }
            _ => Ok(None),
        }
    }

    fn text(&mut self) -> Parsed<Template> {
        let TokenKind::Quoted(pieces) = self.peek().kind.clone() else {
            return Err(self.expected("a quoted text"));
        };
        self.take();
        Ok(pieces)
    }
}

//! The syntax tree of a script: commands, attributes and expressions, each with its position.

use super::lex::Piece;

/// A value with its position in the script.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct At<T> {
    pub(crate) value: T,
    pub(crate) at: usize,
}

/// Text with variables in it.
pub(crate) type Template = Vec<Piece>;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Expression {
    Integer(i64),
    Decimal(f64),
    Boolean(bool),
    Text(Template),
    Variable(String),
    /// Two numbers with `+`, `-`, `*` or `/`.
    Arithmetic(char, Box<At<Expression>>, Box<At<Expression>>),
    /// A random variable, `randvar(...)`.
    RandomVariable(Vec<Attribute>),
    /// A custom random variable, `cvar(...)`.
    CustomVariable(Vec<Attribute>),
    /// A table, `{{percent, from, to}, ...}`.
    Table(Vec<[At<Expression>; 3]>),
}

/// An attribute, `name=value`, or `name` alone, which means true. Names of local variables of
/// composite flowops begin with `$`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Attribute {
    pub(crate) name: String,
    pub(crate) at: usize,
    pub(crate) value: Option<At<Expression>>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FlowopUse {
    pub(crate) kind: At<String>,
    pub(crate) attributes: Vec<Attribute>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ThreadDefinition {
    pub(crate) at: usize,
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) flowops: Vec<FlowopUse>,
}

/// The condition that ends a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum QuitMode {
    /// The run ends after the time of the `run` command, or when a thread cannot continue.
    #[default]
    Timeout,
    /// The run ends when every thread has finished.
    AllDone,
    /// The run ends when the first thread has finished.
    FirstDone,
}

/// The action of a `stats` command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StatsAction {
    Clear,
    Snap,
    Dump,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Command {
    Set { name: String, value: At<Expression> },
    SetMode(QuitMode),
    Nothing,
    DefineFile(Vec<Attribute>),
    DefineFileset(Vec<Attribute>),
    DefineProcess { attributes: Vec<Attribute>, threads: Vec<ThreadDefinition> },
    DefineFlowop { attributes: Vec<Attribute>, body: Vec<FlowopUse> },
    EventGenerator(Vec<Attribute>),
    CreateFiles,
    CreateProcesses,
    ShutdownProcesses,
    Run(Option<At<Expression>>),
    PeriodicRun { period: Option<At<Expression>>, time: Option<At<Expression>> },
    Sleep(At<Expression>),
    Quit,
    Echo(Template),
    System(Template),
    Stats(StatsAction),
    EnableHistogram,
    ListFilesets,
    ListFlowops,
    Version,
    ForEach { variable: String, values: Vec<At<Expression>>, body: Vec<At<Command>> },
}

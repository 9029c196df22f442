//! The script as it was written: commands, attributes, expressions, each with its place.

use super::lex::Piece;

/// A value with its place in the script.
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
    /// `+`, `-`, `*` or `/` of two numbers.
    Arithmetic(char, Box<At<Expression>>, Box<At<Expression>>),
    /// `randvar(...)`.
    RandomVariable(Vec<Attribute>),
    /// `cvar(...)`.
    CustomVariable(Vec<Attribute>),
    /// `{{percent, from, to}, ...}`.
    Table(Vec<[At<Expression>; 3]>),
}

/// `name=value`, or `name` alone, which means true. Local variables of composite flowops have their `$` in front.
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

/// When a run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum QuitMode {
    /// After the time of the `run` command, or when a thread cannot go on.
    #[default]
    Timeout,
    /// When every thread has finished.
    AllDone,
    /// When the first thread has finished.
    FirstDone,
}

/// What `stats` does.
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

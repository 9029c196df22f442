//! A report as data: sections of text, tables and pictures. The sources of reports (campaigns,
//! single results) make a [`Document`]; HTML, Markdown and pictures are made from it.

use crate::chart::Chart;

/// A report: sections with text, tables and pictures.
#[derive(Debug, Clone, Default)]
pub(crate) struct Document {
    /// Title, one line.
    pub(crate) title: String,
    /// One line below the title.
    pub(crate) subtitle: String,
    /// Names of the things that are compared, in the order of their colours. Readers can hide
    /// each of them.
    pub(crate) targets: Vec<Compared>,
    /// Parts of the report, in order.
    pub(crate) sections: Vec<Section>,
}

/// A thing that the report compares with others.
#[derive(Debug, Clone)]
pub(crate) struct Compared {
    pub(crate) name: String,
    /// `true` if there is anything to see of it.
    pub(crate) is_measured: bool,
}

/// A part of a report with a heading of its own.
#[derive(Debug, Clone)]
pub(crate) struct Section {
    /// Name for links, unique in the document.
    pub(crate) id: String,
    /// Heading.
    pub(crate) title: String,
    /// Contents, in order.
    pub(crate) items: Vec<Item>,
}

impl Section {
    pub(crate) fn new(id: impl Into<String>, title: impl Into<String>) -> Self {
        Self { id: id.into(), title: title.into(), items: Vec::new() }
    }
}

/// A piece of a section.
#[derive(Debug, Clone)]
pub(crate) enum Item {
    /// Heading inside of the section.
    Heading(String),
    /// Running text.
    Paragraph(Text),
    /// The answer: sentences, each of which stands on its own.
    Answers(Vec<Answer>),
    /// A list of remarks.
    List(Vec<Text>),
    /// Warnings, which stand out.
    Warnings(Vec<String>),
    /// Names and values.
    Facts(Vec<(String, Text)>),
    /// A table.
    Table(Table),
    /// A long table, shown on request.
    More(Table),
    /// Pictures that stand side by side if there is space.
    Pictures(Vec<Picture>),
    /// Text with its spaces and line breaks, shown on request.
    Code {
        /// Description of the text.
        title: String,
        /// The text.
        text: String,
    },
}

/// A sentence that answers the question of the report.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    /// The sentence.
    pub(crate) sentence: Text,
    /// Stats behind the sentence, each a few words.
    pub(crate) details: Vec<Text>,
}

impl Answer {
    pub(crate) fn new(sentence: impl Into<Text>) -> Self {
        Self { sentence: sentence.into(), details: Vec::new() }
    }
}

/// Text with emphasis and links.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Text(pub(crate) Vec<Span>);

/// A part of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Span {
    /// Plain text.
    Plain(String),
    /// Text that matters most in its sentence.
    Strong(String),
    /// A link and its address.
    Link(String, String),
}

impl Text {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn plain(mut self, text: impl Into<String>) -> Self {
        self.0.push(Span::Plain(text.into()));
        self
    }

    pub(crate) fn strong(mut self, text: impl Into<String>) -> Self {
        self.0.push(Span::Strong(text.into()));
        self
    }

    pub(crate) fn link(mut self, text: impl Into<String>, address: impl Into<String>) -> Self {
        self.0.push(Span::Link(text.into(), address.into()));
        self
    }
}

impl<T: Into<String>> From<T> for Text {
    fn from(text: T) -> Self {
        Self::new().plain(text)
    }
}

/// A table.
#[derive(Debug, Clone, Default)]
pub(crate) struct Table {
    /// Description of the table for readers who cannot see the page around it.
    pub(crate) caption: String,
    /// Headings of the columns. The first column names the rows.
    pub(crate) columns: Vec<Column>,
    /// Cells by row. Every row has as many cells as there are columns.
    pub(crate) rows: Vec<Row>,
}

impl Table {
    pub(crate) fn new(caption: impl Into<String>, columns: Vec<Column>) -> Self {
        Self { caption: caption.into(), columns, rows: Vec::new() }
    }

    pub(crate) fn push(&mut self, cells: Vec<Cell>) {
        self.rows.push(Row { id: None, target: None, cells });
    }

    /// Adds a row that readers hide together with the target of this number.
    pub(crate) fn push_of(&mut self, target: Option<usize>, cells: Vec<Cell>) {
        self.rows.push(Row { id: None, target, cells });
    }
}

/// The heading of a column.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    pub(crate) title: String,
    /// `true` for numbers, which are aligned at their right.
    pub(crate) is_number: bool,
    /// Number of the target that the column is about.
    pub(crate) target: Option<usize>,
}

impl Column {
    pub(crate) fn text(title: impl Into<String>) -> Self {
        Self { title: title.into(), is_number: false, target: None }
    }

    pub(crate) fn number(title: impl Into<String>) -> Self {
        Self { title: title.into(), is_number: true, target: None }
    }

    pub(crate) fn of(mut self, target: Option<usize>) -> Self {
        self.target = target;
        self
    }
}

/// A row of a table.
#[derive(Debug, Clone, Default)]
pub(crate) struct Row {
    /// Name for links.
    pub(crate) id: Option<String>,
    /// Number of the target that the row is about.
    pub(crate) target: Option<usize>,
    /// One cell for each column.
    pub(crate) cells: Vec<Cell>,
}

/// A cell of a table.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cell {
    /// Main text.
    pub(crate) text: Text,
    /// Second line, less prominent, such as a confidence interval.
    pub(crate) detail: Option<Text>,
    /// A formula behind the text, shown on request.
    pub(crate) fold: Option<String>,
    /// Meaning of the cell beyond its text.
    pub(crate) tone: Tone,
}

impl<T: Into<Text>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::new(text)
    }
}

/// The meaning of a cell beyond its text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Tone {
    /// None.
    #[default]
    Plain,
    /// Less important.
    Muted,
    /// The data carry that this is better.
    Better,
    /// The data carry that this is worse.
    Worse,
    /// To be read with care.
    Care,
    /// A claim that holds.
    Yes,
    /// A claim that does not hold.
    No,
}

impl Cell {
    pub(crate) fn new(text: impl Into<Text>) -> Self {
        Self { text: text.into(), detail: None, fold: None, tone: Tone::Plain }
    }

    pub(crate) fn detail(mut self, detail: impl Into<Text>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    pub(crate) fn fold(mut self, fold: impl Into<String>) -> Self {
        self.fold = Some(fold.into());
        self
    }

    pub(crate) fn tone(mut self, tone: Tone) -> Self {
        self.tone = tone;
        self
    }

    /// Returns a cell without a value, and the reason in the fewest words.
    pub(crate) fn missing(reason: impl Into<String>) -> Self {
        Self::new(reason.into()).tone(Tone::Muted)
    }
}

/// A picture, and the table of what it shows.
#[derive(Debug, Clone)]
pub(crate) struct Picture {
    /// Name of the picture's files, unique in the document.
    pub(crate) id: String,
    /// Title above the picture.
    pub(crate) title: String,
    /// One or two sentences below the picture: how to read it.
    pub(crate) note: String,
    /// The drawing.
    pub(crate) chart: Chart,
    /// The same data with a linear axis, if the axis of the drawing is logarithmic.
    pub(crate) linear: Option<Chart>,
    /// The data of the picture.
    pub(crate) table: Table,
}

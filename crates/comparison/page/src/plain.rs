//! A document as plain text for a terminal: no marks, lines that fit, tables in columns.

use crate::document::{Answer, Cell, Document, Item, Section, Span, Table, Text, Tone};
use std::fmt::Write as _;

/// Letters of a line at most. Terminals are at least as wide by default.
const MAX_LETTERS: usize = 80;

/// Rows of a table that a terminal shows at most.
const MAX_ROWS: usize = 40;

/// Returns the whole document as plain text. Pictures are left out, and so are long tables.
pub(crate) fn text(document: &Document) -> String {
    let mut page = head(document);
    for section in &document.sections {
        page.push_str(&section_text(section));
    }
    format!("{}\n", page.trim_end())
}

/// Returns the title and the first section, which has the answer.
pub(crate) fn answer(document: &Document) -> String {
    let mut page = head(document);
    page.extend(document.sections.first().map(section_text));
    format!("{}\n", page.trim_end())
}

fn head(document: &Document) -> String {
    let mut page = format!("{}\n", clean(&document.title));
    if !document.subtitle.is_empty() {
        page.push_str(&wrapped(&clean(&document.subtitle), "", ""));
    }
    page.push('\n');
    page
}

fn section_text(section: &Section) -> String {
    let title = clean(&section.title);
    let mut text = format!("{title}\n{}\n", "-".repeat(title.chars().count()));
    for item in &section.items {
        let item = item_text(item);
        if !item.is_empty() {
            text.push_str(&item);
            text.push('\n');
        }
    }
    text
}

fn item_text(item: &Item) -> String {
    match item {
        Item::Heading(title) => format!("{}\n", clean(title)),
        Item::Paragraph(paragraph) => wrapped(&inline(paragraph), "", ""),
        Item::Answers(answers) => answers.iter().map(answer_text).collect(),
        Item::List(list) => list.iter().map(|one| wrapped(&inline(one), "- ", "  ")).collect(),
        Item::Warnings(warnings) => {
            warnings.iter().map(|one| wrapped(&clean(one), "warning: ", "  ")).collect()
        }
        Item::Facts(facts) => facts
            .iter()
            .map(|(name, fact)| wrapped(&format!("{}: {}", clean(name), inline(fact)), "", "  "))
            .collect(),
        Item::Table(table) => table_text(table),
        Item::More(_) | Item::Pictures(_) | Item::Code { .. } => String::new(),
    }
}

fn answer_text(answer: &Answer) -> String {
    let mut text = wrapped(&inline(&answer.sentence), "- ", "  ");
    for detail in &answer.details {
        text.push_str(&wrapped(&inline(detail), "    ", "    "));
    }
    text
}

/// Breaks a text into lines. The first one begins with `first`, and the others with `next`.
fn wrapped(text: &str, first: &str, next: &str) -> String {
    let mut lines = String::new();
    let mut line = first.to_owned();
    let mut has_word = false;
    for word in text.split([' ', '\n']).filter(|word| !word.is_empty()) {
        if has_word && line.chars().count() + 1 + word.chars().count() > MAX_LETTERS {
            let _ = writeln!(lines, "{line}");
            next.clone_into(&mut line);
            has_word = false;
        }
        if has_word {
            line.push(' ');
        }
        line.push_str(word);
        has_word = true;
    }
    if has_word {
        let _ = writeln!(lines, "{line}");
    }
    lines
}

fn table_text(table: &Table) -> String {
    let heading = table.columns.iter().map(|column| clean(&column.title)).collect();
    let shown = table.rows.iter().take(MAX_ROWS);
    let rows: Vec<Vec<String>> = std::iter::once(heading)
        .chain(shown.map(|row| row.cells.iter().map(cell_text).collect()))
        .collect();
    let widths: Vec<usize> = (0..table.columns.len())
        .map(|at| rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count()).max())
        .map(Option::unwrap_or_default)
        .collect();
    let mut text = wrapped(&format!("{}:", clean(&table.caption)), "", "");
    for row in &rows {
        let mut line = String::new();
        for ((cell, width), column) in row.iter().zip(&widths).zip(&table.columns) {
            let fill = " ".repeat(width - cell.chars().count());
            let (before, after) = if column.is_number { (fill.as_str(), "") } else { ("", &*fill) };
            let _ = write!(line, "{before}{cell}{after}  ");
        }
        let _ = writeln!(text, "  {}", line.trim_end());
    }
    let left_out = table.rows.len().saturating_sub(MAX_ROWS);
    if left_out > 0 {
        let _ = writeln!(text, "  and {left_out} more rows");
    }
    text
}

fn cell_text(cell: &Cell) -> String {
    let mark = match cell.tone {
        Tone::Better => "better ",
        Tone::Worse => "worse ",
        _ => "",
    };
    let text = format!("{mark}{}", inline(&cell.text));
    match &cell.detail {
        Some(detail) => format!("{text} ({})", inline(detail)),
        None => text,
    }
}

fn inline(text: &Text) -> String {
    let words = text.0.iter().map(|span| match span {
        Span::Plain(text) | Span::Strong(text) | Span::Link(text, _) => clean(text),
    });
    words.collect()
}

/// Replaces letters that a terminal could take for commands.
fn clean(text: &str) -> String {
    text.chars()
        .map(|letter| if letter.is_control() || letter == '\u{a0}' { ' ' } else { letter })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Column;

    #[test]
    fn text_is_plain_and_fits() {
        let mut section = Section::new("answer", "Answer");
        let sentence = Text::new().strong("a_b").plain(" is ").link("1.5×", "#x").plain(" *it*");
        section.items.push(Item::Answers(vec![Answer::new(sentence)]));
        section.items.push(Item::Paragraph("word ".repeat(40).into()));
        let mut table = Table::new("Sizes", vec![Column::text("name"), Column::number("size")]);
        table.push(vec![Cell::new("a"), Cell::new("10")]);
        table.push(vec![Cell::new("longer"), Cell::new("5")]);
        section.items.push(Item::Table(table));
        let document = Document {
            title: "T\u{1b}[2J".to_owned(),
            sections: vec![section],
            ..Document::default()
        };
        let text = text(&document);
        assert!(text.contains("- a_b is 1.5× *it*\n"), "{text}");
        assert!(text.contains("  name    size\n  a         10\n  longer     5\n"), "{text}");
        assert!(!text.contains(['\\', '\u{1b}', '|']), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= MAX_LETTERS), "{text}");
        assert_eq!(answer(&document), text);
    }
}

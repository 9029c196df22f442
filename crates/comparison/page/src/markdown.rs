//! A document as Markdown, for places that show no HTML. Pictures are links to their files.

use crate::document::{Answer, Cell, Document, Item, Picture, Span, Table, Text, Tone};
use std::fmt::Write as _;

/// Returns the document as Markdown. Pictures are left out without `has_files`.
pub(crate) fn markdown(document: &Document, has_files: bool) -> String {
    let mut page = format!("# {}\n\n", escaped(&document.title));
    if !document.subtitle.is_empty() {
        page.push_str(&escaped(&document.subtitle));
        page.push_str("\n\n");
    }
    for section in &document.sections {
        // Writing to a string does not fail.
        let _ = writeln!(page, "## {}\n", escaped(&section.title));
        for item in &section.items {
            add_item(&mut page, item, has_files);
        }
    }
    format!("{}\n", page.trim_end())
}

fn add_item(page: &mut String, item: &Item, has_files: bool) {
    let text = match item {
        Item::Heading(title) => format!("### {}\n", escaped(title)),
        Item::Paragraph(paragraph) => format!("{}\n", inline(paragraph)),
        Item::Answers(answers) => answers.iter().map(answer_text).collect(),
        Item::List(list) => list.iter().map(|entry| format!("- {}\n", inline(entry))).collect(),
        Item::Warnings(warnings) => {
            warnings.iter().map(|warning| format!("- Warning: {}\n", escaped(warning))).collect()
        }
        Item::Facts(facts) => facts
            .iter()
            .map(|(name, fact)| format!("- {}: {}\n", escaped(name), inline(fact)))
            .collect(),
        Item::Table(table) | Item::More(table) => table_text(table),
        Item::Pictures(pictures) if has_files => pictures.iter().map(picture_text).collect(),
        Item::Pictures(pictures) => {
            pictures.iter().map(|picture| table_text(&picture.table)).collect::<Vec<_>>().join("\n")
        }
        Item::Code { title, text } => {
            let fence = fence(text);
            format!("{}:\n\n{fence}\n{}\n{fence}\n", escaped(title), text.trim_end())
        }
    };
    page.push_str(&text);
    page.push('\n');
}

fn answer_text(answer: &Answer) -> String {
    let mut text = format!("- {}\n", inline(&answer.sentence));
    for detail in &answer.details {
        let _ = writeln!(text, "  - {}", inline(detail));
    }
    text
}

/// Returns a fence that no line of the text closes.
fn fence(text: &str) -> String {
    let longest = text.split(|letter| letter != '`').map(str::len).max().unwrap_or(0);
    "`".repeat((longest + 1).max(3))
}

fn picture_text(picture: &Picture) -> String {
    let title = escaped(&picture.title);
    format!("![{title}](pictures/{}.svg)\n\n{title}. {}\n\n", picture.id, escaped(&picture.note))
}

fn table_text(table: &Table) -> String {
    let mut text = format!("{}:\n\n|", escaped(&table.caption));
    for column in &table.columns {
        let _ = write!(text, " {} |", escaped(&column.title));
    }
    text.push_str("\n|");
    for column in &table.columns {
        text.push_str(if column.is_number { "---:|" } else { "---|" });
    }
    text.push('\n');
    for row in &table.rows {
        text.push('|');
        for cell in &row.cells {
            let _ = write!(text, " {} |", cell_text(cell));
        }
        text.push('\n');
    }
    text
}

fn cell_text(cell: &Cell) -> String {
    let mut text = inline(&cell.text);
    if matches!(cell.tone, Tone::Better | Tone::Worse) {
        text = format!("**{text}**");
    }
    if let Some(detail) = &cell.detail {
        let _ = write!(text, " ({})", inline(detail));
    }
    if let Some(fold) = &cell.fold {
        let _ = write!(text, " [{}]", escaped(fold));
    }
    text
}

fn inline(text: &Text) -> String {
    text.0
        .iter()
        .map(|span| match span {
            Span::Plain(plain) => escaped(plain),
            Span::Strong(strong) => format!("**{}**", escaped(strong)),
            Span::Link(label, address) => format!("[{}]({address})", escaped(label)),
        })
        .collect()
}

/// Escapes the letters that Markdown and HTML in it give a meaning.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        if "\\`*_[]<>|#".contains(letter) {
            escaped.push('\\');
        }
        escaped.push(if letter == '\n' { ' ' } else { letter });
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_others_keeps_its_letters_and_gets_no_meaning() {
        assert_eq!(escaped("a|b <i> *c*\nd"), "a\\|b \\<i\\> \\*c\\* d");
        assert_eq!(fence("x ```` y"), "`````");
    }
}

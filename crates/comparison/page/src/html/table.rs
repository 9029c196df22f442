//! Tables.

use crate::document::{Cell, Column, Row, Table, Tone};
use maud::{Markup, html};

/// Returns a table that scrolls by itself if it is wider than the page, and that the keyboard can
/// reach to scroll it. The caption of a table below a picture is heard and not seen, because the
/// title of the picture says the same.
pub(super) fn markup(table: &Table, is_below_picture: bool) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label=(table.caption) {
            table {
                caption.unseen[is_below_picture] { (table.caption) }
                thead {
                    tr {
                        @for column in &table.columns {
                            th.text[!column.is_number] scope="col" data-t=[column.target] {
                                (column.title)
                            }
                        }
                    }
                }
                tbody { @for row in &table.rows { (row_markup(row, &table.columns)) } }
            }
        }
    }
}

fn row_markup(row: &Row, columns: &[Column]) -> Markup {
    html! {
        tr id=[row.id.as_deref()] data-t=[row.target] {
            @for (number, (cell, column)) in row.cells.iter().zip(columns).enumerate() {
                @let class = class(cell.tone, column.is_number);
                @if number == 0 {
                    th scope="row" class=[class] { (cell_markup(cell)) }
                } @else {
                    td class=[class] data-t=[column.target] { (cell_markup(cell)) }
                }
            }
        }
    }
}

fn class(tone: Tone, is_number: bool) -> Option<String> {
    let tone = match tone {
        Tone::Plain => "",
        Tone::Muted => "muted",
        Tone::Better => "better",
        Tone::Worse => "worse",
        Tone::Care => "care",
        Tone::Yes => "yes",
        Tone::No => "no",
    };
    let text = if is_number { "" } else { "text" };
    let class = format!("{text} {tone}");
    Some(class.trim().to_owned()).filter(|class| !class.is_empty())
}

fn cell_markup(cell: &Cell) -> Markup {
    // Arrows are drawn by the style sheet. Readers who do not see them hear the word.
    let word = match cell.tone {
        Tone::Better => Some("better: "),
        Tone::Worse => Some("worse: "),
        _ => None,
    };
    if cell.tone == Tone::Plain && cell.detail.is_none() && cell.fold.is_none() {
        return super::text(&cell.text);
    }
    html! {
        @if let Some(word) = word { span.unseen { (word) } }
        span.main { (super::text(&cell.text)) }
        @if let Some(detail) = &cell.detail { span.detail { (super::text(detail)) } }
        @if let Some(fold) = &cell.fold {
            details.fold { summary { "formula" } code { (fold) } }
        }
    }
}

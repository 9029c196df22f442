//! A document as one HTML file: no other file and no network is needed. `maud` escapes all text.

mod picture;
mod table;
mod theme;

use crate::chart::{DrawError, palette};
use crate::document::{Answer, Document, Item, Section, Span, Text};
use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");
/// The browser itself refuses every request, so that the promise of a self-contained file does not
/// depend on the absence of mistakes here.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'";

/// Parts of a document whose list is shown at once. A longer list would push the answer down.
const MAX_CONTENTS: usize = 16;

/// Returns the page. Links to files of pictures are left out without `has_files`.
///
/// # Errors
/// Fails if a chart cannot be drawn.
pub(crate) fn page(document: &Document, has_files: bool) -> Result<String, DrawError> {
    let mut sections = Vec::with_capacity(document.sections.len());
    for section in &document.sections {
        sections.push(section_markup(section, has_files)?);
    }
    let lead = usize::from(leads(document));
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                title { (document.title) }
                style { (PreEscaped(theme::rules(document.targets.len()))) (PreEscaped(STYLE)) }
            }
            body {
                a.skip href="#content" { "Skip to the report" }
                div.page {
                    (header(document))
                    main id="content" {
                        @for section in sections.iter().take(lead) { (section) }
                        (contents(document))
                        (controls(document))
                        @for section in sections.iter().skip(lead) { (section) }
                    }
                    footer { p { "Written by gemelo " (env!("CARGO_PKG_VERSION")) "." } }
                }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    Ok(markup.into_string())
}

fn header(document: &Document) -> Markup {
    html! {
        header {
            p.kind { "gemelo report" }
            h1 { (document.title) }
            @if !document.subtitle.is_empty() { p.subtitle { (document.subtitle) } }
        }
    }
}

/// Returns whether the first part of a document stands before the controls: a reader wants the
/// answer first, and the controls are for pictures.
fn leads(document: &Document) -> bool {
    let is_picture = |item: &Item| matches!(item, Item::Pictures(_));
    document.sections.first().is_some_and(|section| !section.items.iter().any(is_picture))
}

fn contents(document: &Document) -> Markup {
    let list = html! {
        ul {
            @for section in &document.sections {
                li { a href={ "#" (section.id) } { (section.title) } }
            }
        }
    };
    html! {
        @match document.sections.len() {
            0..=2 => {}
            3..=MAX_CONTENTS => nav aria-label="Contents" { (list) },
            _ => nav aria-label="Contents" { details { summary { "Contents" } (list) } },
        }
    }
}

fn controls(document: &Document) -> Markup {
    let pictures = || {
        document.sections.iter().flat_map(|section| &section.items).filter_map(|item| match item {
            Item::Pictures(pictures) => Some(pictures),
            _ => None,
        })
    };
    let has_pictures = pictures().any(|pictures| !pictures.is_empty());
    let has_linear = pictures().flatten().any(|picture| picture.linear.is_some());
    html! {
        div.controls hidden role="group" aria-label="View" {
            @if document.targets.len() > 1 {
                fieldset {
                    legend { "Show" }
                    @for (number, target) in document.targets.iter().enumerate() {
                        @if target.is_measured {
                        label {
                            input type="checkbox" checked data-hides=(number);
                            span.key style={ "background:var(--" (theme::variable(number)) ")" } {}
                            (target.name)
                        }
                        }
                    }
                }
            }
            @if has_linear {
                label { input #scale type="checkbox" checked; "Logarithmic axes" }
            }
            @if has_pictures { label { input #tables type="checkbox"; "Tables of pictures" } }
            label {
                "Colours"
                select #theme {
                    option value="system" { "of the system" }
                    option value="light" { "light" }
                    option value="dark" { "dark" }
                }
            }
        }
    }
}

fn section_markup(section: &Section, has_files: bool) -> Result<Markup, DrawError> {
    let mut items = Vec::with_capacity(section.items.len());
    for item in &section.items {
        items.push(item_markup(item, has_files)?);
    }
    let heading = format!("{}-heading", section.id);
    Ok(html! {
        section id=(section.id) aria-labelledby=(heading) {
            h2 id=(heading) { (section.title) }
            @for item in &items { (item) }
        }
    })
}

fn item_markup(item: &Item, has_files: bool) -> Result<Markup, DrawError> {
    Ok(match item {
        Item::Heading(title) => html! { h3 { (title) } },
        Item::Paragraph(paragraph) => html! { p { (text(paragraph)) } },
        Item::Answers(answers) => html! {
            ul.answers { @for answer in answers { (answer_markup(answer)) } }
        },
        Item::List(list) => html! { ul.list { @for entry in list { li { (text(entry)) } } } },
        Item::Warnings(warnings) => html! {
            div.warnings role="note" {
                p { "Warnings" }
                ul { @for warning in warnings { li { (warning) } } }
            }
        },
        Item::Facts(facts) => html! {
            dl { @for (name, fact) in facts { dt { (name) } dd { (text(fact)) } } }
        },
        Item::Table(table) => table::markup(table, false),
        Item::More(table) => html! {
            details.code { summary { (table.caption) } (table::markup(table, true)) }
        },
        Item::Pictures(pictures) => picture::markup(pictures, has_files)?,
        Item::Code { title, text } => html! {
            details.code { summary { (title) } pre tabindex="0" { (text) } }
        },
    })
}

fn answer_markup(answer: &Answer) -> Markup {
    html! {
        li {
            p { (text(&answer.sentence)) }
            @if !answer.details.is_empty() {
                ul { @for detail in &answer.details { li { (text(detail)) } } }
            }
        }
    }
}

/// Returns text with its emphasis and links.
fn text(text: &Text) -> Markup {
    html! {
        @for span in &text.0 {
            @match span {
                Span::Plain(plain) => (plain),
                Span::Strong(strong) => strong { (strong) },
                Span::Link(label, address) => a href=(address) { (label) },
            }
        }
    }
}

/// Returns the colour of a target as a drawing writes it.
fn drawn(number: usize) -> String {
    palette::hex(palette::target(number).light)
}

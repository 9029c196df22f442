//! Pictures: the drawing, how to read it, the table of its data, and the files for papers.

use crate::chart::{Chart, DrawError, font_size};
use crate::document::Picture;
use maud::{Markup, PreEscaped, html};

/// Returns pictures that stand side by side if there is space.
pub(super) fn markup(pictures: &[Picture], has_files: bool) -> Result<Markup, DrawError> {
    let mut figures = Vec::with_capacity(pictures.len());
    for picture in pictures {
        figures.push(figure(picture, has_files)?);
    }
    Ok(html! { div.pictures { @for figure in &figures { (figure) } } })
}

fn figure(picture: &Picture, has_files: bool) -> Result<Markup, DrawError> {
    let drawn = drawing(&picture.chart, picture, "drawn")?;
    let linear = match &picture.linear {
        Some(chart) => Some(drawing(chart, picture, "linear")?),
        None => None,
    };
    let file = |kind: &str| format!("pictures/{}.{kind}", picture.id);
    Ok(html! {
        figure id=(picture.id) {
            figcaption { (picture.title) }
            div.has-linear[linear.is_some()] {
                (drawn)
                @if let Some(linear) = &linear { (linear) }
            }
            p.note { (picture.note) }
            div.more {
                details {
                    summary { "Table" span.unseen { " of the picture: " (picture.title) } }
                    (super::table::markup(&picture.table, true))
                }
                @if has_files {
                    a href=(file("svg")) { "SVG" span.unseen { " of: " (picture.title) } }
                    @if cfg!(feature = "png") {
                        a href=(file("png")) { "PNG" span.unseen { " of: " (picture.title) } }
                    }
                }
            }
        }
    })
}

fn drawing(chart: &Chart, picture: &Picture, class: &str) -> Result<Markup, DrawError> {
    let drawing = chart.draw()?;
    let label = format!("{}. {} The table below has the numbers.", picture.title, picture.note);
    // The drawing library escapes the texts of the drawing.
    Ok(html! {
        svg class=(class) viewBox=(drawing.view_box()) role="img" aria-label=(label)
            font-family="sans-serif" font-size=(font_size()) {
            (PreEscaped(drawing.elements))
        }
    })
}

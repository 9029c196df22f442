//! Pictures as files: SVG as it is drawn, and with the feature `png` also PNG, for programs that
//! cannot show SVG.

use crate::chart::Chart;
use crate::document::{Document, Item, Picture};
use crate::{File, PageError};
use gemelo_base::threads::together;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Returns the files of all pictures of a document.
///
/// # Errors
/// Fails if a chart cannot be drawn or encoded.
pub(crate) fn files<'a>(document: &'a Document) -> Result<Vec<File>, PageError> {
    let named = |picture: &'a Picture| {
        let linear = picture.linear.as_ref().map(|chart| (format!("{}-linear", picture.id), chart));
        [Some((picture.id.clone(), &picture.chart)), linear].into_iter().flatten()
    };
    let charts: Vec<(String, &Chart)> = pictures(document).flat_map(named).collect();
    // A PNG takes about 50 ms, and a report of 100 runs has about 70.
    let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let share = charts.len().div_ceil(threads).max(1);
    let shares: Vec<_> = charts.chunks(share).enumerate().collect();
    let next = AtomicUsize::new(0);
    let draw_some = || {
        let mut drawn = Vec::new();
        while let Some((number, charts)) = shares.get(next.fetch_add(1, Ordering::Relaxed)) {
            drawn.push((*number, files_of(charts)));
        }
        drawn
    };
    let mut drawn: Vec<_> = together(threads, draw_some).into_iter().flatten().collect();
    drawn.sort_unstable_by_key(|(number, _)| *number);
    let mut files = Vec::new();
    for (_, share) in drawn {
        files.extend(share?);
    }
    Ok(files)
}

fn files_of(charts: &[(String, &Chart)]) -> Result<Vec<File>, PageError> {
    let mut files = Vec::with_capacity(2 * charts.len());
    for (name, chart) in charts {
        add(&mut files, name, chart)?;
    }
    Ok(files)
}

/// Returns all pictures of a document.
pub(crate) fn pictures(document: &Document) -> impl Iterator<Item = &Picture> {
    document.sections.iter().flat_map(|section| &section.items).flat_map(|item| match item {
        Item::Pictures(pictures) => pictures.as_slice(),
        _ => &[],
    })
}

fn add(files: &mut Vec<File>, name: &str, chart: &Chart) -> Result<(), PageError> {
    let svg = chart.draw()?.to_file();
    #[cfg(feature = "png")]
    let png = crate::png::of_svg(&svg)
        .map_err(|reason| PageError::Png { picture: name.to_owned(), reason })?;
    files.push(File { path: format!("pictures/{name}.svg").into(), bytes: svg.into_bytes() });
    #[cfg(feature = "png")]
    files.push(File { path: format!("pictures/{name}.png").into(), bytes: png });
    Ok(())
}

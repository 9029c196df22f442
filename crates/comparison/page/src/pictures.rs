//! Pictures as files: SVG as it is drawn, and PNG for programs that cannot show SVG.
//!
//! The library `resvg` makes the PNG out of the same SVG, so that both are the same picture. Its
//! letters come from a font in this program (DejaVu Sans): the files then look the same on every
//! machine, and machines without fonts can make them.

use crate::chart::Chart;
use crate::document::{Document, Item, Picture};
use crate::{File, PageError};
use gemelo_base::threads::together;
use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb::Database};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Pixels of a PNG for each unit of a drawing: 1410 pixels across, 300 dots an inch in a column of
/// a paper.
const PIXELS_PER_UNIT: f32 = 3.0;
/// Name of the font in this program.
const FONT: &str = "DejaVu Sans";

/// Returns the files of all pictures of a document.
///
/// # Errors
/// Fails if a chart cannot be drawn or encoded.
pub(crate) fn files<'a>(document: &'a Document) -> Result<Vec<File>, PageError> {
    let options = options();
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
            drawn.push((*number, files_of(charts, &options)));
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

fn files_of(charts: &[(String, &Chart)], options: &Options<'_>) -> Result<Vec<File>, PageError> {
    let mut files = Vec::with_capacity(2 * charts.len());
    for (name, chart) in charts {
        add(&mut files, options, name, chart)?;
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

fn options() -> Options<'static> {
    let mut fonts = Database::new();
    fonts.load_font_data(dejavu::sans::regular().to_vec());
    fonts.set_sans_serif_family(FONT);
    Options { font_family: FONT.to_owned(), fontdb: Arc::new(fonts), ..Options::default() }
}

fn add(
    files: &mut Vec<File>,
    options: &Options<'_>,
    name: &str,
    chart: &Chart,
) -> Result<(), PageError> {
    let svg = chart.draw()?.to_file();
    let png =
        png(&svg, options).map_err(|reason| PageError::Png { picture: name.to_owned(), reason })?;
    files.push(File { path: format!("pictures/{name}.svg").into(), bytes: svg.into_bytes() });
    files.push(File { path: format!("pictures/{name}.png").into(), bytes: png });
    Ok(())
}

fn png(svg: &str, options: &Options<'_>) -> Result<Vec<u8>, String> {
    let tree = Tree::from_str(svg, options).map_err(|error| error.to_string())?;
    let pixels = |length: f32| (length * PIXELS_PER_UNIT).ceil() as u32;
    let (width, height) = (pixels(tree.size().width()), pixels(tree.size().height()));
    let mut pixmap = Pixmap::new(width, height)
        .ok_or_else(|| format!("{width} times {height} pixels are too many"))?;
    let transform = Transform::from_scale(PIXELS_PER_UNIT, PIXELS_PER_UNIT);
    resvg::render(&tree, transform, &mut pixmap.as_mut());
    pixmap.encode_png().map_err(|error| error.to_string())
}

//! The library `resvg` makes a PNG out of an SVG, so that both are the same picture. Its letters
//! come from a font in this program (DejaVu Sans): the files then look the same on every machine,
//! and machines without fonts can make them.

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb::Database};
use std::sync::{Arc, LazyLock};

/// Pixels of a PNG for each unit of a drawing: 1410 pixels across, 300 dots an inch in a column of
/// a paper.
const PIXELS_PER_UNIT: f32 = 3.0;
/// Name of the font in this program.
const FONT: &str = "DejaVu Sans";

/// The font and its name.
static OPTIONS: LazyLock<Options<'static>> = LazyLock::new(|| {
    let mut fonts = Database::new();
    fonts.load_font_data(dejavu::sans::regular().to_vec());
    fonts.set_sans_serif_family(FONT);
    Options { font_family: FONT.to_owned(), fontdb: Arc::new(fonts), ..Options::default() }
});

/// Returns the picture of an SVG as PNG; the error is the reason why that fails.
pub(crate) fn of_svg(svg: &str) -> Result<Vec<u8>, String> {
    let tree = Tree::from_str(svg, &OPTIONS).map_err(|error| error.to_string())?;
    let pixels = |length: f32| (length * PIXELS_PER_UNIT).ceil() as u32;
    let (width, height) = (pixels(tree.size().width()), pixels(tree.size().height()));
    let mut pixmap = Pixmap::new(width, height)
        .ok_or_else(|| format!("{width} times {height} pixels are too many"))?;
    let transform = Transform::from_scale(PIXELS_PER_UNIT, PIXELS_PER_UNIT);
    resvg::render(&tree, transform, &mut pixmap.as_mut());
    pixmap.encode_png().map_err(|error| error.to_string())
}

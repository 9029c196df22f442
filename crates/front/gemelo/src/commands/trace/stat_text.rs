//! The figures of a trace as text.

use crate::table::Table;
use gemelo_base::units::{format_count, format_counted, format_duration_ns, format_size};
use gemelo_trace::{AccessProfile, Concentration, Stats, TraceFormat};

/// Most devices that are listed.
const MAX_DEVICES: usize = 20;

fn ratio(value: Option<f64>) -> String {
    value.map_or_else(|| "unknown".to_owned(), |ratio| format!("{ratio:.3}"))
}

fn blocks(count: u64, figures: &Stats) -> String {
    format_size(count.saturating_mul(figures.block_bytes))
}

fn share(part: f64) -> String {
    format!("{:.1} %", part * 100.0)
}

/// Returns the figures as text.
pub(super) fn text(figures: &Stats, profile: &AccessProfile, formats: &[TraceFormat]) -> String {
    let names: Vec<&str> = formats.iter().map(|format| format.name()).collect();
    let mut text = format!(
        "{} ({}), blocks of {}\n",
        format_counted(figures.records, "record"),
        names.join(", "),
        format_size(figures.block_bytes)
    );
    text += &volumes(figures);
    text += &ratios(figures, profile);
    text += &hot_spots(figures);
    text += &devices(figures);
    text
}

fn volumes(figures: &Stats) -> String {
    let optional = |count: Option<u64>| {
        count.map_or_else(|| "unknown".to_owned(), |count| blocks(count, figures))
    };
    let mut table = Table::new();
    table.row(["", "written", "read"]);
    table.row(["requests", &format_count(figures.writes), &format_count(figures.reads)]);
    table.row(["all", &format_size(figures.written_bytes), &format_size(figures.read_bytes)]);
    table.row([
        "unique by offset",
        &blocks(figures.written_places, figures),
        &blocks(figures.read_places, figures),
    ]);
    table.row([
        "unique by content",
        &optional(figures.written_contents),
        &optional(figures.read_contents),
    ]);
    table.render(2)
}

/// Adds the zeros that a ratio leaves out, and the ratio with them, if there are any.
fn add_zeros(
    table: &mut Table,
    figures: &Stats,
    (count, what): (u64, &str),
    with_zeros: Option<f64>,
) {
    if count > 0 {
        let zeros = blocks(count, figures);
        table.row(["", &format!("{zeros} of zeros {what}; with them {}", ratio(with_zeros))]);
    }
}

fn ratios(figures: &Stats, profile: &AccessProfile) -> String {
    let per_s =
        |rate: Option<f64>| rate.map_or_else(|| "unknown".to_owned(), |rate| format!("{rate:.2}"));
    let mut table = Table::new();
    let length = format!("{:.3} days ({})", figures.days, format_duration_ns(figures.duration_ns));
    table.row(["duration", &length]);
    table.row(["dedup ratio of what is written", &ratio(figures.dedup_ratio_written)]);
    let with_zeros = figures.dedup_ratio_written_with_zeros;
    add_zeros(&mut table, figures, (figures.written_zero_blocks, "are written"), with_zeros);
    let at_end = format!(
        "{} ({} in {} contents)",
        ratio(figures.dedup_ratio_at_end),
        blocks(figures.places_at_end, figures),
        format_count(figures.contents_at_end)
    );
    table.row(["dedup ratio at the end", &at_end]);
    let with_zeros = figures.dedup_ratio_at_end_with_zeros;
    add_zeros(&mut table, figures, (figures.zero_places_at_end, "are among them"), with_zeros);
    table.row(["populated before they are read", &blocks(figures.populated_places, figures)]);
    table.row(["touched", &format_size(figures.touched_bytes)]);
    table.row(["ranges accessed", &format_size(figures.range_bytes)]);
    table.row(["records a second", &per_s(figures.records_per_s)]);
    table.row(["rewrites a second", &per_s(figures.rewrites_per_s)]);
    if let Some(dispersion) = figures.dispersion {
        table.row(["burstiness (1: Poisson)", &format!("{dispersion:.2}")]);
    }
    table.row(["writes among requests", &share(profile.write_share)]);
    table.row(["mean request", &format_size(profile.request_bytes.round() as u64)]);
    table.row(["sequential", &share(figures.sequential_share)]);
    table.row(["nearest pattern", &profile.pattern.to_string()]);
    table.row(["memory of this count", &format_size(figures.memory_bytes)]);
    table.render(2)
}

fn hot_spots(figures: &Stats) -> String {
    let row = |name: &str, hot: &[Concentration]| {
        let cells = hot.iter().map(|hot| share(hot.accesses_share));
        std::iter::once(name.to_owned()).chain(cells).collect::<Vec<_>>()
    };
    let longest =
        if figures.hot_writes.is_empty() { &figures.hot_reads } else { &figures.hot_writes };
    if longest.is_empty() {
        return String::new();
    }
    let mut table = Table::new();
    let head = longest.iter().map(|hot| format!("{} %", hot.places_share * 100.0));
    table.row(std::iter::once("of places".to_owned()).chain(head));
    for (name, hot) in
        [("get of writes", &figures.hot_writes), ("get of reads", &figures.hot_reads)]
    {
        if !hot.is_empty() {
            table.row(row(name, hot));
        }
    }
    let mut hottest = Table::new();
    hottest.row(["hottest blocks", "device", "writes", "reads"]);
    for place in &figures.hottest {
        let counts = [format_count(place.writes), format_count(place.reads)];
        hottest.row([&place.block.to_string(), &place.device, &counts[0], &counts[1]]);
    }
    format!("hot spots\n{}{}", table.render(2), hottest.render(2))
}

fn devices(figures: &Stats) -> String {
    if figures.devices.len() < 2 {
        return String::new();
    }
    let mut table = Table::new();
    table.row(["device", "records", "written", "read", "range"]);
    for device in figures.devices.iter().take(MAX_DEVICES) {
        let [written, read, range] =
            [device.written_bytes, device.read_bytes, device.range_bytes].map(format_size);
        table.row([&device.device, &format_count(device.records), &written, &read, &range]);
    }
    let more = figures.devices.len().saturating_sub(MAX_DEVICES);
    let more = if more > 0 { format!("  and {more} more\n") } else { String::new() };
    format!("devices\n{}{more}", table.render(2))
}

/// Share of unaligned requests above which the figures of blocks are unreliable.
const MANY_UNALIGNED: f64 = 0.1;

/// Returns warnings that follow from the figures.
pub(super) fn advice(figures: &Stats) -> Vec<String> {
    let mut advice = Vec::new();
    if figures.contradictions > 0 {
        advice.push(format!(
            "{} blocks were read with a content other than the trace wrote there: the trace lacks \
             some writes",
            figures.contradictions
        ));
    }
    if figures.unaligned_share > MANY_UNALIGNED {
        advice.push(format!(
            "{} of the requests do not consist of whole blocks of {}: try a smaller --block-size",
            share(figures.unaligned_share),
            format_size(figures.block_bytes)
        ));
    }
    advice
}

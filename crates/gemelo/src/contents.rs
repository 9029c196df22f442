//! From the content options of a command to the specification of what it writes.

use crate::commands::bench::options::ContentOptions;
use crate::distributions::{self, USUAL_BLOCK_BYTES};
use crate::exit::OrBadInput;
use gemelo_base::Monitor;
use gemelo_base::random::fresh_word;
use gemelo_content::{AssignmentMode, ContentSpec, Nature};

/// The distribution of a command that names none.
const USUAL_DISTRIBUTION: &str = "personal";
/// The seed of a command that names none: the same everywhere, so that duplicates are the same everywhere.
const USUAL_SEED: u64 = 1;

/// The distribution that the options ask for, as it was named.
pub(crate) fn distribution_name(options: &ContentOptions) -> &str {
    options.distribution.as_deref().unwrap_or(USUAL_DISTRIBUTION)
}

/// The contents that the options ask for.
///
/// # Errors
/// All are bad input: an unknown or malformed distribution, a figure out of its range.
pub(crate) fn resolve(
    options: &ContentOptions,
    monitor: &dyn Monitor,
) -> anyhow::Result<ContentSpec> {
    let name = distribution_name(options);
    let named = distributions::load(name)?;
    for note in &named.notes {
        monitor.warn(&distributions::formats::note_at(name, note));
    }
    let counted_at = named.block_bytes();
    let block_bytes = options.block_size.map_or(USUAL_BLOCK_BYTES, |size| size.0);
    if let Some(counted_at) = counted_at.filter(|bytes| *bytes != block_bytes) {
        monitor.warn(&format!(
            "the duplicates of {name} were counted in blocks of {counted_at} bytes, the load has blocks of {block_bytes}"
        ));
    }
    let block_bytes = usize::try_from(block_bytes).or_bad_input()?;
    let mut spec =
        ContentSpec::new(named.distribution, block_bytes, options.seed.unwrap_or(USUAL_SEED));
    if let Some(profile) = &named.profile {
        spec = spec.with_natures_of(profile);
    }
    // What is asked for holds for all classes, whatever the profile says.
    let all =
        spec.class_natures.iter_mut().map(|class| &mut class.nature).chain([&mut spec.nature]);
    for nature in all {
        *nature = Nature {
            entropy_bits: options.entropy.unwrap_or(nature.entropy_bits),
            compressible_share: options
                .compressibility
                .map_or(nature.compressible_share, |percent| percent.0),
        };
    }
    spec.mode = options.content.map_or(AssignmentMode::Exact, Into::into);
    spec.run = options.run_id.unwrap_or_else(fresh_word);
    spec.duplicate_distance = options.duplicate_distance;
    spec.similar_share = options.similar.map_or(0.0, |percent| percent.0);
    spec.shifted_share = options.shifted.map_or(0.0, |percent| percent.0);
    spec.check().or_bad_input()?;
    Ok(spec)
}

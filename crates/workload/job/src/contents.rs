//! Turns the content options of a job into the specification of its contents.

use crate::distributions::{self, NamedDistributionError, USUAL_BLOCK_BYTES};
use crate::options::ContentOptions;
use gemelo_base::random::fresh_word;
use gemelo_base::{Classified, Monitor};
use gemelo_content::{AssignmentMode, ContentError, ContentSpec, Nature};
use thiserror::Error;

/// Distribution of a job without the option `--distribution`.
const USUAL_DISTRIBUTION: &str = "personal";
/// Seed of a job without the option `--seed`, and of contents without `--content-seed`. It is
/// fixed, so that duplicates are the same on every host.
pub const USUAL_SEED: u64 = 1;

/// Returns the name of the distribution that the options select.
#[must_use]
pub fn distribution_name(options: &ContentOptions) -> &str {
    options.distribution.as_deref().unwrap_or(USUAL_DISTRIBUTION)
}

/// The reason why content options are invalid.
#[derive(Debug, Error, Classified)]
#[kind(BadInput)]
pub enum ContentOptionsError {
    /// The distribution cannot be found or read.
    #[error(transparent)]
    Distribution(#[from] NamedDistributionError),
    /// A figure is outside its range.
    #[error(transparent)]
    Content(#[from] ContentError),
    /// The block size exceeds the address space.
    #[error(
        "a block size of {block_bytes} bytes is too large for this machine: use a smaller --block-size"
    )]
    BlockSize {
        /// The given block size.
        block_bytes: u64,
    },
}

/// Returns the contents of a job, which another host may have resolved already.
///
/// # Errors
/// Fails as [`resolve`] does.
pub(crate) fn settled(
    spec: Option<ContentSpec>,
    options: &ContentOptions,
    monitor: &dyn Monitor,
) -> Result<ContentSpec, ContentOptionsError> {
    spec.map_or_else(|| resolve(options, monitor), Ok)
}

/// Resolves content options. Remarks on the distribution go to the monitor.
///
/// # Errors
/// Fails if the distribution is unknown or malformed, or a figure is outside its range.
pub fn resolve(
    options: &ContentOptions,
    monitor: &dyn Monitor,
) -> Result<ContentSpec, ContentOptionsError> {
    let name = distribution_name(options);
    let named = distributions::load(name)?;
    for note in &named.notes {
        monitor.warn(&distributions::formats::note_at(name, note));
    }
    let counted_at = named.block_bytes();
    let block_bytes = options.block_size.map_or(USUAL_BLOCK_BYTES, |size| size.0);
    if let Some(counted_at) = counted_at.filter(|bytes| *bytes != block_bytes) {
        monitor.warn(&format!(
            "the duplicates of {name} were counted in blocks of {counted_at} bytes, and the load has \
             blocks of {block_bytes}"
        ));
    }
    let block_bytes =
        usize::try_from(block_bytes).map_err(|_| ContentOptionsError::BlockSize { block_bytes })?;
    let mut spec = ContentSpec::new(
        named.distribution,
        block_bytes,
        options.content_seed.unwrap_or(USUAL_SEED),
    );
    spec.assignment_seed = options.seed.unwrap_or(USUAL_SEED);
    if let Some(profile) = &named.profile {
        spec = spec.with_natures_of(profile);
    }
    // An option holds for all classes and replaces the figures of the profile.
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
    spec.private_share = options.private_share.map_or(0.0, |percent| percent.0);
    spec.check()?;
    Ok(spec)
}

//! The bytes of a content: a pure function of the seed, the run and the content id.
//!
//! A block consists of a mark of 16 bytes that names the content, and a body that has the requested
//! nature: random bytes, fewer random bytes for a lower entropy, repeats for compressibility. A
//! content can also be derived from the body of another. A *similar* content differs from it in a
//! few bytes; a *shifted* content is moved by some bytes.

mod entropy;
mod examine;
mod mark;
mod random;
mod recipe;

pub use examine::Examination;

use crate::assignment::class_of;
use crate::{BlockContent, ContentError, ContentId, ContentSpec};
use gemelo_base::random::{mix_pair, mix64};
use mark::{MARK_BYTES, MarkKey};
use random::Vectors;
use recipe::Recipe;

/// The number of contents in a family. The first content of a family is its leader, and the derived
/// contents of the family are made from the leader's body.
const FAMILY: u64 = 64;
/// The number of bytes that a similar content changes in the body.
const EDITS: u64 = 4;
/// The longest distance by which a shifted content is moved, in bytes.
const MAX_SHIFT_BYTES: u64 = 512;

const SHARED_KEY: u64 = 0x7368_6172;
const UNIQUE_KEY: u64 = 0x756e_6971;
const DERIVED_KEY: u64 = 0x6465_7269;

/// Generates and recognises the bytes of contents. All processes of a job share one generator.
#[derive(Debug, Clone)]
pub struct Generator {
    block_bytes: usize,
    vectors: Vectors,
    shared: Kind,
    unique: Kind,
    recipes: Vec<Recipe>,
    /// The index into `recipes` for each class of the distribution.
    recipe_of_class: Vec<usize>,
    recipe_of_unique: usize,
    /// The thresholds for the hash of a content: below the first the content is similar, below the
    /// second it is shifted.
    similar_below: u64,
    shifted_below: u64,
}

/// The keys of one kind of content. Those of shared contents depend on the seed only, those of
/// unique contents on the run too.
#[derive(Debug, Clone, Copy)]
struct Kind {
    body: u64,
    mark: MarkKey,
}

impl Kind {
    const fn new(seed: u64) -> Self {
        Self { body: seed, mark: MarkKey::new(seed) }
    }
}

/// The source of a content's body: its own key, or the body of its family's leader.
enum Origin {
    Own,
    Similar(ContentId),
    Shifted(ContentId),
}

impl Generator {
    /// Creates a generator for the contents of this specification.
    ///
    /// # Errors
    /// Fails if a figure of the specification is out of its range.
    pub fn new(spec: &ContentSpec) -> Result<Self, ContentError> {
        spec.check()?;
        let mut recipes: Vec<Recipe> = Vec::new();
        let mut recipe_for = |duplicates| {
            let nature = spec.nature_of(duplicates);
            recipes.iter().position(|known| known.nature() == nature).unwrap_or_else(|| {
                recipes.push(Recipe::new(nature, spec.block_bytes));
                recipes.len() - 1
            })
        };
        let recipe_of_unique = recipe_for(0);
        let classes = spec.distribution.classes();
        let recipe_of_class = classes.iter().map(|class| recipe_for(class.duplicates)).collect();
        let share_of_words = |share: f64| (share.clamp(0.0, 1.0) * u64::MAX as f64) as u64;
        // The leader of a family is never derived, so the other members are derived more often to
        // make up for it.
        let others = FAMILY as f64 / (FAMILY - 1) as f64;
        Ok(Self {
            block_bytes: spec.block_bytes,
            vectors: Vectors::of_this_machine(),
            shared: Kind::new(mix_pair(spec.seed, SHARED_KEY)),
            unique: Kind::new(mix_pair(mix_pair(spec.seed, UNIQUE_KEY), spec.run)),
            recipes,
            recipe_of_class,
            recipe_of_unique,
            similar_below: share_of_words(spec.similar_share * others),
            shifted_below: share_of_words((spec.similar_share + spec.shifted_share) * others),
        })
    }

    /// Returns the size of a block in bytes.
    #[must_use]
    pub const fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    /// Returns a message for the user for each property of the specification that cannot be
    /// reached, with what is written instead.
    #[must_use]
    pub fn shortfalls(&self) -> Vec<String> {
        self.recipes.iter().filter_map(|recipe| recipe.shortfall(self.block_bytes)).collect()
    }

    /// Fills a block with the bytes of a content. The block should have [`Self::block_bytes`]; a
    /// shorter or longer one is filled as a block of its own length.
    #[inline]
    pub fn fill(&self, content: impl Into<BlockContent>, block: &mut [u8]) {
        match content.into() {
            BlockContent::Zeros => block.fill(0),
            BlockContent::Id(id) => self.fill_id(id, block),
        }
    }

    #[inline]
    fn fill_id(&self, id: ContentId, block: &mut [u8]) {
        let kind = self.kind(id);
        let recipe = self.recipe(id);
        let body = block.get_mut(MARK_BYTES..).unwrap_or_default();
        if self.shifted_below == 0 {
            recipe.fill(self.vectors, mix_pair(kind.body, id.to_bits()), body);
        } else {
            self.fill_derived(id, recipe, body);
        }
        kind.mark.write(id, block);
    }

    fn fill_derived(&self, id: ContentId, recipe: &Recipe, body: &mut [u8]) {
        let kind = self.kind(id);
        let key = |id: ContentId| mix_pair(kind.body, id.to_bits());
        match self.origin(id) {
            Origin::Own => recipe.fill(self.vectors, key(id), body),
            Origin::Similar(leader) => {
                recipe.fill(self.vectors, key(leader), body);
                edit(mix64(key(id)), body);
            }
            Origin::Shifted(leader) => {
                recipe.fill(self.vectors, key(leader), body);
                let most = MAX_SHIFT_BYTES.min(body.len() as u64 / 8).max(1);
                let shift = (1 + mix64(key(id)) % most) as usize;
                let kept = body.len().saturating_sub(shift);
                body.copy_within(..kept, shift.min(body.len()));
                let fresh = shift.min(body.len());
                recipe.fill(self.vectors, key(id), body.get_mut(..fresh).unwrap_or_default());
            }
        }
    }

    fn origin(&self, id: ContentId) -> Origin {
        let leader = id.with_number(id.number() / FAMILY * FAMILY);
        if leader == id {
            return Origin::Own;
        }
        let word = mix_pair(self.shared.body ^ DERIVED_KEY, id.to_bits());
        if word < self.similar_below {
            Origin::Similar(leader)
        } else if word < self.shifted_below {
            Origin::Shifted(leader)
        } else {
            Origin::Own
        }
    }

    /// Returns the content that the mark of a block names, without checking the body. Returns
    /// `None` for bytes that this generator did not make, and for unique contents of another run.
    #[must_use]
    pub fn identify(&self, block: &[u8]) -> Option<ContentId> {
        let shared = self.shared.mark.read(block).filter(|id| !id.is_unique());
        shared.or_else(|| self.unique.mark.read(block).filter(|id| id.is_unique()))
    }

    #[inline]
    const fn kind(&self, id: ContentId) -> &Kind {
        if id.is_unique() { &self.unique } else { &self.shared }
    }

    #[inline]
    fn recipe(&self, id: ContentId) -> &Recipe {
        let index = match class_of(id) {
            Some(class) => {
                self.recipe_of_class.get(class).copied().unwrap_or(self.recipe_of_unique)
            }
            None => self.recipe_of_unique,
        };
        // Every index was created together with the list, which is never empty.
        &self.recipes[index]
    }
}

/// Changes a few bytes at offsets that the key determines.
fn edit(key: u64, body: &mut [u8]) {
    for index in 0..EDITS {
        let word = mix_pair(key, index);
        let place = word % (body.len() as u64).max(1);
        if let Some(byte) = body.get_mut(place as usize) {
            *byte ^= (word >> 56) as u8 | 1;
        }
    }
}

#[cfg(test)]
mod tests;

//! The derives of the crate `base`: the kind of an error, and the table of a struct of stats.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod kinds;
mod tables;

use proc_macro::TokenStream;
use syn::{DeriveInput, Error, Result};

/// Derives `gemelo_base::Classified` for an error.
///
/// `#[kind(BadInput)]` stands before a variant, or before the type for all variants that have none.
/// A variant without a kind does not build. `#[kind(source)]` takes the kind of the error below:
/// of the field `source`, or of the first field of a tuple. `#[kind(source, untouched)]` and
/// `#[kind(source, midway)]` pass it through the method of `FailureKind` of that name.
///
/// `#[kind(BadInput, remedy = Overwrite)]` states a `Remedy` as well. `remedy = source` takes that
/// of the error below, as a kind of `source` does by itself, and `remedy = name` that which the
/// method `name` of the error returns.
#[proc_macro_derive(Classified, attributes(kind))]
pub fn derive_classified(input: TokenStream) -> TokenStream {
    derive(input, kinds::expand)
}

/// Derives `gemelo_base::StatTable` for a struct of numbers. The documentation of a field is its
/// description, in all places where the figure is shown.
///
/// `#[stat(counter)]` or `#[stat(gauge)]` stands before a field, or before the struct for all
/// fields that have none. `#[stat(skip)]` leaves a field out.
#[proc_macro_derive(StatTable, attributes(stat))]
pub fn derive_stat_table(input: TokenStream) -> TokenStream {
    derive(input, tables::expand)
}

fn derive(
    input: TokenStream,
    expand: fn(&DeriveInput) -> Result<proc_macro2::TokenStream>,
) -> TokenStream {
    let input = syn::parse_macro_input!(input as DeriveInput);
    expand(&input).unwrap_or_else(Error::into_compile_error).into()
}

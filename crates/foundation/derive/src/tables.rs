//! The derive of `gemelo_base::StatTable`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{
    Attribute, Data, DeriveInput, Error, Expr, ExprLit, Field, Fields, Ident, Lit, Meta, Result,
};

/// Returns the word of the attribute `stat`.
fn word(attributes: &[Attribute]) -> Result<Option<Ident>> {
    let attribute = attributes.iter().find(|attribute| attribute.path().is_ident("stat"));
    attribute.map(Attribute::parse_args).transpose()
}

/// Returns the documentation as one paragraph.
fn documentation(attributes: &[Attribute]) -> String {
    let lines = attributes.iter().filter_map(|attribute| match &attribute.meta {
        Meta::NameValue(meta) if meta.path.is_ident("doc") => match &meta.value {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.value().trim().to_owned()),
            _ => None,
        },
        _ => None,
    });
    lines.collect::<Vec<_>>().join(" ")
}

/// Returns the expression of a field's figure; [`None`] if the field is left out.
fn figure(field: &Field, of_struct: Option<&Ident>) -> Result<Option<TokenStream>> {
    let Some(name) = &field.ident else {
        return Err(Error::new_spanned(field, "a figure needs a name"));
    };
    let own = word(&field.attrs)?;
    let kind = match own.as_ref().or(of_struct) {
        Some(word) if word == "skip" => return Ok(None),
        Some(word) if word == "counter" => quote!(Counter),
        Some(word) if word == "gauge" => quote!(Gauge),
        _ => return Err(Error::new(name.span(), "a figure needs #[stat(counter)] or (gauge)")),
    };
    let (text, help) = (name.to_string(), documentation(&field.attrs));
    Ok(Some(quote! {
        ::gemelo_base::Stat {
            name: #text,
            help: #help,
            kind: ::gemelo_base::StatKind::#kind,
            value: u64::from(self.#name),
        }
    }))
}

pub(crate) fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let Data::Struct(data) = &input.data else {
        return Err(Error::new(input.ident.span(), "only a struct has a table of figures"));
    };
    let Fields::Named(fields) = &data.fields else {
        return Err(Error::new(input.ident.span(), "a figure needs a name"));
    };
    let of_struct = word(&input.attrs)?;
    let figures = fields.named.iter().map(|field| figure(field, of_struct.as_ref()));
    let figures: Vec<_> = figures.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect();
    let name = &input.ident;
    Ok(quote! {
        impl ::gemelo_base::StatTable for #name {
            fn table(&self) -> ::std::vec::Vec<::gemelo_base::Stat> {
                ::std::vec![#(#figures),*]
            }
        }
    })
}

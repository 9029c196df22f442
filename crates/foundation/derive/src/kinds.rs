//! The derive of `gemelo_base::Classified`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::parse::{Parse, ParseStream};
use syn::{Attribute, Data, DeriveInput, Error, Fields, Ident, Result, Token, Variant};

/// The arguments of an attribute `kind`.
struct Kind {
    /// One of the kinds by its name, or `source` for that of the error below.
    name: Ident,
    /// The method that the kind of the error below passes through.
    method: Option<Ident>,
    /// One of the remedies by its name, `source`, or a method that returns it.
    remedy: Option<Ident>,
}

impl Parse for Kind {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let name: Ident = input.parse()?;
        let (mut method, mut remedy) = (None, (name == "source").then(|| name.clone()));
        while input.parse::<Option<Token![,]>>()?.is_some() {
            let word: Ident = input.parse()?;
            if word == "remedy" {
                input.parse::<Token![=]>()?;
                remedy = Some(input.parse()?);
            } else if name == "source" {
                method = Some(word);
            } else {
                return Err(Error::new(word.span(), "only the kind of a source has a method"));
            }
        }
        Ok(Self { name, method, remedy })
    }
}

impl Kind {
    /// Returns what the attributes of a type or a variant state.
    fn of(attributes: &[Attribute]) -> Result<Option<Self>> {
        let attribute = attributes.iter().find(|attribute| attribute.path().is_ident("kind"));
        attribute.map(Attribute::parse_args).transpose()
    }

    /// Returns the pattern and the value of the arm that returns the kind.
    fn kind(&self, fields: &Fields) -> (TokenStream, TokenStream) {
        let name = &self.name;
        if name != "source" {
            return (quote!({ .. }), quote!(::gemelo_base::FailureKind::#name));
        }
        let method = self.method.as_ref().map(|method| quote!(.#method()));
        (source(fields), quote!(::gemelo_base::Classified::kind(source) #method))
    }

    /// Returns the pattern and the value of the arm that returns the remedy.
    fn remedy(&self, fields: &Fields) -> (TokenStream, TokenStream) {
        let Some(name) = &self.remedy else {
            return (quote!({ .. }), quote!(::core::option::Option::None));
        };
        if name == "source" {
            return (source(fields), quote!(::gemelo_base::Classified::remedy(source)));
        }
        let is_method = name.to_string().starts_with(char::is_lowercase);
        let value = match is_method {
            true => quote!(self.#name()),
            false => quote!(::core::option::Option::Some(::gemelo_base::Remedy::#name)),
        };
        (quote!({ .. }), value)
    }
}

/// Returns a pattern for fields that binds the error below.
fn source(fields: &Fields) -> TokenStream {
    match fields {
        Fields::Unnamed(_) => quote!((source, ..)),
        _ => quote!({ source, .. }),
    }
}

pub(crate) fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let of_type = Kind::of(&input.attrs)?;
    let missing = |name: &Ident| Error::new(name.span(), "the error needs #[kind(...)]");
    let [kind, remedy] = match &input.data {
        Data::Struct(data) => {
            let stated = of_type.ok_or_else(|| missing(&input.ident))?;
            [stated.kind(&data.fields), stated.remedy(&data.fields)]
                .map(|(pattern, value)| quote!(let Self #pattern = self; #value))
        }
        Data::Enum(data) => {
            let arms = |variant: &Variant| {
                let own = Kind::of(&variant.attrs)?;
                let stated = own.as_ref().or(of_type.as_ref());
                let stated = stated.ok_or_else(|| missing(&variant.ident))?;
                let name = &variant.ident;
                Ok([stated.kind(&variant.fields), stated.remedy(&variant.fields)]
                    .map(|(pattern, value)| quote!(Self::#name #pattern => #value,)))
            };
            let arms = data.variants.iter().map(arms).collect::<Result<Vec<_>>>()?;
            [0, 1].map(|which| {
                let arms = arms.iter().map(|pair| &pair[which]);
                quote!(match self { #(#arms)* })
            })
        }
        Data::Union(_) => return Err(missing(&input.ident)),
    };
    let (name, (generics, arguments, bounds)) = (&input.ident, input.generics.split_for_impl());
    Ok(quote! {
        impl #generics ::gemelo_base::Classified for #name #arguments #bounds {
            fn kind(&self) -> ::gemelo_base::FailureKind {
                #kind
            }

            fn remedy(&self) -> ::core::option::Option<::gemelo_base::Remedy> {
                #remedy
            }
        }
    })
}

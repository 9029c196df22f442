//! The derive of `gemelo_base::Classified`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::parse::{Parse, ParseStream};
use syn::{Attribute, Data, DeriveInput, Error, Fields, Ident, Result, Token, Variant};

/// The argument of an attribute `kind`.
enum Kind {
    /// One of the kinds by its name.
    Named(Ident),
    /// The kind of the error below, passed through a method.
    OfSource(Option<Ident>),
}

impl Parse for Kind {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let name: Ident = input.parse()?;
        if name != "source" {
            return Ok(Self::Named(name));
        }
        let method = input.parse::<Option<Token![,]>>()?.map(|_| input.parse()).transpose()?;
        Ok(Self::OfSource(method))
    }
}

impl Kind {
    /// Returns the kind that the attributes of a type or a variant state.
    fn of(attributes: &[Attribute]) -> Result<Option<Self>> {
        let attribute = attributes.iter().find(|attribute| attribute.path().is_ident("kind"));
        attribute.map(Attribute::parse_args).transpose()
    }

    /// Returns what is between `=>` and the end of an arm whose source is bound to `source`.
    fn value(&self) -> TokenStream {
        match self {
            Self::Named(name) => quote!(::gemelo_base::FailureKind::#name),
            Self::OfSource(None) => quote!(::gemelo_base::Classified::kind(source)),
            Self::OfSource(Some(method)) => {
                quote!(::gemelo_base::Classified::kind(source).#method())
            }
        }
    }

    /// Returns a pattern for fields that binds the source if the kind depends on it.
    fn pattern(&self, fields: &Fields) -> TokenStream {
        match (self, fields) {
            (Self::OfSource(_), Fields::Unnamed(_)) => quote!((source, ..)),
            (Self::OfSource(_), _) => quote!({ source, .. }),
            (Self::Named(_), _) => quote!({ .. }),
        }
    }
}

pub(crate) fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let of_type = Kind::of(&input.attrs)?;
    let missing = |name: &Ident| Error::new(name.span(), "the error needs #[kind(...)]");
    let body = match &input.data {
        Data::Struct(data) => {
            let kind = of_type.ok_or_else(|| missing(&input.ident))?;
            let (pattern, value) = (kind.pattern(&data.fields), kind.value());
            quote!(let Self #pattern = self; #value)
        }
        Data::Enum(data) => {
            let arm = |variant: &Variant| {
                let own = Kind::of(&variant.attrs)?;
                let kind = own.as_ref().or(of_type.as_ref());
                let kind = kind.ok_or_else(|| missing(&variant.ident))?;
                let (name, pattern) = (&variant.ident, kind.pattern(&variant.fields));
                let value = kind.value();
                Ok(quote!(Self::#name #pattern => #value,))
            };
            let arms = data.variants.iter().map(arm).collect::<Result<Vec<_>>>()?;
            quote!(match self { #(#arms)* })
        }
        Data::Union(_) => return Err(missing(&input.ident)),
    };
    let (name, (generics, arguments, bounds)) = (&input.ident, input.generics.split_for_impl());
    Ok(quote! {
        impl #generics ::gemelo_base::Classified for #name #arguments #bounds {
            fn kind(&self) -> ::gemelo_base::FailureKind {
                #body
            }
        }
    })
}

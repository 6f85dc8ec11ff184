//! `#[tool]` on a function.
//!
//! In: the options and the function. Out: the unchanged function, and a unit struct that implements
//! `Tool` by calling it.

use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::{quote, quote_spanned};
use syn::{ItemFn, Path, ReturnType, ext::IdentExt, spanned::Spanned};

use crate::{
    check, docs,
    errors::Errors,
    names,
    options::Options,
    signature,
    tool_impl::{self, ToolImpl},
};

/// Expands the attribute.
pub(crate) fn expand(options: TokenStream, item: TokenStream, krate: Path) -> TokenStream {
    let mut function = match syn::parse2::<ItemFn>(item.clone()) {
        Ok(function) => function,
        Err(e) => return not_a_function(item, e),
    };
    let mut errors = Errors::default();
    let options = Options::read(options, &mut errors);
    let krate = options.krate.clone().unwrap_or(krate);
    check::options(&options, &mut errors);

    let plain = function.sig.ident.unraw().to_string();
    let (name, description) =
        named(&options, &plain, &function.sig.ident, docs::text(&function.attrs), &mut errors);
    let ident = type_ident(&options, &function.sig.ident, &plain, &mut errors);
    let shape = signature::read(&function.sig, &mut errors);
    signature::strip(&mut function.sig);
    function.attrs.extend(signature::allowances(&function.sig));
    if shape.on_self {
        let message = "a method becomes a tool inside a block marked `#[tools]`; put that on the \
                       `impl`, and keep `#[tool]` here";
        errors.at(function.sig.receiver(), message);
        let errors = errors.to_compile_errors();
        return quote!(#function #errors);
    }

    let vis = &function.vis;
    let conditions = signature::conditions(&function.attrs);
    let about = format!("The tool `{name}`, made from the function `{plain}`.");
    let declared = quote! {
        #(#conditions)*
        #[doc = #about]
        #[derive(Debug, Clone, Copy)]
        #vis struct #ident;
    };
    if !errors.is_empty() {
        let placeholder = tool_impl::placeholder(&krate, &ident, &errors);
        return quote!(#function #declared #placeholder);
    }

    let call = &function.sig.ident;
    let injections = tool_impl::injections(&shape.params);
    let passes = tool_impl::passes(&shape.params);
    let body = if shape.is_async {
        quote!(#injections let __value = #call(#(#passes),*).await;)
    } else {
        quote! {
            #injections
            let __work = move |__cx: &__haft::ToolContext| #call(#(#passes),*);
            let __value = __haft::private::run_blocking(__cx, __work).await?;
        }
    };
    let span = match &function.sig.output {
        ReturnType::Default => call.span(),
        ReturnType::Type(_, ty) => ty.span(),
    };
    let returns = signature::returns(&function.sig).map(
        |ty| quote_spanned!(span=> __haft::private::Returns::<#ty>(::core::marker::PhantomData)),
    );
    let items = ToolImpl {
        krate: &krate,
        ident: &ident,
        name: &name,
        description: &description,
        options: &options,
        params: &shape.params,
        returns,
        body,
        value: span,
        item: call.span(),
    }
    .write();
    let hidden = tool_impl::in_anonymous_const(&krate, &conditions, &items);
    quote!(#function #declared #hidden)
}

/// Returns the tool's name and description, and reports errors in them.
pub(crate) fn named(
    options: &Options,
    plain: &str,
    place: &Ident,
    docs: String,
    errors: &mut Errors,
) -> (String, String) {
    let (name, span) = match &options.name {
        Some(text) => (text.value(), text.span()),
        None => (plain.to_owned(), place.span()),
    };
    check::name(&name, span, errors);
    check::aliases(&name, &options.aliases, errors);
    let description = match &options.description {
        Some(text) => text.value().trim().to_owned(),
        None => docs,
    };
    if description.is_empty() {
        let message = format!(
            "`{place}` has no description; a model cannot choose a tool without one\n\
             describe it in a doc comment, or in `description = \"…\"`"
        );
        match &options.description {
            Some(text) => errors.at(text, message),
            None => errors.at(place, message),
        }
    }
    (name, description)
}

fn type_ident(options: &Options, function: &Ident, plain: &str, errors: &mut Errors) -> Ident {
    if let Some(ident) = &options.type_name {
        return ident.clone();
    }
    let stem = names::pascal(plain);
    let name = format!("{stem}Tool");
    if stem.is_empty() || stem.starts_with(|c: char| c.is_ascii_digit()) {
        let message = format!(
            "the tool's type would be called `{name}`, which is not a free and valid name; set \
             another one with `type_name = \"…\"`"
        );
        errors.at(function, message);
        return Ident::new("UnnamedTool", function.span());
    }
    Ident::new(&name, function.span())
}

fn not_a_function(item: TokenStream, parse: syn::Error) -> TokenStream {
    let message = match syn::parse2::<syn::Item>(item.clone()) {
        Ok(syn::Item::Struct(_)) => {
            "`#[tool]` goes on a function; an argument struct becomes a tool with `#[derive(Tool)]`"
        }
        Ok(syn::Item::Impl(_)) => {
            "`#[tool]` goes on a function; a block of methods becomes tools with `#[tools]`"
        }
        Ok(_) => "`#[tool]` goes on a function",
        // The item is not valid Rust: report the parser's error.
        Err(_) => {
            let error = parse.to_compile_error();
            return quote!(#error);
        }
    };
    let error = syn::Error::new_spanned(head(&item), message).to_compile_error();
    quote!(#item #error)
}

/// Returns the first identifiers of an item, as a short span for errors.
pub(crate) fn head(item: &TokenStream) -> TokenStream {
    let idents = item.clone().into_iter().filter(|token| matches!(token, TokenTree::Ident(_)));
    idents.take(2).collect()
}

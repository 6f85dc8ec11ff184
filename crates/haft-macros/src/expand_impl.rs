//! `#[tools]` on a block of methods.
//!
//! In: an `impl` block. Out: the block without our attributes, a hidden type per tool that shares
//! the struct with the others, and an `IntoTools` that brings them all.

use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::{
    Attribute, ImplItem, ImplItemFn, ItemImpl, LitStr, Meta, Path, ReturnType, Type, ext::IdentExt,
    spanned::Spanned,
};

use crate::{
    blueprint::{self, Blueprint},
    check, docs,
    entry::Entry,
    expand_fn,
    mistakes::Mistakes,
    names,
    options::Options,
    signature, types, values,
};

/// Expands the attribute.
pub(crate) fn expand(options: TokenStream, item: TokenStream, krate: Path) -> TokenStream {
    let mut block = match syn::parse2::<ItemImpl>(item.clone()) {
        Ok(block) => block,
        Err(_) => {
            let message = "`#[tools]` goes on an `impl` block with methods marked `#[tool]`";
            let error = syn::Error::new_spanned(expand_fn::head(&item), message);
            let error = error.to_compile_error();
            return quote!(#item #error);
        }
    };
    let mut mistakes = Mistakes::default();
    let said = Said::read(options, &mut mistakes);
    let krate = said.krate.clone().unwrap_or(krate);
    let conditions = signature::conditions(&block.attrs);
    refuse(&block, &mut mistakes);

    let this = block.self_ty.to_token_stream();
    let mut written = Vec::new();
    let mut found = Found::default();
    for item in &mut block.items {
        let ImplItem::Fn(method) = item else { continue };
        let (ours, others) = std::mem::take(&mut method.attrs).into_iter().partition(is_tool);
        method.attrs = others;
        if !Vec::is_empty(&ours) {
            let method = Method { method, this: &this, said: &said, krate: &krate };
            written.push(method.expand(&ours, &mut found, &mut mistakes));
        }
    }
    if written.is_empty() {
        let message =
            "no method of this block is marked `#[tool]`; mark those that a model may call";
        mistakes.at(&block.self_ty, message);
    }

    let types = &found.types;
    let body = if mistakes.is_empty() {
        quote! {
            let __shared = ::std::sync::Arc::new(self);
            ::std::vec![#(
                __haft::DynTool::of(#types(::std::sync::Arc::clone(&__shared)))
            ),*]
        }
    } else {
        written.clear();
        quote!(::std::vec::Vec::new())
    };
    let items = quote! {
        #(#written)*

        #[automatically_derived]
        impl __haft::IntoTools for #this {
            fn into_tools(self) -> ::std::vec::Vec<__haft::DynTool> { #body }
        }
    };
    // Without a plain type to implement it for, the trait would only repeat the mistake.
    let hidden = (block.generics.params.is_empty() && block.trait_.is_none())
        .then(|| blueprint::enclosed(&krate, &conditions, &items));
    let errors = mistakes.to_compile_errors();
    quote!(#block #hidden #errors)
}

/// What `#[tools(…)]` says.
#[derive(Default)]
struct Said {
    krate: Option<Path>,
    prefix: Option<LitStr>,
}

impl Said {
    fn read(tokens: TokenStream, mistakes: &mut Mistakes) -> Self {
        let mut said = Self::default();
        for entry in mistakes.take(Entry::list(tokens)).unwrap_or_default() {
            let read = match entry.word().as_str() {
                "prefix" => values::text(&entry, r#"prefix = "fs_""#)
                    .map(|text| said.prefix.replace(text.clone()).is_some()),
                "crate" => values::function(&entry, "crate = ::haft")
                    .map(|path| said.krate.replace(path.clone()).is_some()),
                other => {
                    let meant = names::meant(other, &["prefix", "crate"]);
                    let message = format!(
                        "`#[tools]` has no option `{other}`; it has prefix and crate{meant}\n\
                         what is said about one tool goes into the `#[tool(…)]` of its method"
                    );
                    Err(syn::Error::new_spanned(&entry.name, message))
                }
            };
            if mistakes.take(read) == Some(true) {
                let word = entry.word();
                mistakes.at(&entry.name, format!("`{word}` is said twice; keep one"));
            }
        }
        said
    }
}

/// What the methods read so far are called.
#[derive(Default)]
struct Found {
    types: Vec<Ident>,
    names: Vec<String>,
}

struct Method<'a> {
    method: &'a mut ImplItemFn,
    this: &'a TokenStream,
    said: &'a Said,
    krate: &'a Path,
}

impl Method<'_> {
    fn expand(
        self,
        attrs: &[Attribute],
        found: &mut Found,
        mistakes: &mut Mistakes,
    ) -> TokenStream {
        let Self { method, this, said, krate } = self;
        // What moves out of the block must not say `Self` any more.
        let sig = types::without_self(method.sig.to_token_stream(), this);
        let sig = mistakes.take(syn::parse2(sig)).unwrap_or_else(|| method.sig.clone());
        signature::strip(&mut method.sig);
        method.attrs.extend(signature::allowances(&method.sig));
        let options = options(attrs, Some(this), mistakes);
        check::options(&options, mistakes);
        let elsewhere = [
            ("crate", "the crate is named once for the whole block, in `#[tools(crate = …)]`"),
            ("type_name", "a method's tool has no type of its own to name; remove `type_name`"),
        ];
        for (word, message) in elsewhere {
            if let Some(span) = options.place(word) {
                mistakes.add(syn::Error::new(span, message));
            }
        }
        let plain = method.sig.ident.unraw().to_string();
        let prefix = said.prefix.as_ref().map(LitStr::value).unwrap_or_default();
        let docs = docs::text(&method.attrs);
        let prefixed = format!("{prefix}{plain}");
        let (name, description) =
            expand_fn::named(&options, &prefixed, &method.sig.ident, docs, mistakes);
        if found.names.contains(&name) {
            mistakes.at(&method.sig.ident, format!("two tools of this block are called `{name}`"));
        }
        found.names.push(name.clone());

        let shape = signature::read(&sig, mistakes);
        if !shape.on_self {
            let message = "a tool of this block takes `&self`; a function without it can be a tool \
                           of its own, outside of the block";
            mistakes.at(&method.sig.ident, message);
        }
        let owner = names::pascal(&last_word(this));
        let ident = format_ident!("__Haft{}{}", owner, names::pascal(&plain));
        let conditions = signature::conditions(&method.attrs);
        if let Some(condition) = conditions.first() {
            let message = "a tool's method cannot come and go with `cfg`; put it into a block of its \
                           own and the `cfg` on that";
            mistakes.at(condition, message);
        }

        let call = &method.sig.ident;
        let injections = blueprint::injections(&shape.params);
        let passes = blueprint::passes(&shape.params);
        let body = if shape.is_async {
            quote!(#injections let __value = <#this>::#call(&*self.0, #(#passes),*).await;)
        } else {
            quote! {
                #injections
                let __this = ::std::sync::Arc::clone(&self.0);
                let __value = __cx
                    .block_whole(move |__cx: &__haft::ToolContext| <#this>::#call(&*__this, #(#passes),*))
                    .await?;
            }
        };
        let span = match &method.sig.output {
            ReturnType::Default => call.span(),
            ReturnType::Type(_, ty) => ty.span(),
        };
        let returns = signature::returns(&sig).map(
            |ty| quote_spanned!(span=> __haft::private::Returns::<#ty>(::core::marker::PhantomData)),
        );
        let items = Blueprint {
            krate,
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
        let items = quote! {
            pub struct #ident(::std::sync::Arc<#this>);
            #items
        };
        found.types.push(ident);
        items
    }
}

fn refuse(block: &ItemImpl, mistakes: &mut Mistakes) {
    if !block.generics.params.is_empty() {
        let message = "a block of tools cannot be generic; write the type out";
        mistakes.at(&block.generics.params, message);
    }
    if let Some((path, _)) = &block.trait_ {
        let message = "`#[tools]` goes on the type's own `impl`, not on that of a trait";
        mistakes.at(path, message);
    }
    if !matches!(&*block.self_ty, Type::Path(_)) {
        mistakes.at(&block.self_ty, "`#[tools]` needs a struct of this crate here");
    }
}

/// The tool's attribute is known by its name, wherever it was imported from.
fn is_tool(attr: &Attribute) -> bool {
    attr.path().segments.last().is_some_and(|segment| segment.ident == "tool")
}

/// Reads the options of one or more attributes on the same item.
pub(crate) fn options(
    attrs: &[Attribute],
    this: Option<&TokenStream>,
    mistakes: &mut Mistakes,
) -> Options {
    let mut options = Options::default();
    for attr in attrs {
        match &attr.meta {
            Meta::Path(_) => {}
            Meta::List(list) => {
                let tokens = list.tokens.clone();
                let tokens = match this {
                    Some(this) => types::without_self(tokens, this),
                    None => tokens,
                };
                let entries = mistakes.take(Entry::list(tokens)).unwrap_or_default();
                options.read_entries(&entries, mistakes);
            }
            Meta::NameValue(pair) => {
                let message = "options are written in brackets, as in `#[tool(read_only)]`";
                mistakes.at(&pair.value, message);
            }
        }
    }
    options
}

fn last_word(this: &TokenStream) -> String {
    syn::parse2::<Type>(this.clone())
        .ok()
        .and_then(|ty| types::last_segment(&ty).map(|s| s.ident.unraw().to_string()))
        .unwrap_or_default()
}

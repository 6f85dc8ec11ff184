//! `#[tools]` on a block of methods.
//!
//! In: an `impl` block. Out: the block without our attributes, one hidden type per tool that holds
//! an `Arc` of the struct, and an `IntoTools` that returns all of them.

use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::{
    Attribute, ImplItem, ImplItemFn, ItemImpl, LitStr, Meta, Path, ReturnType, Type, ext::IdentExt,
    spanned::Spanned,
};

use crate::{
    check, docs,
    entry::Entry,
    errors::Errors,
    expand_fn, names,
    options::Options,
    signature,
    tool_impl::{self, ToolImpl},
    types, values,
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
    let mut errors = Errors::default();
    let block_options = BlockOptions::read(options, &mut errors);
    let krate = block_options.krate.clone().unwrap_or(krate);
    let conditions = signature::conditions(&block.attrs);
    check_block(&block, &mut errors);

    let this = block.self_ty.to_token_stream();
    let mut written = Vec::new();
    let mut found = Found::default();
    for item in &mut block.items {
        let ImplItem::Fn(method) = item else { continue };
        let (ours, others) = std::mem::take(&mut method.attrs).into_iter().partition(is_tool);
        method.attrs = others;
        if !Vec::is_empty(&ours) {
            let method =
                Method { method, this: &this, block_options: &block_options, krate: &krate };
            written.push(method.expand(&ours, &mut found, &mut errors));
        }
    }
    if written.is_empty() {
        let message =
            "no method of this block is marked `#[tool]`; mark those that a model may call";
        errors.at(&block.self_ty, message);
    }

    let types = &found.types;
    let body = if errors.is_empty() {
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
    // For a generic type or a trait impl, the implementation would only repeat the error.
    let hidden = (block.generics.params.is_empty() && block.trait_.is_none())
        .then(|| tool_impl::in_anonymous_const(&krate, &conditions, &items));
    let errors = errors.to_compile_errors();
    quote!(#block #hidden #errors)
}

/// The options of `#[tools(…)]`.
#[derive(Default)]
struct BlockOptions {
    krate: Option<Path>,
    prefix: Option<LitStr>,
}

impl BlockOptions {
    fn read(tokens: TokenStream, errors: &mut Errors) -> Self {
        let mut options = Self::default();
        for entry in errors.take(Entry::list(tokens)).unwrap_or_default() {
            let read = match entry.word().as_str() {
                "prefix" => values::text(&entry, r#"prefix = "fs_""#)
                    .map(|text| options.prefix.replace(text.clone()).is_some()),
                "crate" => values::function(&entry, "crate = ::haft")
                    .map(|path| options.krate.replace(path.clone()).is_some()),
                other => {
                    let suggestion = names::suggestion(other, &["prefix", "crate"]);
                    let message = format!(
                        "`#[tools]` has no option `{other}`; expected prefix or crate{suggestion}\n\
                         the options of one tool go into the `#[tool(…)]` of its method"
                    );
                    Err(syn::Error::new_spanned(&entry.name, message))
                }
            };
            if errors.take(read) == Some(true) {
                let word = entry.word();
                errors.at(&entry.name, format!("`{word}` is given twice; keep one"));
            }
        }
        options
    }
}

/// The types and tool names of the methods so far.
#[derive(Default)]
struct Found {
    types: Vec<Ident>,
    names: Vec<String>,
}

struct Method<'a> {
    method: &'a mut ImplItemFn,
    this: &'a TokenStream,
    block_options: &'a BlockOptions,
    krate: &'a Path,
}

impl Method<'_> {
    fn expand(self, attrs: &[Attribute], found: &mut Found, errors: &mut Errors) -> TokenStream {
        let Self { method, this, block_options, krate } = self;
        // Code that moves out of the block must not use `Self`.
        let sig = types::without_self(method.sig.to_token_stream(), this);
        let sig = errors.take(syn::parse2(sig)).unwrap_or_else(|| method.sig.clone());
        signature::strip(&mut method.sig);
        method.attrs.extend(signature::allowances(&method.sig));
        let options = options(attrs, Some(this), errors);
        check::options(&options, errors);
        let not_on_methods = [
            ("crate", "set the crate once for the whole block, in `#[tools(crate = …)]`"),
            ("type_name", "the tool of a method has no public type; remove `type_name`"),
        ];
        for (word, message) in not_on_methods {
            if let Some(span) = options.span_of(word) {
                errors.add(syn::Error::new(span, message));
            }
        }
        let plain = method.sig.ident.unraw().to_string();
        let prefix = block_options.prefix.as_ref().map(LitStr::value).unwrap_or_default();
        let docs = docs::text(&method.attrs);
        let prefixed = format!("{prefix}{plain}");
        let (name, description) =
            expand_fn::named(&options, &prefixed, &method.sig.ident, docs, errors);
        if found.names.contains(&name) {
            errors.at(&method.sig.ident, format!("two tools of this block are called `{name}`"));
        }
        found.names.push(name.clone());

        let shape = signature::read(&sig, errors);
        if !shape.on_self {
            let message = "a tool of this block must take `&self`; move a function without it out \
                           of the block";
            errors.at(&method.sig.ident, message);
        }
        let owner = names::pascal(&type_name(this));
        let ident = format_ident!("__Haft{}{}", owner, names::pascal(&plain));
        let conditions = signature::conditions(&method.attrs);
        if let Some(condition) = conditions.first() {
            let message = "a tool's method cannot have `cfg`; move it into a separate block and put the \
                           `cfg` on that";
            errors.at(condition, message);
        }

        let call = &method.sig.ident;
        let injections = tool_impl::injections(&shape.params);
        let passes = tool_impl::passes(&shape.params);
        let body = if shape.is_async {
            quote!(#injections let __value = <#this>::#call(&*self.0, #(#passes),*).await;)
        } else {
            quote! {
                #injections
                let __this = ::std::sync::Arc::clone(&self.0);
                let __work =
                    move |__cx: &__haft::ToolContext| <#this>::#call(&*__this, #(#passes),*);
                let __value = __haft::private::run_blocking(__cx, __work).await?;
            }
        };
        let span = match &method.sig.output {
            ReturnType::Default => call.span(),
            ReturnType::Type(_, ty) => ty.span(),
        };
        let returns = signature::returns(&sig).map(
            |ty| quote_spanned!(span=> __haft::private::Returns::<#ty>(::core::marker::PhantomData)),
        );
        let items = ToolImpl {
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

fn check_block(block: &ItemImpl, errors: &mut Errors) {
    if !block.generics.params.is_empty() {
        let message = "a block of tools cannot be generic; write concrete types";
        errors.at(&block.generics.params, message);
    }
    if let Some((path, _)) = &block.trait_ {
        let message = "`#[tools]` goes on an inherent `impl`, not on the `impl` of a trait";
        errors.at(path, message);
    }
    if !matches!(&*block.self_ty, Type::Path(_)) {
        errors.at(&block.self_ty, "`#[tools]` needs a struct of this crate");
    }
}

/// Recognizes the attribute by its last path segment, however it was imported.
fn is_tool(attr: &Attribute) -> bool {
    attr.path().segments.last().is_some_and(|segment| segment.ident == "tool")
}

/// Parses the options of one or more attributes on the same item.
pub(crate) fn options(
    attrs: &[Attribute],
    this: Option<&TokenStream>,
    errors: &mut Errors,
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
                let entries = errors.take(Entry::list(tokens)).unwrap_or_default();
                options.read_entries(&entries, errors);
            }
            Meta::NameValue(pair) => {
                let message = "options are written in parentheses, as in `#[tool(read_only)]`";
                errors.at(&pair.value, message);
            }
        }
    }
    options
}

fn type_name(this: &TokenStream) -> String {
    syn::parse2::<Type>(this.clone())
        .ok()
        .and_then(|ty| types::last_segment(&ty).map(|s| s.ident.unraw().to_string()))
        .unwrap_or_default()
}

//! Parses one parameter of a tool: an argument from the model, or a value that the host injects.
//!
//! Parameters of a function and fields of an argument struct are parsed alike.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote};
use syn::{Attribute, Error, Expr, Ident, LitStr, Meta, Type, ext::IdentExt, parse_quote};

use crate::{
    docs,
    entry::{Entry, Value},
    errors::Errors,
    names, types, values,
};

/// The keys of `#[param(…)]`.
const PARAM_KEYS: [&str; 14] = [
    "min",
    "max",
    "min_length",
    "max_length",
    "pattern",
    "example",
    "rename",
    "description",
    "secret",
    "strict",
    "path",
    "write_path",
    "url",
    "command",
];

/// A parameter, and how the body gets it.
pub(crate) struct Param {
    pub(crate) ident: Ident,
    pub(crate) kind: Kind,
}

/// Where a parameter's value comes from.
pub(crate) enum Kind {
    /// From the model: a field of the arguments.
    Argument(Box<Argument>),
    /// The context, by reference.
    Context,
    /// From the host, by its type.
    Injected(Box<Type>),
}

/// A parameter the model fills in.
pub(crate) struct Argument {
    /// The type of the field.
    pub(crate) field: Type,
    /// Whether the body takes `&str` where the field owns its text.
    pub(crate) borrowed: bool,
    pub(crate) default: Option<Default>,
    /// The name in the schema, if it differs.
    pub(crate) rename: Option<LitStr>,
    pub(crate) description: String,
    /// The contents of `#[schemars(…)]`.
    pub(crate) schema: Vec<TokenStream>,
}

/// The value of a missing argument.
pub(crate) enum Default {
    Of(Expr),
    OfType,
}

impl Param {
    /// Parses a parameter from its attributes and type. An injected parameter needs no name.
    pub(crate) fn read(
        ident: Option<&Ident>,
        attrs: &[Attribute],
        ty: &Type,
        place: impl ToTokens,
        errors: &mut Errors,
    ) -> Option<Self> {
        let injected = errors.take(is_injected(attrs))?;
        let hidden = hidden(ty, injected);
        let fallback = || Ident::new("_", Span::call_site());
        if let Some(kind) = hidden {
            for attr in attrs.iter().filter(|a| is_one_of(a, &["param", "default"])) {
                let message = "this parameter comes from the host and is not in the schema; remove \
                               this attribute";
                errors.at(attr, message);
            }
            return Some(Self { ident: ident.cloned().unwrap_or_else(fallback), kind });
        }
        let Some(ident) = ident else {
            let message = "name this parameter; its name is the argument's name in the schema";
            errors.at(place, message);
            return None;
        };
        let argument = argument(attrs, ty, errors)?;
        Some(Self { ident: ident.clone(), kind: Kind::Argument(Box::new(argument)) })
    }

    /// Returns the argument, if it comes from the model.
    pub(crate) fn argument(&self) -> Option<&Argument> {
        match &self.kind {
            Kind::Argument(argument) => Some(argument),
            Kind::Context | Kind::Injected(_) => None,
        }
    }

    /// Returns the name in the schema.
    pub(crate) fn schema_name(&self) -> String {
        match self.argument().and_then(|argument| argument.rename.as_ref()) {
            Some(rename) => rename.value(),
            None => self.ident.unraw().to_string(),
        }
    }
}

/// Reports duplicate argument names, and a context that is requested twice.
pub(crate) fn check(params: &[Param], errors: &mut Errors) {
    let mut seen: Vec<String> = Vec::new();
    let mut contexts = 0;
    for param in params {
        match &param.kind {
            Kind::Context => {
                contexts += 1;
                if contexts == 2 {
                    errors.at(&param.ident, "the context is requested twice; remove one");
                }
            }
            Kind::Injected(ty) if types::is_named(ty, "ToolContext") => {
                contexts += 1;
                if contexts == 2 {
                    errors.at(&param.ident, "the context is requested twice; remove one");
                }
            }
            Kind::Injected(_) => {}
            Kind::Argument(argument) => {
                let name = param.schema_name();
                if seen.contains(&name) {
                    let message = format!("two parameters are called `{name}`; rename one");
                    match &argument.rename {
                        Some(rename) => errors.at(rename, message),
                        None => errors.at(&param.ident, message),
                    }
                }
                seen.push(name);
            }
        }
    }
}

/// Returns whether an attribute is one of ours, which must be removed from the item.
pub(crate) fn is_helper(attr: &Attribute) -> bool {
    is_one_of(attr, &["param", "default", "inject"])
}

fn is_one_of(attr: &Attribute, names: &[&str]) -> bool {
    names.iter().any(|name| attr.path().is_ident(name))
}

fn is_injected(attrs: &[Attribute]) -> syn::Result<bool> {
    let mut found = false;
    for attr in attrs.iter().filter(|a| is_one_of(a, &["inject"])) {
        if !matches!(attr.meta, Meta::Path(_)) {
            return Err(Error::new_spanned(
                attr,
                "`#[inject]` takes no value; the type decides what is injected",
            ));
        }
        found = true;
    }
    Ok(found)
}

fn hidden(ty: &Type, injected: bool) -> Option<Kind> {
    match ty {
        Type::Reference(reference)
            if reference.mutability.is_none()
                && (injected || types::is_named(&reference.elem, "ToolContext")) =>
        {
            Some(Kind::Context)
        }
        Type::Reference(_) => None,
        _ if injected
            || ["ToolContext", "State", "RunState"].iter().any(|n| types::is_named(ty, n)) =>
        {
            Some(Kind::Injected(Box::new(ty.clone())))
        }
        _ => None,
    }
}

fn argument(attrs: &[Attribute], ty: &Type, errors: &mut Errors) -> Option<Argument> {
    let (field, borrowed) = field_type(ty, errors)?;
    let mut argument = Argument {
        field,
        borrowed,
        default: None,
        rename: None,
        description: docs::text(attrs),
        schema: Vec::new(),
    };
    for attr in attrs.iter().filter(|a| is_one_of(a, &["default"])) {
        if argument.default.is_some() {
            errors.at(attr, "`#[default]` is set twice; keep one");
        } else if let Some(default) = errors.take(default(attr)) {
            argument.default = Some(default);
        }
    }
    let mut constraints = Constraints::default();
    for attr in attrs.iter().filter(|a| is_one_of(a, &["param"])) {
        let entries = match &attr.meta {
            Meta::List(list) => errors.take(Entry::list(list.tokens.clone())),
            _ => {
                let message = "`#[param]` needs a list, as in \
                               `#[param(min = 1, max = 100)]`";
                errors.at(attr, message);
                None
            }
        };
        for entry in entries.unwrap_or_default() {
            if let Err(e) = constraints.one(&entry, &mut argument) {
                errors.add(e);
            }
        }
    }
    constraints.finish(&mut argument, errors);
    Some(argument)
}

fn field_type(ty: &Type, errors: &mut Errors) -> Option<(Type, bool)> {
    if let Type::Reference(reference) = ty {
        let is_text = reference.mutability.is_none() && types::is_named(&reference.elem, "str");
        if is_text {
            return Some((parse_quote!(::std::string::String), true));
        }
        let message = "take arguments by value; the only references are `&str` and \
                       `&ToolContext`";
        errors.at(ty, message);
        return None;
    }
    if let Type::ImplTrait(_) = ty {
        let message = "a schema needs one concrete type; write it instead of `impl …`";
        errors.at(ty, message);
        return None;
    }
    if types::borrows(ty) {
        let message = "take arguments by value; write the type without references, as in \
                       `Option<String>` for `Option<&str>`";
        errors.at(ty, message);
        return None;
    }
    Some((ty.clone(), false))
}

fn default(attr: &Attribute) -> syn::Result<Default> {
    match &attr.meta {
        Meta::Path(_) => Ok(Default::OfType),
        Meta::List(list) => list.parse_args().map(Default::Of).map_err(|_| {
            let message = "`#[default(…)]` takes one value, as in `#[default(10)]`";
            Error::new_spanned(attr, message)
        }),
        Meta::NameValue(pair) => Ok(Default::Of(pair.value.clone())),
    }
}

/// The parsed entries of `#[param(…)]`.
#[derive(std::default::Default)]
struct Constraints {
    seen: Vec<String>,
    min: Option<Expr>,
    max: Option<Expr>,
    min_length: Option<Expr>,
    max_length: Option<Expr>,
    kind: Option<String>,
}

impl Constraints {
    fn one(&mut self, entry: &Entry, argument: &mut Argument) -> syn::Result<()> {
        let word = entry.word();
        if self.seen.contains(&word) && word != "example" {
            let message = format!("`{word}` is set twice; keep one");
            return Err(Error::new_spanned(&entry.name, message));
        }
        self.seen.push(word.clone());
        let value = match &entry.value {
            Value::Is(expr) => Some(expr),
            Value::Bare | Value::List(_) => None,
        };
        let needed = |takes: &str, example: &str| {
            value.cloned().ok_or_else(|| values::wrong(entry, takes, example))
        };
        match word.as_str() {
            "min" => self.min = Some(number(entry, needed("a number", "min = 1")?, argument)?),
            "max" => self.max = Some(number(entry, needed("a number", "max = 100")?, argument)?),
            "min_length" => {
                self.min_length =
                    Some(length(entry, needed("a number", "min_length = 1")?, argument)?);
            }
            "max_length" => {
                self.max_length =
                    Some(length(entry, needed("a number", "max_length = 80")?, argument)?);
            }
            "pattern" => {
                let pattern = values::text(entry, r#"pattern = "^[a-z]+$""#)?;
                argument.schema.push(quote!(regex(pattern = #pattern)));
            }
            "example" => {
                let example = needed("a value", r#"example = "Paris""#)?;
                argument.schema.push(quote!(example = #example));
            }
            "rename" => {
                let rename = values::text(entry, r#"rename = "city""#)?;
                if !names::is_argument_name(&rename.value()) {
                    let message = "the name of an argument has letters, digits, `_`, `-` or `.`, \
                                   and 1 to 64 of them";
                    return Err(Error::new_spanned(rename, message));
                }
                argument.rename = Some(rename.clone());
            }
            "description" => {
                let text = values::text(entry, r#"description = "City name.""#)?;
                argument.description = text.value().trim().to_owned();
            }
            "secret" => {
                if values::flag(entry)? {
                    argument.schema.push(quote!(extend("x-secret" = true, "writeOnly" = true)));
                }
            }
            "strict" => {
                if values::flag(entry)? {
                    argument.schema.push(quote!(extend("x-strict" = true)));
                }
            }
            "path" | "write_path" | "url" | "command" => {
                if values::flag(entry)? {
                    self.set_kind(entry, &word, argument)?;
                }
            }
            _ => {
                let suggestion = names::suggestion(&word, &PARAM_KEYS);
                let message = format!(
                    "`#[param]` has no `{word}`; expected one of {}{suggestion}",
                    PARAM_KEYS.join(", ")
                );
                return Err(Error::new_spanned(&entry.name, message));
            }
        }
        Ok(())
    }

    /// Sets the kind of the argument, so that rules about paths, hosts and commands apply to it.
    fn set_kind(&mut self, entry: &Entry, word: &str, argument: &mut Argument) -> syn::Result<()> {
        if let Some(first) = &self.kind {
            let message = format!("an argument has one kind: keep `{first}` or `{word}`");
            return Err(Error::new_spanned(&entry.name, message));
        }
        self.kind = Some(word.to_owned());
        let kind = if word == "path" { "read_path" } else { word };
        argument.schema.push(quote!(extend("x-haft" = #kind)));
        Ok(())
    }

    fn finish(self, argument: &mut Argument, errors: &mut Errors) {
        let mut pair = |word: &str, low: &Option<Expr>, high: &Option<Expr>| {
            let numbers = (
                low.as_ref().and_then(values::as_number),
                high.as_ref().and_then(values::as_number),
            );
            if let (Some(least), Some(most)) = numbers
                && least > most
            {
                let message =
                    format!("the minimum {least} is greater than the maximum {most}; swap them");
                errors.at(high, message);
            }
            let word = Ident::new(word, Span::call_site());
            let low = low.as_ref().map(|value| quote!(min = #value));
            let high = high.as_ref().map(|value| quote!(max = #value));
            let both: Vec<_> = low.into_iter().chain(high).collect();
            if !both.is_empty() {
                argument.schema.push(quote!(#word(#(#both),*)));
            }
        };
        pair("range", &self.min, &self.max);
        pair("length", &self.min_length, &self.max_length);
    }
}

/// Rejects a numeric bound on text; the schema would silently ignore it.
fn number(entry: &Entry, value: Expr, argument: &Argument) -> syn::Result<Expr> {
    let ty = types::without_option(&argument.field);
    if ["String", "str", "bool", "Vec", "PathBuf"].iter().any(|name| types::is_named(ty, name)) {
        let name = &entry.name;
        let message =
            format!("`{name}` is for numbers; for text and lists there is `{name}_length`");
        return Err(Error::new_spanned(name, message));
    }
    if values::as_text(&value).is_some() {
        return Err(values::wrong(entry, "a number", "min = 1"));
    }
    Ok(value)
}

fn length(entry: &Entry, value: Expr, argument: &Argument) -> syn::Result<Expr> {
    const NUMBERS: [&str; 15] = [
        "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128", "isize",
        "f32", "f64", "bool",
    ];
    let ty = types::without_option(&argument.field);
    if NUMBERS.iter().any(|name| types::is_named(ty, name)) {
        let name = &entry.name;
        let message =
            format!("`{name}` is for text and lists; for numbers there are `min` and `max`");
        return Err(Error::new_spanned(name, message));
    }
    if values::as_text(&value).is_some() {
        return Err(values::wrong(entry, "a number", "min_length = 1"));
    }
    Ok(value)
}

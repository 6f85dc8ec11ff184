//! Parses the options of `#[tool(…)]`.
//!
//! Most options become one assignment to a field of the spec. The few that other parts of the
//! expansion need are kept as values. `check` finds contradictions between options.

use std::collections::BTreeMap;

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::{Error, Expr, ExprCall, Ident, LitStr, Path};

use crate::{
    entry::{Entry, Value},
    errors::Errors,
    json, limits, names,
    values::{self, Setting},
};

/// Every option, with an example of how it is written.
const KNOWN: [(&str, &str); 37] = [
    ("name", r#"name = "get_time""#),
    ("type_name", r#"type_name = "GetTime""#),
    ("description", r#"description = "Returns the local time of a city.""#),
    ("title", r#"title = "Local time""#),
    ("alias", r#"alias = "city_time""#),
    ("read_only", "read_only"),
    ("destructive", "destructive"),
    ("idempotent", "idempotent"),
    ("open_world", "open_world = false"),
    ("class", "class = WriteExclusive"),
    ("keys", r#"keys("file:/a")"#),
    ("effects", r#"effects(read("/a"), write("/b"))"#),
    ("capabilities", "capabilities(network)"),
    ("permission", r#"permission = "none""#),
    ("guard", "guard = my_guard"),
    ("check", "check = my_check"),
    ("interrupt", r#"interrupt = "cancel""#),
    ("requires_user_interaction", "requires_user_interaction"),
    ("exposure", r#"exposure = "deferred""#),
    ("enabled", "enabled = is_offered"),
    ("concurrency", "concurrency = 4"),
    ("abort_siblings", "abort_siblings"),
    ("isolation", r#"isolation = "auto""#),
    ("timeout", r#"timeout = "20s""#),
    ("deadline", r#"deadline = "5m""#),
    ("approval_timeout", r#"approval_timeout = "10m""#),
    ("rate", r#"rate = "10/second""#),
    ("cache", r#"cache = "5m""#),
    ("retry", r#"retry(max_attempts = 3, backoff = "exponential")"#),
    ("max_result", "max_result = 20_000"),
    ("trust", r#"trust = "workspace""#),
    ("confidentiality", r#"confidentiality = "secret""#),
    ("unknown", r#"unknown = "ignore""#),
    ("examples", r##"examples(r#"{"city": "Paris"}"#)"##),
    ("crate", "crate = ::haft"),
    // Not options, but common misspellings.
    ("aliases", r#"alias("a", "b")"#),
    ("example", r##"examples(r#"{"city": "Paris"}"#)"##),
];

/// How many of the known names are options; the rest are misspellings.
const OPTION_COUNT: usize = 35;

const CLASSES: [(&str, &str); 3] =
    [("read_only", "ReadOnly"), ("write_exclusive", "WriteExclusive"), ("unsafe", "Unsafe")];

const CAPABILITIES: [&str; 8] = [
    "network",
    "filesystem",
    "database",
    "email",
    "payment",
    "destructive",
    "subprocess",
    "secrets",
];

const EFFECTS: [&str; 4] = ["read", "write", "execute", "external"];

/// The parsed options of a tool.
#[derive(Default)]
pub(crate) struct Options {
    pub(crate) krate: Option<Path>,
    pub(crate) name: Option<LitStr>,
    pub(crate) type_name: Option<Ident>,
    pub(crate) description: Option<LitStr>,
    pub(crate) aliases: Vec<LitStr>,
    pub(crate) read_only: Option<Setting<bool>>,
    pub(crate) destructive: Option<Setting<bool>>,
    pub(crate) idempotent: Option<bool>,
    /// The functions behind `class`, `keys`, `effects`, `guard` and `check`.
    pub(crate) per_call: BTreeMap<&'static str, Path>,
    pub(crate) can_destroy: bool,
    /// The span of an effect that writes or executes.
    pub(crate) changes: Option<Span>,
    /// Assignments to fields of `__spec`.
    pub(crate) settings: Vec<TokenStream>,
    seen: BTreeMap<String, Span>,
}

impl Options {
    /// Parses an attribute's list. Invalid entries are reported and skipped.
    pub(crate) fn read(tokens: TokenStream, errors: &mut Errors) -> Self {
        let mut options = Self::default();
        let entries = errors.take(Entry::list(tokens)).unwrap_or_default();
        options.read_entries(&entries, errors);
        options
    }

    /// Parses entries, also those of a second attribute on the same item.
    pub(crate) fn read_entries(&mut self, entries: &[Entry], errors: &mut Errors) {
        for entry in entries {
            let word = entry.word();
            if word != "alias" && self.seen.insert(word.clone(), entry.span()).is_some() {
                errors.at(&entry.name, format!("`{word}` is set twice; keep one"));
                continue;
            }
            if let Err(e) = self.one(&word, entry) {
                errors.add(e);
            }
        }
    }

    /// Returns the span of an option, if it is set.
    pub(crate) fn span_of(&self, word: &str) -> Option<Span> {
        self.seen.get(word).copied()
    }

    fn one(&mut self, word: &str, entry: &Entry) -> syn::Result<()> {
        let example =
            KNOWN.iter().find(|(name, _)| *name == word).map(|known| known.1).unwrap_or_default();
        match word {
            "crate" => self.krate = Some(values::function(entry, example)?.clone()),
            "name" => self.name = Some(values::text(entry, example)?.clone()),
            "type_name" => self.type_name = Some(type_name(values::text(entry, example)?)?),
            "description" => self.description = Some(values::text(entry, example)?.clone()),
            "title" => {
                let title = values::text(entry, example)?;
                self.set(quote!(title = Some(#title.into())));
            }
            "alias" => {
                self.aliases.extend(values::texts(entry, example)?.into_iter().cloned());
            }
            "read_only" => self.read_only = Some(values::flag_or_fn(entry)?),
            "destructive" => self.destructive = Some(values::flag_or_fn(entry)?),
            "idempotent" => {
                let flag = values::flag(entry)?;
                self.idempotent = Some(flag);
                self.set(quote!(idempotent = Some(#flag)));
            }
            "open_world" => {
                let flag = values::flag(entry)?;
                self.set(quote!(open_world = Some(#flag)));
            }
            "class" => self.class(entry, example)?,
            "keys" => self.keys(entry, example)?,
            "effects" => self.effects(entry, example)?,
            "capabilities" => self.capabilities(entry, example)?,
            "permission" => {
                self.pick(entry, "Permission", &[("none", "None"), ("required", "Required")])?;
            }
            "guard" => self.function("guard", entry, example)?,
            "check" => self.function("check", entry, example)?,
            "interrupt" => {
                let word = values::choice(entry, &[("cancel", "Cancel"), ("block", "Block")])?;
                self.set(quote!(interrupt = Some(__haft::Interrupt::#word)));
            }
            "requires_user_interaction" => {
                let flag = values::flag(entry)?;
                self.set(quote!(requires_user_interaction = #flag));
            }
            "exposure" => {
                let words = [("always", "Always"), ("auto", "Auto"), ("deferred", "Deferred")];
                self.pick(entry, "Exposure", &words)?;
            }
            "enabled" => match values::flag_or_fn(entry)? {
                Setting::Const(true) => {}
                Setting::Const(false) => self.settings.push(quote! {
                    __spec = __spec.enabled(|_: &__haft::Scope| false);
                }),
                Setting::PerCall(path) => self.settings.push(quote! {
                    __spec = __spec.enabled(#path);
                }),
            },
            "concurrency" => {
                let count = values::count(entry, example)?;
                self.set(quote!(concurrency = Some(#count)));
            }
            "abort_siblings" => {
                let flag = values::flag(entry)?;
                self.set(quote!(abort_siblings = #flag));
            }
            "isolation" => self.isolation(entry)?,
            "timeout" => {
                let time = limits::time(values::text(entry, example)?)?;
                self.set(quote!(timeout = Some(#time)));
            }
            "deadline" => {
                let time = limits::time(values::text(entry, example)?)?;
                self.set(quote!(deadline = Some(#time)));
            }
            "approval_timeout" => {
                let time = limits::time(values::text(entry, example)?)?;
                self.set(quote!(approval_timeout = Some(#time)));
            }
            "rate" => {
                let rate = limits::rate(values::text(entry, example)?)?;
                self.set(quote!(rate = Some(#rate)));
            }
            "cache" => {
                let cache = limits::cache(entry, example)?;
                self.set(quote!(cache = Some(#cache)));
            }
            "retry" => {
                let retry = limits::retry(entry, example)?;
                self.set(quote!(retry = Some(#retry)));
            }
            "max_result" => {
                let bound = limits::max_result(entry, example)?;
                self.set(quote!(max_result = #bound));
            }
            "trust" => {
                let words = [
                    ("trusted", "Trusted"),
                    ("workspace", "Workspace"),
                    ("untrusted", "Untrusted"),
                ];
                let word = values::choice(entry, &words)?;
                self.set(quote!(label.trust = __haft::Trust::#word));
            }
            "confidentiality" => {
                let words = [("public", "Public"), ("internal", "Internal"), ("secret", "Secret")];
                let word = values::choice(entry, &words)?;
                self.set(quote!(label.confidentiality = __haft::Confidentiality::#word));
            }
            "unknown" => {
                self.pick(entry, "UnknownFields", &[("refuse", "Refuse"), ("ignore", "Ignore")])?;
            }
            "examples" => {
                for example in values::texts(entry, example)? {
                    if let Some(message) = json::error(&example.value()) {
                        return Err(Error::new_spanned(example, message));
                    }
                    self.settings.push(quote! {
                        __spec.examples.push(__haft::private::example(#example));
                    });
                }
            }
            _ => return Err(unknown(entry, word)),
        }
        Ok(())
    }

    fn set(&mut self, assignment: TokenStream) {
        self.settings.push(quote!(__spec.#assignment;));
    }

    fn pick(&mut self, entry: &Entry, kind: &str, words: &[(&str, &str)]) -> syn::Result<()> {
        let word = values::choice(entry, words)?;
        let kind = Ident::new(kind, word.span());
        let field = &entry.name;
        self.set(quote!(#field = __haft::#kind::#word));
        Ok(())
    }

    /// Sets an option that is always a function of the arguments.
    fn function(&mut self, word: &'static str, entry: &Entry, example: &str) -> syn::Result<()> {
        let path = values::function(entry, example)?.clone();
        self.per_call.insert(word, path);
        Ok(())
    }

    fn class(&mut self, entry: &Entry, example: &str) -> syn::Result<()> {
        const TAKES: &str =
            "ReadOnly, WriteExclusive, Unsafe or the path of a function of the arguments";
        let Value::Is(expr) = &entry.value else {
            return Err(values::wrong(entry, TAKES, example));
        };
        if values::as_text(expr).is_some() {
            let word = values::choice(entry, &CLASSES)?;
            self.set(quote!(class = Some(__haft::ConcurrencyClass::#word)));
            return Ok(());
        }
        let path = values::as_path(expr).ok_or_else(|| values::wrong(entry, TAKES, example))?;
        let Some(last) = path.segments.last().map(|segment| &segment.ident) else {
            return Err(values::wrong(entry, TAKES, example));
        };
        let of_class = path.segments.len() == 1
            || path
                .segments
                .iter()
                .rev()
                .nth(1)
                .is_some_and(|segment| segment.ident == "ConcurrencyClass");
        let variants = CLASSES.map(|(_, variant)| variant);
        let name = last.to_string();
        if of_class && variants.contains(&name.as_str()) {
            self.set(quote!(class = Some(__haft::ConcurrencyClass::#last)));
        } else if of_class && name.starts_with(char::is_uppercase) {
            let suggestion = names::suggestion(&name, &variants);
            let message = format!(
                "`{name}` is not a class; expected ReadOnly, WriteExclusive or Unsafe{suggestion}"
            );
            return Err(Error::new_spanned(last, message));
        } else {
            self.per_call.insert("class", path.clone());
        }
        Ok(())
    }

    fn keys(&mut self, entry: &Entry, example: &str) -> syn::Result<()> {
        if let Value::Is(expr) = &entry.value
            && let Some(path) = values::as_path(expr)
        {
            self.per_call.insert("keys", path.clone());
            return Ok(());
        }
        let keys = values::texts(entry, example).map_err(|mut e| {
            if !matches!(entry.value, Value::List(_)) {
                e = values::wrong(
                    entry,
                    "strings or the path of a function of the arguments",
                    example,
                );
            }
            e
        })?;
        self.set(quote!(keys = ::std::vec![#(__haft::ResourceKey::new(#keys)),*]));
        Ok(())
    }

    fn effects(&mut self, entry: &Entry, example: &str) -> syn::Result<()> {
        let list = match &entry.value {
            Value::List(list) => list,
            Value::Is(expr) if values::as_path(expr).is_some() => {
                let path = values::function(entry, example)?.clone();
                self.per_call.insert("effects", path);
                return Ok(());
            }
            Value::Is(_) | Value::Bare => {
                let takes = "a list, or the path of a function of the arguments";
                return Err(values::wrong(entry, takes, example));
            }
        };
        let mut effects = Vec::new();
        for expr in list {
            let (operation, target) = effect(expr).ok_or_else(|| {
                let message = "an effect is read, write, execute or external with its target, as in \
                               `read(\"/etc\")`";
                Error::new_spanned(expr, message)
            })?;
            let name = operation.to_string();
            if !EFFECTS.contains(&name.as_str()) {
                let suggestion = names::suggestion(&name, &EFFECTS);
                let message = format!(
                    "`{name}` is not an effect; expected read, write, execute or external{suggestion}"
                );
                return Err(Error::new_spanned(operation, message));
            }
            if name == "write" || name == "execute" {
                self.changes = Some(operation.span());
            }
            effects.push(quote!(__haft::Effect::#operation(#target)));
        }
        self.set(quote!(effects = __haft::Effects::from(::std::vec![#(#effects),*])));
        Ok(())
    }

    fn capabilities(&mut self, entry: &Entry, example: &str) -> syn::Result<()> {
        let Value::List(list) = &entry.value else {
            let takes = "a list, and the empty list means none";
            return Err(values::wrong(entry, takes, example));
        };
        let mut variants = Vec::new();
        for expr in list {
            let word = values::as_path(expr)
                .and_then(Path::get_ident)
                .map(|ident| ident.to_string())
                .or_else(|| values::as_text(expr).map(LitStr::value))
                .unwrap_or_default();
            if !CAPABILITIES.contains(&word.as_str()) {
                let suggestion = names::suggestion(&word, &CAPABILITIES);
                let all = CAPABILITIES.join(", ");
                let shown = if word.is_empty() { "this".into() } else { format!("`{word}`") };
                let message =
                    format!("{shown} is not a capability; expected one of {all}{suggestion}");
                return Err(Error::new_spanned(expr, message));
            }
            self.can_destroy |= word == "destructive";
            let variant = Ident::new(&names::pascal(&word), Span::call_site());
            variants.push(quote!(__haft::Capability::#variant));
        }
        self.set(quote!(capabilities = Some(__haft::Capabilities::from([#(#variants),*]))));
        Ok(())
    }

    fn isolation(&mut self, entry: &Entry) -> syn::Result<()> {
        let word = values::choice(entry, &[("auto", "Auto"), ("required", "Required")])?;
        if word == "Required" {
            let message = "a Rust body runs in this process, outside of the sandbox; remove \
                           `isolation`, or do the work in a child process";
            return Err(Error::new_spanned(entry.error_tokens(), message));
        }
        Ok(())
    }
}

fn effect(expr: &Expr) -> Option<(&Ident, &LitStr)> {
    let Expr::Call(ExprCall { func, args, .. }) = expr else { return None };
    let operation = values::as_path(func)?.get_ident()?;
    match args.iter().collect::<Vec<_>>().as_slice() {
        [target] => Some((operation, values::as_text(target)?)),
        _ => None,
    }
}

fn type_name(text: &LitStr) -> syn::Result<Ident> {
    let is_type_name = syn::parse_str::<Ident>(&text.value())
        .is_ok_and(|ident| ident.to_string().starts_with(char::is_uppercase));
    if is_type_name {
        return Ok(Ident::new(&text.value(), text.span()));
    }
    let message = "`type_name` is the name of a Rust type, as in `type_name = \"GetTime\"`";
    Err(Error::new_spanned(text, message))
}

fn unknown(entry: &Entry, word: &str) -> Error {
    let every: Vec<&str> = KNOWN.iter().map(|known| known.0).collect();
    let all = every.get(..OPTION_COUNT).unwrap_or_default().join(", ");
    let suggestion = match names::nearest(word, &every) {
        Some(near) => {
            let example = KNOWN.iter().find(|known| known.0 == near).map_or(near, |known| known.1);
            format!("; did you mean `{example}`?")
        }
        None => String::new(),
    };
    Error::new_spanned(
        &entry.name,
        format!("unknown option `{word}`{suggestion}\nthe options are {all}"),
    )
}

//! The reference targets of a schema: `$id`, anchors, and where each subschema is.
//!
//! In: a schema of any draft. Out: an index that finds the target of a reference. Nothing is
//! fetched, so a schema cannot cause SSRF; only the metaschemas of the specification are known in
//! addition.

use std::{
    collections::{BTreeMap, HashMap},
    rc::Rc,
};

use serde_json::Value;

use super::{draft::Draft, keywords, metaschemas, uri};

/// Deeper schemas are refused.
const MAX_DEPTH: usize = 200;
/// The base URI of a document without `$id`.
pub(crate) const DEFAULT_BASE_URI: &str = "haft://tool/schema";

/// Why a reference of a schema cannot be resolved.
#[derive(Debug, Clone)]
pub struct UnresolvedReference {
    /// The place, as a JSON pointer.
    pub pointer: String,
    /// The keyword that is wrong.
    pub keyword: &'static str,
    /// The reason, for a person.
    pub why: String,
}

/// The dynamic scope: which subschema each dynamic anchor resolves to. The outermost wins.
pub(crate) type DynamicScope<'a> = Rc<BTreeMap<String, (&'a Value, Rc<str>)>>;

/// The name under which `$recursiveAnchor` is kept; no anchor has it.
const RECURSIVE: &str = "";

/// Where every reference target of a document is.
pub(crate) struct Index<'a> {
    /// The draft of the whole document.
    draft: Draft,
    resources: HashMap<String, &'a Value>,
    /// By resource and name; the flag is set if the name is a `$dynamicAnchor`.
    anchors: HashMap<(String, String), (&'a Value, bool)>,
    dynamic: HashMap<String, Vec<(String, &'a Value)>>,
    /// Base URI and place of every subschema, by identity.
    nodes: HashMap<*const Value, (Rc<str>, String)>,
    /// Resources with their own draft.
    drafts: HashMap<String, Draft>,
    is_dynamic: bool,
}

/// The target of a reference.
pub(crate) struct Target<'a> {
    pub(crate) node: &'a Value,
    /// The base URI of the references in it.
    pub(crate) base: Rc<str>,
    /// Its place: a pointer into the document, or the address of another document.
    pub(crate) pointer: String,
    /// A name for it.
    pub(crate) hint: String,
    dynamic: Option<String>,
}

impl<'a> Index<'a> {
    /// Indexes nothing: for a schema without references.
    pub(crate) fn empty(draft: Draft) -> Self {
        Self {
            draft,
            resources: HashMap::new(),
            anchors: HashMap::new(),
            dynamic: HashMap::new(),
            nodes: HashMap::new(),
            drafts: HashMap::new(),
            is_dynamic: false,
        }
    }

    /// Indexes a document.
    pub(crate) fn new(source: &'a Value, draft: Draft) -> Result<Self, UnresolvedReference> {
        let mut index = Self::empty(draft);
        index.scan(source, &Rc::from(DEFAULT_BASE_URI), String::new(), draft, 0)?;
        Ok(index)
    }

    fn scan(
        &mut self,
        node: &'a Value,
        base: &Rc<str>,
        pointer: String,
        draft: Draft,
        depth: usize,
    ) -> Result<(), UnresolvedReference> {
        if depth > MAX_DEPTH {
            return Err(UnresolvedReference {
                pointer,
                keyword: "",
                why: format!("it is nested more than {MAX_DEPTH} levels deep"),
            });
        }
        let Some(map) = node.as_object() else { return Ok(()) };
        let own_draft = match Draft::of(node) {
            Ok(draft) => map.contains_key("$schema").then_some(draft),
            Err(why) => {
                return Err(UnresolvedReference { pointer, keyword: "$schema", why });
            }
        };
        let draft = own_draft.unwrap_or(draft);
        let hidden = draft.is_old() && map.contains_key("$ref");
        let text = |key: &str| map.get(key).and_then(Value::as_str).filter(|_| !hidden);
        let mut base = Rc::clone(base);
        if let Some(id) = text("$id").or_else(|| text("id").filter(|_| draft.is_old())) {
            match id.strip_prefix('#') {
                Some(name) if draft.is_old() => {
                    self.anchors.insert((base.to_string(), name.to_owned()), (node, false));
                }
                _ => {
                    let address = join(&base, id).ok_or_else(|| UnresolvedReference {
                        pointer: pointer.clone(),
                        keyword: "$id",
                        why: format!("`{id}` is not a valid URI"),
                    })?;
                    base = address.split('#').next().unwrap_or_default().into();
                    self.resources.insert(base.to_string(), node);
                }
            }
        }
        if depth == 0 {
            self.resources.entry(base.to_string()).or_insert(node);
            self.resources.entry(DEFAULT_BASE_URI.to_owned()).or_insert(node);
        }
        if let Some(name) = text("$anchor") {
            self.anchors.insert((base.to_string(), name.to_owned()), (node, false));
        }
        if let Some(name) = text("$dynamicAnchor") {
            self.anchors.insert((base.to_string(), name.to_owned()), (node, true));
            self.dynamic.entry(base.to_string()).or_default().push((name.to_owned(), node));
        }
        if is_recursive(node, draft) {
            self.dynamic.entry(base.to_string()).or_default().push((RECURSIVE.to_owned(), node));
        }
        self.is_dynamic |= map.contains_key("$dynamicRef") || map.contains_key("$recursiveRef");
        for child in keywords::children(map) {
            if !(hidden && child.key != "definitions" && child.key != "$defs") {
                self.scan(child.node, &base, child.pointer(&pointer), draft, depth + 1)?;
            }
        }
        if let Some(draft) = own_draft {
            self.drafts.insert(base.to_string(), draft);
        }
        self.nodes.insert(node, (base, pointer));
        Ok(())
    }

    /// Returns the base URI of a subschema.
    pub(crate) fn base_of(&self, node: &Value, otherwise: &Rc<str>) -> Rc<str> {
        self.nodes
            .get(&std::ptr::from_ref(node))
            .map_or_else(|| Rc::clone(otherwise), |(base, _)| Rc::clone(base))
    }

    /// Returns the draft of a resource.
    pub(crate) fn draft_of(&self, resource: &str) -> Draft {
        self.drafts.get(resource).copied().unwrap_or(self.draft)
    }

    /// Adds the dynamic anchors of an entered resource; earlier ones win.
    pub(crate) fn enter(&self, resource: &str, scope: &DynamicScope<'a>) -> DynamicScope<'a> {
        let Some(anchors) = self.dynamic.get(resource).filter(|_| self.is_dynamic) else {
            return Rc::clone(scope);
        };
        let mut more = BTreeMap::clone(scope);
        for (name, node) in anchors {
            more.entry(name.clone()).or_insert_with(|| (*node, resource.into()));
        }
        Rc::new(more)
    }

    /// Finds the target of a reference in a dynamic scope.
    pub(crate) fn target(
        &mut self,
        reference: &str,
        keyword: &'static str,
        base: &str,
        scope: &DynamicScope<'a>,
        pointer: &str,
    ) -> Result<Target<'a>, UnresolvedReference> {
        let mut target = self.find(base, reference).ok_or_else(|| UnresolvedReference {
            pointer: pointer.to_owned(),
            keyword,
            why: if reference.starts_with('#') {
                format!("`{reference}` cannot be resolved")
            } else {
                format!("`{reference}` is not in this schema, and nothing is fetched")
            },
        })?;
        let name = match keyword {
            "$dynamicRef" => target.dynamic.as_deref(),
            "$recursiveRef" if is_recursive(target.node, Draft::Draft201909) => Some(RECURSIVE),
            _ => None,
        };
        if let Some((node, base)) = name.and_then(|name| scope.get(name)) {
            target.node = node;
            target.base = Rc::clone(base);
            if let Some((_, pointer)) = self.nodes.get(&std::ptr::from_ref(*node)) {
                target.pointer.clone_from(pointer);
            }
        }
        Ok(target)
    }

    /// Finds the target of a reference, and whether it is a dynamic anchor.
    fn find(&mut self, base: &str, reference: &str) -> Option<Target<'a>> {
        let address = join(base, reference)?;
        let (resource, fragment) = address.split_once('#').unwrap_or((&address, ""));
        if !self.resources.contains_key(resource) {
            self.load_metaschema(resource)?;
        }
        let root = *self.resources.get(resource)?;
        let fragment = unescape(fragment)?;
        let home: Rc<str> = resource.into();
        let (node, dynamic) = if fragment.is_empty() {
            (root, None)
        } else if fragment.starts_with('/') {
            (root.pointer(&fragment)?, None)
        } else {
            let (node, dynamic) = *self.anchors.get(&(resource.to_owned(), fragment.clone()))?;
            (node, dynamic.then(|| fragment.clone()))
        };
        if !(node.is_object() || node.is_boolean()) {
            return None;
        }
        let last = fragment.rsplit('/').next().unwrap_or_default();
        let hint = match last {
            "" => "root".to_owned(),
            last => last.replace("~1", "/").replace("~0", "~"),
        };
        let known = self.nodes.get(&std::ptr::from_ref(node));
        let pointer = known.map(|(_, pointer)| pointer.clone()).unwrap_or_else(|| {
            let above =
                self.nodes.get(&std::ptr::from_ref(root)).map(|(_, pointer)| pointer.as_str());
            format!("{}{fragment}", above.unwrap_or_default())
        });
        let base = known.map_or(home, |(base, _)| Rc::clone(base));
        Some(Target { node, base, pointer, hint, dynamic })
    }

    /// Loads a metaschema of the specification. Every other address stays unknown.
    fn load_metaschema(&mut self, address: &str) -> Option<()> {
        let draft = Draft::named(address)?;
        let contents = metaschemas::of(draft);
        self.scan(contents, &address.into(), format!("{address}#"), draft, 0).ok()?;
        self.resources.insert(address.to_owned(), contents);
        Some(())
    }
}

/// Returns whether a schema has no references and no reference targets. This holds for most tools
/// and skips the index. A property with the name of such a keyword gives `false`, which only costs
/// time.
pub(crate) fn has_no_references(schema: &Value, old: bool) -> bool {
    fn has_none(node: &Value, old: bool, depth: usize) -> bool {
        if depth > MAX_DEPTH {
            return false;
        }
        match node {
            Value::Object(map) => map.iter().all(|(key, value)| {
                let speaks = match key.as_str() {
                    "$defs" | "$comment" => false,
                    "$schema" => !value.as_str().is_some_and(|d| d.contains("//json-schema.org/")),
                    "id" => old,
                    key => key.starts_with('$'),
                };
                !speaks && has_none(value, old, depth + 1)
            }),
            Value::Array(list) => list.iter().all(|item| has_none(item, old, depth + 1)),
            _ => true,
        }
    }
    has_none(schema, old, 0)
}

fn is_recursive(node: &Value, draft: Draft) -> bool {
    draft == Draft::Draft201909 && node.get("$recursiveAnchor") == Some(&Value::Bool(true))
}

fn join(base: &str, reference: &str) -> Option<String> {
    match reference.strip_prefix('#') {
        Some(fragment) => Some(format!("{base}#{fragment}")),
        None => uri::resolve(base, reference),
    }
}

/// Decodes percent-encoding.
fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digit = |b: u8| char::from(b).to_digit(16);
                let high = rest.next().and_then(digit)?;
                let low = rest.next().and_then(digit)?;
                u8::try_from(high * 16 + low).ok()?
            }
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

//! Reports parameters of a declared tool that neither its command nor its input uses.

use super::{
    node::{Fields, Kind, Node, Reader},
    template::{Placeholder, Template},
};

/// Reports parameters that are never used.
pub(super) fn unused(
    reader: &mut Reader<'_>,
    fields: &Fields<'_>,
    placeholders: &[Placeholder],
    command: Option<&Template>,
    stdin: Option<&Template>,
) {
    let Some(Node { kind: Kind::Table(entries), .. }) = fields.get("parameters") else { return };
    let names = || command.into_iter().chain(stdin).flat_map(Template::names);
    for placeholder in
        placeholders.iter().filter(|placeholder| !names().any(|name| name == placeholder.name))
    {
        let at =
            entries.iter().find(|entry| entry.key == placeholder.name).map_or(0, |entry| entry.at);
        reader.wrong(
            at,
            format!("the parameter `{}` is never used", placeholder.name),
            format!(
                "put `{{{}}}` into `command` or `stdin`, or remove the parameter",
                placeholder.name
            ),
        );
    }
}

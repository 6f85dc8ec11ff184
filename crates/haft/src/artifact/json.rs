//! JSON artifacts: written so that they can be paged by lines, and queried with a JSON pointer.

use std::io;

use serde::Serialize as _;
use serde_json::{
    Value,
    ser::{Formatter, Serializer},
};

use crate::text::shortened;

/// Maximum length of a name in a message, in characters.
const MAX_NAME_CHARS: usize = 60;
/// Maximum number of fields that a message lists.
const MAX_LISTED_FIELDS: usize = 8;

/// The number of items of an array, or fields of an object.
pub(crate) struct Items;

impl Items {
    pub(crate) fn of(data: &Value) -> Option<u64> {
        match data {
            Value::Array(items) => Some(items.len() as u64),
            Value::Object(map) => Some(map.len() as u64),
            _ => None,
        }
    }
}

/// Serializes data as JSON with one line per item, so that a long list is not one long line. A list
/// inside a top-level object gets lines too, because most long lists are there.
pub(crate) fn spread(data: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    let mut to = Serializer::with_formatter(&mut out, Lines::default());
    // Serializing to memory cannot fail; if it did, the compact form is equivalent.
    match data.serialize(&mut to) {
        Ok(()) => out,
        Err(_) => data.to_string().into_bytes(),
    }
}

#[derive(Default)]
struct Lines {
    depth: usize,
    is_empty: bool,
    /// Whether the outermost value is an object, and the current value in it is a list.
    has_list: bool,
    in_object: bool,
}

impl Lines {
    fn open(&mut self, to: &mut (impl io::Write + ?Sized), mark: u8) -> io::Result<()> {
        match self.depth {
            0 => self.in_object = mark == b'{',
            1 => self.has_list = self.in_object && mark == b'[',
            _ => {}
        }
        self.depth += 1;
        self.is_empty = true;
        to.write_all(&[mark])
    }

    fn has_lines(&self) -> bool {
        self.depth == 1 || self.depth == 2 && self.has_list
    }

    fn item(&mut self, to: &mut (impl io::Write + ?Sized), first: bool) -> io::Result<()> {
        self.is_empty = false;
        if !first {
            to.write_all(b",")?;
        }
        if self.has_lines() { to.write_all(b"\n") } else { Ok(()) }
    }

    fn close(&mut self, to: &mut (impl io::Write + ?Sized), mark: u8) -> io::Result<()> {
        if self.has_lines() && !self.is_empty {
            to.write_all(b"\n")?;
        }
        self.is_empty = false;
        self.depth -= 1;
        to.write_all(&[mark])
    }
}

impl Formatter for Lines {
    fn begin_array<W: ?Sized + io::Write>(&mut self, to: &mut W) -> io::Result<()> {
        self.open(to, b'[')
    }

    fn end_array<W: ?Sized + io::Write>(&mut self, to: &mut W) -> io::Result<()> {
        self.close(to, b']')
    }

    fn begin_array_value<W: ?Sized + io::Write>(
        &mut self,
        to: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.item(to, first)
    }

    fn begin_object<W: ?Sized + io::Write>(&mut self, to: &mut W) -> io::Result<()> {
        self.open(to, b'{')
    }

    fn end_object<W: ?Sized + io::Write>(&mut self, to: &mut W) -> io::Result<()> {
        self.close(to, b'}')
    }

    fn begin_object_key<W: ?Sized + io::Write>(
        &mut self,
        to: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.item(to, first)
    }
}

/// Returns the target of a JSON pointer, or a message that says how far the pointer leads.
pub(super) fn target<'v>(data: &'v Value, pointer: &str) -> Result<&'v Value, String> {
    if let Some(value) = data.pointer(pointer) {
        return Ok(value);
    }
    // The longest part of the pointer that has a target; the empty one has.
    let mut end = pointer.len();
    while let Some(slash) = pointer[..end].rfind('/') {
        if let Some(parent) = data.pointer(&pointer[..slash]) {
            let step = pointer[slash + 1..end].replace("~1", "/").replace("~0", "~");
            return Err(missing(parent, &step));
        }
        end = slash;
    }
    Err("a JSON pointer starts with `/`, as in `/rows/0/name`".to_owned())
}

/// Says why a value has no such part.
fn missing(parent: &Value, step: &str) -> String {
    let step = shortened(step, MAX_NAME_CHARS);
    let kind = match parent {
        Value::Array(items) if step.parse::<usize>().is_ok() => {
            return format!("the list has {} items, so there is no `{step}`", items.len());
        }
        Value::Array(_) => return format!("`{step}` is not a list index; use a number from 0"),
        Value::Object(map) => {
            let name = |name: &String| format!("`{}`", shortened(name, MAX_NAME_CHARS));
            let names: Vec<String> = map.keys().take(MAX_LISTED_FIELDS).map(name).collect();
            let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            return format!("there is no field `{step}`; the fields are {known}");
        }
        Value::Null => "`null`",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
    };
    format!("the pointer continues below {kind}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_list_has_one_line_per_item() {
        let data = json!({"n": 1, "rows": [{"a": [1, 2]}, {}], "none": []});
        let text = String::from_utf8(spread(&data)).unwrap();
        assert_eq!(text, "{\n\"n\":1,\n\"rows\":[\n{\"a\":[1,2]},\n{}\n],\n\"none\":[]\n}");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), data);
        let rows = json!([{"a": [1], "b": {}}, [2], 3]);
        assert_eq!(spread(&rows), b"[\n{\"a\":[1],\"b\":{}},\n[2],\n3\n]");
    }

    #[test]
    fn json_pointer_finds_a_part_or_reports_where_it_failed() {
        let data = json!({"a/b": [10, {"c": "x"}], "z": null});
        let at = |pointer: &str| match target(&data, pointer) {
            Ok(value) => value.to_string(),
            Err(why) => why,
        };
        assert_eq!(at("/a~1b/1/c"), r#""x""#);
        assert_eq!(at("/a~1b/0"), "10");
        assert_eq!(at("/a~1b/2"), "the list has 2 items, so there is no `2`");
        assert_eq!(at("/a~1b/x"), "`x` is not a list index; use a number from 0");
        assert_eq!(at("/b"), "there is no field `b`; the fields are `a/b`, `z`");
        assert_eq!(at("/b/c/d"), "there is no field `b`; the fields are `a/b`, `z`");
        assert_eq!(at("/z/x"), "the pointer continues below `null`");
        assert_eq!(at("z"), "a JSON pointer starts with `/`, as in `/rows/0/name`");
        assert_eq!(at(""), r#"{"a/b":[10,{"c":"x"}],"z":null}"#);
    }
}

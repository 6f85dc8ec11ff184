//! JSON artifacts: written so that they can be paged by lines, and queried by streaming instead of
//! loading all of it into memory.

use std::{cell::Cell, fmt, io};

use serde::{
    Serialize as _,
    de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::{
    Map, Value,
    ser::{Formatter, Serializer},
};

use crate::schema::parse::plain_values;

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

/// The result of a JSON pointer lookup.
pub(super) enum Found {
    /// The value; if it is too large, the end is dropped and counted.
    Value(Value),
    /// There is no such value; the message says how far the pointer led.
    Nothing(String),
    /// The text is not JSON, or nested too deep.
    NoJson(String),
}

/// Finds the target of a JSON pointer, keeping at most `most` bytes of it in memory.
pub(super) fn point(from: impl io::Read, pointer: &str, most: usize) -> Found {
    let mut path: Vec<String> = Vec::new();
    if !pointer.is_empty() {
        let Some(rest) = pointer.strip_prefix('/') else {
            return Found::Nothing(
                "a JSON pointer starts with `/`, as in `/rows/0/name`".to_owned(),
            );
        };
        path.extend(rest.split('/').map(|step| step.replace("~1", "/").replace("~0", "~")));
    }
    let (found, missed) = (Cell::new(None), Cell::new(None));
    let budget = Cell::new(most);
    let seek = Seek { path: &path, found: &found, missed: &missed, budget: &budget };
    // The visitor ends with an error once it has found the value, so that the rest is not read.
    let ended = seek.deserialize(&mut serde_json::Deserializer::from_reader(from));
    match (found.take(), missed.take(), ended) {
        (Some(value), _, _) => Found::Value(value),
        (None, Some(why), _) => Found::Nothing(why),
        (None, None, Err(e)) => Found::NoJson(e.to_string()),
        (None, None, Ok(())) => Found::Nothing("there is no value".to_owned()),
    }
}

/// Follows the pointer while parsing.
struct Seek<'a> {
    path: &'a [String],
    found: &'a Cell<Option<Value>>,
    missed: &'a Cell<Option<String>>,
    budget: &'a Cell<usize>,
}

impl<'a> Seek<'a> {
    fn next(&self) -> Self {
        Self { path: self.path.get(1..).unwrap_or_default(), ..*self }
    }

    fn miss<E: serde::de::Error>(&self, why: String) -> E {
        self.missed.set(Some(why));
        E::custom("not found")
    }
}

impl<'de> DeserializeSeed<'de> for Seek<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        if self.path.is_empty() {
            let value = Collect(self.budget).deserialize(from)?;
            self.found.set(Some(value));
            return Err(D::Error::custom("found"));
        }
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seek<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list or an object")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let step = &self.path[0];
        let Ok(index) = step.parse::<usize>() else {
            return Err(self.miss(format!("`{step}` is not a list index; use a number from 0")));
        };
        for at in 0..index {
            if seq.next_element::<IgnoredAny>()?.is_none() {
                return Err(self.miss(format!("the list has {at} items, so there is no `{index}`")));
            }
        }
        match seq.next_element_seed(self.next())? {
            Some(()) => Ok(()),
            None => Err(self.miss(format!("the list has {index} items, so there is no `{index}`"))),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let step = &self.path[0];
        let mut names = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            if name == *step {
                return map.next_value_seed(self.next());
            }
            map.next_value::<IgnoredAny>()?;
            if names.len() < 8 {
                names.push(format!("`{}`", short(&name)));
            }
        }
        let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        Err(self.miss(format!("there is no field `{}`; the fields are {known}", short(step))))
    }

    fn visit_bool<E: serde::de::Error>(self, _: bool) -> Result<(), E> {
        Err(self.miss("the pointer continues below a boolean".to_owned()))
    }

    fn visit_i64<E: serde::de::Error>(self, _: i64) -> Result<(), E> {
        Err(self.miss("the pointer continues below a number".to_owned()))
    }

    fn visit_u64<E: serde::de::Error>(self, _: u64) -> Result<(), E> {
        Err(self.miss("the pointer continues below a number".to_owned()))
    }

    fn visit_f64<E: serde::de::Error>(self, _: f64) -> Result<(), E> {
        Err(self.miss("the pointer continues below a number".to_owned()))
    }

    fn visit_str<E: serde::de::Error>(self, _: &str) -> Result<(), E> {
        Err(self.miss("the pointer continues below a string".to_owned()))
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<(), E> {
        Err(self.miss("the pointer continues below `null`".to_owned()))
    }
}

fn short(name: &str) -> String {
    match name.char_indices().nth(60) {
        Some((at, _)) => format!("{}…", &name[..at]),
        None => name.to_owned(),
    }
}

/// Collects a value within the byte limit; the rest is parsed and counted.
#[derive(Clone, Copy)]
struct Collect<'a>(&'a Cell<usize>);

impl Collect<'_> {
    fn spend(self, bytes: usize) -> bool {
        let left = self.0.get();
        self.0.set(left.saturating_sub(bytes.saturating_add(16)));
        left > 0
    }
}

impl<'de> DeserializeSeed<'de> for Collect<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Collect<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    plain_values!();

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        self.spend(text.len());
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while self.spend(0) {
            match seq.next_element_seed(self)? {
                Some(item) => items.push(item),
                None => return Ok(items.into()),
            }
        }
        let mut more = 0u64;
        while seq.next_element::<IgnoredAny>()?.is_some() {
            more += 1;
        }
        if more > 0 {
            items.push(format!("… {more} more items …").into());
        }
        Ok(items.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while self.spend(0) {
            match map.next_key::<String>()? {
                Some(name) => {
                    self.spend(name.len());
                    let value = map.next_value_seed(self)?;
                    fields.insert(name, value);
                }
                None => return Ok(fields.into()),
            }
        }
        let mut more = 0u64;
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {
            more += 1;
        }
        if more > 0 {
            fields.insert("…".to_owned(), format!("{more} more fields").into());
        }
        Ok(fields.into())
    }
}

/// The first rows of a list, or of a list inside an object.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Rows {
    /// The field that contains the list.
    pub(super) under: Option<String>,
    pub(super) rows: Vec<Value>,
    pub(super) of: u64,
}

/// Finds the first list in the data and collects its first items.
pub(super) fn rows(from: impl io::Read, limit: usize, most: usize) -> Result<Option<Rows>, String> {
    let budget = Cell::new(most);
    let find = Find { limit, budget: &budget, is_outer: true };
    let mut from = serde_json::Deserializer::from_reader(from);
    find.deserialize(&mut from).map_err(|e| e.to_string())
}

#[derive(Clone, Copy)]
struct Find<'a> {
    limit: usize,
    budget: &'a Cell<usize>,
    is_outer: bool,
}

impl<'de> DeserializeSeed<'de> for Find<'_> {
    type Value = Option<Rows>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Option<Rows>, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Find<'_> {
    type Value = Option<Rows>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Option<Rows>, A::Error> {
        let mut found = Rows::default();
        while found.rows.len() < self.limit && self.budget.get() > 0 {
            match seq.next_element_seed(Collect(self.budget))? {
                Some(row) => found.rows.push(row),
                None => break,
            }
        }
        found.of = found.rows.len() as u64;
        while seq.next_element::<IgnoredAny>()?.is_some() {
            found.of += 1;
        }
        Ok(Some(found))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Option<Rows>, A::Error> {
        let mut first = None;
        while let Some(name) = map.next_key::<String>()? {
            if first.is_some() || !self.is_outer {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let found = map.next_value_seed(Find { is_outer: false, ..self })?;
            first = found.map(|rows| Rows { under: Some(name), ..rows });
        }
        Ok(first)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Option<Rows>, E> {
        Ok(None)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Option<Rows>, E> {
        Ok(None)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Option<Rows>, E> {
        Ok(None)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Option<Rows>, E> {
        Ok(None)
    }

    fn visit_str<E>(self, _: &str) -> Result<Option<Rows>, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Option<Rows>, E> {
        Ok(None)
    }
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
        let text = r#"{"a/b": [10, {"c": "x"}], "z": null}"#;
        let at = |pointer: &str| match point(text.as_bytes(), pointer, 1_000) {
            Found::Value(value) => value.to_string(),
            Found::Nothing(why) | Found::NoJson(why) => why,
        };
        assert_eq!(at("/a~1b/1/c"), r#""x""#);
        assert_eq!(at("/a~1b/0"), "10");
        assert_eq!(at("/a~1b/2"), "the list has 2 items, so there is no `2`");
        assert_eq!(at("/b"), "there is no field `b`; the fields are `a/b`, `z`");
        assert_eq!(at("/z/x"), "the pointer continues below `null`");
        assert_eq!(at("z"), "a JSON pointer starts with `/`, as in `/rows/0/name`");
        assert_eq!(at(""), r#"{"a/b":[10,{"c":"x"}],"z":null}"#);
        assert!(matches!(point("{nope".as_bytes(), "/a", 10), Found::NoJson(_)));
    }

    #[test]
    fn json_pointer_stops_reading_early_and_counts_omitted_items() {
        assert!(matches!(point(r#"{"a": 1, broken"#.as_bytes(), "/a", 10), Found::Value(_)));
        let list: Value = (0..10_000).collect();
        let Found::Value(part) = point(list.to_string().as_bytes(), "", 800) else { panic!() };
        let items = part.as_array().unwrap();
        assert!(items.len() < 60);
        let left_out = 10_000 - (items.len() - 1);
        assert_eq!(items.last().unwrap(), &json!(format!("… {left_out} more items …")));
    }

    #[test]
    fn rows_are_found_at_the_top_level_or_one_below() {
        let text = r#"{"total": 3, "rows": [{"a": 1}, {"a": 2}, {"a": 3}]}"#;
        let found = rows(text.as_bytes(), 2, 1_000).unwrap().unwrap();
        assert_eq!((found.under.as_deref(), found.rows.len(), found.of), (Some("rows"), 2, 3));
        assert_eq!(rows("[]".as_bytes(), 2, 100).unwrap(), Some(Rows::default()));
        assert_eq!(rows("7".as_bytes(), 2, 100).unwrap(), None);
        assert!(rows("[".as_bytes(), 2, 100).is_err());
    }
}

//! Questions of MCP servers for the person at the terminal: a form, field by field, or a URL.
//!
//! INVARIANT: the name of the server is above every question, so that it cannot pass for one of
//! haft. What a server sends is shown escaped, and no URL is opened by itself.

use haft::{BoxFuture, Failure};
use haft_mcp::client::{ElicitationAnswer, ElicitationKind, ElicitationRequest, Elicitor};
use serde_json::{Map, Value, json};

use crate::session::Person;

/// How often one field is asked for.
const MAX_TRIES: usize = 3;
/// How many fields a form may have.
const MAX_FIELDS: usize = 50;

/// What the person says to a URL.
const OPENED: &str = "I have opened it";

impl Elicitor for Person {
    fn ask(&self, request: ElicitationRequest) -> BoxFuture<'_, ElicitationAnswer> {
        Box::pin(async move {
            match answer(self, &request).await {
                Ok(answer) => answer,
                // The input was closed.
                Err(_) => ElicitationAnswer::Cancel,
            }
        })
    }
}

async fn answer(
    person: &Person,
    request: &ElicitationRequest,
) -> Result<ElicitationAnswer, Failure> {
    let heading = format!("The MCP server `{}` asks you", request.server);
    match &request.kind {
        ElicitationKind::Form { schema } => form(person, &heading, &request.message, schema).await,
        ElicitationKind::Url { url } => {
            let host = url.split("//").nth(1).and_then(|rest| rest.split('/').next());
            let question = format!(
                "{}\nIt wants you to open a page of {}:\n{url}",
                request.message,
                host.unwrap_or("an unknown host")
            );
            let said = person.ask_under(&heading, &question, &[OPENED.to_owned()]).await?;
            Ok(if said == OPENED {
                ElicitationAnswer::Accept(None)
            } else {
                ElicitationAnswer::Decline
            })
        }
        _ => Ok(ElicitationAnswer::Decline),
    }
}

async fn form(
    person: &Person,
    heading: &str,
    message: &str,
    schema: &Value,
) -> Result<ElicitationAnswer, Failure> {
    let fields = fields(schema);
    if fields.is_empty() {
        let said = person.ask_under(heading, message, &["yes".to_owned()]).await?;
        return Ok(match said.as_str() {
            "yes" | "y" => ElicitationAnswer::Accept(Some(json!({}))),
            _ => ElicitationAnswer::Decline,
        });
    }
    let mut content = Map::new();
    for (at, field) in fields.iter().enumerate() {
        let mut question = field.question();
        if at == 0 {
            question = format!("{message}\n{question}");
        }
        match ask_field(person, heading, field, question).await? {
            Asked::Value(value) => drop(content.insert(field.name.clone(), value)),
            Asked::Nothing => {}
            Asked::Declined => return Ok(ElicitationAnswer::Decline),
            Asked::TooOften => return Ok(ElicitationAnswer::Cancel),
        }
    }
    Ok(ElicitationAnswer::Accept(Some(Value::Object(content))))
}

enum Asked {
    Value(Value),
    /// Nothing was typed, and nothing is needed.
    Nothing,
    /// Nothing was typed, and something is needed.
    Declined,
    TooOften,
}

async fn ask_field(
    person: &Person,
    heading: &str,
    field: &Field,
    mut question: String,
) -> Result<Asked, Failure> {
    let choices = field.choices();
    for _ in 0..MAX_TRIES {
        let typed = person.ask_under(heading, &question, &choices).await?;
        if typed.trim().is_empty() {
            return Ok(match (&field.default, field.is_required) {
                (Some(default), _) => Asked::Value(default.clone()),
                (None, true) => Asked::Declined,
                (None, false) => Asked::Nothing,
            });
        }
        match field.parse(typed.trim()) {
            Ok(value) => return Ok(Asked::Value(value)),
            Err(why) => question = format!("{}: {why}. Try again.", field.label),
        }
    }
    Ok(Asked::TooOften)
}

/// One field of a form.
#[derive(Debug, PartialEq)]
struct Field {
    name: String,
    label: String,
    description: String,
    kind: FieldKind,
    is_required: bool,
    default: Option<Value>,
}

#[derive(Debug, PartialEq)]
enum FieldKind {
    Text,
    Integer,
    Number,
    Boolean,
    /// One of these values, each with its title.
    Choice(Vec<(String, String)>),
    /// Any of these values.
    Choices(Vec<(String, String)>),
}

impl Field {
    fn question(&self) -> String {
        let mut question = self.label.clone();
        if !self.description.is_empty() {
            question.push_str(&format!(": {}", self.description));
        }
        match self.kind {
            FieldKind::Integer => question.push_str(" (a whole number)"),
            FieldKind::Number => question.push_str(" (a number)"),
            FieldKind::Choices(_) => question.push_str(" (any of these, with commas between)"),
            FieldKind::Text | FieldKind::Boolean | FieldKind::Choice(_) => {}
        }
        match &self.default {
            Some(default) => question.push_str(&format!(" [Enter: {default}]")),
            None if !self.is_required => question.push_str(" [Enter: leave it out]"),
            None => {}
        }
        question
    }

    fn choices(&self) -> Vec<String> {
        match &self.kind {
            FieldKind::Boolean => vec!["yes".to_owned(), "no".to_owned()],
            FieldKind::Choice(values) | FieldKind::Choices(values) => {
                values.iter().map(|(_, title)| title.clone()).collect()
            }
            FieldKind::Text | FieldKind::Integer | FieldKind::Number => Vec::new(),
        }
    }

    fn parse(&self, typed: &str) -> Result<Value, String> {
        let value_of = |values: &[(String, String)], typed: &str| {
            let found = values.iter().find(|(value, title)| typed == value || typed == title);
            found.map(|(value, _)| json!(value)).ok_or(format!("`{typed}` is not a choice"))
        };
        match &self.kind {
            FieldKind::Text => Ok(json!(typed)),
            FieldKind::Integer => typed
                .parse::<i64>()
                .map(|number| json!(number))
                .map_err(|_| format!("`{typed}` is not a whole number")),
            FieldKind::Number => typed
                .parse::<f64>()
                .ok()
                .filter(|number| number.is_finite())
                .map(|number| json!(number))
                .ok_or(format!("`{typed}` is not a number")),
            FieldKind::Boolean => match typed.to_lowercase().as_str() {
                "yes" | "y" | "true" => Ok(json!(true)),
                "no" | "n" | "false" => Ok(json!(false)),
                _ => Err(format!("`{typed}` is neither yes nor no")),
            },
            FieldKind::Choice(values) => value_of(values, typed),
            FieldKind::Choices(values) => {
                typed.split(',').map(|part| value_of(values, part.trim())).collect()
            }
        }
    }
}

/// The fields of a flat schema, in its order.
fn fields(schema: &Value) -> Vec<Field> {
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let properties = schema["properties"].as_object().into_iter().flatten();
    let field = |(name, property): (&String, &Value)| {
        let text = |key: &str| property[key].as_str().unwrap_or_default().to_owned();
        let title = text("title");
        Field {
            name: name.clone(),
            label: if title.is_empty() { name.clone() } else { title },
            description: text("description"),
            kind: kind(property),
            is_required: required.contains(&name.as_str()),
            default: property.get("default").cloned(),
        }
    };
    properties.take(MAX_FIELDS).map(field).collect()
}

fn kind(property: &Value) -> FieldKind {
    let values = |of: &Value| {
        let titled = of["oneOf"].as_array().or_else(|| of["anyOf"].as_array());
        let titled = titled.into_iter().flatten().filter_map(|choice| {
            let value = choice["const"].as_str()?;
            Some((value.to_owned(), choice["title"].as_str().unwrap_or(value).to_owned()))
        });
        let names: Vec<&Value> = of["enumNames"].as_array().into_iter().flatten().collect();
        let plain = of["enum"].as_array().into_iter().flatten().enumerate();
        let plain = plain.filter_map(|(at, value)| {
            let value = value.as_str()?;
            let name = names.get(at).and_then(|name| name.as_str());
            Some((value.to_owned(), name.unwrap_or(value).to_owned()))
        });
        titled.chain(plain).collect::<Vec<_>>()
    };
    match property["type"].as_str() {
        Some("integer") => FieldKind::Integer,
        Some("number") => FieldKind::Number,
        Some("boolean") => FieldKind::Boolean,
        Some("array") => FieldKind::Choices(values(&property["items"])),
        _ => match values(property) {
            values if values.is_empty() => FieldKind::Text,
            values => FieldKind::Choice(values),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_field_is_asked_for_and_parsed() {
        let schema = json!({"type": "object", "required": ["name"], "properties": {
            "name": {"type": "string", "title": "Your name"},
            "age": {"type": "integer", "default": 3},
            "size": {"type": "number"},
            "ok": {"type": "boolean"},
            "colour": {"type": "string", "enum": ["r", "g"], "enumNames": ["Red", "Green"]},
            "one": {"type": "string", "oneOf": [{"const": "a", "title": "First"}]},
            "many": {"type": "array", "items": {"type": "string", "enum": ["x", "y"]}},
        }});
        let fields = fields(&schema);
        let parse = |at: usize, typed: &str| fields[at].parse(typed);
        assert_eq!(fields[0].question(), "Your name");
        assert!(fields[1].question().contains("[Enter: 3]"));
        assert_eq!(fields[4].choices(), ["Red", "Green"]);
        assert_eq!(parse(0, "Ada"), Ok(json!("Ada")));
        assert_eq!((parse(1, "7"), parse(1, "7.5").is_err()), (Ok(json!(7)), true));
        assert_eq!((parse(2, "7.5"), parse(2, "inf").is_err()), (Ok(json!(7.5)), true));
        assert_eq!((parse(3, "Yes"), parse(3, "maybe").is_err()), (Ok(json!(true)), true));
        assert_eq!((parse(4, "Red"), parse(4, "blue").is_err()), (Ok(json!("r")), true));
        assert_eq!(parse(5, "First"), Ok(json!("a")));
        assert_eq!((parse(6, "x, y"), parse(6, "x, z").is_err()), (Ok(json!(["x", "y"])), true));
    }
}

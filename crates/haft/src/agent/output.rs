//! A typed final answer: the schema goes into the instructions, the answer is parsed, and a model
//! that misses it reads what is wrong.

use haft_core::{Error, ErrorKind, schemars::JsonSchema};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{
    definition::Agent,
    event::EventSink,
    result::{EndReason, RunResult, RunStatus},
    runner::Runner,
};

/// How often the model may correct its answer.
pub(super) const MAX_CORRECTIONS: usize = 2;

/// The result of a run with a typed answer.
#[derive(Debug)]
#[non_exhaustive]
pub struct TypedResult<T> {
    /// The answer; `None` if the run did not end with one.
    pub output: Option<T>,
    /// The run.
    pub result: RunResult,
}

impl Runner {
    /// Runs an agent whose final answer is JSON of this type. An answer that does not fit is
    /// returned to the model with the problems, at most twice.
    ///
    /// ```
    /// use haft::agent::{Agent, Runner, ScriptedModel};
    /// use haft::{Runtime, schemars, serde};
    ///
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// #[serde(crate = "haft::serde")]
    /// #[schemars(crate = "haft::schemars")]
    /// struct City {
    ///     name: String,
    ///     people: u64,
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), haft::Error> {
    /// let model = ScriptedModel::parse(
    ///     r#"{"text": "Oslo has many people."}
    ///        {"expect": {"shown": ["not JSON"]}, "text": "{\"name\": \"Oslo\", \"people\": 7}"}"#,
    /// )?;
    /// let runner = Runner::new(Runtime::builder().build()?);
    /// let answer = runner.run_typed::<City>(&Agent::new("geographer", model), "Oslo?").await?;
    /// assert_eq!(answer.output.map(|city| (city.name, city.people)), Some(("Oslo".into(), 7)));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Fails if the run cannot start, or if the type has no usable schema.
    pub async fn run_typed<T: DeserializeOwned + JsonSchema>(
        &self,
        agent: &Agent,
        message: &str,
    ) -> Result<TypedResult<T>, Error> {
        let schema = haft_core::schemars::schema_for!(T).to_value();
        let compiled = crate::schema::Schema::compile(&schema).map_err(|error| {
            Error::new(ErrorKind::BadSchema, "the type of the answer has no usable schema")
                .because(error)
        })?;
        let mut chat = self.chat(agent)?;
        let mut result = chat.ask_typed(Some(message), &schema, EventSink::default()).await?;
        let mut corrections = 0;
        loop {
            if !matches!(result.state, RunStatus::Completed | RunStatus::Degraded) {
                return Ok(TypedResult { output: None, result });
            }
            let problem = match parse(&compiled, &result.text) {
                Ok(output) => return Ok(TypedResult { output: Some(output), result }),
                Err(mismatch) => mismatch.details,
            };
            if corrections == MAX_CORRECTIONS {
                result.state = RunStatus::Failed;
                result.reason = EndReason::InvalidOutput { message: problem };
                return Ok(TypedResult { output: None, result });
            }
            corrections += 1;
            chat.add_note(&correction(&problem));
            let executions = std::mem::take(&mut result.executions);
            result = chat.ask_typed(None, &schema, EventSink::default()).await?;
            result.executions.splice(0..0, executions);
        }
    }
}

/// Why an answer does not have the requested form.
#[derive(Debug)]
pub(super) struct Mismatch {
    /// What is wrong, without any text of the answer.
    pub(super) summary: String,
    /// The problems. They quote values and property names of the answer.
    pub(super) details: String,
}

/// Reads an answer. A code fence around it is not part of it.
pub(super) fn parse<T: DeserializeOwned>(
    schema: &crate::schema::Schema,
    text: &str,
) -> Result<T, Mismatch> {
    let text = text.trim();
    let inner = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    let text = match inner {
        Some(inner) => inner.strip_prefix("json").unwrap_or(inner).trim(),
        None => text,
    };
    let json: Value = serde_json::from_str(text).map_err(|error| Mismatch {
        summary: "it is not JSON".to_owned(),
        details: format!("it is not JSON: {error}"),
    })?;
    if !schema.is_valid(&json) {
        let problems = schema.problems(&json);
        let summary = match problems.len() {
            0 | 1 => "1 problem".to_owned(),
            count => format!("{count} problems"),
        };
        let shown: Vec<String> = problems.iter().take(8).map(ToString::to_string).collect();
        return Err(Mismatch { summary, details: shown.join("; ") });
    }
    serde_json::from_value(json).map_err(|error| Mismatch {
        summary: "it is not of the type".to_owned(),
        details: error.to_string(),
    })
}

/// The note to a model whose answer does not fit.
pub(super) fn correction(problem: &str) -> String {
    format!(
        "your answer does not have the requested form: {problem}. Answer again, with nothing but \
         the JSON"
    )
}

/// The part of the instructions that asks for a typed answer.
pub(super) fn instruction(schema: &Value) -> String {
    format!(
        "When you have finished, answer with one JSON value that matches this JSON Schema, and \
         nothing else:\n{schema}"
    )
}

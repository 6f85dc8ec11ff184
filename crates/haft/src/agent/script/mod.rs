//! A model that plays a script: for tests, demos and bug reports, without a key and a network.
//!
//! A script is JSONL: one message of the model a line, with an optional header. Which line is
//! played depends only on how many messages the conversation has, so one scripted model can serve
//! any number of runs at once.

mod expect;
mod format;
mod record;
mod template;

use std::{fmt, sync::Arc, time::Duration};

use haft_core::{BoxFuture, CallId, Error, ErrorKind, StopReason};
use serde_json::Value;

use self::format::{Fault, Header, ScriptCall, ScriptPiece, ScriptTurn};
pub use self::record::Recorder;
pub(super) use self::{record::ShownRequest, template::content as result_content};
use super::{
    model::{Model, ModelInfo, ModelRequest, Price},
    reply::Reply,
};
use crate::{
    clock::{Clock, RuntimeClock},
    host_code::after,
};

/// A model that plays a script.
///
/// ```
/// use haft::agent::ScriptedModel;
///
/// let model = ScriptedModel::parse(
///     r#"{"text": "I look.", "calls": [{"id": "a", "name": "find", "arguments": {"q": "x"}}]}
///        {"expect": {"shown": ["found"]}, "text": "It says: {{result:a}}"}"#,
/// )?;
/// # Ok::<(), haft::Error>(())
/// ```
#[derive(Clone)]
pub struct ScriptedModel {
    header: Arc<Header>,
    turns: Arc<[ScriptTurn]>,
    clock: Arc<dyn Clock>,
}

impl ScriptedModel {
    /// Reads a script: a JSON object for each message, and an optional header before them.
    ///
    /// # Errors
    /// Fails for a line that is not part of a script, and names it.
    pub fn parse(script: &str) -> Result<Self, Error> {
        let (header, turns) = format::parse(script)?;
        Ok(Self { header: Arc::new(header), turns: turns.into(), clock: Arc::new(RuntimeClock) })
    }

    /// Waits on another clock than that of the async runtime.
    #[must_use]
    pub fn with_clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Sets the price, in place of the script's own.
    #[must_use]
    pub fn with_price(mut self, price: Price) -> Self {
        Arc::make_mut(&mut self.header).price = Some(price);
        self
    }

    /// Returns the task that the script was written for, if it names one.
    #[must_use]
    pub fn task(&self) -> Option<&str> {
        self.header.task.as_deref()
    }

    /// Returns how many messages the script has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.turns.len()
    }

    /// Returns whether the script has no message.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    async fn play(
        &self,
        request: ModelRequest<'_>,
        reply: &mut Reply,
    ) -> Result<StopReason, Error> {
        let at = usize::try_from(request.turn).unwrap_or(usize::MAX);
        let Some(turn) = self.turns.get(at) else {
            let messages = match self.turns.len() {
                1 => "1 message".to_owned(),
                n => format!("{n} messages"),
            };
            let asked = at.saturating_add(1);
            let why =
                format!("the script has {messages}, and the model was asked for number {asked}");
            return Err(Error::new(ErrorKind::BadResponse, why)
                .hint("add a line to the script, or let its last message make no call"));
        };
        if let Some(expect) = &turn.expect {
            expect::check(expect, &request, at.saturating_add(1))?;
        }
        let pause = Duration::from_millis(turn.piece_ms);
        for piece in &turn.pieces {
            self.sleep(pause).await;
            if let Some(stop) = self.piece(piece, &request, reply).await? {
                return Ok(stop);
            }
        }
        if let Some(text) = &turn.text {
            self.sleep(pause).await;
            reply.text(&template::text(text, &request)?);
        }
        for call in &turn.calls {
            self.sleep(pause).await;
            write_call(call, &request, reply)?;
        }
        if let Some(usage) = turn.usage {
            reply.usage(usage);
        }
        match turn.fault {
            Some(fault) => self.fail(fault, reply).await,
            None if reply.is_decoding() => reply.end(),
            None => Ok(turn.stop),
        }
    }

    /// Writes one piece; returns the stop reason if it ends the message.
    async fn piece(
        &self,
        piece: &ScriptPiece,
        request: &ModelRequest<'_>,
        reply: &mut Reply,
    ) -> Result<Option<StopReason>, Error> {
        match piece {
            ScriptPiece::Text(text) => reply.text(&template::text(text, request)?),
            ScriptPiece::Call(call) => write_call(call, request, reply)?,
            ScriptPiece::CallStart { id, name } => reply.call_start(id.clone(), name.clone()),
            ScriptPiece::Arguments { id, text } => {
                reply.arguments(id, &template::text(text, request)?);
            }
            ScriptPiece::CallEnd { id } => reply.call_end(id),
            ScriptPiece::Usage(usage) => reply.usage(*usage),
            ScriptPiece::WaitMs(millis) => self.sleep(Duration::from_millis(*millis)).await,
            ScriptPiece::Bytes(text) => reply.feed(text.as_bytes()),
            ScriptPiece::Error(message) => {
                return Err(Error::new(ErrorKind::BadResponse, message.clone()));
            }
        }
        Ok(None)
    }

    async fn fail(&self, fault: Fault, reply: &mut Reply) -> Result<StopReason, Error> {
        match fault {
            Fault::Cut => {
                let why = "the connection was closed before the message ended";
                Err(Error::new(ErrorKind::BadResponse, why))
            }
            Fault::Garbage => {
                reply.feed(b"\x1f\x8b\x08\x00 this is not a response");
                reply.end()
            }
            Fault::InvalidUtf8 => {
                reply.feed(b"data: {\"type\": \"text\", \"text\": \"\xff\xfe\"}\n\n");
                reply.end()
            }
            Fault::ChangedId => {
                let (begun, other) = (CallId::from("begun"), CallId::from("other"));
                reply.call_start(begun, "read_file");
                reply.arguments(&other, "{}");
                reply.call_end(&other);
                Ok(StopReason::Done)
            }
            Fault::Stall => std::future::pending().await,
        }
    }

    async fn sleep(&self, time: Duration) {
        if !time.is_zero() {
            let until = after(self.clock.now(), time);
            self.clock.sleep_until(until).await;
        }
    }
}

fn write_call(
    call: &ScriptCall,
    request: &ModelRequest<'_>,
    reply: &mut Reply,
) -> Result<(), Error> {
    let arguments = template::value(&call.arguments, request)?;
    for n in 0..call.repeat {
        let id = match (&call.id, call.repeat) {
            (Some(id), 1) => id.clone(),
            (Some(id), _) => format!("{id}-{}", n + 1),
            (None, _) => format!("call-{}-{}", request.turn + 1, reply.calls_so_far() + 1),
        };
        match &arguments {
            Value::String(raw) => reply.call(id, call.name.as_str(), raw.as_str()),
            json => reply.call(id, call.name.as_str(), json.clone()),
        }
    }
    Ok(())
}

impl Model for ScriptedModel {
    fn respond<'a>(
        &'a self,
        request: ModelRequest<'a>,
        reply: &'a mut Reply,
    ) -> BoxFuture<'a, Result<StopReason, Error>> {
        Box::pin(self.play(request, reply))
    }

    fn info(&self) -> ModelInfo {
        let header = &*self.header;
        let default = ModelInfo::default();
        ModelInfo {
            name: header.name.clone().unwrap_or_else(|| "script".to_owned()),
            dialect: header.dialect.unwrap_or(default.dialect),
            price: header.price,
            context_tokens: header.context_tokens,
            max_output_tokens: None,
        }
    }
}

impl fmt::Debug for ScriptedModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptedModel").field("turns", &self.turns.len()).finish_non_exhaustive()
    }
}

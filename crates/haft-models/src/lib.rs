//! Model clients: Anthropic Messages, OpenAI Responses, OpenAI Chat and servers compatible with it,
//! and Gemini, streamed or whole. Each is a [`Model`](haft::agent::Model) for an agent.
//!
//! ```
//! use haft::agent::Agent;
//! use haft_models::ProviderModel;
//!
//! # fn main() -> Result<(), haft::Error> {
//! let key = "sk-from-your-configuration";
//! let model = ProviderModel::parse("anthropic:claude-sonnet-4-5")?.key(key).build()?;
//! let agent = Agent::new("helper", model);
//! # Ok(())
//! # }
//! ```
//!
//! This crate has the transport and builds requests; the formats are in `haft-dialect`. It reads no
//! environment and no file: keys, proxies and certificates are values.

mod provider;
mod table;
mod settings;
mod failed;
mod backoff;
mod transport;
mod respond;
mod model;

pub use haft::secrets::Secret;
pub use model::{ProviderModel, ProviderModelBuilder};
pub use provider::Provider;
pub use settings::{Retries, Timeouts};
pub use table::{ModelEntry, PriceTable};

/// The programs of the pages about this crate are tests.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../README.md")]
    struct Readme;
    #[doc = include_str!("../../../docs/guide/models.md")]
    struct Guide;
}

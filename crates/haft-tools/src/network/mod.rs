//! Which hosts may be contacted (SSRF), and the filtering proxy through which commands contact
//! them.
//!
//! `sites`, `address` and `resolve` are the one implementation of the SSRF checks. `proxy` accepts
//! connections of a sandboxed command and contacts hosts for it.

mod address;
mod sites;
mod resolve;
mod proxy;

pub use self::{
    proxy::NetworkLimits,
    resolve::{Resolve, SystemResolver},
    sites::InvalidHostError,
};
pub(crate) use self::{
    proxy::{Contacts, Decide, Proxy, variables},
    resolve::checked,
    sites::{Sites, denied},
};

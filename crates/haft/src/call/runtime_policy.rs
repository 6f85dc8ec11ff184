//! The policy of a runtime.

use std::ops::Deref;

use haft_policy::{DefaultPolicy, Policy};

/// The policy of a runtime: that of the host, or the default, which is called directly.
pub(crate) struct RuntimePolicy(Option<Box<dyn Policy>>);

impl RuntimePolicy {
    pub(crate) fn new(of_host: Option<Box<dyn Policy>>) -> Self {
        Self(of_host)
    }

    /// Returns the policy of the host. The default cannot panic and rewrites nothing.
    #[inline]
    pub(crate) fn of_host(&self) -> Option<&dyn Policy> {
        self.0.as_deref()
    }
}

impl Deref for RuntimePolicy {
    type Target = dyn Policy;

    fn deref(&self) -> &(dyn Policy + 'static) {
        match &self.0 {
            Some(policy) => &**policy,
            None => &DefaultPolicy,
        }
    }
}

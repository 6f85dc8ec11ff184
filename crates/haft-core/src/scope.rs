//! `Scope`: what the host provides to the tools of a run (ids, working directory, metadata, state).
//!
//! A scope is made once per turn and shared by its calls. Tools read it through `ToolContext`. Only
//! [`SharedMap`] can be changed, under a lock.

use std::{
    any::{Any, TypeId},
    collections::HashMap,
    fmt,
    ops::{Deref, DerefMut},
    path::Path,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use serde::Serialize;
use serde_json::{Map, Value};

use crate::{Label, RunId, sync::lock};

/// What the tools of one call can read about their run: the data of the run, and what differs
/// between its turns and calls. A clone copies no text.
#[derive(Debug, Clone)]
pub struct Scope {
    /// What is the same for all calls of the run. `Scope` dereferences to it.
    pub run_scope: Arc<RunScope>,
    /// The nesting depth of sub-agents and calls: 0 at the top.
    pub depth: u32,
    /// Which turn of the run this is, from 1.
    pub cycle: u32,
    /// The taint label: the join of what the run has read so far.
    pub label: Label,
}

/// The data of one run that its tools can read.
#[derive(Debug, Clone)]
pub struct RunScope {
    /// The run.
    pub run: RunId,
    /// The conversation the run belongs to.
    pub session: Option<String>,
    /// The agent that makes the calls.
    pub agent: Option<String>,
    /// The person it works for.
    pub user: Option<String>,
    /// The request that started the run.
    pub request: Option<String>,
    /// The agents above this one, outermost first, this one last. Shared, because every event and
    /// every record contains it.
    pub agent_path: Arc<[String]>,
    /// Where relative paths start.
    pub working_directory: Arc<Path>,
    /// Metadata of the host, read-only.
    pub metadata: Arc<Map<String, Value>>,
    /// Values of the runtime.
    pub state: Arc<TypeMap>,
    /// Values of this run.
    pub run_state: Arc<TypeMap>,
    /// The map all tools of the run share.
    pub shared: SharedMap,
}

impl Default for RunScope {
    fn default() -> Self {
        Self {
            run: RunId::from("run"),
            session: None,
            agent: None,
            user: None,
            request: None,
            agent_path: Arc::default(),
            working_directory: Path::new(".").into(),
            metadata: Arc::default(),
            state: Arc::default(),
            run_state: Arc::default(),
            shared: SharedMap::default(),
        }
    }
}

impl From<RunScope> for Scope {
    fn from(run: RunScope) -> Self {
        Self { run_scope: Arc::new(run), depth: 0, cycle: 1, label: Label::CLEAN }
    }
}

impl Default for Scope {
    fn default() -> Self {
        RunScope::default().into()
    }
}

impl Deref for Scope {
    type Target = RunScope;

    fn deref(&self) -> &RunScope {
        &self.run_scope
    }
}

impl DerefMut for Scope {
    /// Changes the data of the run for this scope only.
    fn deref_mut(&mut self) -> &mut RunScope {
        Arc::make_mut(&mut self.run_scope)
    }
}

/// The remaining budget of a run. `None` means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct RemainingBudget {
    /// Tool calls.
    pub calls: Option<u64>,
    /// Calls of the current tool.
    pub own_calls: Option<u64>,
    /// Wall-clock time.
    pub wall: Option<Duration>,
    /// Bytes of results.
    pub bytes: Option<u64>,
    /// Tokens of the model.
    pub tokens: Option<u64>,
    /// Millionths of the currency unit.
    pub micros: Option<u64>,
    /// Turns.
    pub cycles: Option<u32>,
    /// Nesting levels.
    pub depth: Option<u32>,
}

/// A map from type to value.
#[derive(Default, Clone)]
pub struct TypeMap(HashMap<TypeId, Arc<dyn Any + Send + Sync>>);

impl TypeMap {
    /// Inserts a value. A value of the same type is replaced.
    pub fn insert<T: Send + Sync + 'static>(&mut self, value: T) {
        self.0.insert(TypeId::of::<T>(), Arc::new(value));
    }

    /// Returns the value of this type.
    #[must_use]
    pub fn get<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.0.get(&TypeId::of::<T>()).cloned().and_then(|any| any.downcast().ok())
    }

    /// Returns whether there is a value of this type.
    #[must_use]
    pub fn has(&self, type_id: TypeId) -> bool {
        self.0.contains_key(&type_id)
    }
}

impl fmt::Debug for TypeMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TypeMap({} values)", self.0.len())
    }
}

/// A value of the runtime, injected into a tool: `State<Db>`.
#[derive(Debug)]
pub struct State<T: ?Sized>(pub(crate) Arc<T>);

/// A value the host supplies for one run, hidden from the model: `RunState<CurrentUser>`.
#[derive(Debug)]
pub struct RunState<T: ?Sized>(pub(crate) Arc<T>);

macro_rules! shared_value {
    ($($name:ident)*) => {$(
        impl<T: ?Sized> $name<T> {
            /// Wraps a shared value, e.g. to call a tool function in a test.
            #[must_use]
            pub fn new(value: Arc<T>) -> Self {
                Self(value)
            }

            /// Returns the shared value.
            #[must_use]
            pub fn into_arc(self) -> Arc<T> {
                self.0
            }
        }

        // A model cannot fill these in. Still they satisfy the derives of an argument struct, so
        // that an alias of `State` as a parameter has one compile error, in the macro's words, and
        // not one for each bound. Where the macro cannot see it, in a nested type, making the
        // schema is the compile error.
        #[doc(hidden)]
        impl<'de, T: ?Sized> serde::Deserialize<'de> for $name<T> {
            fn deserialize<D: serde::Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
                Err(serde::de::Error::custom("the host supplies this value"))
            }
        }

        #[doc(hidden)]
        impl<T: ?Sized> schemars::JsonSchema for $name<T> {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                // The condition depends on `T` and is never true. Without it, an optimized build of
                // this crate evaluates the block although nothing calls this function.
                const {
                    assert!(
                        size_of::<&T>() == 0,
                        "an argument contains `State` or `RunState`, which the host supplies"
                    );
                }
                schemars::Schema::default()
            }
        }

        impl<T: ?Sized> Clone for $name<T> {
            fn clone(&self) -> Self {
                Self(Arc::clone(&self.0))
            }
        }

        impl<T: ?Sized> Deref for $name<T> {
            type Target = T;

            fn deref(&self) -> &T {
                &self.0
            }
        }
    )*};
}
shared_value!(State RunState);

/// A map that all tools of a run share.
///
/// Every change is one closure under one lock, so there are no lost updates:
///
/// ```
/// use haft_core::SharedMap;
///
/// let shared = SharedMap::default();
/// shared.update("count", |old| Some((old.and_then(|v| v.as_u64()).unwrap_or(0) + 1).into()));
/// assert_eq!(shared.get("count"), Some(1.into()));
/// ```
#[derive(Clone, Default)]
pub struct SharedMap(Arc<Mutex<HashMap<String, Value>>>);

impl SharedMap {
    /// Returns a copy of a value.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<Value> {
        self.lock().get(key).cloned()
    }

    /// Inserts a value and returns the previous one.
    pub fn insert(&self, key: impl Into<String>, value: impl Into<Value>) -> Option<Value> {
        self.lock().insert(key.into(), value.into())
    }

    /// Changes one value atomically; `None` removes it.
    pub fn update(&self, key: &str, change: impl FnOnce(Option<Value>) -> Option<Value>) {
        let mut map = self.lock();
        let old = map.remove(key);
        if let Some(new) = change(old) {
            map.insert(key.to_owned(), new);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Value>> {
        // A panic inside `update` leaves the map valid: the value was removed first.
        lock(&self.0)
    }
}

impl fmt::Debug for SharedMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedMap({} values)", self.lock().len())
    }
}

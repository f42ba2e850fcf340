//! Extractors: what a handler takes.
//!
//! They are synchronous, because they run again in every round: they pick, they do not fetch. Each describes what it needs,
//! so that a server which lacks it does not start.

use std::any::{Any, TypeId, type_name};
use std::collections::HashMap;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use mrtr_ledger::{Ledger, TransactionalLedger};
use mrtr_protocol::meta::{is_key, is_reserved};
use mrtr_state::Principal;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;
use thiserror::Error;
use tokio_util::sync::CancellationToken;

use crate::completion::Partial;
use crate::error::ToolError;
use crate::flow::cell::FlowCell;
use crate::flow::{DurableFlow, Flow, FlowIn, in_database};
use crate::meta::Notes;
use crate::outbox::Link;

/// One argument of a handler.
///
/// Implementers: [`describe`](Self::describe) is called once, when the server is built; [`extract`](Self::extract) in every
/// round. Build on the extractors that are here: what they show, arguments and principal, is bound to the state, so that no
/// retry can change it.
///
/// ```
/// use mrtr_server::{Call, Caller, Extract, ExtractError, Principal, Spec, ToolError};
///
/// /// The name of somebody who is known.
/// struct Known(String);
///
/// impl Extract for Known {
///     fn describe(spec: &mut Spec) {
///         Caller::describe(spec);
///     }
///
///     fn extract(call: &mut Call<'_>) -> Result<Self, ExtractError> {
///         match Caller::extract(call)?.0 {
///             Principal::User(user) => Ok(Known(user.subject().to_owned())),
///             _ => Err(ExtractError::Refused(ToolError::text("Log in first."))),
///         }
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument of a handler",
    note = "take `Args<T>`, `Flow`, `DurableFlow`, `FlowIn<L>`, `State<T>`, `Caller` or `Meta<T>`, each by value"
)]
pub trait Extract: Sized + Send + 'static {
    /// Says what this needs from the server and from the request.
    fn describe(spec: &mut Spec) {
        let _ = spec;
    }

    /// Picks the value.
    ///
    /// # Errors
    ///
    /// When the request does not carry it in the form that the handler wants.
    fn extract(call: &mut Call<'_>) -> Result<Self, ExtractError>;
}

/// What a handler needs, gathered from its extractors.
#[derive(Debug, Default)]
pub struct Spec {
    pub(crate) input_schema: Option<Value>,
    pub(crate) needs_codec: bool,
    pub(crate) needs_ledger: bool,
    /// The ledger that it must be.
    pub(crate) acts_in: Vec<ActsIn>,
    pub(crate) resumes: bool,
    pub(crate) sends: bool,
    pub(crate) logs: bool,
    pub(crate) completes: bool,
    pub(crate) announces: bool,
    pub(crate) knows_caller: bool,
    /// Keys of `_meta`, in order and each once.
    pub(crate) meta_keys: Vec<&'static str>,
    pub(crate) states: Vec<(TypeId, &'static str)>,
    pub(crate) faults: Vec<String>,
}

/// A ledger's type, and whether a ledger is of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ActsIn {
    pub(crate) name: &'static str,
    pub(crate) is: fn(&dyn Ledger) -> bool,
}

impl Spec {
    /// The handler reads arguments of this schema.
    pub fn arguments<T: JsonSchema>(&mut self) {
        let schema = SchemaSettings::draft2020_12()
            .with(|settings| settings.meta_schema = None)
            .into_generator()
            .into_root_schema_for::<T>()
            .to_value();
        if self.input_schema.replace(schema).is_some() {
            self.faults
                .push("it takes `Args` twice; put the fields into one struct".into());
        }
    }

    /// The handler sees this entry of the request's `_meta`, which is bound to the state like an argument. Only what is named
    /// here can be reached with [`Call::meta_entry`].
    pub fn meta_entry(&mut self, key: &'static str) {
        if !is_key(key) || is_reserved(key) {
            self.faults.push(format!(
                "it sees `{key}` of `_meta`, which is no key of an application's own: name it like `com.example/tenant`"
            ));
        }
        if let Err(place) = self.meta_keys.binary_search(&key) {
            self.meta_keys.insert(place, key);
        }
    }

    /// The handler looks up shared state of type `T`, which the builder must have been given.
    pub fn state<T: 'static>(&mut self) {
        self.states.push((TypeId::of::<T>(), type_name::<T>()));
    }
}

/// One round of one call, as an extractor sees it.
pub struct Call<'a> {
    pub(crate) arguments: Option<Value>,
    pub(crate) target: &'a str,
    pub(crate) principal: &'a Principal,
    pub(crate) states: &'a States,
    pub(crate) cell: Option<&'a Arc<FlowCell>>,
    pub(crate) link: &'a Link,
    pub(crate) cancelled: &'a CancellationToken,
    pub(crate) partial: Option<&'a Partial>,
    pub(crate) notes: &'a Notes,
}

/// Arguments are the caller's business, not the log's.
impl fmt::Debug for Call<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("principal", &self.principal)
            .finish_non_exhaustive()
    }
}

impl Call<'_> {
    /// What was asked for: the tool's or prompt's name, or the resource's URI. Bound to the state.
    #[must_use]
    pub fn target(&self) -> &str {
        self.target
    }

    /// An entry of the request's `_meta` that [`Spec::meta_entry`] named, as its JSON text; what was not named is not there. Bound
    /// to the state, and not checked by anybody.
    #[must_use]
    pub fn meta_entry(&self, key: &str) -> Option<&RawValue> {
        self.notes.entry(key)
    }

    /// Whose call this is, as the authenticator says.
    #[must_use]
    pub fn principal(&self) -> &Principal {
        self.principal
    }
}

/// Why an extractor found nothing to extract.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ExtractError {
    /// The arguments passed the schema, but do not fit the handler's type. The model reads this; the log has the reason.
    #[error("Invalid arguments: they pass the schema, and do not fit what the handler takes.")]
    Arguments,
    /// The request's `_meta` lacks an entry, or has it in another shape than the handler takes. The client's author reads this.
    #[error("`{0}` in `_meta` is missing, or not of the shape that this takes")]
    Meta(&'static str),
    /// The extractor refuses the call; what the error says becomes the call's result.
    #[error("the call is refused")]
    Refused(ToolError),
    /// What the builder should have ensured is missing. A fault of ours; please report it.
    #[error("the server was built without what this handler needs: {0}")]
    Missing(&'static str),
}

/// The call's arguments, validated against the published schema and then deserialized: those of a tool, the arguments of a
/// prompt, or the variables of a resource template.
///
/// `T` derives `serde::Deserialize` and `schemars::JsonSchema`; its doc comments become the descriptions that the model
/// reads. Arguments that do not fit give the model a result with `isError` that says what is wrong (specification,
/// `server/tools`, "Error Handling").
///
/// # Arguments in headers
///
/// A string, integer or boolean of a tool's arguments can be mirrored in an HTTP header, so that a gateway routes by it
/// without reading the body. Over HTTP and in this revision alone, the server then refuses a call whose header and argument
/// differ (-32020), before anything runs. A unit enum is a string where it says `#[schemars(inline)]`. Never do this with
/// what is secret or personal: every intermediary reads headers.
///
/// ```
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Query {
///     /// Sent as `Mcp-Param-Region` too.
///     #[schemars(extend("x-mcp-header" = "Region"))]
///     region: Option<String>,
///     sql: String,
/// }
/// # use mrtr_server::{Args, Server, tool};
/// # let run = async |Args(query): Args<Query>| query.sql;
/// # Server::builder("s", "1").allow_anonymous().tool(tool("t", run)).build().unwrap();
/// ```
///
/// Specification: `basic/transports/streamable-http`, "Custom Headers from Tool Parameters".
#[derive(Debug, Clone, Copy)]
pub struct Args<T>(pub T);

impl<T: DeserializeOwned + JsonSchema + Send + 'static> Extract for Args<T> {
    fn describe(spec: &mut Spec) {
        spec.arguments::<T>();
    }

    fn extract(call: &mut Call<'_>) -> Result<Self, ExtractError> {
        let arguments = call
            .arguments
            .take()
            .ok_or(ExtractError::Missing("arguments"))?;
        serde_json::from_value(arguments)
            .map(Args)
            .map_err(|error: serde_json::Error| {
                tracing::warn!(kind = ?error.classify(), line = error.line(), column = error.column(), "arguments that pass the schema do not fit the handler's type");
                ExtractError::Arguments
            })
    }
}

/// Shared state, given to the builder with `.state(value)` and looked up by type.
#[derive(Debug, Clone, Copy)]
pub struct State<T>(pub T);

impl<T> Deref for State<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Clone + Send + Sync + 'static> Extract for State<T> {
    fn describe(spec: &mut Spec) {
        spec.state::<T>();
    }

    fn extract(call: &mut Call<'_>) -> Result<Self, ExtractError> {
        call.states
            .get::<T>()
            .map(State)
            .ok_or(ExtractError::Missing(type_name::<T>()))
    }
}

/// Whose call this is: the [`Principal`] that the authenticator found. Never taken from anything that a client sets at will.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller(pub Principal);

impl Extract for Caller {
    fn describe(spec: &mut Spec) {
        spec.knows_caller = true;
    }

    fn extract(call: &mut Call<'_>) -> Result<Self, ExtractError> {
        Ok(Caller(call.principal.clone()))
    }
}

impl Extract for Flow {
    fn describe(spec: &mut Spec) {
        spec.needs_codec = true;
    }

    fn extract(call: &mut Call<'_>) -> Result<Self, ExtractError> {
        call.cell
            .cloned()
            .map(Flow::new)
            .ok_or(ExtractError::Missing("a state codec"))
    }
}

impl Extract for DurableFlow {
    fn describe(spec: &mut Spec) {
        spec.needs_codec = true;
        spec.needs_ledger = true;
    }

    fn extract(call: &mut Call<'_>) -> Result<Self, ExtractError> {
        call.cell
            .filter(|cell| cell.durable.is_some())
            .cloned()
            .map(DurableFlow::new)
            .ok_or(ExtractError::Missing("a ledger"))
    }
}

impl<L: TransactionalLedger> Extract for FlowIn<L> {
    fn describe(spec: &mut Spec) {
        DurableFlow::describe(spec);
        spec.acts_in.push(ActsIn {
            name: type_name::<L>(),
            is: in_database::is::<L>,
        });
    }

    fn extract(call: &mut Call<'_>) -> Result<Self, ExtractError> {
        call.cell
            .filter(|cell| cell.durable.is_some())
            .cloned()
            .map(FlowIn::new)
            .ok_or(ExtractError::Missing("a ledger"))
    }
}

/// Shared state by type.
#[derive(Default, Clone)]
pub(crate) struct States(HashMap<TypeId, Arc<dyn Any + Send + Sync>>);

impl States {
    pub(crate) fn insert<T: Clone + Send + Sync + 'static>(&mut self, value: T) {
        self.0.insert(TypeId::of::<T>(), Arc::new(value));
    }

    pub(crate) fn contains(&self, id: &TypeId) -> bool {
        self.0.contains_key(id)
    }

    pub(crate) fn get<T: Clone + 'static>(&self) -> Option<T> {
        self.0.get(&TypeId::of::<T>())?.downcast_ref::<T>().cloned()
    }
}

impl fmt::Debug for States {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} shared states", self.0.len())
    }
}

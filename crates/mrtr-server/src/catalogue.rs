//! What a server serves: tools, prompts, resources and templates, published in the order in which they were given.

use std::any::TypeId;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jsonschema::Validator;
use mrtr_protocol::discover::{ListChanged, ResourcesCapability};
use mrtr_protocol::{
    CompletionReference, JsonObject, ParamHeaders, Prompt as PublishedPrompt, PromptArgument,
    Resource as PublishedResource, ResourceTemplate as PublishedTemplate, ServerCapabilities,
    Tool as PublishedTool,
};
use serde_json::{Map, Value, json};

use crate::builder::BuildError;
use crate::completion::{Completer, Completions};
use crate::extract::{Spec, States};
use crate::form;
use crate::limits::Limits;
use crate::prompt::Prompt;
use crate::registered::{Draft, Registered, Surface};
use crate::resource::Resource;
use crate::schema;
use crate::template::Template;
use crate::tool::Tool;
use crate::uri;

/// Times are kept in milliseconds.
pub(crate) const SHORTEST: Duration = Duration::from_millis(1);

/// Everything that is served, ready to be listed and looked up.
#[derive(Default)]
pub(crate) struct Catalogue {
    pub(crate) tools: Vec<PublishedTool>,
    pub(crate) prompts: Vec<PublishedPrompt>,
    pub(crate) resources: Vec<PublishedResource>,
    pub(crate) templates: Vec<PublishedTemplate>,
    tool_handlers: HashMap<String, Arc<Registered>>,
    prompt_handlers: HashMap<String, Arc<Registered>>,
    resource_handlers: HashMap<String, Arc<Registered>>,
    template_handlers: Vec<(Template, Arc<Registered>)>,
    /// Whether any handler may send something before its result.
    pub(crate) sends: bool,
    /// Whether any handler logs to the client.
    pub(crate) logs: bool,
    prompt_completions: HashMap<String, Completions>,
    template_completions: HashMap<String, Completions>,
    completes: bool,
}

/// A handler for a resource, and the variables of its URI.
pub(crate) struct Found<'c> {
    pub(crate) handler: &'c Arc<Registered>,
    pub(crate) variables: Option<Map<String, Value>>,
}

/// What the builder has for handlers.
pub(crate) struct Provisions<'b> {
    pub(crate) codec: bool,
    pub(crate) ledger: bool,
    pub(crate) states: &'b States,
    pub(crate) limits: &'b Limits,
}

impl Catalogue {
    pub(crate) fn tool(&self, name: &str) -> Option<&Arc<Registered>> {
        self.tool_handlers.get(name)
    }

    pub(crate) fn prompt(&self, name: &str) -> Option<&Arc<Registered>> {
        self.prompt_handlers.get(name)
    }

    /// The handler of this URI: an exact one, or the first template that it fits. None for what is no URI, and for a file
    /// behind a detour (specification, `server/resources`, "Security Considerations").
    pub(crate) fn resource(&self, uri: &str) -> Option<Found<'_>> {
        if !uri::is_uri(uri) || uri::is_detour(uri) {
            return None;
        }
        if let Some(handler) = self.resource_handlers.get(uri) {
            return Some(Found {
                handler,
                variables: None,
            });
        }
        self.template_handlers
            .iter()
            .find_map(|(template, handler)| {
                let variables = Some(template.variables(uri)?);
                Some(Found { handler, variables })
            })
    }

    /// The arguments of a prompt, or the variables of a template, and who completes them.
    pub(crate) fn completions(&self, of: &CompletionReference<'_>) -> Option<&Completions> {
        match of {
            CompletionReference::Prompt { name } => self.prompt_completions.get(name.as_ref()),
            CompletionReference::Resource { uri } => self.template_completions.get(uri.as_ref()),
            _ => None,
        }
    }

    /// Whether anything is completed here.
    pub(crate) fn completes(&self) -> bool {
        self.completes
    }

    pub(crate) fn has_resources(&self) -> bool {
        !self.resources.is_empty() || !self.templates.is_empty()
    }

    pub(crate) fn capabilities(&self) -> ServerCapabilities {
        let mut capabilities = ServerCapabilities::with_tools();
        capabilities.prompts = (!self.prompts.is_empty()).then(ListChanged::default);
        capabilities.resources = self.has_resources().then(ResourcesCapability::default);
        capabilities.completions = self.completes.then(JsonObject::empty);
        capabilities
    }

    /// What a handler may send shapes how its requests are answered.
    fn note(&mut self, draft: &Draft) {
        self.sends |= draft.spec.sends;
        self.logs |= draft.spec.logs;
    }

    pub(crate) fn add_tool(
        &mut self,
        tool: Tool,
        provisions: &Provisions<'_>,
    ) -> Result<(), BuildError> {
        check_name(&tool.name)?;
        let handler = Named {
            surface: Surface::Tool,
            name: &tool.name,
        };
        // A tool without arguments says so, instead of accepting anything (specification, `server/tools`, "Tool").
        let nothing = || json!({ "type": "object", "additionalProperties": false });
        let mut input_schema = tool.draft.spec.input_schema.clone().unwrap_or_else(nothing);
        self.note(&tool.draft);
        let mut registered = handler.register(tool.draft, &input_schema, provisions)?;
        schema::take_null_from_annotated(&mut input_schema);
        let wire =
            JsonObject::from_serialize(&input_schema).map_err(|error| handler.fault(error))?;
        registered.param_headers = ParamHeaders::of(&wire).map_err(|error| {
            handler.fault(format_args!(
                "an `x-mcp-header` of its arguments is not permitted: {error}"
            ))
        })?;
        let secret = registered.param_headers.iter().find(|header| {
            header
                .path()
                .iter()
                .any(|name| form::asks_for_a_secret(name))
        });
        if let Some(header) = secret {
            return Err(handler.fault(format_args!(
                "the argument `{}` asks for a secret, and `x-mcp-header` would show it to every intermediary",
                header.path().join("/")
            )));
        }
        let output_schema = tool
            .output_schema
            .as_ref()
            .map(|schema| handler.output(schema));
        let (output_schema, output) = output_schema.transpose()?.unzip();
        registered.output = output;
        let mut published = PublishedTool::new(tool.name.clone(), wire);
        published.title = tool.title;
        published.description = tool.description;
        published.annotations = tool.annotations;
        published.output_schema = output_schema;
        self.tools.push(published);
        unique(&mut self.tool_handlers, tool.name, registered)
    }

    pub(crate) fn add_prompt(
        &mut self,
        prompt: Prompt,
        provisions: &Provisions<'_>,
    ) -> Result<(), BuildError> {
        check_name(&prompt.name)?;
        let handler = Named {
            surface: Surface::Prompt,
            name: &prompt.name,
        };
        let schema = prompt
            .draft
            .spec
            .input_schema
            .clone()
            .unwrap_or_else(|| json!({ "type": "object" }));
        let mut published = PublishedPrompt::new(prompt.name.clone());
        published.arguments = handler.arguments(&schema)?;
        published.title = prompt.title;
        published.description = prompt.description;
        let names = published
            .arguments
            .iter()
            .map(|argument| argument.name.clone());
        let mut draft = prompt.draft;
        self.note(&draft);
        let completers = std::mem::take(&mut draft.completers);
        self.completes |= !completers.is_empty();
        let completions = handler.completions(names.collect(), completers, provisions)?;
        let registered = handler.register(draft, &schema, provisions)?;
        self.prompts.push(published);
        self.prompt_completions
            .insert(prompt.name.clone(), completions);
        unique(&mut self.prompt_handlers, prompt.name, registered)
    }

    pub(crate) fn add_resource(
        &mut self,
        resource: Resource,
        provisions: &Provisions<'_>,
    ) -> Result<(), BuildError> {
        let handler = Named {
            surface: Surface::Resource,
            name: &resource.uri,
        };
        let schema = resource
            .draft
            .spec
            .input_schema
            .clone()
            .unwrap_or_else(|| json!({ "type": "object" }));
        let arguments = handler.arguments(&schema)?;
        self.note(&resource.draft);
        let name = resource
            .name
            .clone()
            .unwrap_or_else(|| resource.uri.clone());
        if resource.is_template {
            let template = Template::parse(&resource.uri).map_err(|error| handler.fault(error))?;
            if let Some(missing) = arguments
                .iter()
                .find(|argument| argument.required == Some(true) && !template.has(&argument.name))
            {
                return Err(handler.fault(format_args!(
                    "the template has no variable `{}`",
                    missing.name
                )));
            }
            let mut published = PublishedTemplate::new(resource.uri.clone(), name);
            published.title = resource.title;
            published.description = resource.description;
            published.mime_type = resource.mime_type.clone();
            let mut draft = resource.draft;
            let completers = std::mem::take(&mut draft.completers);
            self.completes |= !completers.is_empty();
            let completions = handler.completions(template.names(), completers, provisions)?;
            let registered = handler.register(draft, &schema, provisions)?;
            let twin = self
                .template_completions
                .insert(resource.uri.clone(), completions);
            if twin.is_some() {
                return Err(BuildError::Duplicate(format!(
                    "template `{}`",
                    resource.uri
                )));
            }
            self.templates.push(published);
            self.template_handlers
                .push((template, Arc::new(registered)));
            return Ok(());
        }
        if !resource.draft.completers.is_empty() {
            return Err(
                handler.fault("it completes variables, and one URI has none; use `template`")
            );
        }
        if resource.draft.spec.input_schema.is_some() {
            return Err(
                handler.fault("it takes `Args`, and one URI has no variables; use `template`")
            );
        }
        if !uri::is_uri(&resource.uri) || uri::is_detour(&resource.uri) {
            return Err(handler.fault(
                "it is no URI (RFC 3986): begin with a scheme, percent-encode what is not ASCII, and leave `..` out of a file's path",
            ));
        }
        let mut published = PublishedResource::new(resource.uri.clone(), name);
        published.title = resource.title;
        published.description = resource.description;
        published.mime_type = resource.mime_type.clone();
        let registered = handler.register(resource.draft, &schema, provisions)?;
        self.resources.push(published);
        unique(&mut self.resource_handlers, resource.uri, registered)
    }
}

impl fmt::Debug for Catalogue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Catalogue")
            .field("tools", &self.tool_handlers.keys())
            .field("prompts", &self.prompt_handlers.keys())
            .field("resources", &self.resource_handlers.keys())
            .field("templates", &self.templates.len())
            .finish_non_exhaustive()
    }
}

/// A handler that is being built, for errors to name.
struct Named<'n> {
    surface: Surface,
    name: &'n str,
}

impl Named<'_> {
    fn in_words(&self) -> String {
        format!("{} `{}`", self.surface, self.name)
    }

    fn fault(&self, fault: impl fmt::Display) -> BuildError {
        BuildError::Handler {
            handler: self.in_words(),
            fault: fault.to_string(),
        }
    }

    fn register(
        &self,
        draft: Draft,
        schema: &Value,
        provisions: &Provisions<'_>,
    ) -> Result<Registered, BuildError> {
        let Draft {
            spec,
            start,
            lifetime,
            flow_lifetime,
            answers_without_state,
            completers: _,
        } = draft;
        if spec.needs_codec && !provisions.codec {
            return Err(BuildError::NoCodec {
                handler: self.in_words(),
            });
        }
        if spec.needs_ledger && !provisions.ledger {
            return Err(BuildError::NoLedger {
                handler: self.in_words(),
            });
        }
        if spec.completes {
            return Err(
                self.fault("it takes `Partial`, which the handlers of completions alone are given")
            );
        }
        self.check_states(&spec, provisions)?;
        if let Some(fault) = spec.faults.first() {
            return Err(self.fault(fault));
        }
        if answers_without_state && spec.needs_ledger {
            return Err(self.fault(
                "it takes a `DurableFlow`, whose steps are to happen once a flow, and answers without a state belong to no flow: leave out `accept_answers_without_state`",
            ));
        }
        if answers_without_state && !spec.needs_codec {
            return Err(self.fault(
                "it takes no `Flow`, so that there is nothing to answer: leave out `accept_answers_without_state`",
            ));
        }
        if [lifetime, flow_lifetime]
            .into_iter()
            .flatten()
            .any(|lifetime| lifetime < SHORTEST)
        {
            return Err(self.fault("a lifetime must be at least one millisecond"));
        }
        if schema.get("type") != Some(&Value::from("object")) {
            return Err(self.fault(
                "its arguments must be a struct with named fields (an object on the wire)",
            ));
        }
        let validator = schema::compile(schema).map_err(|error| {
            self.fault(format_args!(
                "the schema of its arguments does not compile: {error}"
            ))
        })?;
        let lifetime = lifetime.unwrap_or(provisions.limits.lifetime);
        Ok(Registered {
            surface: self.surface,
            name: self.name.to_owned(),
            validator,
            param_headers: ParamHeaders::default(),
            output: None,
            takes_arguments: spec.input_schema.is_some(),
            asks: spec.needs_codec,
            acts_once: spec.needs_ledger,
            answers_without_state,
            lifetime,
            flow_lifetime: flow_lifetime
                .unwrap_or(provisions.limits.flow_lifetime)
                .max(lifetime),
            start,
        })
    }

    /// An output schema as it is published, and what checks results against it.
    fn output(&self, schema: &Value) -> Result<(JsonObject, Validator), BuildError> {
        let wire = JsonObject::from_serialize(schema)
            .map_err(|error| self.fault(format_args!("its output schema is {error}")))?;
        let validator = schema::compile(schema).map_err(|error| {
            self.fault(format_args!("its output schema does not compile: {error}"))
        })?;
        Ok((wire, validator))
    }

    fn check_states(&self, spec: &Spec, provisions: &Provisions<'_>) -> Result<(), BuildError> {
        let missing = |(id, _): &&(TypeId, &'static str)| !provisions.states.contains(id);
        match spec.states.iter().find(missing) {
            None => Ok(()),
            Some((_, state)) => Err(BuildError::NoState {
                handler: self.in_words(),
                state,
            }),
        }
    }

    fn completions(
        &self,
        arguments: Vec<String>,
        completers: Vec<Completer>,
        provisions: &Provisions<'_>,
    ) -> Result<Completions, BuildError> {
        let mut completions = Completions::of(arguments);
        for completer in completers {
            let argument = completer.argument.clone();
            let spec = &completer.spec;
            if spec.needs_codec || spec.sends || spec.input_schema.is_some() {
                return Err(self.fault(format_args!(
                    "the completion of `{argument}` takes a `Flow`, `Args` or what sends something: it cannot ask or report, and what was chosen is in `Partial`"
                )));
            }
            self.check_states(spec, provisions)?;
            if !completions.add(completer) {
                return Err(self.fault(format_args!(
                    "it has no argument `{argument}` to complete, or completes it twice"
                )));
            }
        }
        Ok(completions)
    }

    /// The arguments of a prompt, or the variables of a template: strings by name.
    fn arguments(&self, schema: &Value) -> Result<Vec<PromptArgument>, BuildError> {
        let properties = schema.get("properties").and_then(Value::as_object);
        let required = schema.get("required").and_then(Value::as_array);
        let is_required = |name: &str| {
            required.is_some_and(|required| required.iter().any(|known| known == name))
        };
        properties
            .into_iter()
            .flatten()
            .map(|(name, property)| {
                if !takes_text(property) {
                    return Err(self.fault(format_args!(
                        "`{name}` is not text, and everything that it is given is: use `String`, `Option<String>` or a unit enum"
                    )));
                }
                let mut argument = PromptArgument::new(name.clone());
                argument.description = property.get("description").and_then(Value::as_str).map(str::to_owned);
                argument.required = Some(is_required(name));
                Ok(argument)
            })
            .collect()
    }
}

/// Whether a property can be given as text: a string, an optional one, or a unit enum (by reference or in place).
fn takes_text(property: &Value) -> bool {
    let is_text = |kind: &Value| kind == "string";
    match property.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().any(is_text),
        Some(kind) => is_text(kind),
        None => ["$ref", "anyOf", "oneOf", "enum", "const"]
            .iter()
            .any(|keyword| property.get(keyword).is_some()),
    }
}

fn check_name(name: &str) -> Result<(), BuildError> {
    let permitted = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    match !name.is_empty() && name.len() <= 128 && name.chars().all(permitted) {
        true => Ok(()),
        false => Err(BuildError::Name(name.to_owned())),
    }
}

fn unique(
    handlers: &mut HashMap<String, Arc<Registered>>,
    name: String,
    registered: Registered,
) -> Result<(), BuildError> {
    let surface = registered.surface;
    match handlers.insert(name, Arc::new(registered)) {
        None => Ok(()),
        Some(twin) => Err(BuildError::Duplicate(format!("{surface} `{}`", twin.name))),
    }
}

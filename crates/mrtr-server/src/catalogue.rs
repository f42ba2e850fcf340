//! What a server serves: tools, prompts, resources and templates, published in the order in which they were given.

mod listing;
mod named;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use mrtr_ledger::Ledger;
use mrtr_protocol::discover::{ListChanged, ResourcesCapability};
use mrtr_protocol::{
    CompletionReference, JsonObject, Prompt as PublishedPrompt, Resource as PublishedResource,
    ResourceTemplate as PublishedTemplate, ServerCapabilities, Tool as PublishedTool, method,
};
use serde_json::{Map, Value, json};

pub(crate) use self::listing::check_icons;
use self::named::Named;
use crate::access::Granted;
use crate::builder::BuildError;
use crate::completion::Completions;
use crate::extract::States;
use crate::limits::Limits;
use crate::listed::Listed;
use crate::prompt::Prompt;
use crate::registered::{Draft, Registered, Surface};
use crate::repeat::Repeat;
use crate::resource::Resource;
use crate::schema;
use crate::template::Template;
use crate::tool::Tool;
use crate::uri;

/// Times are kept in milliseconds.
pub(crate) const SHORTEST: Duration = Duration::from_millis(1);

/// Everything that is served, ready to be listed and looked up.
pub(crate) struct Catalogue {
    pub(crate) tools: Listed<PublishedTool>,
    pub(crate) prompts: Listed<PublishedPrompt>,
    pub(crate) resources: Listed<PublishedResource>,
    pub(crate) templates: Listed<PublishedTemplate>,
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
    pub(crate) ledger: Option<&'b dyn Ledger>,
    pub(crate) announces: bool,
    pub(crate) states: &'b States,
    pub(crate) limits: &'b Limits,
}

impl Default for Catalogue {
    fn default() -> Self {
        Self {
            tools: Listed::new(method::TOOLS_LIST),
            prompts: Listed::new(method::PROMPTS_LIST),
            resources: Listed::new(method::RESOURCES_LIST),
            templates: Listed::new(method::RESOURCES_TEMPLATES_LIST),
            tool_handlers: HashMap::new(),
            prompt_handlers: HashMap::new(),
            resource_handlers: HashMap::new(),
            template_handlers: Vec::new(),
            sends: false,
            logs: false,
            prompt_completions: HashMap::new(),
            template_completions: HashMap::new(),
            completes: false,
        }
    }
}

impl Catalogue {
    /// The tool of this name, if this caller may call it.
    pub(crate) fn tool(&self, name: &str, granted: &Granted) -> Option<&Arc<Registered>> {
        self.tool_handlers
            .get(name)
            .filter(|tool| tool.access.permits(granted))
    }

    /// The prompt of this name, if this caller may get it.
    pub(crate) fn prompt(&self, name: &str, granted: &Granted) -> Option<&Arc<Registered>> {
        self.prompt_handlers
            .get(name)
            .filter(|prompt| prompt.access.permits(granted))
    }

    /// The handler of this URI: an exact one, or the first template that it fits. None for what is no URI, for a file
    /// behind a detour (specification, `server/resources`, "Security Considerations"), and for what this caller may not read:
    /// another template that the URI fits is then not looked for.
    pub(crate) fn resource(&self, uri: &str, granted: &Granted) -> Option<Found<'_>> {
        self.serving(uri)
            .filter(|found| found.handler.access.permits(granted))
    }

    fn serving(&self, uri: &str) -> Option<Found<'_>> {
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

    /// The prompt or template that a completion is asked for.
    pub(crate) fn completed(&self, of: &CompletionReference<'_>) -> Option<&Arc<Registered>> {
        match of {
            CompletionReference::Prompt { name } => self.prompt_handlers.get(name.as_ref()),
            CompletionReference::Resource { uri } => self
                .template_handlers
                .iter()
                .map(|(_, handler)| handler)
                .find(|handler| handler.name == *uri),
            _ => None,
        }
    }

    /// The arguments of a prompt, or the variables of a template, and who completes them, if this caller may use it.
    pub(crate) fn completions(
        &self,
        of: &CompletionReference<'_>,
        granted: &Granted,
    ) -> Option<&Completions> {
        self.completed(of)
            .filter(|handler| handler.access.permits(granted))?;
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

    /// What is offered, and whether changes of it are announced.
    pub(crate) fn capabilities(&self, announces: bool) -> ServerCapabilities {
        let list_changed = announces.then_some(true);
        let list = ListChanged { list_changed };
        let subscribed = ResourcesCapability {
            subscribe: list_changed,
            list_changed,
        };
        let mut capabilities = ServerCapabilities::with_tools();
        capabilities.tools = Some(list);
        capabilities.prompts = (!self.prompts.is_empty()).then_some(list);
        capabilities.resources = self.has_resources().then_some(subscribed);
        capabilities.completions = self.completes.then(JsonObject::empty);
        capabilities.logging = self.logs.then(JsonObject::empty);
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
        let Tool {
            mut published,
            input_schema,
            draft,
        } = tool;
        check_name(&published.name)?;
        let handler = Named {
            surface: Surface::Tool,
            name: &published.name,
        };
        let (schema, wire) = match input_schema {
            Some(wire) => (wire.read().map_err(|error| handler.fault(error))?, wire),
            None => {
                // A tool without arguments says so, instead of accepting anything (specification, `server/tools`, "Tool").
                let nothing = || json!({ "type": "object", "additionalProperties": false });
                let schema = draft.spec.input_schema.clone().unwrap_or_else(nothing);
                let mut listed = schema.clone();
                schema::take_null_from_annotated(&mut listed);
                let wire = JsonObject::from_serialize(&listed);
                // What is no object is told below, in words that help.
                (schema, wire.unwrap_or_else(|_| JsonObject::empty()))
            }
        };
        self.note(&draft);
        let mut registered = handler.register(draft, &schema, provisions)?;
        registered.param_headers = handler.param_headers(&wire)?;
        let output = published.output_schema.as_ref();
        registered.output = output.map(|schema| handler.output(schema)).transpose()?;
        if registered.output.is_some() && registered.repeat == Repeat::Receipt {
            return Err(handler.fault(
                "its results fit an output schema, which a receipt could not: use `Repeat::Reject`, or `without_output_schema`",
            ));
        }
        listing::check_icons(&published.icons)
            .and_then(|()| listing::check_meta(&published.meta))
            .map_err(|fault| handler.fault(fault))?;
        published.input_schema = wire;
        let name = published.name.clone();
        self.tools.push(&name, published, &registered.access);
        unique(&mut self.tool_handlers, name, registered)
    }

    pub(crate) fn add_prompt(
        &mut self,
        prompt: Prompt,
        provisions: &Provisions<'_>,
    ) -> Result<(), BuildError> {
        let Prompt {
            mut published,
            mut draft,
        } = prompt;
        check_name(&published.name)?;
        let handler = Named {
            surface: Surface::Prompt,
            name: &published.name,
        };
        let schema = arguments_schema(&draft);
        published.arguments = handler.arguments(&schema, |_| false)?;
        let arguments = published.arguments.iter();
        let arguments = arguments.map(|argument| argument.name.clone()).collect();
        self.note(&draft);
        let completers = std::mem::take(&mut draft.completers);
        self.completes |= !completers.is_empty();
        let completions = handler.completions(arguments, completers, provisions)?;
        let registered = handler.register(draft, &schema, provisions)?;
        listing::check_icons(&published.icons)
            .and_then(|()| listing::check_meta(&published.meta))
            .map_err(|fault| handler.fault(fault))?;
        let name = published.name.clone();
        self.prompts.push(&name, published, &registered.access);
        self.prompt_completions.insert(name.clone(), completions);
        unique(&mut self.prompt_handlers, name, registered)
    }

    pub(crate) fn add_resource(
        &mut self,
        resource: Resource,
        provisions: &Provisions<'_>,
    ) -> Result<(), BuildError> {
        let Resource {
            published,
            is_template,
            draft,
        } = resource;
        let handler = Named {
            surface: Surface::Resource,
            name: &published.uri,
        };
        listing::check_icons(&published.icons)
            .and_then(|()| listing::check_meta(&published.meta))
            .and_then(|()| listing::check_annotations(published.annotations.as_ref()))
            .map_err(|fault| handler.fault(fault))?;
        self.note(&draft);
        if is_template {
            return self.add_template(&handler, &published, draft, provisions);
        }
        if !draft.completers.is_empty() {
            return Err(
                handler.fault("it completes variables, and one URI has none; use `template`")
            );
        }
        if draft.spec.input_schema.is_some() {
            return Err(
                handler.fault("it takes `Args`, and one URI has no variables; use `template`")
            );
        }
        if !uri::is_uri(&published.uri) || uri::is_detour(&published.uri) {
            return Err(handler.fault(
                "it is no URI (RFC 3986): begin with a scheme, percent-encode what is not ASCII, and leave `..` out of a file's path",
            ));
        }
        let registered = handler.register(draft, &json!({ "type": "object" }), provisions)?;
        let uri = published.uri.clone();
        self.resources.push(&uri, published, &registered.access);
        unique(&mut self.resource_handlers, uri, registered)
    }

    fn add_template(
        &mut self,
        handler: &Named<'_>,
        described: &PublishedResource,
        mut draft: Draft,
        provisions: &Provisions<'_>,
    ) -> Result<(), BuildError> {
        let uri = &described.uri;
        let schema = arguments_schema(&draft);
        let template = Template::parse(uri, |name| is_required(&schema, name))
            .map_err(|error| handler.fault(error))?;
        let arguments = handler.arguments(&schema, |name| template.is_list(name))?;
        if let Some(missing) = arguments
            .iter()
            .find(|argument| argument.required == Some(true) && !template.has(&argument.name))
        {
            return Err(handler.fault(format_args!(
                "the template has no variable `{}`",
                missing.name
            )));
        }
        if described.size.is_some() {
            return Err(handler.fault("the resources of a template have no size in common"));
        }
        let completers = std::mem::take(&mut draft.completers);
        self.completes |= !completers.is_empty();
        let completions = handler.completions(template.names(), completers, provisions)?;
        let registered = handler.register(draft, &schema, provisions)?;
        let twin = self.template_completions.insert(uri.clone(), completions);
        if twin.is_some() {
            return Err(BuildError::Duplicate(format!("template `{uri}`")));
        }
        let mut published = PublishedTemplate::new(uri.clone(), described.name.clone());
        published.title.clone_from(&described.title);
        published.description.clone_from(&described.description);
        published.mime_type.clone_from(&described.mime_type);
        published.icons.clone_from(&described.icons);
        published.annotations.clone_from(&described.annotations);
        published.meta.clone_from(&described.meta);
        self.templates.push(uri, published, &registered.access);
        self.template_handlers
            .push((template, Arc::new(registered)));
        Ok(())
    }
}

/// Whether the handler needs this; `None`: it does not know it.
fn is_required(schema: &Value, name: &str) -> Option<bool> {
    schema.get("properties")?.get(name)?;
    let required = schema.get("required").and_then(Value::as_array);
    Some(required.is_some_and(|required| required.iter().any(|known| known == name)))
}

/// What a prompt or a template takes: an object, of which strings are asked.
fn arguments_schema(draft: &Draft) -> Value {
    let schema = draft.spec.input_schema.clone();
    schema.unwrap_or_else(|| json!({ "type": "object" }))
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

//! One handler on its way into the catalogue: what is checked of it, and how errors name it.

use std::any::TypeId;
use std::fmt;
use std::sync::Arc;

use jsonschema::Validator;
use mrtr_ledger::Ledger;
use mrtr_protocol::{CacheScope, JsonObject, ParamHeaders, PromptArgument};
use serde_json::Value;

use super::{Provisions, SHORTEST};
use crate::builder::BuildError;
use crate::completion::{Completer, Completions};
use crate::extract::Spec;
use crate::form;
use crate::registered::{Draft, Registered, Surface};
use crate::repeat::Repeat;
use crate::schema;

/// A handler that is being built, for errors to name.
pub(super) struct Named<'n> {
    pub(super) surface: Surface,
    pub(super) name: &'n str,
}

impl Named<'_> {
    fn in_words(&self) -> String {
        format!("{} `{}`", self.surface, self.name)
    }

    pub(super) fn fault(&self, fault: impl fmt::Display) -> BuildError {
        BuildError::Handler {
            handler: self.in_words(),
            fault: fault.to_string(),
        }
    }

    pub(super) fn register(
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
            repeat,
            run_again,
            asks_by_hand,
            completers: _,
            caching,
            hints_itself,
            access,
        } = draft;
        if let Some(fault) = access.fault() {
            return Err(self.fault(fault));
        }
        if spec.needs_codec && !provisions.codec {
            return Err(BuildError::NoCodec {
                handler: self.in_words(),
            });
        }
        self.check_ledger(&spec, provisions)?;
        if spec.completes {
            return Err(
                self.fault("it takes `Partial`, which the handlers of completions alone are given")
            );
        }
        self.check_given(&spec, provisions)?;
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
        if repeat != Repeat::Result {
            self.check_retries("repeat", &spec, provisions)?;
        }
        if run_again {
            self.check_retries("run_again", &spec, provisions)?;
        }
        if repeat == Repeat::Receipt && self.surface != Surface::Tool {
            return Err(self.fault(
                "there is nothing in its results that could say that they were given before: use `Repeat::Reject`",
            ));
        }
        if asks_by_hand && !spec.resumes {
            return Err(self.fault(
                "it returns `Turn` and takes no `Resumed`, so that it could not read what is answered",
            ));
        }
        if caching.is_some() && hints_itself {
            return Err(self.fault(
                "it returns a `ResourceResult`, which says for itself how long it may be kept: leave out `caching`",
            ));
        }
        let is_public = caching.is_some_and(|caching| caching.scope == CacheScope::Public);
        if is_public && spec.knows_caller {
            return Err(self.fault(
                "it takes `Caller`, so that what it reads depends on who asks, and a public hint lets caches show it to anybody: use `Caching::private`",
            ));
        }
        if is_public && !access.scopes.is_empty() {
            return Err(self.fault(
                "it asks for scopes, and a public hint lets caches show it to whoever has none: use `Caching::private`",
            ));
        }
        if caching.is_some() && !spec.meta_keys.is_empty() {
            return Err(self.fault(
                "it takes `Meta`, so that what it reads depends on `_meta`, which is no part of what caches look up by: leave out `caching`",
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
            caching,
            access: Arc::new(access),
            takes_arguments: spec.input_schema.is_some(),
            meta_keys: spec.meta_keys,
            asks: spec.needs_codec,
            acts_once: spec.needs_ledger,
            asks_by_hand,
            answers_without_state,
            repeat,
            run_again,
            lifetime,
            flow_lifetime: flow_lifetime
                .unwrap_or(provisions.limits.flow_lifetime)
                .max(lifetime),
            start,
        })
    }

    /// What is chosen for retries could not matter where none come, or nothing is kept of them: a mistake about what protects whom.
    fn check_retries(
        &self,
        choice: &str,
        spec: &Spec,
        provisions: &Provisions<'_>,
    ) -> Result<(), BuildError> {
        if !spec.needs_codec {
            return Err(self.fault(format_args!(
                "it takes no `Flow`, so that no retry comes to it: leave out `{choice}`"
            )));
        }
        if provisions.ledger.is_none() {
            return Err(self.fault(format_args!(
                "nothing is kept of retries without a ledger: give the builder one with `.ledger(..)`, or leave out `{choice}`"
            )));
        }
        Ok(())
    }

    /// What checks results against an output schema.
    pub(super) fn output(&self, schema: &JsonObject) -> Result<Validator, BuildError> {
        let unusable = |error: &dyn fmt::Display| {
            self.fault(format_args!("its output schema does not compile: {error}"))
        };
        let schema: Value = schema.read().map_err(|error| unusable(&error))?;
        schema::compile(&schema).map_err(|error| unusable(&error))
    }

    /// The arguments that go into headers. None of them may ask for a secret.
    pub(super) fn param_headers(&self, schema: &JsonObject) -> Result<ParamHeaders, BuildError> {
        let headers = ParamHeaders::of(schema).map_err(|error| {
            self.fault(format_args!(
                "an `x-mcp-header` of its arguments is not permitted: {error}"
            ))
        })?;
        let asks_for_a_secret =
            |path: &[String]| path.iter().any(|name| form::asks_for_a_secret(name));
        let secret = headers
            .iter()
            .find(|header| asks_for_a_secret(header.path()));
        if let Some(header) = secret {
            return Err(self.fault(format_args!(
                "the argument `{}` asks for a secret, and `x-mcp-header` would show it to every intermediary",
                header.path().join("/")
            )));
        }
        Ok(headers)
    }

    fn check_ledger(&self, spec: &Spec, provisions: &Provisions<'_>) -> Result<(), BuildError> {
        let Some(ledger) = provisions.ledger else {
            return match spec.needs_ledger {
                true => Err(BuildError::NoLedger {
                    handler: self.in_words(),
                }),
                false => Ok(()),
            };
        };
        match spec.acts_in.iter().find(|wanted| !(wanted.is)(ledger)) {
            None => Ok(()),
            Some(wanted) => Err(BuildError::OtherLedger {
                handler: self.in_words(),
                wanted: wanted.name,
                given: name_of(ledger),
            }),
        }
    }

    fn check_given(&self, spec: &Spec, provisions: &Provisions<'_>) -> Result<(), BuildError> {
        if spec.announces && !provisions.announces {
            return Err(BuildError::NoChanges {
                handler: self.in_words(),
            });
        }
        if let Some(fault) = spec.faults.first() {
            return Err(self.fault(fault));
        }
        let missing = |(id, _): &&(TypeId, &'static str)| !provisions.states.contains(id);
        match spec.states.iter().find(missing) {
            None => Ok(()),
            Some((_, state)) => Err(BuildError::NoState {
                handler: self.in_words(),
                state,
            }),
        }
    }

    pub(super) fn completions(
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
            self.check_given(spec, provisions)?;
            if !completions.add(completer) {
                return Err(self.fault(format_args!(
                    "it has no argument `{argument}` to complete, or completes it twice"
                )));
            }
        }
        Ok(completions)
    }

    /// The arguments of a prompt, or the variables of a template, by name: texts, or lists of texts.
    pub(super) fn arguments(
        &self,
        schema: &Value,
        is_list: impl Fn(&str) -> bool,
    ) -> Result<Vec<PromptArgument>, BuildError> {
        let properties = schema.get("properties").and_then(Value::as_object);
        properties
            .into_iter()
            .flatten()
            .map(|(name, property)| {
                if is_list(name) && !takes_texts(property) {
                    return Err(self.fault(format_args!(
                        "`{name}` is exploded, and so a list of texts: use `Vec<String>` or `Option<Vec<String>>`"
                    )));
                }
                if !is_list(name) && !takes_text(property) {
                    return Err(self.fault(format_args!(
                        "`{name}` is not text, and everything that it is given is: use `String`, `Option<String>` or a unit enum"
                    )));
                }
                let text = |keyword: &str| property.get(keyword).and_then(Value::as_str).map(str::to_owned);
                let mut argument = PromptArgument::new(name.clone());
                argument.title = text("title");
                argument.description = text("description");
                argument.required = super::is_required(schema, name);
                Ok(argument)
            })
            .collect()
    }
}

/// Whether a property can be given as a list of texts.
fn takes_texts(property: &Value) -> bool {
    let is_array = |kind: &Value| kind == "array";
    let is_list = match property.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().any(is_array),
        kind => kind.is_some_and(is_array),
    };
    is_list && property.get("items").is_some_and(takes_text)
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

/// What a ledger calls itself: its `Debug` up to what it shows of itself.
fn name_of(ledger: &dyn Ledger) -> String {
    let shown = format!("{ledger:?}");
    let end = shown.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
    shown
        .get(..end.unwrap_or(shown.len()))
        .unwrap_or_default()
        .to_owned()
}

//! What can be asked, and what can be answered.

mod roots;
mod sampling;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use mrtr_protocol::earlier::ElicitUrlEarlier;
use mrtr_protocol::{
    CreateMessageResult, ElicitForm, ElicitUrl, InputRequest, JsonObject, Kind, ListRootsResult,
    Object, method,
};
use mrtr_state::JsonDigest;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

pub use self::roots::Roots;
pub use self::sampling::Sampling;
use crate::form::{self, FormError, FormSchema};

/// What came back for a question.
///
/// Content that was not accepted cannot be reached, and there is no error here that a careless `unwrap_or` could turn
/// into consent.
///
/// **Not guaranteed:** an accepted answer was confirmed *by the client*. Whether a person sat in front of it, only the
/// client knows. Never treat an answer as proof of who somebody is.
///
/// Specification: `client/elicitation`, "Response Actions".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "an answer that is not looked at is not consent"]
pub enum Answer<T> {
    /// The person submitted this.
    Accept(T),
    /// The person said no. The same question is not put again in this flow.
    Decline,
    /// The person dismissed the question without choosing. It may be put again later, under another key.
    Cancel,
}

impl<T> Answer<T> {
    /// The accepted content, if it was accepted.
    pub fn accepted(self) -> Option<T> {
        match self {
            Self::Accept(content) => Some(content),
            Self::Decline | Self::Cancel => None,
        }
    }
}

/// Something that can be put to the client side: a [`Form`], a form of your own by [`Rendered::form`], or one of the
/// deprecated [`Sampling`] and [`Roots`]. A page is asked for with [`Flow::ask_url`](crate::Flow::ask_url).
///
/// Implementers: [`render`](Self::render) must be a function of the question alone. Two questions that a person would read
/// as different must render differently, because an answer counts for what was rendered, and for nothing else.
/// [`read`](Self::read) gets content that came from a stranger; `None` puts the question again.
pub trait Question: Send {
    /// What an accepted answer is read into.
    type Output: Send;

    /// The request that crosses the wire.
    ///
    /// # Errors
    ///
    /// When the question may not be put at all. The call then ends with an internal error, and the log has the reason.
    fn render(&self) -> Result<Rendered, QuestionError>;

    /// Reads accepted content; `None` when it does not fit what was asked.
    fn read(&self, content: &RawValue) -> Option<Self::Output>;
}

/// Why a question cannot be put.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QuestionError {
    /// The struct behind a form is not one that a form may carry.
    #[error(transparent)]
    Form(#[from] FormError),
    /// A question says nothing: its message is empty, or blank.
    #[error("the message is empty; a question says why it is asked")]
    Message,
    /// A page is somebody's, and the caller is anonymous.
    #[error("a page can only be asked for on behalf of somebody: the caller is anonymous")]
    Anonymous,
    /// A round by hand that has neither a question nor a state.
    #[error("a round needs a question or a state")]
    Empty,
    /// This very question was declined in this flow.
    #[error("it was declined, and a question that was declined is not put again")]
    Declined,
    /// A method or kind that is not asked this way.
    #[error(
        "only forms, sampling and roots are asked by request; a page is asked for with `Flow::ask_url`"
    )]
    Kind,
    /// The question did not serialize.
    #[error("the question cannot be written as JSON: {0}")]
    Unwritable(String),
}

/// A question as it crosses the wire, and the digest by which its answer is tied to it.
#[derive(Debug, Clone)]
pub struct Rendered {
    kind: Kind,
    request: InputRequest,
    digest: JsonDigest,
}

impl Rendered {
    /// A form: what [`Form`] renders, and what a question of your own renders to.
    ///
    /// # Errors
    ///
    /// When `params` is not what `elicitation/create` takes by form: a message that is not blank, and a schema of permitted fields
    /// that ask for no secret, which answers can be checked against here.
    pub fn form(params: &impl Serialize) -> Result<Self, QuestionError> {
        let unwritable = |error: &dyn fmt::Display| QuestionError::Unwritable(error.to_string());
        let params = JsonObject::from_serialize(params).map_err(|error| unwritable(&error))?;
        let request = InputRequest {
            method: method::ELICITATION_CREATE.to_owned(),
            params: Some(params),
        };
        let asked = request.as_form().map_err(|error| unwritable(&error))?;
        check_form(&asked)?;
        Self::unchecked(Kind::Form, request)
    }

    /// A request as it crosses the wire: a form, or one of the deprecated kinds, sampling and roots. It is a [`Question`] by
    /// itself, whose answer is the raw content, validated against what was asked.
    ///
    /// # Errors
    ///
    /// When the request is not of a kind that is asked this way, or not one that may be put: see [`form`](Self::form).
    pub fn request(request: InputRequest) -> Result<Self, QuestionError> {
        let unwritable = |error: &dyn fmt::Display| QuestionError::Unwritable(error.to_string());
        let kind = request.kind().map_err(|error| unwritable(&error))?;
        match kind {
            Kind::Form => {
                check_form(&request.as_form().map_err(|error| unwritable(&error))?)?;
            }
            Kind::Sampling | Kind::SamplingWithTools => {
                let asked = request.as_sampling().map_err(|error| unwritable(&error))?;
                asked.check().map_err(|error| unwritable(&error))?;
            }
            Kind::Roots => {}
            _ => return Err(QuestionError::Kind),
        }
        Self::unchecked(kind, request)
    }

    pub(crate) fn unchecked(kind: Kind, request: InputRequest) -> Result<Self, QuestionError> {
        let params = request.params.as_ref().map_or("{}", JsonObject::as_str);
        let digest = JsonDigest::of(&request.method, params)
            .map_err(|error| QuestionError::Unwritable(error.to_string()))?;
        Ok(Self {
            kind,
            request,
            digest,
        })
    }

    /// The kind of question, which decides what the client must have declared.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    pub(crate) fn digest(&self) -> JsonDigest {
        self.digest
    }

    pub(crate) fn into_request(self) -> InputRequest {
        self.request
    }
}

fn check_form(asked: &ElicitForm) -> Result<(), QuestionError> {
    check_message(&asked.message)?;
    Ok(form::check_published(&asked.requested_schema)?)
}

/// Whoever reads a question without words does not know what is asked.
fn check_message(message: &str) -> Result<(), QuestionError> {
    match message.trim() {
        "" => Err(QuestionError::Message),
        _ => Ok(()),
    }
}

/// A question by itself: the content is the raw JSON that was accepted, without members that nobody asked for.
impl Question for Rendered {
    type Output = Box<RawValue>;

    fn render(&self) -> Result<Rendered, QuestionError> {
        Ok(self.clone())
    }

    fn read(&self, content: &RawValue) -> Option<Box<RawValue>> {
        match self.kind {
            Kind::Form => {
                form::read_by_hand(&self.request.as_form().ok()?.requested_schema, content)
            }
            Kind::Sampling | Kind::SamplingWithTools => {
                let _: CreateMessageResult = serde_json::from_str(content.get()).ok()?;
                Some(content.to_owned())
            }
            Kind::Roots => {
                let Object(ListRootsResult { .. }) = serde_json::from_str(content.get()).ok()?;
                Some(content.to_owned())
            }
            _ => None,
        }
    }
}

/// A page to be visited; made by [`Flow::ask_url`](crate::Flow::ask_url), which knows whether it has been.
#[derive(Debug)]
pub(crate) struct PageVisit {
    pub(crate) message: String,
    pub(crate) url: String,
    pub(crate) done: bool,
    /// The earlier era's name for the question, so that its completion can be told.
    pub(crate) elicitation: Option<String>,
}

impl Question for PageVisit {
    type Output = ();

    fn render(&self) -> Result<Rendered, QuestionError> {
        check_message(&self.message)?;
        let page = ElicitUrl::new(self.message.clone(), self.url.clone());
        let mut request = InputRequest::url(&page);
        if let Some(id) = &self.elicitation {
            let page = ElicitUrlEarlier::new(page, id.clone());
            request.params = JsonObject::from_serialize(&page).ok();
        }
        Rendered::unchecked(Kind::Url, request)
    }

    /// Consent to open the page is no completion: the question is put again until the visit is done. In the earlier era the call
    /// waits for that instead.
    fn read(&self, _: &RawValue) -> Option<()> {
        (self.done || self.elicitation.is_some()).then_some(())
    }
}

/// A form for a person, typed by the struct that its answer becomes.
///
/// The struct's fields must be strings, numbers, booleans, unit enums or lists of unit enums; `Option` makes a field
/// optional, and the doc comment of a field is its description. What does not fit is refused with the field's name, and so
/// are names that ask for a secret. [`Form::check`] says so in a test.
///
/// Answers are validated against the very schema that was published, then deserialized. A bad answer puts the question
/// again, in a new round.
///
/// ```
/// use mrtr_server::Form;
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Booking {
///     /// How many people?
///     seats: u8,
///     window: bool,
/// }
///
/// Form::<Booking>::check().unwrap();
/// let question = Form::<Booking>::new("Which table shall I book?");
/// # let _ = question;
/// ```
///
/// Specification: `client/elicitation`, "Form Mode Elicitation Requests".
pub struct Form<T> {
    message: String,
    answer: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned + JsonSchema + Send + 'static> Form<T> {
    /// A form with this message above it. The message says why the interaction is needed; a blank one is not put, and ends the call.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            answer: PhantomData,
        }
    }

    /// Whether `T` can be put as a form at all; for a test beside the struct.
    ///
    /// # Errors
    ///
    /// Names the field that cannot be put in a form, and why.
    pub fn check() -> Result<(), FormError> {
        FormSchema::of::<T>().map(drop)
    }
}

impl<T> fmt::Debug for Form<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Form")
            .field("message", &self.message)
            .finish()
    }
}

impl<T: DeserializeOwned + JsonSchema + Send + 'static> Question for Form<T> {
    type Output = T;

    fn render(&self) -> Result<Rendered, QuestionError> {
        check_message(&self.message)?;
        let schema: Arc<FormSchema> = FormSchema::of::<T>()?;
        // The schema was reduced and compiled when the type was first used.
        let form = ElicitForm::new(self.message.clone(), schema.wire.clone());
        Rendered::unchecked(Kind::Form, InputRequest::form(&form))
    }

    fn read(&self, content: &RawValue) -> Option<T> {
        FormSchema::of::<T>().ok()?.read(content)
    }
}

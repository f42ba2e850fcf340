//! Text from the host's model. Deprecated since 2026-07-28, as sampling is: a new server calls a model provider itself.

use mrtr_protocol::{CreateMessageParams, CreateMessageResult, InputRequest, Kind};
use serde_json::value::RawValue;

use super::{Question, QuestionError, Rendered};

/// Asks the host's model for a message. Deprecated since 2026-07-28: a new server calls a model provider itself.
///
/// It is served for clients that have it. The answer is whatever the client says its model said: neither the model nor the
/// text is proved, and a person may have changed both. There is no declining: a client that does not want to ask its model
/// abandons the call.
///
/// ```
/// use mrtr_server::{CreateMessageParams, Flow, Sampling, SamplingMessage};
///
/// async fn slogan(flow: Flow) -> String {
///     let ask = CreateMessageParams::new(vec![SamplingMessage::user("Write me one sentence.")], 100);
///     match flow.ask("slogan", Sampling::new(ask)).await.accepted() {
///         Some(message) => message.joined_text(),
///         None => "No sentence came.".into(),
///     }
/// }
/// # let _ = slogan;
/// ```
///
/// Specification: `client/sampling`.
#[derive(Debug, Clone)]
pub struct Sampling {
    params: CreateMessageParams,
}

impl Sampling {
    /// A question with these params; with tools in them it needs a client that declares `sampling.tools`. Deprecated since
    /// 2026-07-28: a new server calls a model provider itself.
    #[must_use]
    pub fn new(params: CreateMessageParams) -> Self {
        Self { params }
    }
}

impl Question for Sampling {
    type Output = CreateMessageResult;

    fn render(&self) -> Result<Rendered, QuestionError> {
        self.params
            .check()
            .map_err(|error| QuestionError::Unwritable(error.to_string()))?;
        let kind = if self.params.has_tools() {
            Kind::SamplingWithTools
        } else {
            Kind::Sampling
        };
        Rendered::unchecked(kind, InputRequest::sampling(&self.params))
    }

    fn read(&self, content: &RawValue) -> Option<CreateMessageResult> {
        serde_json::from_str(content.get()).ok()
    }
}

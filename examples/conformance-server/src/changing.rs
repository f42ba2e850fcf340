//! Tools that tell whoever subscribed that something has changed.

use mrtr_server::{Changes, ServerBuilder, tool};

pub(crate) fn add(builder: ServerBuilder) -> ServerBuilder {
    builder
        .announces_changes()
        .tool(
            tool("test_trigger_tool_change", tools_changed)
                .description("Says that the list of tools has changed."),
        )
        .tool(
            tool("test_trigger_prompt_change", prompts_changed)
                .description("Says that the list of prompts has changed."),
        )
}

async fn tools_changed(changes: Changes) -> &'static str {
    changes.tools();
    "Announced."
}

async fn prompts_changed(changes: Changes) -> &'static str {
    changes.prompts();
    "Announced."
}

//! A tool whose schema is written by hand, with what no Rust type says: it must be listed as it is. And a tool with an
//! argument that clients repeat in a header.

use std::borrow::Cow;

use mrtr_server::{Args, ServerBuilder, tool};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;

pub(crate) fn add(server: ServerBuilder) -> ServerBuilder {
    server
        .tool(
            tool("json_schema_2020_12_tool", contact)
                .description("Has a schema that uses what JSON Schema 2020-12 has."),
        )
        .tool(
            tool("test_x_mcp_header", regional)
                .description("Has an argument that is in a header, too."),
        )
}

#[derive(Deserialize, JsonSchema)]
struct Regional {
    /// Where to work; a proxy reads it from the header.
    #[schemars(extend("x-mcp-header" = "Region"))]
    region: Option<String>,
    /// How hard to work.
    level: Option<i32>,
}

async fn regional(Args(Regional { region, level }): Args<Regional>) -> String {
    format!("Working in {region:?} at {level:?}.")
}

async fn contact(Args(contact): Args<Contact>) -> String {
    format!("JSON Schema 2020-12 tool called with {:?}", contact)
}

/// What the schema below says, as far as a type can say it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(dead_code, reason = "it is printed, by Debug")]
struct Contact {
    name: Option<String>,
    address: Option<Address>,
    contact_method: Option<Method>,
    phone: Option<String>,
    email: Option<String>,
}

#[derive(Debug, Deserialize)]
#[expect(dead_code, reason = "it is printed, by Debug")]
struct Address {
    street: Option<String>,
    city: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Method {
    Phone,
    Email,
}

impl JsonSchema for Contact {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Contact".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "$defs": {
                "address": {
                    "$anchor": "addressDef",
                    "type": "object",
                    "properties": { "street": { "type": "string" }, "city": { "type": "string" } },
                },
            },
            "properties": {
                "name": { "type": "string" },
                "address": { "$ref": "#/$defs/address" },
                "contactMethod": { "type": "string", "enum": ["phone", "email"] },
                "phone": { "type": "string" },
                "email": { "type": "string" },
            },
            "allOf": [{ "anyOf": [{ "required": ["phone"] }, { "required": ["email"] }] }],
            "if": { "properties": { "contactMethod": { "const": "phone" } }, "required": ["contactMethod"] },
            "then": { "required": ["phone"] },
            "else": { "required": ["email"] },
            "additionalProperties": false,
        })
    }
}

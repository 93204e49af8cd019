//! JSON Schemas of everything on the wire, generated from the types. `cargo xtask schemas` writes
//! them to `schemas/`; a test compares the files with what is generated.

use std::collections::BTreeMap;

use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use crate::control::answers;
use crate::methods::{ALIASES, Method};
use crate::{automations, bus, chat, control, error, memory, models, status, trace, ws};

/// Returns file names with their schemas.
pub fn all() -> Vec<(String, Value)> {
    vec![
        file::<ws::RequestFrame>("request-frame"),
        file::<ws::ServerFrame>("server-frame"),
        file::<ws::Challenge>("connect.challenge"),
        file::<ws::HelloOk>("hello-ok"),
        file::<bus::BusEvent>("bus-event"),
        file::<error::ErrorBody>("error-body"),
        ("methods.json".to_owned(), methods()),
    ]
}

/// The table of methods with the schemas of what they take and give.
fn methods() -> Value {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let methods: Vec<Value> = Method::ALL
        .iter()
        .map(|method| {
            let entry = method.entry();
            let (params, payload) = shapes(*method, &mut generator);
            json!({
                "method": entry.name,
                "path": entry.path,
                "permission": entry.permission(),
                "params": params,
                "payload": payload,
            })
        })
        .collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "protocol": ws::PROTOCOL,
        "methods": methods,
        "aliases": ALIASES.iter().map(|(alias, method)| (*alias, method.entry().name)).collect::<BTreeMap<_, _>>(),
        "$defs": generator.take_definitions(true),
    })
}

/// Returns what a method takes and gives.
fn shapes(method: Method, generator: &mut SchemaGenerator) -> (Value, Value) {
    let mut of = |params: Shape, payload: Shape| (params.of(generator), payload.of(generator));
    match method {
        Method::Connect => of(shape::<ws::Connect>(), shape::<ws::HelloOk>()),
        Method::Health => of(shape::<control::Nothing>(), shape::<status::HealthReport>()),
        Method::Status => of(shape::<control::Nothing>(), shape::<answers::WorkspaceStatus>()),
        // Messages of another protocol, as that protocol has them.
        Method::Mcp => of(shape::<Map<String, Value>>(), shape::<Map<String, Value>>()),
        // Prometheus text, and a JSON Schema itself.
        Method::Metrics => of(shape::<control::Nothing>(), shape::<String>()),
        Method::ConfigSchema => of(shape::<control::Nothing>(), shape::<Map<String, Value>>()),
        Method::ConfigReload => of(shape::<control::Nothing>(), shape::<answers::Reloaded>()),
        Method::LogsTail => of(shape::<control::LogsTail>(), shape::<answers::LogLines>()),
        Method::ChatSend => of(shape::<chat::ChatSend>(), shape::<chat::ChatAccepted>()),
        Method::ChatInject => of(shape::<control::ChatInject>(), shape::<chat::ChatAccepted>()),
        Method::ChatHistory => of(shape::<control::HistoryOf>(), shape::<chat::ChatHistory>()),
        Method::ChatWait => of(shape::<control::WaitFor>(), shape::<chat::ChatWaited>()),
        Method::ChatAbort => of(shape::<chat::ChatAbort>(), shape::<chat::ChatAborted>()),
        Method::RequestsList => {
            of(shape::<control::Listing>(), Shape::List("requests", list::<trace::RequestSummary>))
        }
        Method::RequestsGet => of(shape::<control::Named>(), shape::<trace::RequestView>()),
        Method::RequestsPrompt => of(shape::<control::PromptOf>(), shape::<trace::PromptView>()),
        Method::SessionsList => {
            of(shape::<control::Listing>(), Shape::List("sessions", list::<status::SessionView>))
        }
        Method::SessionsResolve => of(shape::<control::SessionNamed>(), shape::<status::SessionView>()),
        Method::SessionsPreview => {
            of(shape::<control::PreviewOf>(), Shape::List("previews", list::<control::Preview>))
        }
        Method::SessionsCompactions => {
            of(shape::<control::CompactionsOf>(), Shape::List("compactions", list::<control::CompactionView>))
        }
        Method::SessionsCompact | Method::SessionsReset => {
            of(shape::<control::SessionOf>(), shape::<control::SessionShortened>())
        }
        Method::SessionsUndo => of(shape::<control::Named>(), shape::<control::CompactionView>()),
        Method::EventsSubscribe => of(shape::<ws::Subscribe>(), shape::<answers::Subscribed>()),
        Method::EventsUnsubscribe => of(shape::<control::Nothing>(), shape::<answers::Subscribed>()),
        Method::AgentsList => of(shape::<control::Nothing>(), shape::<answers::Agents>()),
        Method::AgentIdentityGet => of(shape::<control::Nothing>(), shape::<answers::IdentityView>()),
        Method::AgentsFilesList => {
            of(shape::<control::FilesOf>(), Shape::List("files", list::<control::FileView>))
        }
        Method::AgentsFilesGet => of(shape::<control::FileOf>(), shape::<control::FileView>()),
        Method::AgentsFilesSet => of(shape::<control::FileSet>(), shape::<control::FileView>()),
        Method::ConfigGet => of(shape::<control::ConfigKey>(), shape::<answers::ConfigGot>()),
        Method::ConfigSet => of(shape::<control::ConfigSet>(), shape::<answers::ConfigChanged>()),
        Method::ConfigPatch => of(shape::<control::ConfigPatch>(), shape::<answers::ConfigChanged>()),
        Method::ConfigRotateToken => of(shape::<control::Nothing>(), shape::<answers::OwnerTokenRotated>()),
        Method::CredentialsVerify => {
            of(shape::<control::CredentialsOf>(), shape::<answers::VerifiedCredentials>())
        }
        Method::CredentialsSync => of(shape::<control::Nothing>(), shape::<answers::CredentialsSynced>()),
        Method::CredentialsScan => {
            of(shape::<control::CredentialsScan>(), shape::<answers::ScannedCredentials>())
        }
        Method::CredentialsList => of(shape::<control::Nothing>(), shape::<answers::Credentials>()),
        Method::MemoryRecall => of(shape::<memory::MemoryRecall>(), shape::<memory::MemoryFound>()),
        Method::MemoryAdd => of(shape::<memory::MemoryAdd>(), shape::<memory::MemoryAdded>()),
        Method::MemoryChanges => of(shape::<memory::MemoryChangesOf>(), shape::<memory::MemoryFound>()),
        Method::MemoryEntities => of(shape::<control::Nothing>(), shape::<memory::MemoryEntities>()),
        Method::MemoryStats => of(shape::<control::Nothing>(), shape::<memory::MemoryStats>()),
        Method::MemoryForget => of(shape::<memory::MemoryForget>(), shape::<memory::MemoryForgotten>()),
        Method::ModelsList => of(shape::<control::Nothing>(), shape::<models::ModelsView>()),
        Method::ModelsAllow | Method::ModelsRefuse => {
            of(shape::<models::ModelAnswer>(), shape::<answers::ModelAnswered>())
        }
        Method::SkillsStatus => of(shape::<control::Nothing>(), shape::<answers::Skills>()),
        Method::SkillsInfo => of(shape::<control::Named>(), shape::<answers::SkillView>()),
        Method::SkillsUse => of(shape::<control::Named>(), shape::<answers::SkillText>()),
        Method::UsageCost => of(shape::<control::UsageOf>(), shape::<answers::UsageCost>()),
        Method::AutomationsList => of(shape::<control::Nothing>(), shape::<answers::Automations>()),
        Method::AutomationsGet | Method::AutomationsEnable | Method::AutomationsDisable => {
            of(shape::<control::Named>(), shape::<answers::AutomationView>())
        }
        Method::AutomationsRemove => of(shape::<control::Named>(), shape::<answers::AutomationRemoved>()),
        Method::AutomationsRegister => {
            of(shape::<automations::AutomationRegister>(), shape::<answers::AutomationView>())
        }
        Method::AutomationsTest => {
            of(shape::<automations::AutomationTest>(), shape::<answers::AutomationTried>())
        }
        Method::AutomationsInvocations => {
            of(shape::<control::InvocationsOf>(), shape::<answers::Invocations>())
        }
        Method::ApprovalsList => of(shape::<control::ApprovalsOf>(), shape::<control::Approvals>()),
        Method::ApprovalsShow => of(shape::<control::Named>(), shape::<control::ApprovalView>()),
        Method::ApprovalsRequest => of(shape::<control::ApprovalRequest>(), shape::<answers::Asked>()),
        Method::ApprovalsApprove | Method::ApprovalsDeny => {
            of(shape::<control::ApprovalAnswer>(), shape::<control::ApprovalView>())
        }
        Method::GrantsList => {
            of(shape::<control::Listing>(), Shape::List("grants", list::<control::GrantView>))
        }
        Method::GrantsRevoke => of(shape::<control::Named>(), shape::<answers::Revoked>()),
        Method::TokensList => {
            of(shape::<control::Nothing>(), Shape::List("tokens", list::<control::TokenView>))
        }
        Method::TokensCreate => of(shape::<control::TokenCreate>(), shape::<control::TokenMade>()),
        Method::TokensRevoke => of(shape::<control::Named>(), shape::<answers::Revoked>()),
        Method::TokensRotate => of(shape::<control::Named>(), shape::<control::TokenMade>()),
        Method::UsageStatus => {
            of(shape::<control::UsageOf>(), Shape::List("days", list::<control::UsageRow>))
        }
    }
}

type Generate = fn(&mut SchemaGenerator) -> Value;

enum Shape {
    Of(Generate),
    /// An object with one list in it.
    List(&'static str, Generate),
}

impl Shape {
    fn of(&self, generator: &mut SchemaGenerator) -> Value {
        match self {
            Self::Of(generate) => generate(generator),
            Self::List(name, generate) => json!({
                "type": "object",
                "properties": { *name: { "type": "array", "items": generate(generator) } },
                "required": [name],
            }),
        }
    }
}

fn shape<T: JsonSchema>() -> Shape {
    Shape::Of(list::<T>)
}

fn list<T: JsonSchema>(generator: &mut SchemaGenerator) -> Value {
    generator.subschema_for::<T>().to_value()
}

fn file<T: JsonSchema>(name: &str) -> (String, Value) {
    let schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>();
    (format!("{name}.json"), schema.to_value())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    #[test]
    fn the_committed_schemas_are_what_the_types_say() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas");
        let mut expected = BTreeSet::new();
        for (name, schema) in super::all() {
            let text = serde_json::to_string_pretty(&schema).unwrap() + "\n";
            let committed = std::fs::read_to_string(folder.join(&name)).unwrap_or_default();
            assert!(committed == text, "{name} is not up to date: run `cargo xtask schemas`");
            expected.insert(name);
        }
        let present: BTreeSet<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        assert_eq!(present, expected);
    }
}

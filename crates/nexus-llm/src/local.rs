//! Model servers on this machine: looked for on the ports they use, asked what they have.

use std::time::Duration;

use nexus_net::{BaseUrl, Net, Reach, Request};
use serde_json::Value;

/// How long a server on this machine may take to say what it has.
const DEADLINE: Duration = Duration::from_millis(700);
/// Largest list of models that is read.
const MAX_LIST_SIZE: usize = 1024 * 1024;
/// Most models of one server.
const MAX_MODELS: usize = 200;

/// The servers we know by their ports.
pub const LOCAL_SERVERS: &[(&str, u16)] = &[("ollama", 11_434), ("llama.cpp", 8_080), ("lm-studio", 1_234)];
/// What a server on another port is called.
pub(crate) const OTHER_LOCAL: &str = "local";

/// A server that answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalServer {
    /// Its name, used as the provider's.
    pub name: String,
    pub base: String,
    /// What it has, first choice first.
    pub models: Vec<LocalModel>,
}

/// A model of a server on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalModel {
    /// Its name there.
    pub id: String,
    /// How many tokens it takes in, where the server says so.
    pub context: Option<u64>,
}

/// Returns the name of the server that uses a port.
pub fn local_name(port: u16) -> &'static str {
    LOCAL_SERVERS.iter().find(|(_, known)| *known == port).map_or(OTHER_LOCAL, |(name, _)| name)
}

pub(crate) fn is_local_name(provider: &str) -> bool {
    provider == OTHER_LOCAL || LOCAL_SERVERS.iter().any(|(name, _)| *name == provider)
}

/// Returns the address of a known server on this machine.
pub fn local_base(provider: &str) -> Option<String> {
    let (_, port) = LOCAL_SERVERS.iter().find(|(name, _)| *name == provider)?;
    Some(format!("http://127.0.0.1:{port}"))
}

/// Asks every port at once which models there are. Ports nobody answers on are left out.
pub async fn discover(net: &Net, ports: &[u16]) -> Vec<LocalServer> {
    let asked: Vec<_> = ports
        .iter()
        .map(|port| {
            let (net, port) = (net.clone(), *port);
            nexus_base::task::spawn("local-server", async move { ask(&net, port).await })
        })
        .collect();
    let mut found = Vec::new();
    for one in asked {
        found.extend(one.await.ok().flatten());
    }
    found
}

async fn ask(net: &Net, port: u16) -> Option<LocalServer> {
    if !Net::listens_here(port, DEADLINE).await {
        return None;
    }
    let base = format!("http://127.0.0.1:{port}");
    let address = BaseUrl::parse(&base).ok()?.join("v1/models");
    let asking = async {
        let request = Request::get(address).deadline(DEADLINE).idle(DEADLINE);
        let answer = net.send(request, &Reach::Loopback).await.ok()?;
        if !answer.is_success() {
            return None;
        }
        answer.bytes(MAX_LIST_SIZE).await.ok()
    };
    let body = tokio::time::timeout(DEADLINE, asking).await.ok()??;
    let models = models(&serde_json::from_slice(&body).ok()?);
    (!models.is_empty()).then(|| LocalServer { name: local_name(port).to_owned(), base, models })
}

fn models(list: &Value) -> Vec<LocalModel> {
    let listed = list["data"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut models: Vec<LocalModel> = listed
        .iter()
        .take(MAX_MODELS)
        .filter_map(|model| {
            let id = model["id"].as_str().filter(|id| !id.is_empty() && id.len() <= 200)?;
            let context = ["context_length", "max_context_length", "max_model_len", "n_ctx"]
                .iter()
                .find_map(|name| model[name].as_u64().or_else(|| model["meta"][name].as_u64()));
            Some(LocalModel { id: id.to_owned(), context: context.filter(|context| *context >= 256) })
        })
        .collect();
    // An embedder answers no conversation; it comes last in case its name misleads.
    models.sort_by_key(|model| model.id.to_lowercase().contains("embed"));
    models
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lists_of_different_servers_are_read() {
        let list = json!({"object": "list", "data": [
            {"id": "nomic-embed-text"}, {"id": "qwen3:8b", "object": "model"},
            {"id": "x.gguf", "meta": {"n_ctx": 4096}}, {"id": ""}, {"name": "no id"},
        ]});
        let ids: Vec<(String, Option<u64>)> =
            models(&list).into_iter().map(|model| (model.id, model.context)).collect();
        assert_eq!(
            ids,
            [("qwen3:8b".into(), None), ("x.gguf".into(), Some(4096)), ("nomic-embed-text".into(), None),]
        );
        assert_eq!(models(&json!({"message": "some other program"})), []);
        assert_eq!((local_name(11_434), local_name(9)), ("ollama", OTHER_LOCAL));
    }
}

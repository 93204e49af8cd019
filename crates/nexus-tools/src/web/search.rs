//! `web_search` over the Brave search service.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use nexus_net::{BaseUrl, Net, Reach, Request, normal_address, with_query};
use nexus_protocol::tool::ToolOutput;
use secrecy::SecretString;
use serde_json::Value;

use super::{fenced, html};
use crate::scope::{Done, Scope};

/// Results given when the model does not say, and at most.
const DEFAULT_COUNT: u64 = 8;
const MAX_COUNT: u64 = 20;
/// The longest question taken, in bytes; the service takes no more.
const MAX_QUERY_LEN: usize = 400;
/// The most bytes of an answer.
const BODY_LIMIT: usize = 1024 * 1024;
const DEADLINE: Duration = Duration::from_secs(20);

/// Finds the key at the moment it is needed; the error is for the model.
pub type SearchKey =
    Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Result<SecretString, String>> + Send>> + Send + Sync>;

/// A search service.
#[derive(Clone)]
pub struct Search {
    base: BaseUrl,
    key: SearchKey,
}

impl fmt::Debug for Search {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Search").field("base", &self.base).finish_non_exhaustive()
    }
}

impl Search {
    /// Where the service is when nobody says otherwise.
    pub const BASE: &'static str = "https://api.search.brave.com";

    /// Uses the service at `base` with this key.
    pub fn new(base: BaseUrl, key: SearchKey) -> Self {
        Self { base, key }
    }

    pub(super) async fn call(&self, net: &Net, arguments: &Value, scope: &Scope<'_>) -> Done {
        match self.ask(net, arguments).await {
            Ok((query, results)) => {
                for address in results.iter().filter_map(|result| normal_address(&result.address)) {
                    scope.run.taint.saw_address(&address);
                }
                tell(&query, &results)
            }
            Err(text) => Done::from(Err(text)),
        }
    }

    async fn ask(&self, net: &Net, arguments: &Value) -> Result<(String, Vec<Found>), String> {
        let query = arguments.get("query").and_then(Value::as_str).map(str::trim).unwrap_or_default();
        if query.is_empty() || query.len() > MAX_QUERY_LEN {
            return Err(format!("web_search needs `query` of 1 to {MAX_QUERY_LEN} bytes"));
        }
        let count =
            arguments.get("count").and_then(Value::as_u64).unwrap_or(DEFAULT_COUNT).clamp(1, MAX_COUNT);
        let key = (self.key)().await?;
        let address =
            with_query(&self.base.join("res/v1/web/search"), &[("q", query), ("count", &count.to_string())])
                .ok_or("the address of the search service is not usable")?;
        let request = Request::get(address)
            .header("accept", "application/json")
            .secret_header("x-subscription-token", &key)
            .deadline(DEADLINE)
            .idle(DEADLINE);
        let failed = |error: nexus_net::NetError| format!("the search service did not answer: {error}");
        let response = net.send(request, &Reach::Configured(self.base.clone())).await.map_err(failed)?;
        match response.status() {
            200 => {}
            401 | 403 => {
                return Err("the search service refused the key; `nexus credential verify brave`".to_owned());
            }
            429 => return Err("the search service was asked too often; wait a moment".to_owned()),
            status => return Err(format!("the search service answered with status {status}")),
        }
        let body = response.bytes(BODY_LIMIT).await.map_err(failed)?;
        let answer: Value = serde_json::from_slice(&body)
            .map_err(|_| "the answer of the search service cannot be read".to_owned())?;
        Ok((query.to_owned(), found(&answer, usize::try_from(count).unwrap_or(usize::MAX))))
    }
}

#[derive(Debug)]
struct Found {
    title: String,
    address: String,
    about: String,
}

fn found(answer: &Value, most: usize) -> Vec<Found> {
    let results = answer.pointer("/web/results").and_then(Value::as_array).cloned().unwrap_or_default();
    let text = |result: &Value, name: &str| {
        // Descriptions come with marks around the words that were looked for.
        html::read(result.get(name).and_then(Value::as_str).unwrap_or_default()).text.replace('\n', " ")
    };
    results
        .iter()
        .filter_map(|result| {
            let address = result.get("url").and_then(Value::as_str)?.to_owned();
            Some(Found { title: text(result, "title"), address, about: text(result, "description") })
        })
        .take(most)
        .collect()
}

fn tell(query: &str, results: &[Found]) -> Done {
    if results.is_empty() {
        return Done::own(ToolOutput::ok(format!("nothing was found for {query:?}")));
    }
    let lines: Vec<String> = results
        .iter()
        .enumerate()
        .map(|(index, result)| {
            format!("{}. {}\n   {}\n   {}", index + 1, result.title, result.address, result.about)
        })
        .collect();
    let text = fenced(&format!("search results for {query:?}"), &lines.join("\n"));
    Done::from_outside(ToolOutput::ok(text), format!("web search results for {query:?}"))
}

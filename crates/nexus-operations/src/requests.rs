//! Requests: what happened with each message, what it led to, and what a model was sent for it.

use nexus_base::id::RequestId;
use nexus_protocol::control::{Listing, Named, PromptOf};
use nexus_protocol::trace::{PromptView, RequestView};
use serde_json::{Value, json};

use crate::call::{Call, missing, rows};
use crate::{RuntimeError, report};

pub(crate) async fn list(call: &Call<'_>, listing: Listing) -> Result<Value, RuntimeError> {
    let mut requests = report::recent_requests(call.store, rows(listing.limit)?).await?;
    requests.retain(|request| call.caller.may_see_run(&request.request_id));
    Ok(json!({ "requests": requests }))
}

pub(crate) async fn get(call: &Call<'_>, named: Named) -> Result<RequestView, RuntimeError> {
    let id = visible(call, named.id).await?;
    let view = report::request_view(call.store, &call.options.redactor, &id).await?;
    view.ok_or_else(|| missing("request", id.as_str()))
}

pub(crate) async fn prompt(call: &Call<'_>, of: PromptOf) -> Result<PromptView, RuntimeError> {
    let id = visible(call, of.id).await?;
    let view = match of.full {
        true => report::prompt_in_full(call.store, &call.options.redactor, &id).await?,
        false => report::prompt_view(call.store, &id).await?,
    };
    view.ok_or_else(|| missing("prompt of a request", id.as_str()))
}

/// Returns the id of a request that the caller may see; what they may not see is not there.
async fn visible(call: &Call<'_>, id: String) -> Result<RequestId, RuntimeError> {
    let id = RequestId::new(id);
    if call.running.is_some() {
        // What is known of it may still be on its way into the file.
        call.store.runtime().flush().await?;
    }
    let found = call.store.runtime().request(id.clone()).await?;
    match found {
        Some(request) if call.caller.may_see_run(&request.root_request_id) => Ok(id),
        Some(_) | None => Err(missing("request", id.as_str())),
    }
}

//! Query strings: typed, complete, and nothing in them that the route does not know.

use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use nexus_protocol::error::ErrorCode;
use serde::de::DeserializeOwned;

use crate::answer::Refusal;

/// Longest id or label taken from a path or a query, in bytes.
const MAX_NAME_LEN: usize = 512;
/// Most rows any listing gives at once.
const MAX_ROWS: usize = 1000;

/// A query string as one type.
#[derive(Debug)]
pub(crate) struct Parameters<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Parameters<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Refusal> {
        match Query::try_from_uri(&parts.uri) {
            Ok(Query(parameters)) => Ok(Self(parameters)),
            Err(rejection) => Err(Refusal::new(
                ErrorCode::InvalidRequest,
                format!("the query string is not valid: {}", innermost(&rejection)),
            )),
        }
    }
}

/// Returns how many rows to give: what was asked for, within bounds.
pub(crate) fn rows(asked: Option<usize>, default: usize) -> Result<usize, Refusal> {
    match asked {
        None => Ok(default),
        Some(limit @ 1..=MAX_ROWS) => Ok(limit),
        Some(limit) => Err(Refusal::new(
            ErrorCode::InvalidRequest,
            format!("limit is {limit} and must be between 1 and {MAX_ROWS}"),
        )),
    }
}

/// Checks that a name from outside is one.
pub(crate) fn name<'a>(what: &str, text: &'a str) -> Result<&'a str, Refusal> {
    if text.is_empty() || text.len() > MAX_NAME_LEN || text.chars().any(char::is_control) {
        let message = format!("{what} must have 1 to {MAX_NAME_LEN} bytes and no control characters");
        return Err(Refusal::new(ErrorCode::InvalidRequest, message));
    }
    Ok(text)
}

/// Returns the message that names the parameter; the outer ones only say that there is one.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

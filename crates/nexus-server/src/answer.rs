//! Answers: JSON bodies, the one error shape, and the one table from error code to HTTP status.

use axum::body::Body;
use axum::http::header::{CONNECTION, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, Response, StatusCode};
use axum::response::IntoResponse;
use nexus_operations::RuntimeError;
use nexus_protocol::error::{ErrorBody, ErrorCode, WireError};
use serde::Serialize;

/// A request that gets an error for an answer.
#[derive(Debug)]
pub(crate) struct Refusal {
    status: StatusCode,
    error: WireError,
    closes: bool,
}

impl Refusal {
    /// Refuses with the status that belongs to the code.
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            status: status_of(code),
            error: WireError { code, message: message.into(), hint: None },
            closes: false,
        }
    }

    /// Adds what to do about it.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.error.hint = Some(hint.into());
        self
    }

    /// Answers with a narrower status than the code's own.
    pub(crate) fn status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    /// Ends the connection after the answer: the other side misbehaves, or its body was not read.
    pub(crate) fn closing(mut self) -> Self {
        self.closes = true;
        self
    }
}

impl Refusal {
    /// Returns the error without its HTTP dress.
    pub(crate) fn into_wire(self) -> WireError {
        self.error
    }
}

impl From<RuntimeError> for Refusal {
    fn from(error: RuntimeError) -> Self {
        let error = error.to_wire();
        Self { status: status_of(error.code), error, closes: false }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response<Body> {
        let (code, closes) = (self.error.code, self.closes);
        let mut response = json(self.status, &ErrorBody { error: self.error });
        let headers = response.headers_mut();
        match code {
            ErrorCode::Unauthorized => {
                headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            ErrorCode::Unavailable => {
                headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
            }
            ErrorCode::InvalidRequest
            | ErrorCode::Forbidden
            | ErrorCode::NotFound
            | ErrorCode::TooLarge
            | ErrorCode::AgentTimeout
            | ErrorCode::Internal => {}
        }
        if closes {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

/// Marks an answer whose secret its caller asked for and gets this once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ShownOnce;

/// The one place where codes meet statuses.
fn status_of(code: ErrorCode) -> StatusCode {
    match code {
        ErrorCode::InvalidRequest => StatusCode::BAD_REQUEST,
        ErrorCode::Unauthorized => StatusCode::UNAUTHORIZED,
        ErrorCode::Forbidden => StatusCode::FORBIDDEN,
        ErrorCode::NotFound => StatusCode::NOT_FOUND,
        ErrorCode::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        ErrorCode::AgentTimeout => StatusCode::GATEWAY_TIMEOUT,
        ErrorCode::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        ErrorCode::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// Answers with a value as JSON.
pub(crate) fn json(status: StatusCode, value: &impl Serialize) -> Response<Body> {
    let (status, body) = match serde_json::to_vec(value) {
        Ok(body) => (status, body),
        Err(error) => {
            tracing::error!(%error, "answer not serialised");
            let body =
                br#"{"error":{"code":"INTERNAL","message":"the answer could not be serialised as JSON"}}"#;
            (StatusCode::INTERNAL_SERVER_ERROR, body.to_vec())
        }
    };
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Answers 200 with a value as JSON.
pub(crate) fn ok(value: &impl Serialize) -> Response<Body> {
    json(StatusCode::OK, value)
}

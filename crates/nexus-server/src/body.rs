//! Reading a JSON body: bounded in size and time, and strict about what it says.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::header::CONTENT_LENGTH;
use axum::http::{HeaderMap, StatusCode};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use nexus_protocol::error::ErrorCode;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::answer::Refusal;

/// Longest body read, in bytes.
const MAX_BODY_LEN: usize = 512 * 1024;
/// How long a client may take to send it.
const READ_WITHIN: Duration = Duration::from_secs(10);
/// How much of an overlong body is read and thrown away, so that the client gets to see the answer
/// instead of a reset connection.
const THROWN_AWAY: usize = 8 * 1024 * 1024;

/// A request body as JSON of one type.
#[derive(Debug)]
pub(crate) struct JsonBody<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for JsonBody<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, _state: &S) -> Result<Self, Refusal> {
        let bytes = match timeout(READ_WITHIN, read(request)).await {
            Ok(outcome) => outcome?,
            Err(_) => {
                let message = format!("the body did not arrive within {READ_WITHIN:?}");
                return Err(Refusal::new(ErrorCode::AgentTimeout, message)
                    .status(StatusCode::REQUEST_TIMEOUT)
                    .closing());
            }
        };
        match serde_json::from_slice(&bytes) {
            Ok(value) => Ok(Self(value)),
            Err(error) => {
                Err(Refusal::new(ErrorCode::InvalidRequest, format!("the body is not valid: {error}")))
            }
        }
    }
}

async fn read(request: Request) -> Result<Bytes, Refusal> {
    if declared_length(request.headers()).is_some_and(|length| length > THROWN_AWAY) {
        return Err(too_large());
    }
    let mut body: Body = request.into_body();
    let mut whole = BytesMut::new();
    let mut length = 0;
    while let Some(frame) = body.frame().await {
        let frame =
            frame.map_err(|_| Refusal::new(ErrorCode::InvalidRequest, "the body ended early").closing())?;
        let Ok(data) = frame.into_data() else { continue };
        length += data.len();
        if length > THROWN_AWAY {
            return Err(too_large());
        }
        if length <= MAX_BODY_LEN {
            whole.extend_from_slice(&data);
        }
    }
    if length > MAX_BODY_LEN { Err(too_large()) } else { Ok(whole.freeze()) }
}

fn declared_length(headers: &HeaderMap) -> Option<usize> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn too_large() -> Refusal {
    Refusal::new(ErrorCode::TooLarge, format!("the body is longer than {MAX_BODY_LEN} bytes")).closing()
}

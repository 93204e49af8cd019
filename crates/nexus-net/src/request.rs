//! One request, built step by step. Header values that are secret are marked so and never printed.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use secrecy::{ExposeSecret, SecretString};

/// How long the head of an answer is waited for when nobody says otherwise.
const DEFAULT_DEADLINE: Duration = Duration::from_secs(60);
/// How long the next piece of an answer is waited for when nobody says otherwise.
const DEFAULT_IDLE: Duration = Duration::from_secs(120);

/// What is asked of the other side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Read something.
    Get,
    /// Send something.
    Post,
    /// Read the head only.
    Head,
    /// Replace something.
    Put,
    /// Remove something.
    Delete,
}

/// One request.
#[derive(Clone)]
pub struct Request {
    pub(crate) method: Method,
    pub(crate) address: String,
    pub(crate) headers: Vec<(String, SecretString)>,
    pub(crate) body: Option<Bytes>,
    pub(crate) deadline: Duration,
    pub(crate) idle: Duration,
}

impl fmt::Debug for Request {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A query can carry a key and so can any header.
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        formatter
            .debug_struct("Request")
            .field("method", &self.method)
            .field("address", &self.address.split(['?', '#']).next())
            .field("headers", &names)
            .finish_non_exhaustive()
    }
}

impl Request {
    /// Starts a request to an absolute address.
    pub fn new(method: Method, address: impl Into<String>) -> Self {
        Self {
            method,
            address: address.into(),
            headers: Vec::new(),
            body: None,
            deadline: DEFAULT_DEADLINE,
            idle: DEFAULT_IDLE,
        }
    }

    /// Starts a request that reads.
    pub fn get(address: impl Into<String>) -> Self {
        Self::new(Method::Get, address)
    }

    /// Starts a request that sends JSON.
    ///
    /// # Errors
    /// The value cannot be written as JSON.
    pub fn post_json(address: impl Into<String>, value: &serde_json::Value) -> serde_json::Result<Self> {
        let body = serde_json::to_vec(value)?;
        Ok(Self::new(Method::Post, address).header("content-type", "application/json").body(body))
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), SecretString::from(value)));
        self
    }

    /// Adds a header whose value is a secret.
    #[must_use]
    pub fn secret_header(mut self, name: &str, value: &SecretString) -> Self {
        self.headers.push((name.to_owned(), value.clone()));
        self
    }

    /// Adds `authorization: Bearer …`.
    #[must_use]
    pub fn bearer(self, token: &SecretString) -> Self {
        let value = SecretString::from(format!("Bearer {}", token.expose_secret()));
        self.secret_header("authorization", &value)
    }

    /// Sets the body.
    #[must_use]
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = Some(body.into());
        self
    }

    /// Sets how long the head of the answer is waited for, connecting and redirects included.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Sets how long each further piece of the answer is waited for.
    #[must_use]
    pub fn idle(mut self, idle: Duration) -> Self {
        self.idle = idle;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printing_a_request_shows_no_secret() {
        let request = Request::get("https://h/p?key=hidden")
            .bearer(&SecretString::from("hidden"))
            .header("x-api-key", "hidden")
            .body("hidden");
        assert!(!format!("{request:?}").contains("hidden"));
    }
}

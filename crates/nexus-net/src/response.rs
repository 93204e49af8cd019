//! An answer, read piece by piece or whole, never longer than the caller accepts.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;

use crate::error::NetError;

/// An answer whose head has arrived.
pub struct Response {
    inner: reqwest::Response,
    host: String,
    idle: Duration,
}

impl fmt::Debug for Response {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Response")
            .field("status", &self.status())
            .field("host", &self.host)
            .finish_non_exhaustive()
    }
}

impl Response {
    pub(crate) fn new(inner: reqwest::Response, host: String, idle: Duration) -> Self {
        Self { inner, host, idle }
    }

    /// Returns the status code.
    pub fn status(&self) -> u16 {
        self.inner.status().as_u16()
    }

    /// Tells whether the status is 2xx.
    pub fn is_success(&self) -> bool {
        self.inner.status().is_success()
    }

    /// Returns a header's value, when it is there and is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.inner.headers().get(name)?.to_str().ok()
    }

    /// Returns the host that answered, after redirects.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the address that answered, after redirects, without query and fragment.
    pub fn address(&self) -> String {
        let mut url = self.inner.url().clone();
        url.set_query(None);
        url.set_fragment(None);
        url.into()
    }

    /// Waits for the next piece of the body; `None` at its end.
    ///
    /// # Errors
    /// The connection broke off or nothing came for too long.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, NetError> {
        match tokio::time::timeout(self.idle, self.inner.chunk()).await {
            Ok(Ok(piece)) => Ok(piece),
            Ok(Err(error)) => Err(NetError::BrokenOff {
                host: self.host.clone(),
                reason: crate::net::innermost(&error.without_url()),
            }),
            Err(_) => Err(NetError::TimedOut { host: self.host.clone(), after: self.idle }),
        }
    }

    /// Reads the whole body of at most `limit` bytes.
    ///
    /// # Errors
    /// As [`Response::chunk`], or the body is longer.
    pub async fn bytes(mut self, limit: usize) -> Result<Vec<u8>, NetError> {
        let mut body = Vec::new();
        while let Some(piece) = self.chunk().await? {
            if body.len() + piece.len() > limit {
                return Err(NetError::TooLong { host: self.host, limit });
            }
            body.extend_from_slice(&piece);
        }
        Ok(body)
    }

    /// Reads the start of the body, at most `limit` bytes, as text; the rest is left unread.
    ///
    /// # Errors
    /// As [`Response::chunk`].
    pub async fn text_start(mut self, limit: usize) -> Result<String, NetError> {
        let mut body = Vec::new();
        while body.len() < limit {
            let Some(piece) = self.chunk().await? else { break };
            body.extend_from_slice(&piece[..piece.len().min(limit - body.len())]);
        }
        Ok(String::from_utf8_lossy(&body).into_owned())
    }
}

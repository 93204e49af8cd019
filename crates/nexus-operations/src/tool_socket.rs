//! `nexus …` inside a tool call: served over a socket that belongs to that one call, with the worker's permissions.

use std::io;

use nexus_pipeline::tool_sockets::ToolCallSocket;
use nexus_protocol::control::Call as Request;
use nexus_protocol::error::{ErrorCode, WireError};
use nexus_protocol::methods::Method;
use nexus_protocol::run::{MAX_LINE_LEN, RunReply};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::sync::mpsc;

use crate::{Caller, Operations};

impl Operations {
    /// Serves every socket that a tool call opens, until the daemon stops.
    pub async fn serve_tool_calls(self, mut sockets: mpsc::Receiver<ToolCallSocket>) {
        loop {
            let socket = tokio::select! {
                socket = sockets.recv() => socket,
                () = self.stopping() => None,
            };
            let Some(ToolCallSocket { stream, worker }) = socket else { return };
            let operations = self.clone();
            nexus_base::task::spawn("tool call", async move {
                let session = worker.session.clone();
                if let Err(error) = operations.serve_tool_call(stream, Caller::worker(worker)).await {
                    tracing::debug!(%session, %error, "socket of a tool call ended");
                }
            });
        }
    }

    async fn serve_tool_call(
        &self,
        stream: std::os::unix::net::UnixStream,
        caller: Caller,
    ) -> io::Result<()> {
        stream.set_nonblocking(true)?;
        let (read, mut write) = UnixStream::from_std(stream)?.into_split();
        let mut read = BufReader::new(read);
        loop {
            let mut line = Vec::new();
            let limit = u64::try_from(MAX_LINE_LEN).unwrap_or(u64::MAX);
            if (&mut read).take(limit).read_until(b'\n', &mut line).await? == 0 {
                return Ok(());
            }
            // Half a line is no request, and its rest would be taken for another one.
            let whole = line.last() == Some(&b'\n') || line.len() < MAX_LINE_LEN;
            let reply = match whole {
                true => self.answer_tool_call(&caller, &line).await,
                false => {
                    refused(ErrorCode::TooLarge, format!("the request is longer than {MAX_LINE_LEN} bytes"))
                }
            };
            let answer = self.redact(&serde_json::to_string(&reply).map_err(io::Error::other)?);
            write.write_all(answer.as_bytes()).await?;
            write.write_all(b"\n").await?;
            if !whole {
                return Ok(());
            }
        }
    }

    async fn answer_tool_call(&self, caller: &Caller, line: &[u8]) -> RunReply {
        let request: Request = match serde_json::from_slice(line) {
            Ok(request) => request,
            Err(error) => {
                return refused(ErrorCode::InvalidRequest, format!("the request cannot be read: {error}"));
            }
        };
        let Some(method) = Method::find(&request.method) else {
            return refused(ErrorCode::NotFound, "there is no such method".to_owned());
        };
        match self.call(caller, method, request.params).await {
            Ok(answer) => RunReply::Done(answer),
            Err(error) => RunReply::Failed(error.to_wire()),
        }
    }
}

fn refused(code: ErrorCode, message: String) -> RunReply {
    RunReply::Failed(WireError { code, message, hint: None })
}

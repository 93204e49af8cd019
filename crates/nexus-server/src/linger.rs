//! A socket that is closed politely: when its client may still be writing, what it writes is read and
//! thrown away for a moment, so that the last answer arrives instead of a reset connection.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

/// How much is thrown away at most, in bytes, and for how long.
const THROWN_AWAY: usize = 8 * 1024 * 1024;
const MAX_WAIT: Duration = Duration::from_secs(2);
/// Connections that linger at the same time; anybody can make one do so.
const MAX_LINGERING: usize = 32;

/// A stream that lingers when it is dropped, if somebody has asked for it.
#[derive(Debug)]
pub(crate) struct Lingering {
    /// There until it is dropped.
    stream: Option<TcpStream>,
    wanted: Arc<AtomicBool>,
    places: Arc<Semaphore>,
}

impl Lingering {
    pub(crate) fn new(stream: TcpStream, wanted: Arc<AtomicBool>, places: Arc<Semaphore>) -> Self {
        Self { stream: Some(stream), wanted, places }
    }

    /// Returns how many may linger.
    pub(crate) fn places() -> Arc<Semaphore> {
        Arc::new(Semaphore::new(MAX_LINGERING))
    }

    fn stream(&mut self) -> io::Result<Pin<&mut TcpStream>> {
        self.stream.as_mut().map(Pin::new).ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl Drop for Lingering {
    fn drop(&mut self) {
        let Some(stream) = self.stream.take().filter(|_| self.wanted.load(Ordering::Acquire)) else { return };
        // A stream that is dropped with the runtime itself has nobody left who could wait.
        let (Ok(place), Ok(_)) =
            (Arc::clone(&self.places).try_acquire_owned(), tokio::runtime::Handle::try_current())
        else {
            return;
        };
        nexus_base::task::spawn("linger", async move {
            // Either way the connection is over; all that is left is to let the client see it.
            let _ = tokio::time::timeout(MAX_WAIT, throw_away(stream)).await;
            drop(place);
        });
    }
}

async fn throw_away(mut stream: TcpStream) -> io::Result<()> {
    stream.shutdown().await?;
    let mut buffer = vec![0; 16 * 1024];
    let mut read = 0;
    while read < THROWN_AWAY {
        match stream.read(&mut buffer).await? {
            0 => return Ok(()),
            more => read += more,
        }
    }
    Ok(())
}

impl AsyncRead for Lingering {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.stream()?.poll_read(context, buffer)
    }
}

impl AsyncWrite for Lingering {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.stream()?.poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.stream()?.poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.as_ref().is_some_and(AsyncWrite::is_write_vectored)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream()?.poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream()?.poll_shutdown(context)
    }
}

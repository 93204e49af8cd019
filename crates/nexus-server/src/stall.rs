//! A socket whose writes may not stall for ever: a client that stops reading loses its connection.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// How long the other side may take no bytes at all.
const STALLED_AFTER: Duration = Duration::from_secs(30);

/// A stream that fails a write after [`STALLED_AFTER`] without progress.
#[derive(Debug)]
pub(crate) struct StallGuard<S> {
    inner: S,
    deadline: Option<Pin<Box<Sleep>>>,
    waiting: bool,
}

impl<S> StallGuard<S> {
    pub(crate) fn new(inner: S) -> Self {
        Self { inner, deadline: None, waiting: false }
    }

    /// Passes progress through; turns waiting into an error once it took too long.
    fn judge<T>(&mut self, context: &mut Context<'_>, outcome: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            self.waiting = false;
            return outcome;
        }
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep(STALLED_AFTER)));
        if !self.waiting {
            self.waiting = true;
            deadline.as_mut().reset(Instant::now() + STALLED_AFTER);
        }
        ready!(deadline.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client stopped reading")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for StallGuard<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for StallGuard<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.judge(context, outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.inner).poll_write_vectored(context, pieces);
        self.judge(context, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.inner).poll_flush(context);
        self.judge(context, outcome)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.inner).poll_shutdown(context);
        self.judge(context, outcome)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_stops_is_given_up_and_a_slow_one_is_not() {
        let (near, mut far) = tokio::io::duplex(16);
        let mut guarded = StallGuard::new(near);
        let slow = tokio::spawn(async move {
            let mut buffer = [0; 16];
            for _ in 0..4 {
                tokio::time::sleep(STALLED_AFTER - Duration::from_secs(1)).await;
                far.read_exact(&mut buffer).await.unwrap();
            }
            far
        });
        guarded.write_all(&[1; 80]).await.unwrap();
        let _far = slow.await.unwrap();
        let begun = Instant::now();
        let error = guarded.write_all(&[1; 80]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(begun.elapsed().as_secs(), STALLED_AFTER.as_secs());
    }
}

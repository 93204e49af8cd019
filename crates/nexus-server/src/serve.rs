//! Accepting connections, serving them within limits, and letting them go when the daemon stops.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use nexus_base::task::Tasks;
use nexus_operations::Operations;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::connections::{Connections, Place};
use crate::daemon::Daemon;
use crate::gate::Gate;
use crate::linger::Lingering;
use crate::routes::Shared;
use crate::stall::StallGuard;

/// How long a client may take for a request's head, and how long a connection may lie idle.
const HEAD_WITHIN: Duration = Duration::from_secs(10);
/// Longest head of a request, in bytes, and most headers in it.
const MAX_HEAD_LEN: usize = 16 * 1024;
const MAX_HEADERS: usize = 64;
/// What is read ahead of one connection, in bytes.
const READ_AHEAD: usize = 64 * 1024;
/// How long open streams have to end when the daemon stops.
const CLOSE_WITHIN: Duration = Duration::from_secs(5);
/// Pause when the system gives no new connection, mostly for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves the control plane until `shutdown`, then lets what is under way end.
///
/// # Errors
/// The listener is not on loopback, or has no address.
pub async fn serve(
    operations: Operations,
    listener: TcpListener,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    serve_daemon(operations, listener, shutdown).await
}

pub(crate) async fn serve_daemon<D: Daemon>(
    daemon: D,
    listener: TcpListener,
    shutdown: impl Future<Output = ()> + Send,
) -> io::Result<()> {
    let address = listener.local_addr()?;
    if !address.ip().is_loopback() {
        let message =
            format!("{address} is not a loopback address; the control plane serves this machine only");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    let server = Server {
        closing: CancellationToken::new(),
        closed: CancellationToken::new(),
        connections: Arc::new(Connections::default()),
        lingering: Lingering::places(),
        tasks: Tasks::default(),
    };
    let shared = Shared {
        daemon,
        closing: server.closing.clone(),
        closed: server.closed.clone(),
        tasks: server.tasks.clone(),
        meters: Arc::default(),
        throttle: Arc::default(),
    };
    let gate = Arc::new(Gate::new(shared, address.port()));
    tokio::select! {
        () = server.accept(&listener, &gate) => {}
        () = shutdown => {}
    }
    drop(listener);
    server.close().await;
    Ok(())
}

struct Server {
    /// No new work; what is under way may end.
    closing: CancellationToken,
    /// Time is up.
    closed: CancellationToken,
    connections: Arc<Connections>,
    lingering: Arc<Semaphore>,
    tasks: Tasks,
}

impl Server {
    async fn accept<D: Daemon>(&self, listener: &TcpListener, gate: &Arc<Gate<D>>) {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    // Answers are written whole; waiting to fill a segment would only delay them.
                    if let Err(error) = stream.set_nodelay(true) {
                        tracing::debug!(%error, "connection lost before it was accepted");
                        continue;
                    }
                    let connection = Connection {
                        place: Arc::new(self.connections.enter()),
                        closing: self.closing.clone(),
                        closed: self.closed.clone(),
                    };
                    let lingers = connection.place.lingers();
                    let stream = Lingering::new(stream, lingers, Arc::clone(&self.lingering));
                    self.tasks.spawn("connection", connection.serve(stream, Arc::clone(gate)));
                }
                Err(error) if is_about_one_connection(&error) => {}
                Err(error) => {
                    tracing::warn!(%error, "accepting a connection failed");
                    self.connections.evict_oldest();
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    async fn close(&self) {
        self.closing.cancel();
        self.tasks.close();
        if timeout(CLOSE_WITHIN, self.tasks.wait()).await.is_err() {
            tracing::warn!(connections = self.tasks.len(), "connections did not end in time; closing them");
            self.closed.cancel();
            self.tasks.wait().await;
        }
    }
}

fn is_about_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
    )
}

struct Connection {
    place: Arc<Place>,
    closing: CancellationToken,
    closed: CancellationToken,
}

impl Connection {
    async fn serve<D: Daemon>(self, stream: Lingering, gate: Arc<Gate<D>>) {
        let place = Arc::clone(&self.place);
        let service = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
            let (gate, place) = (Arc::clone(&gate), Arc::clone(&place));
            async move { Ok::<_, Infallible>(gate.answer(&place, request.map(Body::new)).await) }
        });
        let served = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_WITHIN)
            .max_headers(MAX_HEADERS)
            .max_header_size(MAX_HEAD_LEN)
            .max_buf_size(READ_AHEAD)
            .serve_connection(TokioIo::new(StallGuard::new(stream)), service)
            .with_upgrades();
        let mut served = std::pin::pin!(served);
        let mut is_closing = false;
        loop {
            tokio::select! {
                outcome = served.as_mut() => {
                    if let Err(error) = outcome {
                        tracing::debug!(%error, "connection ended early");
                    }
                    return;
                }
                () = self.place.evicted() => return,
                () = self.closed.cancelled() => return,
                () = self.closing.cancelled(), if !is_closing => {
                    // Nobody waits for an answer on it, and it would wait for a request.
                    if self.place.is_unused() {
                        return;
                    }
                    is_closing = true;
                    served.as_mut().graceful_shutdown();
                }
            }
        }
    }
}

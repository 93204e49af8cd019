//! The methods of the control plane behind the ways in: whether a caller may, and the handler that carries it out.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use nexus_identity::Operation;
use nexus_pipeline::{BusReader, RuntimeError};
use nexus_protocol::methods::{Action, Method, Path};
use nexus_store::Store;
use nexus_workspace::StartOptions;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::call::{Call, shown, typed};
use crate::tool_sources::ToolSources;
use crate::{Caller, CallerKind, Daemon, table};

/// Reads the configuration again and puts it in force; an invalid one changes nothing.
#[async_trait]
pub trait Reload: std::fmt::Debug + Send + Sync {
    /// # Errors
    /// The configuration is not usable.
    async fn reload(&self) -> Result<(), RuntimeError>;
}

/// The methods of a running daemon; cheap to clone.
#[derive(Debug, Clone)]
pub struct Operations {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    options: StartOptions,
    store: Store,
    daemon: Arc<Daemon>,
    reload: Arc<dyn Reload>,
    /// One configuration edit at a time.
    editing: tokio::sync::Mutex<()>,
    /// Projects whose tools other programs asked for.
    tool_sources: ToolSources,
}

impl Operations {
    pub fn new(options: StartOptions, store: Store, daemon: Arc<Daemon>, reload: Arc<dyn Reload>) -> Self {
        Self {
            inner: Arc::new(Inner {
                options,
                store,
                daemon,
                reload,
                editing: tokio::sync::Mutex::new(()),
                tool_sources: ToolSources::default(),
            }),
        }
    }

    /// Carries out one method for a caller who may.
    ///
    /// # Errors
    /// They may not, the parameters are wrong, or it did not work.
    pub async fn call(
        &self,
        caller: &Caller,
        method: Method,
        params: Option<Value>,
    ) -> Result<Value, RuntimeError> {
        self.permit(caller, method)?;
        self.dispatch(caller, method, params).await
    }

    /// Carries out a method for a caller whom [`Operations::permit`] let pass.
    ///
    /// # Errors
    /// What was asked for is wrong, or it did not work.
    pub async fn permitted<T: DeserializeOwned>(
        &self,
        caller: &Caller,
        method: Method,
        params: &impl Serialize,
    ) -> Result<T, RuntimeError> {
        typed(&self.dispatch(caller, method, Some(shown(params)?)).await?)
    }

    async fn dispatch(
        &self,
        caller: &Caller,
        method: Method,
        params: Option<Value>,
    ) -> Result<Value, RuntimeError> {
        let call = Call { method, caller, options: self.options(), store: self.store(), running: Some(self) };
        table::dispatch(&call, params).await
    }

    /// Checks that a caller may use a method and leaves a row about it.
    ///
    /// Looking is not recorded when it is allowed: a client that shows the state of things would
    /// fill the log, and hide in it what matters.
    ///
    /// # Errors
    /// They may not.
    pub fn permit(&self, caller: &Caller, method: Method) -> Result<(), RuntimeError> {
        let entry = method.entry();
        let permission = entry.permission();
        let name = caller.name();
        let operation = Operation { caller: &name, kind: caller.kind().as_str(), permission: &permission };
        let access = &self.daemon().pipeline.access;
        if !caller.may(&permission) {
            let reason = match caller.kind() {
                CallerKind::Owner | CallerKind::Token => {
                    format!("{} needs {permission}, which this token does not have", entry.name)
                }
                CallerKind::Worker => format!("{} is not available inside a tool call", entry.name),
            };
            access.log_operation(&operation, Some(&reason));
            return Err(RuntimeError::Forbidden { reason });
        }
        if entry.path == Path::Iam && entry.action != Action::Read {
            access.log_operation(&operation, None);
        }
        Ok(())
    }

    /// Hides every known secret in a text that leaves.
    pub fn redact(&self, text: &str) -> String {
        self.options().redactor.redact(text)
    }

    /// Starts reading bus events after the given number.
    pub fn subscribe(&self, after: Option<u64>) -> BusReader {
        self.daemon().bus.subscribe(after)
    }

    /// Returns how long a new socket may take to show its token.
    pub fn handshake_within(&self) -> Duration {
        self.daemon().agent_factory.settings().runtime.handshake
    }

    /// Resolves when the daemon begins to drain; open streams should end then.
    pub async fn stopping(&self) {
        self.daemon().lifecycle.stopping().cancelled().await;
    }

    pub(crate) fn options(&self) -> &StartOptions {
        &self.inner.options
    }

    pub(crate) fn store(&self) -> &Store {
        &self.inner.store
    }

    pub(crate) fn daemon(&self) -> &Daemon {
        &self.inner.daemon
    }

    pub(crate) fn editing(&self) -> &tokio::sync::Mutex<()> {
        &self.inner.editing
    }

    pub(crate) fn tool_sources(&self) -> &ToolSources {
        &self.inner.tool_sources
    }

    pub(crate) async fn reload(&self) -> Result<(), RuntimeError> {
        self.inner.reload.reload().await
    }
}

//! One call as its handler sees it: who asks, and what of the workspace and the daemon there is to answer with.

use std::sync::Arc;

use nexus_identity::Operation;
use nexus_pipeline::RuntimeError;
use nexus_protocol::methods::Method;
use nexus_store::Store;
use nexus_workspace::config::Settings;
use nexus_workspace::{Layout, StartOptions};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{Caller, Daemon, Operations};

/// Rows given when the caller does not say, and at most.
pub(crate) const DEFAULT_ROWS: usize = 50;
pub(crate) const MAX_ROWS: usize = 1_000;

/// One call of a method.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(crate) method: Method,
    pub(crate) caller: &'a Caller,
    pub(crate) options: &'a StartOptions,
    /// The databases; without a daemon only those that the method names are open.
    pub(crate) store: &'a Store,
    /// None while no daemon runs.
    pub(crate) running: Option<&'a Operations>,
}

impl<'a> Call<'a> {
    pub(crate) fn layout(&self) -> &'a Layout {
        &self.options.layout
    }

    pub(crate) fn running(&self) -> Result<&'a Operations, RuntimeError> {
        self.running.ok_or_else(|| RuntimeError::NeedsDaemon { method: self.method.entry().name })
    }

    pub(crate) fn daemon(&self) -> Result<&'a Daemon, RuntimeError> {
        Ok(self.running()?.daemon())
    }

    /// Returns the settings in force; without a daemon those of the file.
    pub(crate) fn settings(&self) -> Result<Arc<Settings>, RuntimeError> {
        match self.running {
            Some(operations) => Ok(operations.daemon().agent_factory.settings()),
            None => Ok(Arc::new(crate::config::load(self.options)?.settings)),
        }
    }

    pub(crate) fn redact(&self, text: &str) -> String {
        self.options.redactor.redact(text)
    }

    /// Refuses what was asked for, not the method, and leaves a row about it.
    pub(crate) fn refuse(&self, reason: String) -> RuntimeError {
        if let Some(operations) = self.running {
            let (name, permission) = (self.caller.name(), self.method.entry().permission());
            let operation =
                Operation { caller: &name, kind: self.caller.kind().as_str(), permission: &permission };
            operations.daemon().pipeline.access.log_operation(&operation, Some(&reason));
        }
        RuntimeError::Forbidden { reason }
    }
}

/// Reads parameters as one type; absent ones are an empty object.
pub(crate) fn read<T: DeserializeOwned>(params: Option<Value>) -> Result<T, RuntimeError> {
    let params = params.unwrap_or_else(|| json!({}));
    serde_json::from_value(params).map_err(|error| invalid(format!("params: {error}")))
}

pub(crate) fn shown(value: &impl Serialize) -> Result<Value, RuntimeError> {
    serde_json::to_value(value)
        .map_err(|error| RuntimeError::Internal { message: format!("the answer is not JSON: {error}") })
}

/// Turns a value into the type its method answers with; a value of another shape is our mistake.
pub(crate) fn typed<T: DeserializeOwned>(value: &impl Serialize) -> Result<T, RuntimeError> {
    serde_json::from_value(shown(value)?).map_err(|error| RuntimeError::Internal {
        message: format!("the answer does not have the expected form: {error}"),
    })
}

pub(crate) fn rows(asked: Option<usize>) -> Result<usize, RuntimeError> {
    match asked {
        None => Ok(DEFAULT_ROWS),
        Some(limit @ 1..=MAX_ROWS) => Ok(limit),
        Some(limit) => Err(invalid(format!("limit is {limit} and must be between 1 and {MAX_ROWS}"))),
    }
}

pub(crate) fn invalid(message: impl Into<String>) -> RuntimeError {
    RuntimeError::Invalid { message: message.into(), hint: None }
}

pub(crate) fn missing(what: &'static str, name: impl Into<String>) -> RuntimeError {
    RuntimeError::NotFound { what, name: name.into() }
}

/// A file or a part of the machine that does not answer as it should.
pub(crate) fn internal(error: &dyn std::error::Error) -> RuntimeError {
    RuntimeError::Internal { message: nexus_base::error::chain(error) }
}

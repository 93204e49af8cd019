//! What models cost and how much they take in. Every paid call is written down in `runtime.db`, so that
//! budgets hold across restarts.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::sessions::AgentRequest;
use async_trait::async_trait;
use nexus_agent::ports::{Spending, Spent};
use nexus_agent::{Calibration, Window};
use nexus_base::clock::Timestamp;
use nexus_base::id::{RequestId, SessionLabel, TurnId};
use nexus_llm::{ModelName, ModelTable, Usage};
use nexus_store::runtime::NewUsage;
use nexus_tools::ports::LedgerError;
use nexus_workspace::config::Settings;

/// Provider of models that are part of this program; they cost nothing and have no limit.
const OWN_PROVIDER: &str = "nexus";

/// The ledger of costs, and what is learnt about how models count.
#[derive(Debug)]
pub struct Costs {
    runtime: nexus_store::Runtime,
    /// How each model counts, learnt from its own figures.
    calibrations: Mutex<HashMap<String, Arc<Calibration>>>,
}

impl Costs {
    pub fn new(runtime: nexus_store::Runtime) -> Self {
        Self { runtime, calibrations: Mutex::default() }
    }

    /// Returns where a turn's costs are counted. `model` is the one it will be charged for, as far as is
    /// known; what counts in the end is who answered.
    pub(crate) fn of(
        &self,
        prices: Arc<ModelTable>,
        model: &ModelName,
        request: &AgentRequest<'_>,
    ) -> Arc<dyn Spending> {
        Arc::new(TurnSpending {
            runtime: self.runtime.clone(),
            prices,
            is_paid: model.provider != OWN_PROVIDER,
            request_id: request.item.new.request_id.clone(),
            root_request_id: request.item.new.root_request_id.clone(),
            turn_id: request.item.turn_id.clone(),
            session: request.session.label.clone(),
        })
    }

    /// Returns how much of a conversation a model can be sent.
    pub(crate) fn window(&self, table: &ModelTable, model: &ModelName, settings: &Settings) -> Window {
        let limit = (model.provider != OWN_PROVIDER).then(|| table.context_window(model));
        let mut known = self.calibrations.lock().unwrap_or_else(PoisonError::into_inner);
        let calibration = Arc::clone(known.entry(model.to_string()).or_default());
        Window { limit, turns: settings.agents.history_turns, calibration }
    }
}

/// The ledger of costs as one turn sees it.
#[derive(Debug)]
struct TurnSpending {
    runtime: nexus_store::Runtime,
    prices: Arc<ModelTable>,
    is_paid: bool,
    request_id: RequestId,
    root_request_id: RequestId,
    turn_id: Option<TurnId>,
    session: SessionLabel,
}

#[async_trait]
impl Spending for TurnSpending {
    async fn so_far(&self) -> Result<Spent, LedgerError> {
        if !self.is_paid {
            return Ok(Spent::default());
        }
        let spent = self.runtime.spent(&today(), Some(&self.root_request_id)).await;
        spent.map_err(|error| LedgerError(error.to_string()))
    }

    async fn add(&self, model: &ModelName, usage: &Usage) -> Result<Spent, LedgerError> {
        if model.provider == OWN_PROVIDER {
            return Ok(Spent::default());
        }
        let call = NewUsage {
            day: today(),
            provider: model.provider.clone(),
            model: model.model.clone(),
            request_id: Some(self.request_id.clone()),
            turn_id: self.turn_id.clone(),
            session_label: Some(self.session.clone()),
            root_request_id: Some(self.root_request_id.clone()),
            input_tokens: usage.input,
            output_tokens: usage.output,
            cached_input_tokens: usage.cache_read,
            cache_write_tokens: usage.cache_write,
            cost_micro_usd: self.prices.cost(model, usage),
        };
        let spent = self.runtime.spend(call).await;
        spent.map_err(|error| LedgerError(error.to_string()))
    }
}

/// Returns the day in the owner's time zone; a clock that jumps only changes which day pays.
fn today() -> String {
    Timestamp::now().to_local_rfc3339().chars().take(10).collect()
}

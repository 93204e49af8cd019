//! Questions to the owner while the daemon runs: put, told on the bus, waited for, run out.
//!
//! Rows and rules are `nexus-identity`'s. Whoever needs an answer, a method of the control plane or a
//! message that is held back, waits here.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use nexus_base::clock::Timestamp;
use nexus_base::failpoint;
use nexus_identity::{ApprovalError, Approvals, Ask, Asked, Consent};
use nexus_protocol::bus::BusBody;
use nexus_store::StoreError;
use nexus_store::identity::{PermissionRequest, PermissionStatus};
use tokio::sync::watch;

use crate::Bus;

/// Open questions and those who wait for their answers.
#[derive(Debug)]
pub struct Questions {
    pub approvals: Approvals,
    bus: Bus,
    /// Counts up whenever one was answered or ran out.
    settled: watch::Sender<u64>,
    /// What the owner said with a no, for whoever waits for it. They wait in this process, so nothing keeps it longer.
    words: Mutex<VecDeque<(String, String)>>,
}

/// Most words kept for somebody who does not come for them.
const MAX_WORDS: usize = 32;

impl Questions {
    pub fn new(identity: nexus_store::Identity, bus: Bus) -> Self {
        Self {
            approvals: Approvals::new(identity),
            bus,
            settled: watch::Sender::new(0),
            words: Mutex::default(),
        }
    }

    /// Puts a question, unless a standing consent answers it.
    pub async fn put(&self, ask: Ask) -> Result<Asked, ApprovalError> {
        self.put_as(nexus_base::id::new_ulid(), ask).await
    }

    /// Puts a question under a fixed id; one that was put before is found as it stands.
    pub(crate) async fn put_as(&self, id: String, ask: Ask) -> Result<Asked, ApprovalError> {
        self.expire().await?;
        let started = Timestamp::steady();
        let asked = self.approvals.ask_as(id, ask).await?;
        if let Asked::Open(request) = &asked
            && request.new.created_at >= started
        {
            self.bus.publish(
                request.new.request_id.clone(),
                BusBody::PermissionRequested {
                    permission_request_id: request.new.id.clone(),
                    kind: request.new.kind.clone(),
                    summary: request.new.summary.clone(),
                    expires_at: request.new.expires_at,
                },
            );
        }
        Ok(asked)
    }

    /// Tells whether somebody follows what happens, and so sees a question at once.
    pub(crate) fn is_watched(&self) -> bool {
        self.bus.is_watched()
    }

    /// Takes the owner's answer.
    pub async fn answer(
        &self,
        id: &str,
        responder: &str,
        consent: Consent,
        reason: Option<String>,
    ) -> Result<PermissionRequest, ApprovalError> {
        if let (Consent::No, Some(word)) = (consent, &reason) {
            let mut words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
            words.push_back((id.to_owned(), word.clone()));
            let over = words.len().saturating_sub(MAX_WORDS);
            words.drain(..over);
        }
        let settled = self.approvals.answer(id, responder, consent, reason).await?;
        failpoint::hit("approval.answered");
        self.announce(&settled);
        Ok(settled)
    }

    /// Returns what the owner said with a no.
    pub(crate) fn word(&self, id: &str) -> Option<String> {
        let mut words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        let at = words.iter().position(|(of, _)| of == id)?;
        words.remove(at).map(|(_, word)| word)
    }

    /// Waits until a question is answered, has run out, or the patience is over, and returns it as it
    /// stands then; nothing when there is no such question.
    pub async fn outcome(
        &self,
        id: &str,
        patience: Duration,
    ) -> Result<Option<PermissionRequest>, StoreError> {
        let mut settled = self.settled.subscribe();
        let deadline = tokio::time::Instant::now() + patience;
        loop {
            self.expire().await?;
            let Some(found) = self.approvals.show(id).await? else { return Ok(None) };
            if found.status != PermissionStatus::Pending || tokio::time::Instant::now() >= deadline {
                return Ok(Some(found));
            }
            let runs_out = found.new.expires_at.since(Timestamp::steady()) + Duration::from_millis(1);
            let until = deadline.min(tokio::time::Instant::now() + runs_out);
            tokio::select! {
                _ = settled.changed() => {}
                () = tokio::time::sleep_until(until) => {}
            }
        }
    }

    /// Ends questions whose time is over.
    pub async fn expire(&self) -> Result<(), StoreError> {
        for expired in self.approvals.expire().await? {
            self.announce(&expired);
        }
        Ok(())
    }

    fn announce(&self, request: &PermissionRequest) {
        self.settled.send_modify(|count| *count += 1);
        self.bus.publish(
            request.new.request_id.clone(),
            BusBody::PermissionResolved {
                permission_request_id: request.new.id.clone(),
                status: request.status.to_string(),
            },
        );
    }
}

//! What the log may hold: never a token, never a query string.

use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use super::fake::{Served, TOKEN};

/// Collects every event with its fields as text.
#[derive(Debug, Clone, Default)]
struct Collector(Arc<Mutex<String>>);

struct Line<'a>(&'a mut String);

impl Visit for Line<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, "{field}={value:?} ").unwrap();
    }
}

impl Subscriber for Collector {
    fn enabled(&self, _metadata: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        span.record(&mut Line(&mut self.0.lock().unwrap()));
        Id::from_u64(1)
    }

    fn record(&self, _span: &Id, values: &Record<'_>) {
        values.record(&mut Line(&mut self.0.lock().unwrap()));
    }

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = self.0.lock().unwrap();
        event.record(&mut Line(&mut text));
        text.push('\n');
    }

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}
}

// One thread, so that the collector set for this thread sees the server's events.
#[tokio::test(flavor = "current_thread")]
async fn neither_tokens_nor_query_strings_are_logged() {
    let collector = Collector::default();
    let _guard = tracing::subscriber::set_default(collector.clone());
    let served = Served::start().await;
    // Other tests may have met the same places while nobody listened.
    served.get("/health").await;
    tracing::callsite::rebuild_interest_cache();
    served.get("/api/chat/history?session=canary-session").await;
    served.get(&format!("/api/requests?token={TOKEN}")).await;
    served.ask("GET", "/api/requests?limit=7", Some("canary-wrong-token"), "").await;
    served.post("/api/chat?x=canary-parameter", r#"{"message":"canary-message"}"#).await;
    served.post("/api/chat", r#"{"message":"panic"}"#).await;
    let log = collector.0.lock().unwrap().clone();
    assert!(log.contains("path=\"/api/chat/history\" status=200"), "{log}");
    assert!(log.contains("wrong_tokens=1"), "{log}");
    for secret in [TOKEN, "canary", "limit=7", "?"] {
        assert!(!log.contains(secret), "{secret} in {log}");
    }
}

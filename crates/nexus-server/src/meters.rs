//! What the server counts, for `/metrics`.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::StatusCode;

/// Counts of this life of the server.
#[derive(Debug, Default)]
pub(crate) struct Meters {
    answers: [AtomicU64; 5],
    wrong_tokens: AtomicU64,
    pub(crate) sockets_open: AtomicU64,
    pub(crate) sockets_total: AtomicU64,
    pub(crate) frames_in: AtomicU64,
    pub(crate) frames_out: AtomicU64,
    pub(crate) slow_dropped: AtomicU64,
}

impl Meters {
    pub(crate) fn answered(&self, status: StatusCode) {
        let class = usize::from(status.as_u16() / 100).clamp(1, 5) - 1;
        self.answers[class].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn wrong_token(&self) {
        self.wrong_tokens.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Renders the counts in the text format scrapers read.
    pub(crate) fn render(&self) -> String {
        let mut text = String::new();
        let _ = writeln!(text, "# HELP nexus_http_answers_total HTTP answers by class of status.");
        let _ = writeln!(text, "# TYPE nexus_http_answers_total counter");
        for (index, count) in self.answers.iter().enumerate() {
            let count = count.load(Ordering::Relaxed);
            let _ = writeln!(text, "nexus_http_answers_total{{class=\"{}xx\"}} {count}", index + 1);
        }
        for (name, kind, help, value) in [
            ("nexus_wrong_tokens_total", "counter", "Wrong tokens presented.", &self.wrong_tokens),
            ("nexus_sockets_open", "gauge", "WebSockets that are open.", &self.sockets_open),
            ("nexus_sockets_total", "counter", "WebSockets that were opened.", &self.sockets_total),
            ("nexus_frames_received_total", "counter", "Frames received.", &self.frames_in),
            ("nexus_frames_sent_total", "counter", "Frames sent.", &self.frames_out),
            (
                "nexus_slow_clients_dropped_total",
                "counter",
                "Clients that read too slowly.",
                &self.slow_dropped,
            ),
        ] {
            let value = value.load(Ordering::Relaxed);
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}");
        }
        text
    }
}

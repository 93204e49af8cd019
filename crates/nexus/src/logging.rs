//! The daemon's log: JSON lines in `state/logs/nex.log`, and readable lines on stderr while a person
//! watches. Every line passes the redactor.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use nexus_base::clock::Timestamp;
use nexus_base::file::{self, FileError};
use nexus_base::redact::Redactor;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

use crate::output;

/// A log of this size is set aside at the next start.
const MAX_LOG_SIZE: u64 = 16 * 1024 * 1024;
/// Longest value of one field, in bytes.
const MAX_VALUE_LEN: usize = 4 * 1024;

/// Whether somebody watches the log while it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Watched {
    /// Also on stderr, for a person.
    OnStderr,
    /// Only in the file.
    Not,
}

/// Sends everything that is traced in this process to the log at `path`.
pub(crate) fn begin(
    path: &Path,
    level: &str,
    redactor: Arc<Redactor>,
    watched: Watched,
) -> Result<(), FileError> {
    if let Some(folder) = path.parent() {
        file::create_folder(folder, 0o700)?;
    }
    if std::fs::metadata(path).is_ok_and(|found| found.len() > MAX_LOG_SIZE) {
        file::rename(path, &path.with_extension("log.1"))?;
    }
    let lines = LogLines { file: Mutex::new(file::open_append(path, 0o600)?), redactor, watched };
    let level: LevelFilter = level.parse().unwrap_or(LevelFilter::INFO);
    // Libraries below us speak only when something is wrong.
    let filter = Targets::new().with_default(LevelFilter::WARN).with_target("nexus", level);
    let subscriber = tracing_subscriber::registry().with(lines.with_filter(filter));
    // A second logger in one process would be a defect of ours; the first one goes on.
    let _ = tracing::subscriber::set_global_default(subscriber);
    Ok(())
}

struct LogLines {
    file: Mutex<File>,
    redactor: Arc<Redactor>,
    watched: Watched,
}

/// Fields of a span, kept with it.
struct SpanFields(Map<String, Value>);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for LogLines {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id) {
            let mut fields = SpanFields(Map::new());
            attributes.record(&mut fields);
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<SpanFields>()
        {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut own = SpanFields(Map::new());
        event.record(&mut own);
        let message = own.0.remove("message").unwrap_or_default();
        let mut fields = Map::new();
        for span in context.event_scope(event).into_iter().flat_map(|scope| scope.from_root()) {
            if let Some(outer) = span.extensions().get::<SpanFields>() {
                fields.extend(outer.0.clone());
            }
        }
        fields.extend(own.0);
        // Whoever turned the log up this far wants to read the code beside it.
        if let (true, Some(file), Some(line)) =
            (*event.metadata().level() >= Level::DEBUG, event.metadata().file(), event.metadata().line())
        {
            fields.insert("at".to_owned(), Value::from(format!("{file}:{line}")));
        }
        self.write(*event.metadata().level(), event.metadata().target(), &message, &fields);
    }
}

impl LogLines {
    fn write(&self, level: Level, target: &str, message: &Value, fields: &Map<String, Value>) {
        let at = Timestamp::now();
        let level = level.as_str().to_lowercase();
        let mut line = Map::new();
        line.insert("ts".to_owned(), Value::from(at.to_string()));
        line.insert("level".to_owned(), Value::from(level.as_str()));
        line.insert("target".to_owned(), Value::from(target));
        line.insert("msg".to_owned(), message.clone());
        for (name, value) in fields {
            line.entry(name.as_str()).or_insert_with(|| value.clone());
        }
        let stored = self.redactor.redact(&Value::Object(line).to_string());
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        // One write per line, so that lines of several processes do not mix. A full disk must not
        // take the daemon down through its log.
        let _ = file.write_all(format!("{stored}\n").as_bytes());
        drop(file);
        if self.watched == Watched::OnStderr {
            let text = message.as_str().unwrap_or_default();
            let mut shown =
                format!("{} {level:<5} {text}", at.to_local_rfc3339().get(11..19).unwrap_or_default());
            for (name, value) in fields {
                match value {
                    Value::String(text) => shown.push_str(&format!(" {name}={text}")),
                    other => shown.push_str(&format!(" {name}={other}")),
                }
            }
            output::remark(&self.redactor.redact(&output::single_line(&shown)));
        }
    }
}

impl SpanFields {
    fn put(&mut self, field: &Field, value: impl Into<Value>) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}

impl Visit for SpanFields {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.put(field, cut(format!("{value:?}")));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, cut(value.to_owned()));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value);
    }
}

fn cut(mut text: String) -> String {
    if text.len() > MAX_VALUE_LEN {
        text.truncate(text.floor_char_boundary(MAX_VALUE_LEN));
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_carries_span_fields_and_no_secret() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("logs/nex.log");
        let redactor = Arc::new(Redactor::new());
        redactor.register("hunter2-hunter2");
        file::create_folder(path.parent().unwrap(), 0o700).unwrap();
        let lines = LogLines {
            file: Mutex::new(file::open_append(&path, 0o600).unwrap()),
            redactor,
            watched: Watched::Not,
        };
        let subscriber = tracing_subscriber::registry().with(lines);
        tracing::subscriber::with_default(subscriber, || {
            let span = tracing::info_span!("turn", session = "dm:x");
            let _entered = span.enter();
            tracing::warn!(step = 3, secret = "hunter2-hunter2", "slow disk");
        });
        let text = std::fs::read_to_string(&path).unwrap();
        let line: Map<String, Value> = serde_json::from_str(&text).unwrap();
        assert_eq!(line["level"], "warn");
        assert_eq!(line["msg"], "slow disk");
        assert_eq!((&line["session"], &line["step"]), (&Value::from("dm:x"), &Value::from(3)));
        assert_eq!(line["secret"], "[redacted]");
        assert!(line["ts"].as_str().unwrap().ends_with('Z'));
    }
}

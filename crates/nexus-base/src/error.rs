//! Errors as people read them.

use std::error::Error;

/// Renders an error with its causes on one line, saying nothing twice.
pub fn chain(error: &dyn Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !line.contains(&text) {
            line.push_str(": ");
            line.push_str(&text);
        }
        cause = error.source();
    }
    // A path or a foreign message may carry line breaks; the promise is one line.
    line.replace(['\n', '\r'], " ")
}

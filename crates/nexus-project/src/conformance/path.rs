//! The paths fixtures use to point into a document: `$`, `.name`, `[n]`, `[-n]` and `.length`.

use std::borrow::Cow;

use serde_json::Value;

/// Returns what a path points at; `None` when nothing is there.
///
/// # Errors
/// The text is no path of this kind.
pub(super) fn get<'value>(document: &'value Value, path: &str) -> Result<Option<Cow<'value, Value>>, String> {
    let wrong = || format!("{path} is not a path this runner knows");
    let mut rest = path.strip_prefix('$').ok_or_else(wrong)?;
    let mut here = Some(document);
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[']).unwrap_or(after.len());
            let (name, next) = after.split_at(end);
            if name.is_empty() {
                return Err(wrong());
            }
            // A list has a length; an object may have a field of that name.
            if let (true, true, Some(Value::Array(list))) = (name == "length", next.is_empty(), here) {
                return Ok(Some(Cow::Owned(Value::from(list.len()))));
            }
            here = here.and_then(|value| value.get(name));
            rest = next;
        } else if let Some(after) = rest.strip_prefix('[') {
            let (inside, next) = after.split_once(']').ok_or_else(wrong)?;
            let number: i64 = inside.parse().map_err(|_| wrong())?;
            here = here.and_then(Value::as_array).and_then(|list| {
                let from_end = usize::try_from(number.unsigned_abs()).ok()?;
                let at = if number < 0 { list.len().checked_sub(from_end)? } else { from_end };
                list.get(at)
            });
            rest = next;
        } else {
            return Err(wrong());
        }
    }
    Ok(here.map(Cow::Borrowed))
}

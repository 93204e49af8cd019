//! Sessions through their door: admit, wait, read what was said and done.

mod abort;
mod queue_modes;
mod resume;
mod support;
mod workers;

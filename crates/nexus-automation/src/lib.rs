//! (empty room)

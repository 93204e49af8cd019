//! The path jail: the only way to open a file whose name came from outside.

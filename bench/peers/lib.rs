//! Empty. `Cargo.toml` explains the purpose of this package.

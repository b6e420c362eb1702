//! One test binary: every test that looks at Hooklatch from outside.

mod config;

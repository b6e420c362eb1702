//! The console as a browser sees it, without one: pages, forms and who may do what. `tests/browser/` has a real one.

mod measured;

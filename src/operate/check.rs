//! What is wrong with one server.

//! Keeps a tool within its rate: calls wait in line, as long as their time allows.

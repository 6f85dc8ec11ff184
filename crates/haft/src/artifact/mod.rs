//! Results that are kept aside: what is too large for the model, and can be read piece by piece.

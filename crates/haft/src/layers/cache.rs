//! Keeps successful results for a while: the same call is answered again without its body.

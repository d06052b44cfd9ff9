"""HTTP as this service speaks it, once for all features: it knows none of them."""

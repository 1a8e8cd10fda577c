"""What operators of a cluster look at: health and metrics."""

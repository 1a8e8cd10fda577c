"""What operators of a cluster look at: health, later metrics and events."""

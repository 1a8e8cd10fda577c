"""Stage 5: conditions, written through the status subresource."""

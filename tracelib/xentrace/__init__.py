"""xentrace."""

"""`top`: what the guests did in the last seconds, again and again."""

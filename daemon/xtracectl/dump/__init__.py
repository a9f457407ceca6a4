"""`dump`: records as lines or rows, in any of its formats, once or as they come."""

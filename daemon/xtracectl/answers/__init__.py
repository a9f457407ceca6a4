"""What `info`, `summary`, `diff` and `distribution` say, as values: computed here from a trace,
rendered in xtracectl.render."""

"""The release, for all parts of the product; pyproject.toml takes it from here."""

VERSION = "0.1.0"

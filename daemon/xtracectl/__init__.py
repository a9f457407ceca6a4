"""The command line: asks the service over its socket, and reads what it kept."""

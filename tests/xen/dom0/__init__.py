"""What runs in dom0: plain Python, only the standard library. A scenario is a module with
CHECKS: functions in the order of a story, each checked and reported for itself."""

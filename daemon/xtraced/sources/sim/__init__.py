"""The simulated hypervisor."""

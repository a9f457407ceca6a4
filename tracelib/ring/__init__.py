"""The per-CPU trace ring, by Xen's rules (xen/common/trace.c, xen/include/public/trace.h).

layout    where things lie: ring header, data, the t_info page; index arithmetic
fastpath  the consumer's inner loop, compiled: drain, scan
producer  the hypervisor's side, compiled: used by the simulated hypervisor and by tests
runstates who runs where, as the drained records tell it
"""

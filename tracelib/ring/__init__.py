"""The per-CPU trace ring, by Xen's rules (xen/common/trace.c, xen/include/public/trace.h).

layout    where things lie: ring header, data, the t_info page; index arithmetic
shared    access to memory that the other side writes at the same time
fastpath  the consumer's inner loop, compiled: drain, scan
results   what that loop returns
producer  the hypervisor's side, compiled: used by the simulated hypervisor and by tests
runstates who runs where, as the drained records tell it; runstate_words is its layout
"""

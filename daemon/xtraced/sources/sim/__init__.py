"""The simulated hypervisor: a process with Xen's trace rings, for machines without Xen.

options     what it is told to be; travels as a command line
abi         what it and its tools say to each other, for Python and for C
memory      a memfd: t_info and the rings
hypervisor  trace control and the event channel
engine      the guests, compiled; guests has their tables
workload    the guests at the pace of real time; replay has a file instead
server      the process: socket, ticks, end
truth       what it did, exactly
connection  a request and its reply, as seen by a consumer
client      the source that starts it or attaches to it
"""

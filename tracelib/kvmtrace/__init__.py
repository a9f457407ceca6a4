"""What kvmtrace wrote under Linux 2.6.26 to 2.6.30: a set of files, one a CPU.

    names       which files are a set
    layout      the three ways in which records lie in them, told apart by the records
    records     a CPU's records turned into ones of the shape that Xen's have
    member      one file: records as chunks, and what is wrong in it
    reader      a set as a tracelib.chunks.TraceReader
    verify      everything that is wrong in a set

A record is a head word, process, vCPU, perhaps a time, and up to five words
(struct kvm_trace_rec in include/linux/kvm.h; virt/kvm/kvm_trace.c writes it).
"""

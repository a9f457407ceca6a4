"""Xen's own trace buffers, through the three stable libraries; the only package that touches
them. They are loaded by soname from the ordinary library path, and they alone decide whether
this is Xen.

    libraries   which functions, with which types
    refusals    one error for each refusal: call, errno, what to do
    hypercalls  libxencall: sysctl and xen_version
    memory      libxenforeignmemory: t_info and the rings
    events      libxenevtchn: VIRQ_TBUF
    host        what dom0's kernel says of the machine, for the record only
    source      the `Source` made of these
"""

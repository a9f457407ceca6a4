"""`make test-xen`: the service in a real dom0, on a real Xen, emulated by QEMU.

    packages    what the machine needs, by apt
    image       Xen, kernel, root file system of dom0: built once, cached in .xen/
    project     this project, installed into a copy of that file system as a user would
    boot        QEMU: one boot, one scenario of dom0/, a hard end
    dom0/       what runs inside: scenarios of checks, plain Python without packages
    host        what is checked afterwards, on what the boots brought back
    report      PASS and FAIL

Needs root and a Debian with Xen packages; no KVM, and no network but apt's and pip's.
"""

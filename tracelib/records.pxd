# C twins of the constants in records.py, for the compiled modules: `from tracelib import
# records` in a .py plus `from tracelib cimport records` in its .pxd makes `records.X` an
# immediate in C and an attribute in Python. tests/unit/test_fastpath_twins.py compares them.

cdef extern from *:
    """
    #define XTR_EVENT_MASK    0x0FFFFFFFu
    #define XTR_EXTRA_SHIFT   28
    #define XTR_EXTRA_MASK    0x7u
    #define XTR_TSC_FLAG      0x80000000u
    #define XTR_CLASS_MASK    0x0FFF0000u
    #define XTR_LOST_RECORDS  0x0001F001u
    #define XTR_WRAP_BUFFER   0x0001F002u
    #define XTR_CPU_CHANGE    0x0001F003u
    """
    const unsigned int EVENT_MASK "XTR_EVENT_MASK"
    const unsigned int EXTRA_SHIFT "XTR_EXTRA_SHIFT"
    const unsigned int EXTRA_MASK "XTR_EXTRA_MASK"
    const unsigned int TSC_FLAG "XTR_TSC_FLAG"
    const unsigned int CLASS_MASK "XTR_CLASS_MASK"
    const unsigned int LOST_RECORDS "XTR_LOST_RECORDS"
    const unsigned int WRAP_BUFFER "XTR_WRAP_BUFFER"
    const unsigned int CPU_CHANGE "XTR_CPU_CHANGE"

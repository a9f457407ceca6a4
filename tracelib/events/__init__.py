"""What Xen's trace records mean: one table for every event, old forms included.

    layout      how a row of the table is written, and how it decodes a record
    gen sched schedulers mem hvm emul pv shadow hw      the rows, by trace class
    catalogue   all rows joined, and the look-ups
    classes     trace classes by name, and what a mask lets through
    filter      which events somebody asked for
    names exits values      what the numbers in the fields stand for

The facts are Xen's: xen/include/public/trace.h and the places that emit each record
(4.17 to 4.23), which differ from what xenalyze assumes in a number of records.
"""

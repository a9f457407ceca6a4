"""What the guests did, out of the records of all CPUs: one pass, bounded memory.

    engine      every record, in time order, to the part that it concerns
    states      who runs where, and each vCPU's runstates
    pairs       VM exits with their entries, handlers, hypercalls and other tallies
    tables histograms       counters, and spreads of durations, in bounded memory
    sieve       of a long table the rows that matter
    vcpus codes bits cells        what these share
    forms       what to do with which record, by the event catalogue
    analyze     a trace from its reader to the engine: chunks, losses, preambles, times
    moments     counters up to a moment, and from one to the next: intervals
    results     what comes out, as values
    exits runstates scheduling activity volume losslist    the sections of a summary
    overview    what stands out in them

The first five rooms are compiled where there is a compiler, with equal results.
"""

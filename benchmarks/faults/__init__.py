"""Random faults during small runs: what is lost, what keeps running, and does the command continue?

    python -m benchmarks.faults
    python -m benchmarks.faults --most 10                # so many more, then stop
    python -m benchmarks.faults --commands tune --kinds kill --faults 5

Each fault hits one of the commands generate, train, tune and `bundle import`, or a process that loads an
exported network. The kinds are SIGKILL, SIGTERM and SIGHUP at a random time, SIGKILL of a random child
process, little memory (RLIMIT_AS), a full disk and a read-only folder (a small tmpfs for root; otherwise
RLIMIT_FSIZE and permissions), and a damaged file. Then the same command runs without the fault, or the
command that the interruption told.

`lost` counts what was stored before and is missing after the second run, `left_running` processes that
outlive a faulted command, `tracebacks` outputs with one, and `not_continued` second runs that fail. `hung`
counts commands that did not end. `wrong_status` counts wrong exit statuses: 2 is an error with its message,
143 and 129 are SIGTERM and SIGHUP, and 0 is finished work. The seed decides on all faults. Rows are kept in
`outputs/benchmarks/faults`, so that a stopped run resumes. 100 faults take one to two hours on two cores.
"""

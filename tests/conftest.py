"""For every test: Ctrl-C reaches children, also where the whole run is a shell's background job."""

import signal

# A shell without job control starts `… &` with SIGINT ignored, and every child inherits that: the tests of Ctrl-C would
# then send a signal that no child can see.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

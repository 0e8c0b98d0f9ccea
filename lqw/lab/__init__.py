"""The noise-band lab: try another noise method on past releases, and see what it would have said and cost.

For analysts, in ``notebooks/sandbox/noise_band_lab.ipynb`` (``lqw lab``). It never gates (:mod:`lqw.lab.guard`).
Importing this package needs the extra ``[lab]``; its pure parts (``compare``, ``curves``, ``history``) do not.
"""

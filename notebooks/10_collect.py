# %% [markdown]
# # Collect: what is measured, and what ran
#
# Two engines serve the same bytes of the same model on the same machine: the **subject**, the release under test, and
# the **comparator**, llama.cpp. A *pair* is one fresh start of each, one after the other, in an order drawn from a
# recorded seed. The pair is the unit of evidence: requests inside one start are not independent of each other.

# %% tags=["parameters"]
params_file = None  # release YAML; needed only where this notebook starts the run itself
run_dir = None  # folder of the run: journal, artefacts, executed notebooks
purpose = None  # "gate" or "adopt"
host = None  # one of the hosts of the release
store = None  # where receipts, baseline and reference lie

# %% [markdown]
# The parameters are checked before anything is started. An unknown, missing or ill-typed one ends here.

# %%
from lqw.pipeline import steps

run = steps.begin("10_collect", params_file=params_file, run_dir=run_dir, purpose=purpose, host=host, store=store)
run

# %% [markdown]
# ## The plan
#
# Every row below must be accounted for at the end: measured, failed for a named reason, or void. A row is never absent,
# and a run in which nothing was measured never passes.

# %%
steps.show_plan(run)

# %% [markdown]
# ## The measurement
#
# Each start is appended to the journal and synced to disk before the next begins, so a killed run loses at most the
# start that was running. After 3, 5 and 7 pairs the judge is asked which models still need pairs; only those are
# measured further. A floor is measured with all its pairs at once.

# %%
collected = steps.collect(run)

# %% [markdown]
# ## The artefact
#
# `collect.json` carries the hash of the journal it speaks of; the next stage refuses a journal that has changed.

# %%
steps.write_collected(run, collected)

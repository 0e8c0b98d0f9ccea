# %% [markdown]
# # Verdict: may this release be tagged?
#
# Everything is judged again from the raw samples; the artefacts of the earlier stages must follow from them. A row is
# **RED** when it lies below its floor by more than the band; it **passes** when a loss as large as the declared margin
# can be excluded; otherwise it is open, and more pairs are measured. No row is set off against another.

# %% tags=["parameters"]
params_file = None  # release YAML; needed only where this notebook starts the run itself
run_dir = None  # folder of the run: journal, artefacts, executed notebooks
purpose = None  # "gate" or "adopt"
host = None  # one of the hosts of the release
store = None  # where receipts, baseline and reference lie

# %%
from lqw.pipeline import steps

run = steps.begin("40_verdict", params_file=params_file, run_dir=run_dir, purpose=purpose, host=host, store=store)
run

# %% [markdown]
# ## Row by row

# %%
judgement = steps.judge_run(run)
steps.show_rows(run, judgement)

# %% [markdown]
# Each row against its floor, with the band of chance. Left of the band is a loss that chance does not explain.

# %%
steps.show_forest(run, judgement)

# %% [markdown]
# ## The receipt
#
# It holds every raw sample, so that anybody can judge this run again without a GPU: `lqw verify receipt.json`. It is
# written before the verdict is spoken, because a bad measurement is a measurement.

# %%
steps.write_receipt(run)

# %% [markdown]
# ## The verdict
#
# A run that did not pass ends here in an error, so that whatever executed this notebook fails too.

# %%
steps.conclude(judgement)

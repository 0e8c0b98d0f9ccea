# %% [markdown]
# # Noise band: how much of a difference is chance?
#
# For each pair the log ratio of subject and comparator is taken, oriented so that larger is better. Its scatter within
# sessions is pooled with earlier sessions of the same epoch and shrunk towards that of its family (rates, latencies,
# memory), so that few pairs are enough to know it. The **band** is what a row may lie below its floor by chance alone,
# at a false-alarm rate of at most 1 % per release over all rows together.

# %% tags=["parameters"]
params_file = None  # release YAML; needed only where this notebook starts the run itself
run_dir = None  # folder of the run: journal, artefacts, executed notebooks
purpose = None  # "gate" or "adopt"
host = None  # one of the hosts of the release
store = None  # where receipts, baseline and reference lie

# %%
from lqw.pipeline import steps

run = steps.begin("30_noise_band", params_file=params_file, run_dir=run_dir, purpose=purpose, host=host, store=store)
run

# %% [markdown]
# ## The floor
#
# Floors belong to an *epoch*: host class, comparator, model bytes, protocol. If any of them changed, there is no floor,
# and the reason is named.

# %%
samples = steps.load_samples(run)
standing = steps.load_standing(run, samples)
steps.show_standing(run, standing)

# %% [markdown]
# ## The noise
#
# Scatter of one pair, its degrees of freedom after shrinkage, and the band that follows for this many pairs.

# %%
bands = steps.noise_bands(run, samples, standing)
steps.show_bands(run, bands)

# %% [markdown]
# The paired values in the order they were measured. A trend here is drift of the machine, two clusters are two states
# of it; neither is averaged away.

# %%
steps.show_strips(run, bands)

# %%
steps.write_bands(run, bands, standing)

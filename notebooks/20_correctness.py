# %% [markdown]
# # Correctness: same tokens before any speed
#
# Speed of wrong answers is the easiest speed. At temperature 0 the subject must agree with itself, and then, token by
# token, with the release whose floor it is measured against. A model whose tokens differ has **void** speed rows: the
# numbers are kept and shown, but they decide nothing, and they block.

# %% tags=["parameters"]
params_file = None  # release YAML; needed only where this notebook starts the run itself
run_dir = None  # folder of the run: journal, artefacts, executed notebooks
purpose = None  # "gate" or "adopt"
host = None  # one of the hosts of the release
store = None  # where receipts, baseline and reference lie

# %%
from lqw.pipeline import steps

run = steps.begin("20_correctness", params_file=params_file, run_dir=run_dir, purpose=purpose, host=host, store=store)
run

# %% [markdown]
# ## What ran
#
# The journal, after checking that it is the one the previous stage left. Both sides are shown as they were read back
# from the running processes, not as they were asked for.

# %%
samples = steps.load_samples(run)
steps.show_engines(run, samples)

# %%
steps.show_starts(run, samples)

# %% [markdown]
# ## Are the answers right?
#
# Fixed prompts, each asked more than once. First self-identity, then the detectors of garbage (constant runs, cycles,
# empty or truncated answers), then the reference of this host, and last the texts of the timed requests themselves,
# which must agree between starts.

# %%
reference = steps.load_reference(run)
tokens = steps.judge_tokens(run, samples, reference)
steps.show_tokens(run, tokens)

# %%
steps.write_tokens(run, tokens)

# %% [markdown]
# # Noise-band lab
#
# What would another noise method, level, margin or number of looks have said of past releases, and what would it cost
# in false alarms, in missed losses and in minutes? Every change of a control answers at once.
#
# **The lab never gates.** Each past release is judged against the floors it had *then*, by its rows alone: guards, voids
# and the suite test are the gate's and not shown here. Open it with `lqw lab RECEIPT…`, or `lqw lab receipts/HOST` for
# all of a host; without receipts it shows a synthetic history, made from a seed and marked as such.

# %%
from lqw.lab.panel import open_lab

lab = open_lab()
lab

# %% [markdown]
# ## Write a method
#
# A method takes the rows as arrays and says RED, passed or neither of each: `batch.d` holds the oriented log ratios of
# the pairs (larger is better), `batch.floor` what they are compared with, `policy` the numbers of the controls. The
# quickest way is to take `gate-v1`'s noise and decide otherwise. Ten lines are enough:

# %%
from dataclasses import replace

from lqw.noise.methods import gate_v1


def two_errors(batch, policy, look, m):
    """RED below two standard errors, passed otherwise: one look, no error spending."""
    noise = gate_v1.decide(batch, policy, look=look, m=m)
    limit = -2.0 * noise.se_floor
    red = noise.estimate - batch.floor < limit
    never = red & False
    passed = ~red & (batch.n_floor > 0)
    return replace(noise, threshold=limit, red_floor=red, red_last=never, passed=passed)


lab.try_method("two-errors", two_errors)

# %% [markdown]
# It is method B above now: look at the flips and at the false RED. If it is worth keeping, one call writes it into the
# registry (`lqw/noise/methods/`) with its test. Without `checkout` the files are only shown; with the root of a checkout
# they are written, and `make test` runs the new test. The gate goes on with its own method.

# %%
from lqw.lab.save import save_method

print(save_method("two-errors", two_errors, checkout=None))

"""A run's place, and one engine start with its timed requests, without the run around it."""

import time
from dataclasses import replace

from lqw.collect.arms import Site, timed_start
from lqw.collect.preflight import corpus_text
from lqw.collect.prompts import PromptStore
from lqw.engines.models import resolve_models
from lqw.outcomes import Arm
from lqw.plan import StartKey


def site_of(params, run_dir, run_id):
    """Return the place of a run that has just begun, on a host without a GPU."""
    return Site(
        params=params,
        run_dir=run_dir,
        run_id=run_id,
        models=resolve_models(params, run_dir),
        prompts=PromptStore(run_dir / "prompts.json"),
        corpus=corpus_text(params),
        base_ns=time.perf_counter_ns(),
        gpu=None,
        progress=lambda _: None,
    )


def one_start(params, run_dir, *, arm=Arm.SUBJECT, gpu=None, pair=1, repeats=None):
    """Start one arm of the only model as a run does, and return its record."""
    run_dir.mkdir(exist_ok=True)
    site = replace(site_of(params, run_dir, "one-start"), gpu=gpu)
    return timed_start(site, StartKey(params.release.models[0].name, pair, arm, 0), 1, {}, repeats=repeats)

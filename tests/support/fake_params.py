"""A params folder for the fake engine: small rows, fast starts, the real prompts."""

import shutil
from pathlib import Path

import yaml

from lqw.canonical import sha256_file
from lqw.collect import ThirdArm

REPOSITORY = Path(__file__).parents[2]
ENVIRONMENT = {"LQW_ENGINE_MODULES": "lqw.testing.fake_adapter"}
NO_THIRD = ThirdArm({}, claim=print, voids=dict, find=print)
"""No old build is named on this host."""
SPEED = {"prefill_tok_s": 4000.0, "decode_tok_s": 400.0}

MODELS = {"tiny": "model.gguf"}


def write_params(
    root,
    *,
    releases,
    looks=(3, 5),
    floor_pairs=6,
    margin=0.6,
    rows=("ttft@512", "prefill@512", "decode"),
    streams=1,
    models=MODELS,
):
    """Write ``root/params``; *releases* maps a version to the subject's settings. Return the folder of release files.

    With *streams*, every start also serves that many at once, and the identity stage asks at that shape too. *models*
    maps a name to its file.
    """
    params = root / "params"
    for name in ("hosts", "protocols", "prompts", "fake"):
        (params / name).mkdir(parents=True)
    for name in ("corpus.txt", "identity.yaml"):
        shutil.copyfile(REPOSITORY / "params" / "prompts" / name, params / "prompts" / name)
    for number, file in enumerate(models.values()):
        (params / "fake" / file).write_bytes(b"GGUF" + bytes(60 + number))
    _dump(params / "targets.yaml", {"schema": "lqw-targets/1", "targets": {"prefill": 0.8}})
    _dump(
        params / "hosts" / "fake.yaml",
        {
            "schema": "lqw-host/1",
            "name": "fake",
            "compute": "cpu",
            "margin": {
                "letter": "D",
                "fraction": margin,
                "reason": "a fake engine on a machine shared with a test run",
            },
            "one_token_detector": "report",
            "receipts": "receipts",
        },
    )
    steps = [
        {"kind": "cold", "prompt_tokens": 512, "repeats": 3, "warmups": 0},
        {"kind": "decode", "prompt_tokens": 32, "output_tokens": 32, "repeats": 1, "warmups": 0},
    ]
    if streams > 1:
        steps.append(
            {"kind": "agg", "prompt_tokens": 16, "output_tokens": 32, "streams": streams, "repeats": 1, "warmups": 0}
        )
    _dump(
        params / "protocols" / "fake.yaml",
        {
            "schema": "lqw-protocol/1",
            "name": "fake",
            "rows": list(rows),
            "launches": [{"slots": streams, "steps": steps}],
            "looks": list(looks),
            "floor_pairs": floor_pairs,
            "identity": {"prompts": "identity.yaml", "output_tokens": 8, "repeats": 2},
            "start_timeout_s": 10.0,
            "request_timeout_s": 10.0,
            "total_deadline_s": 120.0,
        },
    )
    for number, (release, settings) in enumerate(releases.items()):
        _dump(
            params / "fake" / f"{release}.yaml",
            {
                "schema": "lqw-release/1",
                "release": release,
                "hosts": ["fake"],
                "protocol": "fake",
                "seed": number,
                "subject": {"engine": "fake", "settings": {**SPEED, **settings}},
                "comparator": {"engine": "fake", "settings": SPEED},
                "models": [
                    {"name": name, "gguf": file, "sha256": sha256_file(params / "fake" / file)}
                    for name, file in models.items()
                ],
            },
        )
    return params / "fake"


def _dump(path, value):
    path.write_text(yaml.safe_dump(value, sort_keys=False))

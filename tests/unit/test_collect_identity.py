"""Which starts the untimed answers come from: shapes that one launch times share one, with that launch's slots."""

from types import SimpleNamespace

import pytest

from lqw.collect import identity
from lqw.collect.prompts import PromptSet
from lqw.outcomes import Arm
from lqw.params import LaunchSpec
from lqw.samples import Answer

COLD = {"kind": "cold", "prompt_tokens": 64, "repeats": 1}
CACHED = {"kind": "cached", "prompt_tokens": 700, "suffix_tokens": 64, "repeats": 1}
PROMPTS = PromptSet(
    {
        ("cold@64", "timed", 0, 0): (1,),
        ("cached@700", "prime", 0, 0): (2,),
        ("cached@700", "timed", 0, 0): (2, 3),
        **{(f"agg@{c}", "timed", 0, stream): (4, stream) for c in (2, 4) for stream in range(c)},
    }
)


def agg(streams):
    return {"kind": "agg", "prompt_tokens": 16, "output_tokens": 16, "streams": streams, "repeats": 1}


class Running:
    engine = SimpleNamespace(takes="text")
    facts = None

    def __init__(self):
        self.asked = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def answer(self, prompt, n_predict, *, name, shape="single", cache=False, slot=None, **more):
        del prompt, n_predict
        self.asked.append((shape, name, cache, slot))
        return Answer(prompt=name, shape=shape, repeat=more.get("repeat", 0), text="w", ids=[5])

    def moved_off(self):
        return None

    def stop(self):
        return None


def site(launches, tmp_path):
    made = [LaunchSpec(slots=slots, steps=steps) for slots, steps in launches]
    protocol = SimpleNamespace(
        launches=made,
        steps=[step for launch in made for step in launch.steps],
        identity=SimpleNamespace(at_shapes=["code"], output_tokens=16, repeats=2),
        request_timeout_s=9.0,
        start_timeout_s=9.0,
    )
    return SimpleNamespace(
        params=SimpleNamespace(
            protocol=protocol, prompts={"code": "def", "prose": "sea"}, host=SimpleNamespace(compute="cpu")
        ),
        gpu=None,
        run_id="r",
        models={"m": tmp_path / "m.gguf"},
        prompts={"m": PROMPTS},
        spec=lambda _arm: None,
        engine=lambda _arm: SimpleNamespace(takes="ids"),
        log_path=lambda name: tmp_path / name.replace("/", "_"),
        prompts_for=lambda _model, _running: PROMPTS,
    )


@pytest.mark.parametrize(
    ("launches", "starts"),
    [
        ([(4, [CACHED, COLD, agg(4)])], [(4, 829, ["single", "cached", "agg@4"])]),
        (
            [(4, [agg(4), agg(2)]), (1, [COLD, CACHED])],
            [(1, 829, ["single", "cached"]), (4, 528, ["agg@2", "agg@4"])],
        ),
        ([(4, [CACHED, agg(1)]), (1, [COLD])], [(1, 528, ["single"]), (4, 829, ["cached"])]),
        ([(2, [agg(2)])], [(1, 528, ["single"]), (2, 528, ["agg@2"])]),
    ],
)
def test_shapes_of_one_launch_share_a_start_as_wide_as_it(monkeypatch, tmp_path, launches, starts):
    begun = []

    def start_engine(_engine, request):
        begun.append((request, Running()))
        return begun[-1][1]

    monkeypatch.setattr(identity, "start_engine", start_engine)
    record = identity.identity_start(site(launches, tmp_path), "m", 1)
    assert record.failure is None
    assert all(request.arm is Arm.SUBJECT for request, _ in begun)
    assert [
        (request.slots, request.context_tokens_per_slot, list(dict.fromkeys(shape for shape, *_ in running.asked)))
        for request, running in begun
    ] == starts
    assert [request.log_path.name for request, _ in begun] == [f"m_identity_{'_'.join(s)}" for *_, s in starts]
    asked = [one for _, running in begun for one in running.asked]
    assert all((shape == "cached") == cache == (slot == 0) for shape, _, cache, slot in asked)  # the primed slot
    assert {(answer.shape, answer.prompt) for answer in record.answers} >= {("single", "code"), ("single", "prose")}

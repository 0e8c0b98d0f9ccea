"""Bad parameters are refused by file, field, value and remedy, before anything starts."""

import shutil
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from lqw.errors import Exit, ParamsError
from lqw.params import load_params
from lqw.params.earlier import load_earlier
from lqw.params.hosts import HostEngineSpec, HostSpec
from lqw.params.specs import EngineSpec

ROOT = Path(__file__).parents[2]


@pytest.fixture
def params_root(tmp_path):
    shutil.copytree(ROOT / "params", tmp_path / "params")
    return tmp_path / "params"


def _edit(path, change):
    raw = yaml.safe_load(path.read_text())
    change(raw)
    path.write_text(yaml.safe_dump(raw, sort_keys=False))


def _set(*where_and_value):
    *where, value = where_and_value

    def change(raw):
        for key in where[:-1]:
            raw = raw[key]
        if value is KeyError:
            del raw[where[-1]]
        else:
            raw[where[-1]] = value

    return change


RELEASE, PROTOCOL, HOST, TARGETS = "demo/1.1.0.yaml", "protocols/demo.yaml", "hosts/demo.yaml", "targets.yaml"


@pytest.mark.parametrize("file", sorted(p.name for p in (ROOT / "params/demo").glob("*.yaml")))
def test_committed_releases_load(file):
    params = load_params(ROOT / "params/demo" / file)
    assert params.release.release
    assert set(params.files) >= {f"demo/{file}", HOST, PROTOCOL, TARGETS}


@pytest.mark.parametrize(
    ("file", "change", "field"),
    [
        (RELEASE, _set("release", KeyError), "release"),
        (RELEASE, _set("relese", "1.1.0"), "relese"),
        (RELEASE, _set("release", 1.1), "release"),
        (RELEASE, _set("seed", "7"), "seed"),
        (RELEASE, _set("seed", True), "seed"),
        (RELEASE, _set("seed", float("nan")), "seed"),
        (RELEASE, _set("models", []), "models"),
        (RELEASE, _set("hosts", []), "hosts"),
        (RELEASE, _set("hosts", ["no-such-host"]), "(file)"),
        (RELEASE, _set("protocol", "../../etc"), "protocol"),
        (RELEASE, _set("models", 0, "sha256", "abc"), "models.0.sha256"),
        (RELEASE, _set("models", 0, "sha256", "0" * 64), "models.0.sha256"),
        (RELEASE, _set("subject", "settings", "ubatch", float("inf")), "subject.settings.ubatch"),
        (PROTOCOL, _set("floor_pairs", 0), "floor_pairs"),
        (PROTOCOL, _set("looks", [0]), "looks"),
        (PROTOCOL, _set("looks", [3, 3]), "looks"),
        (PROTOCOL, _set("looks", []), "looks"),
        (PROTOCOL, _set("rows", []), "rows"),
        (PROTOCOL, _set("rows", ["ttft@777"]), "(document)"),
        (PROTOCOL, _set("rows", ["tftt@512"]), "(document)"),
        (PROTOCOL, _set("rows", ["decode", "decode"]), "(document)"),
        (PROTOCOL, _set("launches", []), "launches"),
        (HOST, _set("margin", {"letter": "D", "fraction": 0.4}), "margin"),
        (HOST, _set("margin", "fraction", 1.5), "margin.fraction"),
        *(
            (HOST, _set("receipts", path), "receipts")
            for path in ("../x", "/tmp/x", "a/../../x", ".", "", "a\0", ".Git/x", "C:\\x")
        ),
        (HOST, _set("reports", "/var/www"), "reports"),
        (TARGETS, _set("targets", "prefill", -1.0), "targets"),
        (TARGETS, _set("targets", "speed", 1.0), "targets"),
    ],
)
def test_refused_with_file_field_and_remedy(params_root, file, change, field):
    _edit(params_root / file, change)
    with pytest.raises(ParamsError) as caught:
        load_params(params_root / RELEASE)
    assert caught.value.field == field
    assert caught.value.remedy
    assert caught.value.exit_status == Exit.USAGE
    assert ".yaml" in str(caught.value)


@pytest.mark.parametrize(
    ("content", "field"),
    [
        (b"release: [", "(yaml)"),
        (b"- a\n- b\n", "(document)"),
        (b"", "(document)"),
        (b"\xff\xfe", "(file)"),
        (b"x: [" + b"a, " * 200_000 + b"a]", "(file)"),
        (b"release: 1\nrelease: 2\n", "(yaml)"),
        (b"? [a, b]\n: c\n", "(yaml)"),
    ],
)
def test_a_file_that_is_no_release(params_root, content, field):
    (params_root / RELEASE).write_bytes(content)
    with pytest.raises(ParamsError) as caught:
        load_params(params_root / RELEASE)
    assert caught.value.field == field


def test_a_file_that_is_not_there(params_root):
    with pytest.raises(ParamsError, match="no such file"):
        load_params(params_root / "demo/9.9.9.yaml")


def test_a_release_outside_a_params_folder(tmp_path):
    (tmp_path / "r.yaml").write_text("a: 1")
    with pytest.raises(ParamsError, match="hosts/ and protocols/"):
        load_params(tmp_path / "r.yaml")


def test_a_release_of_several_hosts_wants_one_named(params_root):
    _edit(params_root / RELEASE, _set("hosts", ["demo", "other"]))
    with pytest.raises(ParamsError, match=r"--host demo\|other"):
        load_params(params_root / RELEASE)
    assert load_params(params_root / RELEASE, host="demo").host.name == "demo"


def test_resolved_form_names_no_folder_of_this_machine():
    params = load_params(ROOT / "params" / RELEASE)
    assert str(ROOT) not in str(params.resolved())


_BOMB = "".join(f"{new}: &{new} [{','.join([f'*{old}'] * 9)}]\n" for old, new in pairwise("abcdefghi"))
_NAMES = "schema: lqw-earlier/1\nreleases: {1.0.0: {engine: fake, settings: *i}}\n"


ENGINED = HostSpec.model_validate(
    {
        "schema": "lqw-host/1",
        "name": "h",
        "compute": "cpu",
        "engines": {"apr": {"binary": "/opt/apr", "settings": {"threads": 4, "ubatch": 8}}},
    }
)


def test_an_old_build_has_the_settings_of_its_host_and_a_sha256_whatever_engine_it_is(tmp_path):
    for name in ("hosts", "protocols", "earlier"):
        (tmp_path / name).mkdir()
    spec = {"engine": "apr", "sha256": "ab" * 32, "settings": {"ubatch": 2}}
    place = tmp_path / "earlier/h.yaml"
    place.write_text(yaml.safe_dump({"schema": "lqw-earlier/1", "releases": {"1.0.0": spec}}))
    old = load_earlier(tmp_path / "x.yaml", ENGINED)["1.0.0"]
    assert (old.binary, old.settings) == ("/opt/apr", {"threads": 4, "ubatch": 2})
    place.write_text(yaml.safe_dump({"schema": "lqw-earlier/1", "releases": {"1.0.0": {"engine": "embedded"}}}))
    with pytest.raises(ParamsError, match="an old build needs its sha256"):
        load_earlier(tmp_path / "x.yaml", ENGINED)


@pytest.mark.parametrize(("model", "field"), [(EngineSpec, "binary"), (HostEngineSpec, "binary"), (HostSpec, "lock")])
def test_a_path_with_a_nul_is_refused_by_its_field(model, field):
    whole = {
        EngineSpec: {"engine": "apr"},
        HostEngineSpec: {},
        HostSpec: {"schema": "lqw-host/1", "name": "h", "compute": "cpu"},
    }
    assert getattr(model.model_validate({**whole[model], field: "/opt/a b"}), field) == "/opt/a b"
    with pytest.raises(ValidationError, match="a path holds no NUL character") as caught:
        model.model_validate({**whole[model], field: "/opt/a\0b"})
    assert caught.value.errors()[0]["loc"] == (field,)


@pytest.mark.parametrize(
    ("made", "problem"),
    [
        (lambda path: path.mkdir(), "Is a directory"),
        (lambda path: path.symlink_to("/nowhere"), "No such file"),
        (lambda path: path.symlink_to("/dev/zero"), "not a regular file"),
        (lambda path: path.touch(), "not a mapping"),
        (lambda path: path.write_text("a: &a [x]\n" + _BOMB + _NAMES), "valid dictionary"),
    ],
)
def test_a_file_of_old_builds_that_is_none_is_refused_and_not_taken_for_absent(tmp_path, made, problem):
    for name in ("hosts", "protocols", "earlier"):
        (tmp_path / name).mkdir()
    assert load_earlier(tmp_path / "x.yaml", ENGINED) == {}
    made(tmp_path / "earlier/h.yaml")
    with pytest.raises(ParamsError, match=problem) as caught:
        load_earlier(tmp_path / "x.yaml", ENGINED)
    assert "h.yaml" in str(caught.value)
    assert len(str(caught.value)) < 1_000

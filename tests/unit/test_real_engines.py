"""``make engines``: the programs lie where the release files look for them, also where a variable names them elsewhere."""

import pytest

from lqw.testing import real_engines


@pytest.fixture
def named(tmp_path, monkeypatch):
    """Two programs named by their variables, and a model that is there already."""
    folder, elsewhere = tmp_path / "runs" / "engines", tmp_path / "built"
    for place in (folder, elsewhere):
        place.mkdir(parents=True)
    (folder / real_engines.MODEL).write_bytes(b"GGUF")
    for name, variable in (("apr", "LQW_APR"), ("llama-server", "LQW_LLAMA_SERVER")):
        (elsewhere / name).write_text(name)
        monkeypatch.setenv(variable, str(elsewhere / name))
    return folder, elsewhere


def test_a_program_named_elsewhere_is_linked_to_where_release_files_look(named):
    folder, elsewhere = named
    (folder / "apr").write_text("of an earlier time")
    apr, llama, model = real_engines.provide(folder)
    assert (apr, llama) == (folder / "apr", folder / "llama-server")
    assert [one.read_text() for one in (apr, llama)] == ["apr", "llama-server"]
    assert apr.resolve() == (elsewhere / "apr").resolve()
    assert real_engines.provide(folder) == [apr, llama, model]  # again, without harm


def test_a_named_program_that_is_not_there_is_said_by_its_own_path(named, monkeypatch):
    folder, elsewhere = named
    monkeypatch.setenv("LQW_APR", str(elsewhere / "absent"))
    assert real_engines.provide(folder)[0] == elsewhere / "absent"


def test_a_program_named_by_another_spelling_of_its_own_place_is_left_there(named, monkeypatch, tmp_path):
    folder, _ = named
    (folder / "apr").write_text("the only one")
    monkeypatch.setenv("LQW_APR", str(folder / ".." / "engines" / "apr"))
    monkeypatch.chdir(tmp_path)
    assert real_engines.provide(folder.relative_to(tmp_path))[0].read_text() == "the only one"
    assert not (folder / "apr").is_symlink()

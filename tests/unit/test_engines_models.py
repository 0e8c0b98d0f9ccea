"""Model files and hashes of what runs."""

import _ctypes
import hashlib
import shutil
import subprocess
import sys
import types

import pytest

from lqw.engines.binaries import executable_sha256, file_sha256, mapped_sha256
from lqw.engines.control import ControlError
from lqw.engines.models import resolve_model
from lqw.errors import ParamsError
from lqw.outcomes import Reason
from lqw.params import ModelSpec

BYTES = b"GGUF" + b"weights" * 100
SHA256 = hashlib.sha256(BYTES).hexdigest()


def resolve(tmp_path, gguf, sha256=SHA256):
    model = ModelSpec(name="m", gguf=gguf, sha256=sha256)
    return resolve_model(model, base_folder=tmp_path, cache_folder=tmp_path / "cache", file="1.1.0.yaml")


def test_a_path_is_relative_to_the_params_file(tmp_path):
    (tmp_path / "m.gguf").write_bytes(BYTES)
    assert resolve(tmp_path, "m.gguf") == tmp_path / "m.gguf"
    assert resolve(tmp_path, str(tmp_path / "m.gguf")) == tmp_path / "m.gguf"


@pytest.mark.parametrize(
    ("content", "sha256", "field", "problem"),
    [
        (None, SHA256, "models.m.gguf", "no such file"),
        (b"", SHA256, "models.m.gguf", "not a GGUF file"),
        (b"PK\3\4zip", SHA256, "models.m.gguf", "not a GGUF file"),
        (BYTES + b"x", SHA256, "models.m.sha256", "the file's sha256 is "),
        (BYTES, "unpinned", "models.m.sha256", f"nobody has pinned this model's bytes; the file here has {SHA256}"),
        (None, "unpinned", "models.m.sha256", "nobody has pinned .* there is no m.gguf here"),
    ],
)
def test_a_file_that_is_not_the_model_is_refused(tmp_path, content, sha256, field, problem):
    if content is not None:
        (tmp_path / "m.gguf").write_bytes(content)
    with pytest.raises(ParamsError, match=problem) as caught:
        resolve(tmp_path, "m.gguf", sha256)
    assert (caught.value.file, caught.value.field) == ("1.1.0.yaml", field)
    assert caught.value.remedy


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(ParamsError, match="no such file"):
        resolve(tmp_path, ".")


@pytest.fixture
def wheel(monkeypatch):
    """An installed package that assembles a model."""
    module = types.ModuleType("tiny_model_gguf")
    module.__spec__ = types.SimpleNamespace()
    module.calls = []

    def assemble(path, *, overwrite):
        module.calls.append(path)
        path.write_bytes(module.content)

    module.assemble, module.content = assemble, BYTES
    monkeypatch.setitem(sys.modules, "tiny_model_gguf", module)
    return module


@pytest.mark.parametrize("name", ["tiny-model-gguf", "tiny_model_gguf"])
def test_a_package_is_assembled_once(tmp_path, wheel, name):
    path = resolve(tmp_path, f"package:{name}")
    assert path.read_bytes() == BYTES
    assert resolve(tmp_path, f"package:{name}") == path
    assert len(wheel.calls) == 1
    assert [each.name for each in path.parent.iterdir()] == [path.name], "nothing half done beside it"


def test_a_damaged_copy_in_the_cache_is_made_again(tmp_path, wheel):
    path = resolve(tmp_path, "package:tiny_model_gguf")
    path.write_bytes(BYTES[:-1])
    assert resolve(tmp_path, "package:tiny_model_gguf").read_bytes() == BYTES


def test_a_package_with_other_bytes_is_refused(tmp_path, wheel):
    wheel.content = BYTES + b"!"
    with pytest.raises(ParamsError, match="sha256 is"):
        resolve(tmp_path, "package:tiny_model_gguf")


def test_a_package_that_fails_leaves_nothing(tmp_path, wheel):
    def assemble(path, *, overwrite):
        path.write_bytes(b"half")
        raise ValueError("did not match")

    wheel.assemble = assemble
    with pytest.raises(ParamsError, match="do not fit together"):
        resolve(tmp_path, "package:tiny_model_gguf")
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_cache_that_cannot_be_written_is_refused(tmp_path, wheel):
    (tmp_path / "cache").write_text("a file where a folder should be")
    with pytest.raises(ParamsError, match="cannot write the model"):
        resolve(tmp_path, "package:tiny_model_gguf")


@pytest.mark.parametrize("name", ["no-such-wheel", "a.b", "../x"])
def test_a_package_that_is_not_installed_is_refused(tmp_path, name):
    with pytest.raises(ParamsError, match="not installed") as caught:
        resolve(tmp_path, f"package:{name}")
    assert ".[demo]" in caught.value.remedy


def test_a_hash_is_read_again_when_the_file_changed(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"one")
    first = file_sha256(path)
    assert file_sha256(path) == first == hashlib.sha256(b"one").hexdigest()
    path.write_bytes(b"two")
    assert file_sha256(path) == hashlib.sha256(b"two").hexdigest()


def test_the_running_executable_is_hashed_even_after_it_was_replaced(tmp_path):
    program = tmp_path / "program"
    shutil.copy(shutil.which("sleep"), program)
    expected = hashlib.sha256(program.read_bytes()).hexdigest()
    process = subprocess.Popen([str(program), "60"])
    try:
        program.unlink()
        program.write_bytes(b"a new build")
        assert executable_sha256(process.pid) == expected
    finally:
        process.kill()
        process.wait()


def test_a_mapped_library_is_hashed_unless_it_was_replaced(tmp_path):

    library = tmp_path / "_ctypes_copy.so"
    shutil.copy(_ctypes.__file__, library)
    code = "import sys, ctypes; ctypes.CDLL(sys.argv[1]); print('up', flush=True); sys.stdin.read()"
    process = subprocess.Popen(
        [sys.executable, "-I", "-c", code, str(library)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        process.stdout.readline()
        assert mapped_sha256(process.pid, "_ctypes_copy.") == hashlib.sha256(library.read_bytes()).hexdigest()
        with pytest.raises(ControlError, match="has mapped no xllamacpp") as caught:
            mapped_sha256(process.pid, "xllamacpp.")
        assert caught.value.failure.reason is Reason.WRONG_PROCESS
        library.unlink()
        library.write_bytes(b"reinstalled")
        with pytest.raises(ControlError, match="no longer what pid"):
            mapped_sha256(process.pid, "_ctypes_copy.")
    finally:
        process.communicate(timeout=5)


def test_a_process_that_is_gone_cannot_be_hashed():
    for ask in (executable_sha256, lambda pid: mapped_sha256(pid, "x")):
        with pytest.raises(ControlError) as caught:
            ask(2**22 + 1)
        assert caught.value.failure.reason is Reason.WRONG_PROCESS

"""A scratch git repository with code, parameters, receipts and real tags, made through the real store."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import yaml

from lqw.canonical import canonical_bytes, write_atomic
from lqw.correctness import IdentityTask, reference_from, reference_to_json
from lqw.outcomes import Purpose
from lqw.params import load_params
from lqw.parity.files import read_receipt
from lqw.receipt.parity import read_documents
from lqw.receipt.store import Store
from lqw.testing.batches import with_batch
from lqw.testing.params import name_sha256
from lqw.testing.receipts import receipt_of, stored
from lqw.testing.synthetic import synthetic_run

REPOSITORY = Path(__file__).parents[2]
PARITY = REPOSITORY / "tests" / "fixtures" / "parity"
MODEL, GGUF = "qwen3.5-9b", "e5579172a569782858bedbd8b015cd00ce3a8b92a8071dbb2fc8b77f86844fc1"
UNSIGNED = {"schema": "lqw-signing/1", "unsigned_allowed": {"lambda": "numbers made for a test, on no machine at all"}}
IDENTITY = {"GIT_AUTHOR_NAME": "Ada", "GIT_AUTHOR_EMAIL": "ada@example.com"}
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
    **IDENTITY,
    **{name.replace("AUTHOR", "COMMITTER"): value for name, value in IDENTITY.items()},
    "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1",
}  # fmt: skip


class Scratch:
    """A work tree. Everything that is measured is of one host, ``lambda``."""

    def __init__(self, root, hosts=("lambda",), more_models=0):
        self.root, self.hosts, self.seed = Path(root), list(hosts), 5
        others = [{"name": f"m{at}", "gguf": "m.gguf", "sha256": name_sha256("gguf", at)} for at in range(more_models)]
        self.models = [{"name": MODEL, "gguf": "m.gguf", "sha256": GGUF}, *others]

    def git(self, *arguments, check=True, **options):
        """Run git here; return what it printed."""
        ran = subprocess.run(
            ["git", *arguments], cwd=self.root, env=ENVIRONMENT, capture_output=True, text=True, check=False, **options
        )
        assert not check or ran.returncode == 0, ran.stderr
        return ran.stdout.strip() if check else ran

    def write(self, path, content):
        """Write a file of the work tree: bytes, text, or a value as YAML."""
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if not isinstance(content, bytes | str):
            content = yaml.safe_dump(content, sort_keys=False)
        place.write_bytes(content if isinstance(content, bytes) else content.encode())
        return place

    def commit(self, message):
        """Commit everything; return the commit's id."""
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return self.head

    @property
    def head(self):
        """Return the id of HEAD."""
        return self.git("rev-parse", "HEAD")

    def begin(self):
        """Make the repository: code, parameters, who may do without a signature."""
        self.root.mkdir(parents=True)
        self.git("init", "-q", "-b", "main")
        shutil.copytree(REPOSITORY / "params" / "prompts", self.root / "params" / "prompts")
        shutil.copytree(REPOSITORY / "params" / "parity", self.root / "params" / "parity")
        self.write("params/targets.yaml", {"schema": "lqw-targets/1", "targets": {"decode": 0.9}})
        self.write("params/signing.yaml", UNSIGNED)
        for host in self.hosts:
            margin = {"letter": "D", "fraction": 0.4, "reason": "a run made of numbers, with wide noise"}
            fields = {"name": host, "compute": "cpu", "margin": margin, "one_token_detector": "report"}
            self.write(f"params/hosts/{host}.yaml", {"schema": "lqw-host/1", **fields})
        steps = [
            {"kind": "cold", "prompt_tokens": 512, "repeats": 2, "warmups": 1},
            {"kind": "decode", "prompt_tokens": 16, "output_tokens": 32, "repeats": 1, "warmups": 0},
        ]
        protocol = {"schema": "lqw-protocol/1", "name": "small", "rows": ["ttft@512", "decode"], "floor_pairs": 6}
        rest = {"identity": {"output_tokens": 24, "repeats": 2}, "launches": [{"slots": 1, "steps": steps}]}
        self.write("params/protocols/small.yaml", {**protocol, **rest, "min_window_s": 0.2})
        self.write("src/main.rs", "fn main() {}\n")
        self.commit("the engine")
        return self

    def release(self, version, *, binary=None, code=True, **more):
        """Commit code of a version, and the release file that names its commit and binary; return that commit."""
        if code:
            self.write("src/main.rs", f"fn main() {{ /* {version} */ }}\n")
        measured = self.commit(f"code of {version}")
        engine = {"engine": "embedded", "settings": {"threads": 2}}
        sha256 = name_sha256("binary", binary or version)
        spec = {
            "schema": "lqw-release/1", "release": version, "hosts": self.hosts, "protocol": "small", "seed": 7,
            "subject": {**engine, "sha256": sha256, "commit": measured}, "comparator": engine,
            "models": self.models, "blessed": MODEL, **more,
        }  # fmt: skip
        self.write(f"params/{version}.yaml", spec)
        for host in self.hosts:
            self.parity(host, sha256, measured)
        self.commit(f"parameters and parity of {version}")
        return measured

    def passing(self, version="1.1.0"):
        """Release, measure and commit a version that passes; return this repository."""
        self.release(version)
        self.measure(version)
        self.commit(f"receipt of {version}")
        return self

    def parity(self, host, sha256, commit, *, serving="serving"):
        """Write both parity receipts of a host, as if taken of this binary."""
        record = json.loads((PARITY / "lambda.m1.json").read_text())
        record["host"], record["provenance"]["binary_sha256"] = host, sha256
        record["apr_version"] = f"1.0 ({commit[:9]})"
        record["generated_at"] = record["provenance"]["started_utc"] = "2025-12-31T10:00:00Z"
        witness = json.loads((PARITY / f"lambda.{serving}.json").read_text())
        witness.update({"host": host, "binary_sha256": sha256, "commit": commit})
        self.write(f"receipts/parity/{host}/{MODEL}.m1.json", json.dumps(record))
        self.write(f"receipts/parity/{host}/{MODEL}.serving.json", json.dumps(witness))

    def measure(
        self,
        version,
        *,
        host="lambda",
        purpose=Purpose.GATE,
        binary=None,
        commit=None,
        baseline=True,
        store="receipts",
        third=None,
        **run,
    ):
        """Measure a version and store the receipt, and what it moves; return its path. Nothing is committed.

        *third* are options of a confirmation batch.
        """
        params = load_params(self.root / f"params/{version}.yaml", host=host)
        store = Store(self.root / store)
        self.seed += 1
        what = {
            "binary": binary or version,
            "commit": params.release.subject.commit if commit is None else commit,
        }
        made = synthetic_run(params, purpose, seed=run.pop("seed", self.seed), **what, **run)
        if third is not None:
            made = with_batch(made, params, **what, **third)
        held = store.baseline(host).read_bytes() if not baseline else None
        documents = read_documents(params, lambda path: read_receipt(self.root / path))
        data = receipt_of(made, store, attempt=store.next_attempt(host, version), parity=documents)
        place = stored(store, data, made)
        if held is not None:
            store.baseline(host).write_bytes(held)
        if purpose is Purpose.ADOPT:
            self._tokens(store, made, host)
        return place

    @staticmethod
    def _tokens(store, made, host):
        tokens = reference_from(made.identities, made.starts, task=IdentityTask.from_header(made.header))
        if not store.reference(host).exists():
            write_atomic(store.reference(host), canonical_bytes(reference_to_json(tokens)))

    def adopt(self, version="1.0.0"):
        """Release, measure and commit a floor; tag it."""
        self.release(version)
        for host in self.hosts:
            self.measure(version, host=host, purpose=Purpose.ADOPT)
        self.commit(f"floor of {version}")
        self.git("tag", "-a", f"v{version}", "-m", "the first")
        return self

    def copy(self, place):
        """Return a copy of this repository elsewhere."""
        shutil.copytree(self.root, place, symlinks=True)
        other = Scratch(place, self.hosts)
        other.seed = self.seed
        return other
